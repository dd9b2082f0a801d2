/// Merges tasks that compute the same values.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Common subexpression elimination: of tasks with the same operator, attributes and operands, the first replaces all.
/// Constants of a few bytes count as one operand if type and bytes are equal, because exporters repeat them in every
/// layer.
///
/// Before: final types, losses attached. After: the same numbers except for the order in which gradients of a merged
/// value are added. Runs before fusions, which expect one value where a file may compute it twice. Linear in tasks.
/// Never merges tasks that update running statistics, run bodies or are foreign, nor results whose names are
/// referenced.
/// Example: `tests/passes/golden/cse.rir`.
class Cse : public Pass {
 public:
  std::string_view name() const override { return "cse"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
