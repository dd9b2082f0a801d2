#include "passes/loss/internal/body_parts.h"

#include <utility>

#include "ir/op/op.h"

namespace rannc::passes {

Result<ValueId> add_task(ir::Graph& graph, std::string_view op, std::vector<ValueId> operands,
                         ir::Attributes attributes, const std::string& name) {
  const TaskId task = graph.add_task(ir::core(op), operands, std::move(attributes), {{name}});
  RANNC_TRY(ir::infer_types(graph, task));
  return graph.outputs(task)[0];
}

}  // namespace rannc::passes
