/// Execution frequency of tasks.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

enum class Frequency : uint8_t {
  kLoad,        ///< once per load: it reads neither parameters nor inputs, and its sizes are static
  kStep,        ///< once per step: it reads parameters, buffers, totals, or sizes of inputs
  kMicroBatch,  ///< once per micro-batch: it reads samples, their number, or random inputs
};

/// Whether a task reads the numbers of an operand. It does not if the operand is absent, or if only its sizes count,
/// which are known without it.
bool reads_operand(const Graph& graph, TaskId task, size_t operand);

/// Frequency of each task. A task runs as often as its operands change. `core.total`, which completes a sum over
/// micro-batches, runs once per step. Linear.
std::vector<Frequency> execution_frequency(const Graph& graph);

}  // namespace rannc::ir
