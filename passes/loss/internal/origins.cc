#include "passes/loss/internal/origins.h"

#include <algorithm>

#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

using ir::Graph;
using ir::ValueKind;

namespace {

// Whether a value without samples of its own may depend on their number: not the length of a sequence, picked from all
// sizes of an input.
bool counts_samples(const Graph& graph, ValueId value) {
  const ir::ValueType& type = graph.type(value);
  if (!type.contents) return type.batch.mix != ir::Mix::kNone;
  return !graph.batch_symbol().empty() &&
         std::any_of(type.contents->begin(), type.contents->end(),
                     [&](const ir::Dim& dim) { return dim.uses(graph.batch_symbol()); });
}

// Whether a value is only a table in which other values are looked up, such as weights of classes.
bool is_looked_up(const Graph& graph, ValueId table) {
  static const ir::Ops kSame = {"identity", "cast", "stop_gradient"},
                       kLookUp = {"gather", "gather_nd", "gather_elements"}, kWeighs = "cross_entropy_sum";
  std::vector<ValueId> same = {table};
  for (size_t i = 0; i < same.size(); ++i) {
    const bool otherwise = graph.any_use(same[i], [&](const Graph::Use& use) {
      const ir::OpInfo& op = graph.op(use.task);
      if (kSame.contains(op)) {
        same.push_back(graph.outputs(use.task)[0]);
        return false;
      }
      return !(kLookUp.contains(op) && use.operand == 0) && !(kWeighs.contains(op) && use.operand == 2);
    });
    if (otherwise) return false;
  }
  return true;
}

}  // namespace

bool is_single(const Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  return shape && ir::element_count(*shape) == ir::Dim(1);
}

// Types that combine samples have lost the axis.
bool has_samples(const Graph& graph, ValueId value) {
  const ir::ValueType& type = graph.type(value);
  if (type.batch.has_batch() || !type.shape || graph.batch_symbol().empty()) return type.batch.has_batch();
  return std::any_of(type.shape->begin(), type.shape->end(),
                     [&](const ir::Dim& dim) { return dim.uses(graph.batch_symbol()); });
}

const Origins::Facts& Origins::facts(ValueId value) {
  while (known_.size() <= value.index()) known_.push_back(find(ValueId::from(known_.size())));
  return known_[value.index()];
}

bool Origins::is_determined(ValueId value) {
  const Facts& found = facts(value);
  return !found.parameters && !found.random;
}

Origins::Facts Origins::find(ValueId value) const {
  Facts found;
  const ir::ValueType& type = graph_.type(value);
  const TaskId maker = graph_.producer(value);
  if (!maker.valid()) {
    const ValueKind kind = graph_.kind(value);
    found.inputs = kind == ValueKind::kInput;
    found.random = kind == ValueKind::kRandomInput;
    found.parameters = kind == ValueKind::kParameter || may_be_trained(value);
    return found;
  }
  bool samples = counts_samples(graph_, value);
  if (type.contents && !samples) return found;
  const auto operands = graph_.inputs(maker);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid()) continue;
    const Facts& operand = known_[operands[i].index()];
    found.above |= operand.total || operand.above;
    if (type.contents) continue;  // a size tells nothing of the elements
    found.inputs |= operand.inputs;
    found.parameters |= operand.parameters;
    found.random |= operand.random;
    samples |= operand.total || ((operand.inputs || operand.random) && has_samples(graph_, operands[i]));
  }
  found.total = samples && !has_samples(graph_, value);
  if (graph_.batch_symbol().empty()) found.total = found.inputs && is_single(graph_, value);
  return found;
}

bool Origins::may_be_trained(ValueId stored) const {
  const ValueKind kind = graph_.kind(stored);
  if (kind != ValueKind::kConstant || !ir::is_float(graph_.type(stored).dtype)) return false;
  const std::string name(graph_.value(stored).name);
  if (const auto listed = notes_.listed.find(name); listed != notes_.listed.end()) {
    return listed->second == ValueKind::kParameter;
  }
  if (notes_.literals.contains(name) || is_single(graph_, stored)) return notes_.weights.contains(name);
  const auto& shape = graph_.type(stored).shape;
  return !shape || shape->size() != 1 || !is_looked_up(graph_, stored);
}

}  // namespace rannc::passes
