/// Drops tasks that nothing needs before anything judges them.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Drops tasks whose results reach no output, as the assertions and the unread branches that exporters write: what they
/// would mix or cannot type is nobody's concern. Tasks that make running statistics stay, and so do all stored tensors,
/// which later passes know by name. Dropped tasks that make floats are counted in a remark.
///
/// Before => after: as imported => each task has a reader or a purpose. Stands first, since rebatch and infer-shapes
/// refuse a model for any of its tasks. Linear.
class DropUnread : public Pass {
 public:
  std::string_view name() const override { return "drop-unread"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
