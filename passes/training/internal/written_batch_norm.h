/// Recognizes batch normalization by fixed statistics that is decomposed into arithmetic.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Replaces arithmetic by `core.batch_norm` if it is the same function of x, samples first: (x - m) / sqrt(v + e) * w +
/// b, or x * s + (b - m * s) with s = w / sqrt(v + e), with any spelling of roots and quotients. m, v, w and b are
/// stored numbers, one per channel, and `wanted` holds for the task that makes the result. Returns the number of
/// replacements. Linear.
size_t recognise_batch_norms(ir::Graph& graph, const std::function<bool(TaskId)>& wanted);
/// Returns the tasks that make the results of such arithmetic.
std::vector<TaskId> written_batch_norms(const ir::Graph& graph);

}  // namespace rannc::passes
