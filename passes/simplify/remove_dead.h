/// Removes tasks and stored values that no result needs.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Removes tasks whose outputs reach no output, no loss and no running statistics, and the parameters, buffers and
/// constants that only they read (`ir::remove_dead`). Inputs stay, because they are the model's signature. A remark
/// counts what was removed.
///
/// Before: the losses are attached. After: every task has a reader or a purpose, as form-atoms requires. Linear.
/// Example: `tests/passes/golden/remove_dead.rir`.
class RemoveDead : public Pass {
 public:
  std::string_view name() const override { return "remove-dead"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
