/// Turns a sequence of operator calls into tasks, collecting those that cannot be translated.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

/// Whether an item is or contains the result of a call that was not translated.
bool is_lost(const Item& item);

class Calls {
 public:
  /// `notes` must outlive this object.
  explicit Calls(ImportNotes& notes) : notes_(notes) {}

  /// Returns the results of a call, one per name. The first name is that of its task. A call that cannot be translated
  /// is recorded, and the import continues without its results, because outputs that do not need them are still valid.
  /// `module` is the path of the calling module, empty for the root.
  Result<std::vector<Item>> run(ir::Graph& graph, const Location& where, const std::string& schema,
                                std::vector<Call::Argument> arguments, const std::vector<std::string>& names,
                                const std::string& module);
  /// Writes to buffers of the model, in order.
  const std::vector<BufferWrite>& buffer_writes() const { return writes_; }
  void add_write(BufferWrite write) { writes_.push_back(std::move(write)); }
  /// Number of no-gradient blocks around the next call. If there are any, its results have no gradients.
  uint32_t no_grad() const { return no_grad_; }
  void set_no_grad(uint32_t blocks) { no_grad_ = blocks; }
  /// Records that an operator cannot be translated. Returns placeholders for its results.
  std::vector<Item> lose(const std::string& schema, const Location& where, std::string why, size_t results);
  /// The first call that failed, or all operators without a translation, with reasons. Nothing if all calls were
  /// translated.
  std::optional<Diagnostic> fault(const std::string& file) const;
  /// Whether an untranslated call wrote to state of the model, or from a body to memory outside it. Every result may
  /// depend on that.
  bool lost_state() const { return lost_state_; }

 private:
  struct Unknown {
    Location where;  ///< location of the first call
    std::string why;
    size_t calls = 0;
  };

  void note_writes(const std::string& schema, const std::vector<Call::Argument>& arguments);

  ImportNotes& notes_;
  std::optional<Diagnostic> failed_;
  bool lost_state_ = false;
  std::vector<BufferWrite> writes_;
  uint32_t no_grad_ = 0;
  std::map<std::string, Unknown> unknown_;
};

}  // namespace rannc::frontend::torchscript
