/// Prices a graph's tasks at several micro-batch sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/execution_frequency.h"
#include "ir/graph/graph.h"
#include "ir/graph/structure.h"
#include "ir/plan/atoms.h"
#include "partition/cost/cost_model.h"

namespace rannc::partition {

/// Returns structure, work and traffic of a task at `samples`. `assume` binds the other symbols. An error names an
/// unbound symbol. `roles` are the graph's, by value (`ir::gradient_roles`).
Result<TaskFacts> task_facts(const ir::Graph& graph, TaskId task, const std::vector<ir::GradientRole>& roles,
                             uint64_t samples, const ir::Bindings& assume);

/// Returns only the structural key of `task_facts`. Equal tasks have equal keys, whatever their names.
std::string structural_key(const ir::Graph& graph, TaskId task, const std::vector<ir::GradientRole>& roles);

/// Costs of all tasks, stored once per structural key. Times are those of one execution: a once-per-step task counts
/// once per step, one that runs at loading does not count (`frequency`).
struct ModelCosts {
  std::vector<uint64_t> sizes;           ///< samples, ascending from 1
  std::vector<uint32_t> entry_of;        ///< per task: its structural key
  std::vector<ir::Frequency> frequency;  ///< per task
  /// [device kind][size][entry]
  std::vector<std::vector<std::vector<TaskCost>>> costs;
  const TaskCost& of(uint32_t kind, size_t size, TaskId task) const {
    return costs[kind][size][entry_of[task.index()]];
  }
  bool per_micro_batch(TaskId task) const { return frequency[task.index()] == ir::Frequency::kMicroBatch; }
  bool per_step(TaskId task) const { return frequency[task.index()] == ir::Frequency::kStep; }
};

/// Prices every task of a graph on every device kind of a cluster. Each structural key is priced once.
Result<ModelCosts> price_model(const ir::Graph& graph, const Cluster& cluster, const CostModel& costs,
                               std::vector<uint64_t> sizes, const ir::Bindings& assume);

/// Returns the powers of two below `mini_batch`, and `mini_batch`.
std::vector<uint64_t> sample_sizes(uint64_t mini_batch);

}  // namespace rannc::partition
