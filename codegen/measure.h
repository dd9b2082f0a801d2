/// Times tasks on this machine, forward and backward.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::codegen {

/// Lower quartiles of the runs that count. Where no gradient flows, the backward numbers are 0.
struct RunTimes {
  double forward_ns = 0;
  double input_gradient_ns = 0;   ///< gradients of operands alone; only of a single task
  double weight_gradient_ns = 0;  ///< gradients of parameters alone, added to their sums; only of a single task
  double backward_ns = 0;         ///< both in one pass, as the tape takes them, with the additions
  double held_bytes = 0;          ///< kept from forward to backward: by the tape, and results that a gradient comes to
  /// The larger of what the forward pass allocates and frees again, and of what the backward pass needs on top of what
  /// is held: gradients on their way.
  double temporary_bytes = 0;
};

/// At least `repeat` runs of each are counted, more of short ones.
struct RunOptions {
  uint32_t repeat = 5;
};

/// Of a graph, found once for many runs.
struct RunFacts {
  explicit RunFacts(const ir::Graph& graph);
  std::vector<bool> needs_gradient;  ///< by value (`ir::needs_gradient`)
  std::vector<bool> channels_last;   ///< by value (`ir::channels_last`)
};

/// Lowers the tasks (ascending) as one program, as a stage's is, runs it on random operands of the shapes that
/// `bindings` give, which lie in memory as the tasks expect, and says what it takes. Uses the threads LibTorch is set
/// to. Random tasks multiply by given factors: drawing these is not measured. Errors: a task cannot be lowered, a
/// symbol is unbound, or LibTorch refuses the operands; with the first task's place.
Result<RunTimes> measure_tasks(const ir::Graph& graph, std::span<const TaskId> tasks, const RunFacts& facts,
                               const ir::Bindings& bindings, const RunOptions& options = {});

/// LibTorch's version, for the name of a profile's environment.
std::string library_version();

}  // namespace rannc::codegen
