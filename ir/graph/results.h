/// Values of a graph that are needed even if no task reads them.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Calls `f(ValueId)` for outputs, loss numerators, and the statistics that update running statistics. A value may come
/// twice.
template <class F>
void for_each_result(const Graph& graph, F&& f) {
  for (const ValueId output : graph.outputs()) f(output);
  for (const LossTerm& term : graph.losses()) f(term.numerator);
  for (const Statistics& each : graph.statistics()) {
    f(each.mean);
    f(each.variance);
  }
}

/// Whether each value is one of those that `for_each_result` visits.
inline std::vector<bool> results_of(const Graph& graph) {
  std::vector<bool> results(graph.value_count());
  for_each_result(graph, [&](ValueId value) { results[value.index()] = true; });
  return results;
}

/// Calls `f(ValueId)` for every value that a graph keeps even if no task reads it: results, inputs, running statistics,
/// and stored values that hold part of the state.
template <class F>
void for_each_kept(const Graph& graph, F&& f) {
  for_each_result(graph, f);
  for (const ValueId input : graph.inputs()) f(input);
  for (const Totals::Given& given : graph.totals().given) f(given.input);
  for (const Statistics& each : graph.statistics()) {
    f(each.running_mean);
    f(each.running_variance);
  }
  for (const StateTensor& tensor : graph.state()) {
    for (const StatePart& part : tensor.parts) f(part.value);
  }
}

}  // namespace rannc::ir
