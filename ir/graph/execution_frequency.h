/// How often a task runs.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

enum class Frequency : uint8_t {
  kLoad,        ///< once: it reads neither parameters nor inputs, and knows its sizes
  kStep,        ///< once a step: it reads parameters, buffers, totals, or sizes that inputs have
  kMicroBatch,  ///< once a micro-batch: it reads samples, draws, or their number
};

/// Per task, from what it reads. Linear. A task runs as often as what it reads changes; `core.total`, which makes a sum
/// over micro-batches whole, once a step.
std::vector<Frequency> execution_frequency(const Graph& graph);

}  // namespace rannc::ir
