#include "partition/model/block_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/plan.h"
#include "partition/blocks/block_partitioner.h"

namespace rannc::partition {

namespace {

// Bytes of a value: `per_sample * samples + fixed`.
struct ByteLine {
  double per_sample = 0, fixed = 0;
};

std::optional<ByteLine> byte_line(const ir::Graph& graph, ValueId value, ir::Bindings bindings) {
  const ir::ValueType& type = graph.type(value);
  if (!type.shape) return ByteLine{};
  const ir::Dim count = ir::element_count(*type.shape) * ir::Dim(ir::byte_size(type.dtype));
  bindings[graph.batch_symbol()] = 1;
  const auto one = count.evaluate(bindings);
  bindings[graph.batch_symbol()] = 2;
  const auto two = count.evaluate(bindings);
  if (!one || !two) return std::nullopt;
  const double slope = static_cast<double>(*two - *one);
  return ByteLine{slope, static_cast<double>(*one) - slope};
}

Diagnostic unknown_size(const ir::Graph& graph, ValueId value) {
  return error(fmt::format("the size of value '{}' is not known: {}", graph.value(value).name,
                           graph.type(value).shape ? ir::str(*graph.type(value).shape) : "it has no shape"));
}

// The first reading atom per (value, reader), in ascending order.
std::vector<uint32_t> reading_atoms(const ir::Graph& graph, const ir::Atoms& atoms, ValueId value) {
  std::vector<uint32_t> readers;
  graph.for_each_use(value, [&](ir::Graph::Use use) {
    const AtomId atom = atoms.atom_of[use.task.index()];
    if (atom.valid()) readers.push_back(atom.index());
  });
  std::sort(readers.begin(), readers.end());
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  return readers;
}

}  // namespace

Result<Dag> atom_dag(const ir::Graph& graph, const ir::Atoms& atoms, const ModelCosts& costs, size_t size,
                     const Cluster& cluster, const ir::Bindings& assume, double optimizer_factor) {
  Dag dag;
  const auto count = static_cast<uint32_t>(atoms.tasks.size());
  const double samples = static_cast<double>(costs.sizes[size]);
  dag.forward.resize(count);
  dag.backward.resize(count);
  dag.resident_bytes.resize(count);
  dag.stashed_bytes.resize(count);
  for (uint32_t atom = 0; atom < count; ++atom) {
    const TaskCost& cost = costs.of(0, size, atoms.tasks[atom]);
    dag.forward[atom] = cost.forward_ns;
    dag.backward[atom] = cost.backward_ns();
    dag.stashed_bytes[atom] = static_cast<uint64_t>(cost.saved_bytes);
    double parameters = 0;
    for (const ValueId input : graph.inputs(atoms.tasks[atom])) {
      if (!input.valid()) continue;
      if (graph.value(input).kind == ir::ValueKind::kParameter) {
        const auto line = byte_line(graph, input, assume);
        if (!line) return unknown_size(graph, input);
        parameters += line->fixed;
      }
      const TaskId producer = graph.value(input).producer;
      if (producer.valid() && atoms.constant[producer.index()])
        dag.forward[atom] += costs.of(0, size, producer).forward_ns;
    }
    dag.resident_bytes[atom] = static_cast<uint64_t>(parameters * (2 + optimizer_factor));
  }
  dag.value_readers.offsets.push_back(0);
  const bool single = cluster.size() < 2;
  const Link reference = single ? Link{1e12, 0} : cluster.link(DeviceId(0), DeviceId(1));
  for (uint32_t atom = 0; atom < count; ++atom) {
    for (const ValueId output : graph.outputs(atoms.tasks[atom])) {
      std::vector<uint32_t> readers = reading_atoms(graph, atoms, output);
      std::erase(readers, atom);
      if (readers.empty()) continue;
      const auto line = byte_line(graph, output, assume);
      if (!line) return unknown_size(graph, output);
      const double bytes = line->per_sample * samples + line->fixed;
      dag.value_producer.push_back(atom);
      dag.value_bytes.push_back(static_cast<uint64_t>(bytes));
      dag.value_cost.push_back(2 * reference.transfer_ns(bytes));
      dag.value_readers.items.insert(dag.value_readers.items.end(), readers.begin(), readers.end());
      dag.value_readers.offsets.push_back(static_cast<uint32_t>(dag.value_readers.items.size()));
    }
  }
  index_tasks(dag);
  return dag;
}

Result<std::variant<BlockedModel, Infeasible>> block_model(const ir::Graph& graph, const ir::Atoms& atoms,
                                                           const ModelCosts& costs, const Cluster& cluster,
                                                           const ir::Bindings& assume,
                                                           const BlockModelOptions& options) {
  const auto at = std::lower_bound(costs.sizes.begin(), costs.sizes.end(), options.reference_samples);
  const size_t size = std::min(static_cast<size_t>(at - costs.sizes.begin()), costs.sizes.size() - 1);
  RANNC_ASSIGN(const Dag dag, atom_dag(graph, atoms, costs, size, cluster, assume, options.optimizer_factor));
  RANNC_ASSIGN(const auto partitioner, make_block_partitioner(options.partitioner));
  BlockOptions block_options;
  block_options.blocks = std::min(options.blocks, dag.tasks());
  for (const DeviceKind& kind : cluster.kinds) {  // no block larger than the largest device
    const uint64_t limit = kind.memory_bytes == 0 ? std::numeric_limits<uint64_t>::max() : kind.memory_bytes;
    block_options.memory_limit_bytes =
        &kind == cluster.kinds.data() ? limit : std::max(block_options.memory_limit_bytes, limit);
  }
  RANNC_ASSIGN(BlockOutcome outcome, partitioner->partition(dag, block_options));
  if (!outcome.partition) {
    return std::variant<BlockedModel, Infeasible>(
        Infeasible{outcome.reason, 0, "devices with more memory, or a smaller micro-batch"});
  }
  BlockedModel blocked;
  blocked.metrics = measure(dag, outcome.partition->block_of, outcome.partition->count);
  blocked.partition = std::move(*outcome.partition);
  return std::variant<BlockedModel, Infeasible>(std::move(blocked));
}

namespace {

// Every task of each block, constant ones cloned into all blocks that need them.
std::vector<std::vector<TaskId>> tasks_of_blocks(const ir::Graph& graph, const ir::Atoms& atoms,
                                                 const BlockPartition& blocks) {
  std::vector<std::vector<TaskId>> tasks(blocks.count);
  for (size_t atom = 0; atom < atoms.tasks.size(); ++atom) tasks[blocks.block_of[atom]].push_back(atoms.tasks[atom]);
  const bool any_constant = std::find(atoms.constant.begin(), atoms.constant.end(), true) != atoms.constant.end();
  if (any_constant) {
    for (auto& list : tasks) list = ir::close_over_constants(graph, atoms, list);
  }
  return tasks;
}

Result<void> add_crossing_values(const ir::Graph& graph, const ir::Atoms& atoms, const BlockPartition& blocks,
                                 const ir::Bindings& assume, StageProblem& problem) {
  const std::vector<bool> gradient = ir::needs_gradient(graph);
  for (size_t atom = 0; atom < atoms.tasks.size(); ++atom) {
    for (const ValueId output : graph.outputs(atoms.tasks[atom])) {
      std::set<uint32_t> readers;
      for (const uint32_t reader : reading_atoms(graph, atoms, output)) readers.insert(blocks.block_of[reader]);
      readers.erase(blocks.block_of[atom]);
      if (readers.empty()) continue;
      const auto line = byte_line(graph, output, assume);
      if (!line) return unknown_size(graph, output);
      problem.values.push_back({blocks.block_of[atom],
                                {readers.begin(), readers.end()},
                                line->per_sample,
                                line->fixed,
                                gradient[output.index()]});
    }
  }
  return {};
}

}  // namespace

Result<StageProblem> stage_problem(const ir::Graph& graph, const ir::Atoms& atoms, const ModelCosts& costs,
                                   const BlockPartition& blocks, const ir::Bindings& assume) {
  StageProblem problem;
  problem.blocks = blocks.count;
  problem.parameter_bytes.assign(blocks.count, 0);
  problem.buffer_bytes.assign(blocks.count, 0);
  problem.stashed_bytes_per_sample.assign(blocks.count, 0);
  problem.temporary_bytes_per_sample.assign(blocks.count, 0);
  const auto tasks = tasks_of_blocks(graph, atoms, blocks);
  const size_t sizes = costs.sizes.size();
  const double largest = static_cast<double>(costs.sizes.back());
  for (const auto& of_kind : costs.costs) {
    TimeTable table;
    table.sizes = costs.sizes;
    table.forward.assign(sizes, std::vector<double>(blocks.count, 0));
    table.backward = table.forward;
    for (uint32_t block = 0; block < blocks.count; ++block) {
      for (const TaskId task : tasks[block]) {
        for (size_t size = 0; size < sizes; ++size) {
          const TaskCost& cost = of_kind[size][costs.entry_of[task.index()]];
          table.forward[size][block] += cost.forward_ns;
          table.backward[size][block] += cost.backward_ns();
        }
      }
    }
    table.make_monotone();
    problem.times.push_back(std::move(table));
  }
  for (uint32_t block = 0; block < blocks.count; ++block) {
    std::set<ValueId> seen;
    for (const TaskId task : tasks[block]) {
      const TaskCost& cost = costs.of(0, sizes - 1, task);
      problem.stashed_bytes_per_sample[block] += cost.saved_bytes / largest;
      problem.temporary_bytes_per_sample[block] =
          std::max(problem.temporary_bytes_per_sample[block], cost.temporary_bytes / largest);
      for (const ValueId input : graph.inputs(task)) {
        if (!input.valid() || graph.value(input).producer.valid() || !seen.insert(input).second) continue;
        if (graph.value(input).kind == ir::ValueKind::kInput) continue;
        const auto line = byte_line(graph, input, assume);
        if (!line) return unknown_size(graph, input);
        const bool trained = graph.value(input).kind == ir::ValueKind::kParameter;
        (trained ? problem.parameter_bytes : problem.buffer_bytes)[block] += line->fixed;
      }
    }
  }
  RANNC_TRY(add_crossing_values(graph, atoms, blocks, assume, problem));
  return problem;
}

}  // namespace rannc::partition
