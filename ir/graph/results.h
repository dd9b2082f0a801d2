/// What of a graph is read by others than its tasks.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Calls `f(ValueId)` for outputs, numerators of losses, and what becomes running statistics. A value may come twice.
template <class F>
void for_each_result(const Graph& graph, F&& f) {
  for (const ValueId output : graph.outputs()) f(output);
  for (const LossTerm& term : graph.losses()) f(term.numerator);
  for (const Statistics& each : graph.statistics()) {
    f(each.mean);
    f(each.variance);
  }
}

/// By value whether it is one of these.
inline std::vector<bool> results_of(const Graph& graph) {
  std::vector<bool> results(graph.value_count());
  for_each_result(graph, [&](ValueId value) { results[value.index()] = true; });
  return results;
}

/// The same for all that a graph keeps though no task reads it: its results, inputs, labels, running statistics, and
/// stored values that have a part of the state. Invalid ids come where a loss has no labels.
template <class F>
void for_each_kept(const Graph& graph, F&& f) {
  for_each_result(graph, f);
  for (const ValueId input : graph.inputs()) f(input);
  for (const LossTerm& term : graph.losses()) f(term.labels);
  for (const Statistics& each : graph.statistics()) {
    f(each.running_mean);
    f(each.running_variance);
  }
  for (const StateTensor& tensor : graph.state()) {
    for (const StatePart& part : tensor.parts) f(part.value);
  }
}

}  // namespace rannc::ir
