/// Calls of operators, one after another, become tasks; those that cannot are gathered.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

/// Whether something is, or has in it, what a call that was not translated would have made.
bool is_lost(const Item& item);

class Calls {
 public:
  /// `notes` outlives it.
  explicit Calls(ImportNotes& notes) : notes_(notes) {}

  /// What a call gives: as many items as `names`, the first of which names its task. A call that cannot be translated
  /// is kept in mind, and the run goes on without its results: what needs none of them is a graph all the same.
  /// `module` is the path of the module whose code calls, empty for the root.
  Result<std::vector<Item>> run(ir::Graph& graph, const Location& where, const std::string& schema,
                                std::vector<Call::Argument> arguments, const std::vector<std::string>& names,
                                const std::string& module);
  /// How many blocks without gradients the next call stands in: where there is one, its results have none.
  uint32_t no_grad() const { return no_grad_; }
  void set_no_grad(uint32_t blocks) { no_grad_ = blocks; }
  /// Says that an operator cannot be translated, and that its results are unknown.
  std::vector<Item> lose(const std::string& schema, const Location& where, std::string why, size_t results);
  /// The first call that failed, or all operators without a translation, with reasons; nothing where all calls are
  /// translated.
  std::optional<Diagnostic> fault(const std::string& file) const;
  /// Whether one of these wrote into state of the model, or from a body into what stands outside of it, which every
  /// result may need.
  bool lost_state() const { return lost_state_; }

 private:
  struct Unknown {
    Location where;  ///< of the first call
    std::string why;
    size_t calls = 0;
  };

  void note_writes(const std::string& schema, const std::vector<Call::Argument>& arguments);

  ImportNotes& notes_;
  std::optional<Diagnostic> failed_;
  bool lost_state_ = false;
  uint32_t no_grad_ = 0;
  std::map<std::string, Unknown> unknown_;
};

}  // namespace rannc::frontend::torchscript
