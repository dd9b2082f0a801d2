#include "partition/model/loop_prices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "partition/model/block_memory.h"

namespace rannc::partition {
namespace {

/// Part of a task's own launch and of its other time that it takes in loops. Bytes in 1/64, so that equal layers have
/// equal parts.
struct Part {
  double launch = 1;
  uint32_t bytes = 64;

  double of(double ns, double launch_ns) const {
    const double started = std::min(ns, launch_ns);
    return started * launch + (ns - started) * bytes / 64;
  }
  bool operator==(const Part&) const = default;
  auto operator<=>(const Part&) const = default;
};

class Loops {
 public:
  explicit Loops(BlockFollower& follower) : follower_(follower) {}

  void add(const ir::Program& program) {
    for (const ir::Instruction& each : program.instructions) {
      if (each.kind == ir::Instruction::Kind::kLoop) add(program, each);
    }
  }

  /// Of tasks of the joint graph together. Nothing: some are in no loop, or there are none.
  std::optional<Part> of(std::span<const TaskId> tasks) const {
    double launches = 0, bytes = 0, alone = 0;
    for (const TaskId task : tasks) {
      const auto found = shares_.find(task);
      if (found == shares_.end()) return std::nullopt;
      launches += found->second.launch;
      bytes += found->second.bytes * found->second.alone;
      alone += found->second.alone;
    }
    if (alone == 0) return std::nullopt;
    return Part{launches / static_cast<double>(tasks.size()),
                static_cast<uint32_t>(std::lround(64 * std::min(1.0, bytes / alone)))};
  }

 private:
  struct Share {
    double launch, bytes;  ///< as in `Part`, without rounding
    double alone;          ///< bytes that the task reads and writes alone
  };

  void add(const ir::Program& program, const ir::Instruction& loop) {
    double together = 0, all = 0;
    for (const ir::ProgramOperand& operand : loop.operands) {
      if (operand.kind == ir::ProgramOperand::Kind::kAbsent) continue;
      const bool in_slot = operand.kind == ir::ProgramOperand::Kind::kSlot;
      together += follower_.bytes(in_slot ? program.slots[operand.index].value : ValueId(operand.index));
    }
    for (uint32_t i = 0; i < loop.results; ++i) together += follower_.bytes(program.slots[loop.first_result + i].value);
    std::vector<double> alone;
    for (const TaskId task : loop.tasks) all += alone.emplace_back(bytes_alone(*program.graph, task));
    const double part = all > 0 ? std::min(1.0, together / all) : 1;
    for (size_t i = 0; i < loop.tasks.size(); ++i) {
      shares_[loop.tasks[i]] = {1 / static_cast<double>(loop.tasks.size()), part, alone[i]};
    }
  }

  double bytes_alone(const ir::Graph& graph, TaskId task) {
    double total = 0;
    for (const ValueId operand : graph.inputs(task)) total += operand.valid() ? follower_.bytes(operand) : 0;
    for (const ValueId output : graph.outputs(task)) total += follower_.bytes(output);
    return total;
  }

  BlockFollower& follower_;
  std::map<TaskId, Share> shares_;
};

TaskCost in_loops(TaskCost cost, const Part& forward, const Part& backward, double launch_ns) {
  for (double* ns : {&cost.forward_ns, &cost.recompute_ns}) *ns = forward.of(*ns, launch_ns);
  for (double* ns : {&cost.input_gradient_ns, &cost.weight_gradient_ns, &cost.together_ns})
    *ns = backward.of(*ns, launch_ns);
  return cost;
}

}  // namespace

void price_loops(const TaskMemory& memory, const Cluster& cluster, uint64_t samples, ModelCosts& costs) {
  if (!memory.has_loops()) return;
  BlockFollower follower(memory, samples, samples);
  std::vector<TaskId> tasks;
  for (uint32_t i = 0; i < costs.entry_of.size(); ++i) tasks.emplace_back(i);
  const BlockFollower::Programs programs = follower.lower(tasks, {});
  Loops loops(follower);
  loops.add(programs.forward);
  loops.add(programs.backward);

  std::map<std::tuple<uint32_t, Part, Part>, uint32_t> entries;
  for (const TaskId task : tasks) {
    const std::optional<Part> forward = loops.of({&task, 1}), backward = loops.of(memory.backward(task));
    if (!forward && !backward) continue;
    const Part ahead = forward.value_or(Part{}), back = backward.value_or(Part{});
    uint32_t& entry = costs.entry_of[task.index()];
    const auto next = static_cast<uint32_t>(costs.costs[0][0].size());
    const auto [known, fresh] = entries.emplace(std::tuple(entry, ahead, back), next);
    for (size_t kind = 0; fresh && kind < costs.costs.size(); ++kind) {
      for (std::vector<TaskCost>& at_size : costs.costs[kind])
        at_size.push_back(in_loops(at_size[entry], ahead, back, cluster.kinds[kind].launch_ns));
    }
    entry = known->second;
  }
}

}  // namespace rannc::partition
