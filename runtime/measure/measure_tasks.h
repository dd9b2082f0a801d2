/// Measures forward and backward time of tasks on a device of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/structure.h"
#include "ir/plan/functions.h"
#include "ir/plan/stage_graph.h"
#include "runtime/device/device.h"

namespace rannc::runtime {

/// Lower quartiles over the counted runs. Without a gradient, the backward numbers are 0.
struct TaskTimes {
  double begin_ns = 0;            ///< P of a step; 0: the tasks have none
  double forward_ns = 0;          ///< F
  double input_gradient_ns = 0;   ///< I; only for a single task
  double weight_gradient_ns = 0;  ///< W; only for a single task
  double backward_ns = 0;         ///< B
  double gradients_ns = 0;        ///< E; 0: the tasks have none
  double rebuild_ns = 0;          ///< R that keeps only what the tasks read; only for several tasks
  std::vector<TaskId> rebuilt;    ///< tasks that R repeats, ascending
  double held_bytes = 0;          ///< kept until backward: saved values and results with gradients
  /// Maximum of the bytes that the forward pass allocates and frees again, and of the bytes for gradients in flight
  /// that the backward pass needs in addition to `held_bytes`.
  double temporary_bytes = 0;
};

/// Differentiates a stage and cuts its functions (`passes::cut_functions`).
using CutFunctions = std::function<Result<ir::StageFunctions>(const ir::StageGraph&)>;

struct TaskRunOptions {
  CutFunctions cut;
  uint32_t repeat = 5;       ///< minimum number of counted runs; short runs are repeated more often
  Device* device = nullptr;  ///< null: the processor
};

/// Facts about a graph, computed once for many runs.
struct GraphFacts {
  explicit GraphFacts(const ir::Graph& graph);
  std::vector<bool> needs_gradient;     ///< by value (`ir::needs_gradient`)
  std::vector<ir::GradientRole> roles;  ///< by value (`ir::gradient_roles`)
  std::vector<bool> channels_last;      ///< by value (`ir::channels_last`)
};

/// Runs `tasks` (ascending) as a stage of their own on random operands, by the functions and flat programs of the
/// explicit engine, and returns their costs. `bindings` determine the shapes; memory layouts are those that the tasks
/// expect. An operand that other once-per-step tasks make is a parameter of the run, so W sums its gradient. On the
/// processor, uses LibTorch's current number of threads and counts this thread's memory. On another device, lowers for
/// its type, takes times from its events and bytes from its allocator, which nothing else in the process may use.
/// Random tasks use given factors, so generating random numbers is not measured. Errors have the location of the first
/// task: a task cannot be lowered or differentiated, a symbol is unbound, or LibTorch rejects the operands.
Result<TaskTimes> measure_tasks(const ir::Graph& graph, std::span<const TaskId> tasks, const GraphFacts& facts,
                                const ir::Bindings& bindings, const TaskRunOptions& options);

/// Returns LibTorch's version, for the name of a profile's environment.
std::string library_version();

}  // namespace rannc::runtime
