#include "ir/plan/atoms.h"

#include <algorithm>
#include <utility>

namespace rannc::ir {

bool is_fixed(const Graph& graph, ValueId leaf) {
  const bool is_random_per_sample = graph.kind(leaf) == ValueKind::kRandomInput && graph.type(leaf).batch.has_batch();
  return graph.kind(leaf) != ValueKind::kInput && !is_random_per_sample;
}

namespace {

void lower(AtomId& atom, AtomId other) {
  if (other.valid() && (!atom.valid() || other < atom)) atom = other;
}

/// The first atom that needs each parameter, directly or through constant tasks, and that of the parameters behind each
/// result of a constant task. Invalid if there is none.
std::vector<AtomId> owning_atoms(const Graph& graph, const Atoms& atoms) {
  std::vector<AtomId> first(graph.value_count()), owner(graph.value_count());
  for (uint32_t i = graph.task_count(); i-- > 0;) {
    AtomId atom = atoms.atom_of[i];
    for (const ValueId output : graph.outputs(TaskId(i))) {
      if (atoms.constant[i]) lower(atom, first[output.index()]);
    }
    for (const ValueId input : graph.inputs(TaskId(i))) {
      if (input.valid()) lower(first[input.index()], atom);
    }
  }
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) == ValueKind::kParameter) owner[value.index()] = first[value.index()];
  }
  for (const TaskId task : graph.tasks()) {
    if (!atoms.constant[task.index()]) continue;
    for (const ValueId input : graph.inputs(task)) {
      for (const ValueId output : graph.outputs(task)) {
        if (input.valid()) lower(owner[output.index()], owner[input.index()]);
      }
    }
  }
  return owner;
}

/// Constant loss numerators, each with the atom that it belongs to.
std::vector<std::pair<ValueId, AtomId>> constant_numerators(const Graph& graph, const Atoms& atoms) {
  std::vector<std::pair<ValueId, AtomId>> found;
  std::vector<AtomId> owners;
  for (const LossTerm& term : graph.losses()) {
    if (!atoms.constant[graph.producer(term.numerator).index()]) continue;
    if (owners.empty()) owners = owning_atoms(graph, atoms);
    const AtomId owner = owners[term.numerator.index()];
    found.emplace_back(term.numerator, owner.valid() ? owner : AtomId::from(atoms.tasks.size() - 1));
  }
  return found;
}

}  // namespace

std::vector<TaskId> close_over_constants(const Graph& graph, const Atoms& atoms, const std::vector<TaskId>& tasks) {
  std::vector<TaskId> closed(tasks);
  std::vector<bool> taken(graph.task_count());
  for (const TaskId task : tasks) taken[task.index()] = true;
  const auto take_producer = [&](ValueId value) {
    const TaskId producer = value.valid() ? graph.producer(value) : TaskId();
    if (!producer.valid() || taken[producer.index()] || !atoms.constant[producer.index()]) return;
    taken[producer.index()] = true;
    closed.push_back(producer);
  };
  if (!atoms.tasks.empty() && taken[atoms.tasks.back().index()]) {
    for (const ValueId output : graph.outputs()) take_producer(output);
  }
  if (!atoms.tasks.empty()) {
    for (const auto& [numerator, owner] : constant_numerators(graph, atoms)) {
      if (taken[atoms.tasks[owner.index()].index()]) take_producer(numerator);
    }
  }
  for (size_t next = 0; next < closed.size(); ++next) {
    const auto inputs = graph.inputs(closed[next]);
    std::for_each(inputs.begin(), inputs.end(), take_producer);
  }
  std::sort(closed.begin(), closed.end());
  return closed;
}

}  // namespace rannc::ir
