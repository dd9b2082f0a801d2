#include "partition/model/stage_problem.h"

#include <algorithm>

#include "ir/plan.h"
#include "partition/model/atom_dag.h"
#include "partition/model/value_bytes.h"

namespace rannc::partition {

namespace {

// Every task of each block, constant ones cloned into all blocks that need them.
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
    for (size_t size = 0; size < sizes; ++size) {
      for (size_t block = 0; block < tasks.size(); ++block) {
        for (const TaskId task : tasks[block]) {
          const TaskCost& cost = of_kind[size][model.costs.entry_of[task.index()]];
          table.forward[size][block] += cost.forward_ns;
          if (!model.training) continue;
          const double parts = cost.input_gradient_ns + cost.weight_gradient_ns;
          table.backward[size][block] += cost.backward_ns();
          // Where both passes were priced together they share work: each has its part of it.
          if (parts > 0) table.weight_gradient[size][block] += cost.backward_ns() * cost.weight_gradient_ns / parts;
        }
        double& weight = table.weight_gradient[size][block];
        weight = std::min(weight, table.backward[size][block]);  // the division may round up
      }
    }
    table.make_monotone();
    problem.times.push_back(std::move(table));
  }
}

// Parameters and buffers once per block, and what its tasks keep and need for a while.
Result<void> add_memory(const ModelFacts& model, const std::vector<std::vector<TaskId>>& tasks, StageProblem& problem) {
  const size_t last = model.costs.sizes.size() - 1;
  const double largest = static_cast<double>(model.costs.sizes[last]);
  std::vector<uint32_t> seen(model.graph.value_count(), UINT32_MAX);  // the last block that counted a value
  for (uint32_t block = 0; block < problem.blocks; ++block) {
    for (const TaskId task : tasks[block]) {
      const TaskCost& cost = model.costs.of(0, last, task);
      if (model.training) problem.stashed_bytes_per_sample[block] += cost.saved_bytes / largest;
      problem.temporary_bytes_per_sample[block] =
          std::max(problem.temporary_bytes_per_sample[block], cost.temporary_bytes / largest);
      for (const ValueId input : model.graph.inputs(task)) {
        if (!input.valid() || seen[input.index()] == block) continue;
        const ir::Graph::Value& value = model.graph.value(input);
        if (value.producer.valid() || value.kind == ir::ValueKind::kInput) continue;
        seen[input.index()] = block;
        RANNC_ASSIGN(const ByteLine line, byte_line(model.graph, input, model.assume));
        const bool trained = model.training && value.kind == ir::ValueKind::kParameter;
        (trained ? problem.parameter_bytes : problem.buffer_bytes)[block] += line.fixed;
      }
    }
  }
  return {};
}

Result<void> add_crossing_values(const ModelFacts& model, const BlockPartition& blocks, StageProblem& problem) {
  const std::vector<bool> gradient = ir::needs_gradient(model.graph);
  for (size_t atom = 0; atom < model.atoms.tasks.size(); ++atom) {
    const uint32_t producer = blocks.block_of[atom];
    for (const ValueId output : model.graph.outputs(model.atoms.tasks[atom])) {
      std::vector<uint32_t> readers = reading_atoms(model, output);
      for (uint32_t& reader : readers) reader = blocks.block_of[reader];
      std::erase(readers, producer);
      if (readers.empty()) continue;
      std::sort(readers.begin(), readers.end());
      readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
      RANNC_ASSIGN(const ByteLine line, byte_line(model.graph, output, model.assume));
      problem.values.push_back(
          {producer, std::move(readers), line.per_sample, line.fixed, model.training && gradient[output.index()]});
    }
  }
  return {};
}

}  // namespace

Result<StageProblem> stage_problem(const ModelFacts& model, const BlockPartition& blocks) {
  StageProblem problem;
  problem.blocks = blocks.count;
  problem.optimizer_factor = model.optimizer_factor;
  problem.parameter_bytes.assign(blocks.count, 0);
  problem.buffer_bytes.assign(blocks.count, 0);
  problem.stashed_bytes_per_sample.assign(blocks.count, 0);
  problem.temporary_bytes_per_sample.assign(blocks.count, 0);
  const auto tasks = tasks_of_blocks(model, blocks);
  add_times(model, tasks, problem);
  RANNC_TRY(add_memory(model, tasks, problem));
  RANNC_TRY(add_crossing_values(model, blocks, problem));
  return problem;
}

}  // namespace rannc::partition
