#include "ir/gradient/gradient_reach.h"

#include <algorithm>

#include "ir/match/match.h"

namespace rannc::ir {

std::vector<bool> reached_by_gradient(const Graph& graph) {
  static const Ops kStops = {"stop_gradient"};
  std::vector<bool> reached(graph.value_count());
  for (const LossTerm& term : graph.losses()) reached[term.numerator.index()] = true;
  for (uint32_t i = graph.task_count(); i-- > 0;) {
    const TaskId task(i);
    if (kStops.contains(graph.op(task))) continue;
    const auto outputs = graph.outputs(task);
    const bool passes = std::any_of(outputs.begin(), outputs.end(), [&](ValueId output) {
      return reached[output.index()] && is_float(graph.type(output).dtype);
    });
    if (!passes) continue;
    for (const ValueId input : graph.inputs(task)) {
      if (input.valid() && is_float(graph.type(input).dtype)) reached[input.index()] = true;
    }
  }
  return reached;
}

}  // namespace rannc::ir
