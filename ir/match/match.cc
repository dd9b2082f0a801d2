#include "ir/match/match.h"

#include <algorithm>

#include "ir/graph/constant.h"
#include "ir/match/internal/matcher.h"
#include "ir/op/op.h"

namespace rannc::ir {

using NodeKind = Pattern::Node::Kind;

Ops::Ops(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) ops_.push_back(&core(name));
}

bool Ops::contains(const OpInfo& op) const { return std::find(ops_.begin(), ops_.end(), &op) != ops_.end(); }

bool Match::has(Capture place) const { return place.number < Capture::kMost && places_[place.number].valid(); }

ValueId Match::operator[](Capture place) const {
  RANNC_CHECK(has(place)) << "the pattern has kept nothing in place " << int{place.number};
  return places_[place.number];
}

TaskId Match::task(Capture place) const {
  const TaskId made_by = graph_->producer((*this)[place]);
  RANNC_CHECK(made_by.valid()) << "no task makes %" << graph_->value((*this)[place]).name;
  return made_by;
}

double Match::number(Capture place) const {
  const auto found = scalar_constant(*graph_, (*this)[place]);
  RANNC_CHECK(found.has_value()) << "%" << graph_->value((*this)[place]).name << " is no scalar constant";
  return *found;
}

Pattern::Pattern(Node node) : node_(std::make_shared<const Node>(std::move(node))) {}

Pattern Pattern::as(Capture place) const {
  RANNC_CHECK(place.number < Capture::kMost && node_->place.number == Capture{}.number)
      << "place " << int{place.number};
  Node node = *node_;
  node.place = place;
  return Pattern(std::move(node));
}

Pattern Pattern::where(Condition holds) const {
  Node node = *node_;
  node.conditions.push_back(std::move(holds));
  return Pattern(std::move(node));
}

namespace {

Pattern::Node copy_of_op(const Pattern& pattern) {
  RANNC_CHECK(pattern.node().kind == NodeKind::kOp) << "only a task has operands, outputs and attributes";
  return pattern.node();
}

Pattern kept(Pattern::Node node, Capture place) {
  const Pattern made(std::move(node));
  return place.number == Capture{}.number ? made : made.as(place);
}

}  // namespace

Pattern Pattern::with(std::string_view attribute, Attribute value) const {
  Node node = copy_of_op(*this);
  node.attributes.push_back({std::string(attribute), std::move(value)});
  return Pattern(std::move(node));
}

Pattern Pattern::without(std::string_view attribute) const {
  Node node = copy_of_op(*this);
  node.attributes.push_back({std::string(attribute), std::nullopt});
  return Pattern(std::move(node));
}

Pattern Pattern::output(uint32_t index) const {
  Node node = copy_of_op(*this);
  node.output = index;
  return Pattern(std::move(node));
}

Pattern op(Ops ops) { return Pattern({.kind = NodeKind::kOp, .ops = std::move(ops), .any_operands = true}); }

Pattern op_of(Ops ops, std::vector<Pattern> operands) {
  RANNC_CHECK(operands.size() <= kMostOperandPatterns) << operands.size() << " operands";
  return Pattern({.kind = NodeKind::kOp, .parts = std::move(operands), .ops = std::move(ops)});
}

Pattern commutative(const Pattern& binary) {
  Pattern::Node node = copy_of_op(binary);
  RANNC_CHECK(node.parts.size() == 2) << "either order is of two operands, not " << node.parts.size();
  node.commutative = true;
  return Pattern(std::move(node));
}

Pattern any(Capture place) { return kept({.kind = NodeKind::kAny}, place); }

Pattern constant(Capture place) { return kept({.kind = NodeKind::kScalar}, place); }

Pattern constant(double number) { return Pattern({.kind = NodeKind::kScalar, .number = number}); }

Pattern of_kind(ValueKind kind, Capture place) { return kept({.kind = NodeKind::kOfKind, .value_kind = kind}, place); }

Pattern input(Capture place) { return of_kind(ValueKind::kInput, place); }

Pattern same(Capture place) { return Pattern({.kind = NodeKind::kSame, .same = place}); }

Pattern absent() { return Pattern({.kind = NodeKind::kAbsent}); }

Pattern maybe(const Pattern& pattern) { return either({absent(), pattern}); }

Pattern either(std::vector<Pattern> patterns) {
  return Pattern({.kind = NodeKind::kEither, .parts = std::move(patterns)});
}

Pattern one_use(const Pattern& pattern) {
  Pattern::Node node = pattern.node();
  node.one_use = true;
  return Pattern(std::move(node));
}

Pattern through(Ops ops, const Pattern& pattern) {
  return Pattern({.kind = NodeKind::kThrough, .parts = {pattern}, .ops = std::move(ops)});
}

Pattern through_exact(Ops ops, const Pattern& pattern) {
  return Pattern({.kind = NodeKind::kThrough, .parts = {pattern}, .ops = std::move(ops), .exact = true});
}

std::optional<Match> match(const Graph& graph, ValueId value, const Pattern& pattern) {
  Matcher matcher(graph);
  return matcher.match(pattern, value) ? std::optional(matcher.found()) : std::nullopt;
}

std::optional<Match> match(const Graph& graph, TaskId task, const Pattern& pattern) {
  const auto outputs = graph.outputs(task);
  return outputs.empty() ? std::nullopt : match(graph, outputs[0], pattern);
}

std::optional<double> scalar_constant(const Graph& graph, ValueId value) {
  static const Ops kFull{"full"};
  if (!value.valid()) return std::nullopt;
  const TaskId task = graph.producer(value);
  if (!task.valid()) {
    const Graph::Value& found = graph.value(value);
    if (found.kind != ValueKind::kConstant || static_count(found.type) != 1) return std::nullopt;
    const auto numbers = decode_numbers(found.type, found.data, 1);
    return numbers.ok() ? std::optional(numbers->front()) : std::nullopt;
  }
  if (!kFull.contains(graph.op(task))) return std::nullopt;
  const Attribute* const filler = graph.attributes(task).find("value");
  if (filler == nullptr) return 0.0;
  if (const auto* dim = std::get_if<Dim>(filler)) {
    return dim->is_constant() ? std::optional(static_cast<double>(dim->constant())) : std::nullopt;
  }
  const auto* real = std::get_if<double>(filler);
  return real ? std::optional(*real) : std::nullopt;
}

bool leads_to(const Graph& graph, TaskId from, const Path& path, size_t most_tasks) {
  std::vector<TaskId> seen = {from};
  const auto reaches = [&](Graph::Use use) {
    const OpInfo& op = graph.op(use.task);
    if (path.to.contains(op)) return true;
    if (seen.size() < most_tasks && path.through.contains(op) &&
        std::find(seen.begin(), seen.end(), use.task) == seen.end()) {
      seen.push_back(use.task);
    }
    return false;
  };
  for (size_t i = 0; i < seen.size(); ++i) {
    for (const ValueId output : graph.outputs(seen[i])) {
      if (graph.any_use(output, reaches)) return true;
    }
  }
  return false;
}

}  // namespace rannc::ir
