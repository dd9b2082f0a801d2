/// Calls of operators, one after another, become tasks; those that cannot are gathered.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

class Calls {
 public:
  /// `notes` outlives it.
  explicit Calls(ImportNotes& notes) : notes_(notes) {}

  /// What a call gives: as many items as `names`, the first of which names its task. An operator without a translation
  /// is kept in mind, the run goes on without its results. `module` is the path of the module whose code calls, empty
  /// for the root.
  Result<std::vector<Item>> run(ir::Graph& graph, const Location& where, const std::string& schema,
                                std::vector<Call::Argument> arguments, const std::vector<std::string>& names,
                                const std::string& module);
  /// How many blocks without gradients the next call stands in: where there is one, its results have none.
  uint32_t no_grad() const { return no_grad_; }
  void set_no_grad(uint32_t blocks) { no_grad_ = blocks; }
  /// Says that an operator cannot be translated, and that its results are unknown.
  std::vector<Item> lose(const std::string& schema, const Location& where, std::string why, size_t results);
  /// All operators that could not be translated, with reasons; nothing where all could.
  std::optional<Diagnostic> unknown(const std::string& file) const;

 private:
  struct Unknown {
    Location where;  ///< of the first call
    std::string why;
    size_t calls = 0;
  };

  ImportNotes& notes_;
  uint32_t no_grad_ = 0;
  std::map<std::string, Unknown> unknown_;
};

}  // namespace rannc::frontend::torchscript
