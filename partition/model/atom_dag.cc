#include "partition/model/atom_dag.h"

#include <algorithm>

#include "partition/model/value_bytes.h"

namespace rannc::partition {

namespace {

// Assigns each parameter to the first atom that needs it.
class ParameterOwners {
 public:
  explicit ParameterOwners(const ModelFacts& model) : model_(model), seen_(model.graph.value_count()) {}

  // Returns the bytes, with gradients and optimizer state, of the parameters that this task is the first to need.
  Result<double> bytes_of(TaskId task) {
    double bytes = 0;
    std::vector<TaskId> left = {task};
    while (!left.empty()) {
      const TaskId reader = left.back();
      left.pop_back();
      for (const ValueId input : model_.graph.inputs(reader)) {
        if (!input.valid()) continue;
        const TaskId producer = model_.graph.value(input).producer;
        if (first_seen(input, producer)) {
          if (producer.valid()) {
            left.push_back(producer);
          } else {
            RANNC_ASSIGN(const ByteLine line, byte_line(model_.graph, input, model_.assume));
            bytes += line.fixed * model_.copies(input);
          }
        }
      }
    }
    return bytes;
  }

 private:
  // Whether the value is a parameter, or computed by constant tasks from parameters alone, and is new.
  bool first_seen(ValueId value, TaskId producer) {
    const bool ours = producer.valid() ? static_cast<bool>(model_.atoms.constant[producer.index()])
                                       : model_.graph.value(value).kind == ir::ValueKind::kParameter;
    if (!ours || seen_[value.index()]) return false;
    seen_[value.index()] = true;
    return true;
  }

  const ModelFacts& model_;
  std::vector<bool> seen_;
};

Result<void> weigh_atoms(const ModelFacts& model, const AtomSamples& samples, size_t size, Dag& dag) {
  const auto count = static_cast<uint32_t>(model.atoms.tasks.size());
  dag.forward.resize(count);
  dag.backward.resize(count);
  dag.resident_bytes.resize(count);
  dag.stashed_bytes.resize(count);
  ParameterOwners owners(model);
  for (uint32_t atom = 0; atom < count; ++atom) {
    const TaskId task = model.atoms.tasks[atom];
    const TaskCost cost = model.costs.per_micro_batch(task) ? model.costs.of(0, size, task) : TaskCost{};
    dag.forward[atom] = cost.forward_ns;
    for (const ValueId input : model.graph.inputs(task)) {
      const TaskId producer = input.valid() ? model.graph.value(input).producer : TaskId();
      const bool constant = producer.valid() && model.atoms.constant[producer.index()];
      if (constant && model.costs.per_micro_batch(producer))
        dag.forward[atom] += model.costs.of(0, size, producer).forward_ns;
    }
    if (model.training) {
      dag.backward[atom] = cost.backward_ns();
      dag.stashed_bytes[atom] =
          static_cast<uint64_t>(model.memory.saved(task).at(static_cast<double>(samples.smallest_share)));
    }
    RANNC_ASSIGN(const double resident, owners.bytes_of(task));
    dag.resident_bytes[atom] = static_cast<uint64_t>(resident);
  }
  return {};
}

}  // namespace

std::vector<uint32_t> reading_atoms(const ModelFacts& model, ValueId value) {
  std::vector<uint32_t> readers;
  model.graph.for_each_use(value, [&](ir::Graph::Use use) {
    const AtomId atom = model.atoms.atom_of[use.task.index()];
    if (atom.valid()) readers.push_back(atom.index());
  });
  std::sort(readers.begin(), readers.end());
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  return readers;
}

Result<Dag> atom_dag(const ModelFacts& model, const Cluster& cluster, const AtomSamples& at) {
  const std::vector<uint64_t>& sizes = model.costs.sizes;
  const auto found = std::lower_bound(sizes.begin(), sizes.end(), at.reference);
  const size_t size = std::min(static_cast<size_t>(found - sizes.begin()), sizes.size() - 1);
  const double samples = static_cast<double>(sizes[size]);
  Dag dag;
  RANNC_TRY(weigh_atoms(model, at, size, dag));
  dag.value_readers.offsets.push_back(0);
  const Link reference = cluster.size() < 2 ? Link{1e12, 0} : cluster.link(DeviceId(0), DeviceId(1));
  for (uint32_t atom = 0; atom < dag.tasks(); ++atom) {
    for (const ValueId output : model.graph.outputs(model.atoms.tasks[atom])) {
      std::vector<uint32_t> readers = reading_atoms(model, output);
      std::erase(readers, atom);
      if (readers.empty()) continue;
      RANNC_ASSIGN(const ByteLine line, byte_line(model.graph, output, model.assume));
      const double bytes = line.at(samples);
      dag.value_producer.push_back(atom);
      dag.value_bytes.push_back(static_cast<uint64_t>(bytes));
      dag.value_cost.push_back((model.training ? 2 : 1) * reference.transfer_ns(bytes));
      dag.value_readers.items.insert(dag.value_readers.items.end(), readers.begin(), readers.end());
      dag.value_readers.offsets.push_back(static_cast<uint32_t>(dag.value_readers.items.size()));
    }
  }
  index_tasks(dag);
  return dag;
}

}  // namespace rannc::partition
