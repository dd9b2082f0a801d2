#include "partition/model/stage_problem.h"

#include <algorithm>

#include "partition/model/atom_dag.h"
#include "partition/model/block_memory.h"

namespace rannc::partition {

namespace {

// Returns all tasks of each block. Constant tasks are cloned into all blocks that need them.
std::vector<std::vector<TaskId>> tasks_of_blocks(const ModelFacts& model, const BlockPartition& blocks) {
  const ir::Atoms& atoms = model.atoms;
  std::vector<std::vector<TaskId>> tasks(blocks.count);
  for (size_t atom = 0; atom < atoms.tasks.size(); ++atom) tasks[blocks.block_of[atom]].push_back(atoms.tasks[atom]);
  const bool any_constant = std::find(atoms.constant.begin(), atoms.constant.end(), true) != atoms.constant.end();
  if (any_constant) {
    for (auto& list : tasks) list = ir::close_over_constants(model.graph, atoms, list);
  }
  return tasks;
}

void add_times(const ModelFacts& model, const std::vector<std::vector<TaskId>>& tasks, StageProblem& problem) {
  const size_t sizes = model.costs.sizes.size();
  for (const auto& of_kind : model.costs.costs) {
    TimeTable table;
    table.sizes = model.costs.sizes;
    table.forward.assign(sizes, std::vector<double>(tasks.size(), 0));
    table.backward = table.weight_gradient = table.forward;
    table.begin.assign(tasks.size(), 0);
    table.gradients = table.begin;
    for (size_t size = 0; size < sizes; ++size) {
      for (size_t block = 0; block < tasks.size(); ++block) {
        for (const TaskId task : tasks[block]) {
          const TaskCost& cost = of_kind[size][model.costs.entry_of[task.index()]];
          if (model.costs.per_step(task) && size + 1 == sizes) {
            table.begin[block] += cost.forward_ns;
            if (model.training) table.gradients[block] += cost.backward_ns();
          }
          if (!model.costs.per_micro_batch(task)) continue;
          table.forward[size][block] += cost.forward_ns;
          if (!model.training) continue;
          table.backward[size][block] += cost.backward_ns();
          table.weight_gradient[size][block] += cost.late_ns();
        }
        double& weight = table.weight_gradient[size][block];
        weight = std::min(weight, table.backward[size][block]);  // the division may round up
      }
    }
    table.make_monotone();
    problem.times.push_back(std::move(table));
  }
}

// Parameters, buffers and samples that only one block needs are its own; those of several blocks are shared.
class Holdings {
 public:
  Holdings(const ModelFacts& model, StageProblem& problem)
      : model_(model), problem_(problem), blocks_of_(model.graph.value_count()) {}

  void read(TaskId task, uint32_t block) {
    for (const ValueId input : model_.graph.inputs(task)) {
      if (!input.valid() || model_.graph.producer(input).valid()) continue;
      if (model_.graph.kind(input) == ir::ValueKind::kRandomInput) continue;  // only live while a task needs it
      std::vector<uint32_t>& blocks = blocks_of_[input.index()];
      if (blocks.empty() || blocks.back() != block) {
        blocks.push_back(block);
      } else if (model_.training && model_.graph.kind(input) == ir::ValueKind::kParameter) {
        problem_.buffer_bytes[block] += sum_bytes(input);  // each reader sums its own gradient
      }
    }
    for (const ValueId output : model_.graph.outputs(task)) {
      if (model_.memory.is_stored(output)) blocks_of_[output.index()].push_back(block);
    }
  }

  void add() {
    for (const ValueId value : model_.graph.values()) {
      std::vector<uint32_t>& blocks = blocks_of_[value.index()];
      if (blocks.empty()) continue;
      const ByteLine& line = model_.memory.bytes(value);
      using Kind = SharedHolding::Kind;
      if (model_.graph.kind(value) == ir::ValueKind::kInput) {
        if (model_.training) problem_.shared.push_back({Kind::kInput, std::move(blocks), line.per_sample, line.fixed});
        continue;
      }
      const bool trained = model_.training && model_.graph.kind(value) == ir::ValueKind::kParameter;
      for (const uint32_t block : blocks) {
        double& largest = problem_.largest_gradients[block];
        if (trained) largest = std::max(largest, sum_bytes(value));
      }
      if (blocks.size() > 1) {
        problem_.shared.push_back({trained ? Kind::kParameter : Kind::kBuffer, std::move(blocks), 0, line.fixed});
        if (!trained) continue;
        problem_.shared.back().sum_bytes = sum_bytes(value);
        problem_.shared.back().own_state = state_bytes(value);
      } else if (trained) {
        problem_.parameter_bytes[blocks.front()] += line.fixed;
        problem_.gradient_bytes[blocks.front()] += sum_bytes(value);
        problem_.state_bytes[blocks.front()] += state_bytes(value);
      } else {
        problem_.buffer_bytes[blocks.front()] += line.fixed;
      }
    }
  }

 private:
  double sum_bytes(ValueId parameter) const {
    return model_.memory.bytes(parameter).fixed * sum_ratio(model_.graph.type(parameter).dtype);
  }
  double state_bytes(ValueId parameter) const {
    return model_.memory.bytes(parameter).fixed * model_.updates.state_copies(parameter);
  }

  const ModelFacts& model_;
  StageProblem& problem_;
  std::vector<std::vector<uint32_t>> blocks_of_;  // ascending
};

// Sets the kept and temporary memory of blocks, at the largest size.
void add_memory(const ModelFacts& model, const std::vector<std::vector<TaskId>>& tasks,
                const std::vector<std::vector<ValueId>>& sent, StageProblem& problem) {
  Holdings holdings(model, problem);
  const double samples = static_cast<double>(model.costs.sizes.back());
  const double least = static_cast<double>(model.costs.sizes.front());
  BlockFollower follower(model.memory, model.costs.sizes.front(), model.costs.sizes.back());
  for (uint32_t block = 0; block < problem.blocks; ++block) {
    for (const TaskId task : tasks[block]) holdings.read(task, block);
    const BlockMemory memory = follower.follow(tasks[block], sent[block], model.training);
    const double at_least = memory.least_temporary, at_most = memory.temporary;
    // Temporaries are maxima of lines. The line through both ends lies above the values in between.
    const double growth = samples > least ? std::max(0.0, at_most - at_least) / (samples - least) : at_most / samples;
    problem.temporary_bytes_per_sample[block] = growth;
    problem.temporary_bytes[block] = std::max({0.0, at_most - growth * samples, at_least - growth * least});
    double stashed = 0;
    for (const TaskId task : tasks[block]) stashed += model.memory.saved(task).at(samples);
    problem.stashed_bytes_per_sample[block] = stashed / samples;
    problem.pending_bytes_per_sample[block] = memory.pending / samples;
  }
  holdings.add();
}

// Mean bytes of optimizer state per byte of parameters, for planners without `state_bytes`.
double mean_factor(const StageProblem& problem) {
  double parameters = 0, states = 0;
  for (uint32_t block = 0; block < problem.blocks; ++block) {
    parameters += problem.parameter_bytes[block];
    states += problem.state_bytes[block];
  }
  for (const SharedHolding& holding : problem.shared) {
    if (holding.kind != SharedHolding::Kind::kParameter) continue;
    parameters += holding.bytes;
    states += state_bytes(problem, holding);
  }
  return parameters > 0 ? states / parameters : 0;
}

ValueKept kept_of(const ModelFacts& model, ValueId value) {
  if (!model.training) return ValueKept::kNever;
  return model.memory.is_saved(value) ? ValueKept::kInProducersStash : ValueKept::kWhereItCrosses;
}

// Returns, for each block, the values that it sends and whose gradients return.
std::vector<std::vector<ValueId>> add_crossing_values(const ModelFacts& model, const BlockPartition& blocks,
                                                      StageProblem& problem) {
  std::vector<std::vector<ValueId>> sent(blocks.count);
  for (size_t atom = 0; atom < model.atoms.tasks.size(); ++atom) {
    const uint32_t producer = blocks.block_of[atom];
    for (const ValueId output : model.graph.outputs(model.atoms.tasks[atom])) {
      std::vector<uint32_t> readers = reading_atoms(model, output);
      for (uint32_t& reader : readers) reader = blocks.block_of[reader];
      std::erase(readers, producer);
      if (readers.empty()) continue;
      std::sort(readers.begin(), readers.end());
      readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
      const ByteLine& line = model.memory.bytes(output);
      const bool gradient = model.training && model.memory.needs_gradient(output);
      if (gradient) sent[producer].push_back(output);
      problem.values.push_back(
          {producer, std::move(readers), line.per_sample, line.fixed, gradient, kept_of(model, output)});
    }
  }
  return sent;
}

}  // namespace

Result<StageProblem> stage_problem(const ModelFacts& model, const BlockPartition& blocks) {
  StageProblem problem;
  problem.blocks = blocks.count;
  problem.parameter_bytes.assign(blocks.count, 0);
  problem.gradient_bytes.assign(blocks.count, 0);
  problem.largest_gradients.assign(blocks.count, 0);
  problem.state_bytes.assign(blocks.count, 0);
  problem.buffer_bytes.assign(blocks.count, 0);
  problem.stashed_bytes_per_sample.assign(blocks.count, 0);
  problem.temporary_bytes_per_sample.assign(blocks.count, 0);
  problem.temporary_bytes.assign(blocks.count, 0);
  problem.pending_bytes_per_sample.assign(blocks.count, 0);
  const auto tasks = tasks_of_blocks(model, blocks);
  add_times(model, tasks, problem);
  const auto sent = add_crossing_values(model, blocks, problem);
  add_memory(model, tasks, sent, problem);
  problem.optimizer_factor = mean_factor(problem);
  return problem;
}

}  // namespace rannc::partition
