/// Queries and rules of running statistics.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

/// Whether running statistics read a result of each task. Such a task runs once per micro-batch whatever its operands.
std::vector<bool> makes_statistics(const Graph& graph);
/// Number of elements that a mean and a variance average over: elements of their task's first operand per element of
/// the mean. Nothing if shapes do not determine it.
std::optional<Dim> averaged_over(const Graph& graph, const Statistics& statistics);
/// Weight of the new statistics: attribute `momentum` of the task that computes them. Nothing if it has none.
std::optional<double> momentum_of(const Graph& graph, const Statistics& statistics);
/// Flag of tasks that normalize over the batch in training: over the samples of all replicas of the stage.
inline constexpr std::string_view kSynchronised = "synchronised";
/// Whether a task that normalizes over the batch in training does so over all replicas. Nothing: it does not normalize.
std::optional<bool> synchronised(const Graph& graph, TaskId task);
/// Running statistics that the operator's entry declares for a task, if the task trains with buffers. Results that the
/// task omits are invalid.
std::optional<Statistics> statistics_by_entry(const Graph& graph, TaskId task);
/// Violations of rule G18. `buffers` are all values of that kind, ascending.
std::vector<Diagnostic> faults_of_statistics(const Graph& graph, std::span<const ValueId> buffers);

}  // namespace rannc::ir
