/// Drops what no result needs.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Drops tasks whose outputs reach no output, no loss and no running statistics, and the parameters, buffers and
/// constants that only they read (`ir::remove_dead`). Inputs stay, since they are the model's signature. What was
/// dropped is counted in a remark.
///
/// Before: the losses are attached. After: every task has a reader or a purpose, which form-atoms asks for. Linear.
class RemoveDead : public Pass {
 public:
  std::string_view name() const override { return "remove-dead"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
