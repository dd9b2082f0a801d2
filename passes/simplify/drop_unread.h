/// Removes unneeded tasks before other passes inspect them.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Removes tasks whose results reach no output, such as assertions and unread branches written by exporters. They must
/// not cause errors by mixing samples or lacking types. Tasks that compute running statistics stay. So do all stored
/// tensors, which later passes look up by name. A remark counts the removed tasks that compute floats.
///
/// Before => after: as imported => each task has a reader or a purpose. Runs first, because rebatch and infer-shapes
/// reject a model for any of its tasks. Linear.
/// Example: `tests/passes/golden/drop_unread.rir`.
class DropUnread : public Pass {
 public:
  std::string_view name() const override { return "drop-unread"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
