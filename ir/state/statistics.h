/// Running statistics of a graph: what is asked of them, and their rules.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

/// Per task, whether running statistics read a result of it. Such a task runs once a micro-batch whatever it reads.
std::vector<bool> makes_statistics(const Graph& graph);
/// Elements that a mean and a variance are of: those of their task's first operand for each of the mean's. Nothing
/// where shapes do not say it.
std::optional<Dim> averaged_over(const Graph& graph, const Statistics& statistics);
/// The weight of the new: attribute `momentum` of the task that makes them. Nothing where it has none.
std::optional<double> momentum_of(const Graph& graph, const Statistics& statistics);
/// The flag of tasks that normalise by their batch in training: by the samples of all replicas of the stage.
inline constexpr std::string_view kSynchronised = "synchronised";
/// Whether a task normalises by its batch in training; if so, whether by that of all replicas. Nothing: it does not.
std::optional<bool> synchronised(const Graph& graph, TaskId task);
/// What the entry of a task's operator makes running statistics of: where it trains with buffers, and has the results.
/// Results are invalid where the task leaves them out.
std::optional<Statistics> statistics_by_entry(const Graph& graph, TaskId task);
/// What breaks rule G18. `buffers` are all values of that kind, ascending.
std::vector<Diagnostic> faults_of_statistics(const Graph& graph, std::span<const ValueId> buffers);

}  // namespace rannc::ir
