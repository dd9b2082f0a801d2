/// Recognises batch normalisation by fixed statistics that is written out as arithmetic.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Makes `core.batch_norm` of what is the same function of x, samples in front: (x - m) / sqrt(v + e) * w + b, or
/// x * s + (b - m * s) with s = w / sqrt(v + e), roots and quotients in any spelling, where m, v, w and b are stored
/// numbers, one per channel, and `wanted` holds for the task that makes the result. Returns how many. Linear.
size_t recognise_batch_norms(ir::Graph& graph, const std::function<bool(TaskId)>& wanted);
/// Tasks that make the results of such.
std::vector<TaskId> written_batch_norms(const ir::Graph& graph);

}  // namespace rannc::passes
