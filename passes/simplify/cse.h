/// Tasks that compute the same become one.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Common subexpressions: of tasks of one operator with equal attributes and the same operands the first stands for
/// all. Constants of a few bytes count as one operand where type and bytes are equal, as an exporter repeats them in
/// every layer.
///
/// Before: final types, losses attached. After: the same numbers but for the order in which gradients of a merged value
/// are added. Stands before fusions, which ask for one value where a file may compute it twice. Linear in tasks. Never
/// merges tasks that keep running statistics, run bodies or are foreign, nor results whose names are asked for.
class Cse : public Pass {
 public:
  std::string_view name() const override { return "cse"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
