#include "passes/simplify/infer_shapes.h"

#include <map>

#include "ir/graph/assumptions.h"
#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/op/valid_indices.h"
#include "passes/batch/sample_rules.h"

namespace rannc::passes {

namespace {

using ir::Dim;
using ir::Graph;
using ir::Shape;
using ir::ValueType;

struct Renaming {
  std::string symbol;
  Dim by;
};

// Returns the symbol of `from` that must equal `to`, if replacing it makes them equal. Returns nothing for the batch
// symbol, which must stay free, and for two numbers.
std::optional<Renaming> renaming(const Dim& a, const Dim& b, const std::string& batch) {
  if (a == b || a == Dim(1) || b == Dim(1)) return std::nullopt;
  if (b.is_symbol() && b.symbol_name() != batch && !a.uses(b.symbol_name())) return Renaming{b.symbol_name(), a};
  if (a.is_symbol() && a.symbol_name() != batch && !b.uses(a.symbol_name())) return Renaming{a.symbol_name(), b};
  return std::nullopt;
}

// Looks for two names of one size in the operands of a task whose rule failed, axes aligned at the right.
std::optional<Renaming> renaming_at(const Graph& graph, TaskId task) {
  const auto operands = graph.inputs(task);
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t j = i + 1; j < operands.size(); ++j) {
      if (!operands[i].valid() || !operands[j].valid()) continue;
      const auto &a = graph.type(operands[i]).shape, &b = graph.type(operands[j]).shape;
      if (!a || !b) continue;
      for (size_t k = 1; k <= std::min(a->size(), b->size()); ++k) {
        const Dim &x = (*a)[a->size() - k], &y = (*b)[b->size() - k];
        if (!x.is_symbol() && !y.is_symbol()) continue;
        if (auto found = renaming(x, y, graph.batch_symbol())) return found;
      }
    }
  }
  return std::nullopt;
}

Shape substituted(Shape shape, const Renaming& change) {
  for (Dim& dim : shape) dim = dim.substitute(change.symbol, change.by);
  return shape;
}

void rename(Graph& graph, const Renaming& change) {
  graph.set_assumptions(ir::substituted(graph.assumptions(), change.symbol, change.by));
  for (const ValueId id : graph.values()) {
    if (graph.value(id).producer.valid()) continue;
    ValueType type = graph.type(id);
    if (type.shape) type.shape = substituted(*type.shape, change);
    type.batch.outer = type.batch.outer.substitute(change.symbol, change.by);
    type.batch.inner = type.batch.inner.substitute(change.symbol, change.by);
    if (!(type == graph.type(id))) graph.set_type(id, std::move(type));
  }
  for (const TaskId task : graph.tasks()) {
    ir::Attributes attributes = graph.attributes(task);
    for (const auto& [name, value] : graph.attributes(task)) {
      if (const auto* dim = std::get_if<Dim>(&value)) attributes.set(name, dim->substitute(change.symbol, change.by));
      if (const auto* list = std::get_if<Shape>(&value)) attributes.set(name, substituted(*list, change));
      if (const auto* body = std::get_if<ir::Body>(&value)) {
        Graph inside = body->graph().clone();
        rename(inside, change);
        for (const TaskId each : inside.tasks()) {
          if (!ir::infer_types(inside, each).ok()) break;  // the task that has it says why
        }
        attributes.set(name, ir::Body(std::move(inside)));
      }
    }
    if (!(attributes == graph.attributes(task))) graph.set_attributes(task, std::move(attributes));
  }
}

bool fill_contents(Graph& graph) {
  bool changed = false;
  for (const ValueId id : graph.values()) {
    const Graph::Value& value = graph.value(id);
    if (value.kind != ir::ValueKind::kConstant || value.type.contents) continue;
    auto contents = ir::constant_contents(value.type, value.data);
    if (!contents) continue;
    ValueType type = value.type;
    type.contents = std::move(contents);
    graph.set_type(id, std::move(type));
    changed = true;
  }
  return changed;
}

// Random inputs that have the type of an operand beside them keep having it.
class RandomTypes {
 public:
  explicit RandomTypes(const Graph& graph) {
    for (const ValueId value : graph.values()) {
      if (graph.kind(value) != ir::ValueKind::kRandomInput) continue;
      graph.any_use(value, [&](Graph::Use use) {
        for (const ValueId beside : graph.inputs(use.task)) {
          if (!beside.valid() || beside == value || graph.type_number(beside) != graph.type_number(value)) continue;
          beside_[value] = beside;
        }
        return true;
      });
    }
  }
  /// Before the types of a task's results are inferred.
  void follow(Graph& graph, TaskId task) const {
    for (const ValueId input : graph.inputs(task)) {
      const auto found = input.valid() ? beside_.find(input) : beside_.end();
      if (found != beside_.end()) graph.set_type(input, ValueType(graph.type(found->second)));
    }
  }

 private:
  std::map<ValueId, ValueId> beside_;
};

}  // namespace

Result<Outcome> InferShapes::run(Graph& graph, PassContext& context) const {
  Outcome outcome{fill_contents(graph)};
  const RandomTypes random_inputs(graph);
  const std::vector<ir::Assumption> assumed = graph.assumptions();
  std::vector<uint32_t> before;  // numbers of the outputs' types
  for (uint32_t i = 0; i < graph.task_count();) {
    const TaskId task(i);
    before.clear();
    for (const ValueId output : graph.outputs(task)) before.push_back(graph.type_number(output));
    random_inputs.follow(graph, task);
    if (auto inferred = ir::infer_types(graph, task); !inferred) {
      const auto change = renaming_at(graph, task);
      if (!change) return inferred.diagnostic();
      context.remarks.push_back({graph.location(task), change->symbol + " is the same size as " + change->by.str()});
      rename(graph, *change);
      outcome.changed = true;
      i = 0;
      continue;
    }
    RANNC_TRY(check_sample_index(graph, task));
    RANNC_TRY(check_no_mix(graph, task));
    const auto outputs = graph.outputs(task);
    for (size_t k = 0; k < outputs.size(); ++k)
      outcome.changed = outcome.changed || before[k] != graph.type_number(outputs[k]);
    ++i;
  }
  RANNC_TRY(check_no_count(graph));
  if (indices_ == ConstantIndices::kChecked) RANNC_TRY(ir::check_constant_indices(graph));
  outcome.changed = outcome.changed || graph.assumptions() != assumed;  // which changes earlier types
  return outcome;
}

}  // namespace rannc::passes
