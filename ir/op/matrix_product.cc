#include "ir/op/matrix_product.h"

#include <algorithm>

#include "ir/op/op.h"

namespace rannc::ir {

bool is_matrix_product(const Graph& graph, TaskId task, DeviceType device) {
  const auto inputs = graph.inputs(task), outputs = graph.outputs(task);
  if (inputs.size() != 2 || outputs.size() != 1) return false;
  const ValueType& type = graph.type(outputs[0]);
  const bool adds = sum_dtype(type.dtype) == type.dtype || device == DeviceType::kCuda;
  if (!adds || !is_float(type.dtype)) return false;
  const bool matrices = std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
    return input.valid() && graph.type(input).shape && graph.type(input).shape->size() == 2;
  });
  if (!matrices || !graph.op(task).known() || !graph.op(task).can_be_lowered()) return false;
  const auto in = type_list(graph, inputs), out = type_list(graph, outputs);
  const auto lowered = lowering({graph.op(task), in, out, graph.attributes(task)});
  return lowered.ok() && lowered->calls.size() == 1 && lowered->calls[0].schema == "aten::matmul";
}

}  // namespace rannc::ir
