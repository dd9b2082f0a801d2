#include "passes/loss/internal/linear_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

using ir::Dim;
using ir::Graph;
using ir::Ops;

namespace {

void append(auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); }

ValueId typed(Graph& graph, ValueId made) {
  const auto found = ir::infer_types(graph, graph.producer(made));
  RANNC_CHECK(found.ok()) << found.diagnostic().str();
  return made;
}

}  // namespace

Coefficient& Coefficient::operator*=(const Coefficient& other) {
  weight *= other.weight;
  append(factors, other.factors);
  append(divisors, other.divisors);
  append(conditions, other.conditions);
  return *this;
}

Coefficient& Coefficient::operator/=(const Coefficient& other) {
  weight /= other.weight;
  append(factors, other.divisors);
  append(divisors, other.factors);
  append(conditions, other.conditions);
  return *this;
}

ValueId add_size(Graph& graph, const Dim& size, const std::string& name, const Location& where) {
  return typed(graph,
               graph.add(ir::core("full"), {}, {{"shape", ir::Shape{}}, {"value", size}, {"dtype", ir::DType::kI64}},
                         name + ".count", where));
}

// A task, because a constant could be taken for a parameter.
ValueId add_number(Graph& graph, ir::DType dtype, double number) {
  return typed(graph, graph.add(ir::core("full"), {}, {{"shape", ir::Shape{}}, {"value", number}, {"dtype", dtype}}));
}

ValueId scalar_sum(Graph& graph, ValueId value) {
  if (graph.type(value).shape->empty()) return value;
  const std::string name(graph.value(value).name);
  const TaskId maker = graph.producer(value);
  const Location where = maker.valid() ? graph.location(maker) : Location{};
  if (!is_single(graph, value) || has_samples(graph, value)) {
    return typed(graph, graph.add(ir::core("sum"), {value}, {}, name + ".sum", where));
  }
  return typed(graph, graph.add(ir::core("reshape"), {value}, {{"shape", ir::Shape{}}}, name + ".scalar", where));
}

Result<Form> LinearForms::of(ValueId value) {
  // A rule ends at the first operand without a form.
  const auto next_of = [&](ValueId made) -> std::optional<ValueId> {
    for (const ValueId operand : operands_of_form(made)) {
      const auto found = known_.find(operand);
      if (found == known_.end()) return operand;
      if (!found->second.ok()) return std::nullopt;
    }
    return std::nullopt;
  };
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId last = open.back();
    if (!known_.contains(last)) {
      if (const auto next = next_of(last)) {
        open.push_back(*next);
        continue;
      }
      Result<Form> form = parts_ < kMostParts ? find(last) : closed(last);
      if (form.ok()) parts_ += form->size();
      known_.emplace(last, std::move(form));
    }
    open.pop_back();
  }
  return known_.at(value);
}

std::vector<ValueId> LinearForms::operands_of_form(ValueId value) {
  static const Ops kBoth = {"add", "sub"}, kProduct = "mul", kQuotient = "div", kChoice = "where";
  static const Ops kFirst = {"identity", "reshape", "squeeze", "unsqueeze", "cast", "stop_gradient", "neg"};
  static const Ops kSum = "sum", kMean = "mean";
  const TaskId maker = graph_.producer(value);
  if (!maker.valid() || !graph_.type(value).shape || (is_single(graph_, value) && number(value))) return {};
  if (!is_known_count(value) && !has_parts(value)) return {};
  const ir::OpInfo& op = graph_.op(maker);
  const auto in = graph_.inputs(maker);
  if (kBoth.contains(op)) return {in[0], in[1]};
  if (kFirst.contains(op)) return {in[0]};
  if (kQuotient.contains(op)) return is_coefficient(in[1]) ? std::vector{in[0]} : std::vector{in[0], in[1]};
  if (kChoice.contains(op)) return {in[1], in[2]};
  if (kSum.contains(op) || kMean.contains(op)) return folds_itself(value) ? std::vector{in[0]} : std::vector<ValueId>();
  if (kProduct.contains(op)) {
    const auto factor = factor_of(value);
    return factor ? std::vector{in[1 - *factor]} : std::vector{in[0], in[1]};
  }
  const auto only = linear_operand(value);
  return only ? std::vector{in[*only]} : std::vector<ValueId>();
}

// The number of a constant. What is trained is none, whatever the file has for it.
std::optional<double> LinearForms::number(ValueId value) {
  return origins_.from_parameters(value) ? std::nullopt : ir::scalar_constant(graph_, value);
}

// Whether a constant or a count of one element can be a coefficient.
bool LinearForms::is_coefficient(ValueId value) {
  return is_single(graph_, value) && (origins_.is_count(value) || number(value));
}

Coefficient LinearForms::coefficient(ValueId value, int nested) {
  if (const auto constant = number(value)) return {*constant};
  if (nested == kMostNested) return {1, {value}};
  static const Ops kSame = {"identity", "reshape", "squeeze", "unsqueeze"}, kProduct = "mul", kQuotient = "div",
                   kNegative = "neg", kCast = "cast";
  const TaskId maker = graph_.producer(value);
  const ir::OpInfo& op = graph_.op(maker);
  const auto in = graph_.inputs(maker);
  const bool is_number = ir::is_float(graph_.type(value).dtype);
  const bool same = kSame.contains(op) || (kCast.contains(op) && is_number && ir::is_float(graph_.type(in[0]).dtype));
  if (same && is_coefficient(in[0])) return coefficient(in[0], nested + 1);
  if (is_number && (kProduct.contains(op) || kQuotient.contains(op)) && is_coefficient(in[0]) &&
      is_coefficient(in[1])) {
    const Coefficient first = coefficient(in[0], nested + 1), second = coefficient(in[1], nested + 1);
    Coefficient made = first;
    if (kProduct.contains(op)) return made *= second;
    if (second.weight != 0) return made /= second;
  }
  if (kNegative.contains(op) && is_coefficient(in[0])) {
    Coefficient made = coefficient(in[0], nested + 1);
    made.weight = -made.weight;
    return made;
  }
  return {1, {value}};
}

Result<Form> LinearForms::find(ValueId value) {
  if (!graph_.type(value).shape) return closed(value);
  if (is_single(graph_, value)) {
    const auto constant = number(value);
    if (constant && *constant == 0) return Form{};
    if (constant) return Form{{{}, {*constant}}};
  }
  if (is_known_count(value)) {
    // A mean of inputs is summed over samples as one of predictions is.
    if (auto form = by_rule(value); form.ok()) return form;
    if (is_single(graph_, value)) return Form{{{}, coefficient(value)}};
    return Form{{given(value)}};
  }
  if (!graph_.producer(value).valid()) return Form{{value}};
  if (has_parts(value)) return of_task(value);
  return graph_.batch_symbol().empty() || fits(value) ? Result<Form>(Form{{value}}) : closed(value);
}

// Whether a value is a count that no sum over samples is.
bool LinearForms::is_known_count(ValueId value) {
  return origins_.is_count(value) && !graph_.type(value).batch.is_partial() && !graph_.batch_symbol().empty();
}

// Whether the task that makes a value decides on its form.
bool LinearForms::has_parts(ValueId value) {
  if (graph_.batch_symbol().empty()) return whole_has_parts(value);
  const bool sums = graph_.type(value).batch.is_partial();
  return origins_.reads_total(value) || (origins_.is_total(value) && !sums) || is_splittable(value);
}

// Whether a sum or multiple of scalars has parts of its own.
bool LinearForms::is_splittable(ValueId value) {
  static const ir::Pattern kSums = ir::op({"add", "sub", "neg", "identity", "reshape", "squeeze", "unsqueeze"});
  static const ir::Pattern kProducts = ir::op({"mul", "div"});
  static const ir::Pattern kFolds = ir::op({"sum", "mean"});
  static const Ops kConcat = "concat";
  if (!is_single(graph_, value) || has_samples(graph_, value)) return false;
  const TaskId maker = graph_.producer(value);
  if (ir::match(graph_, maker, kFolds)) {
    const TaskId joins = graph_.producer(graph_.inputs(maker)[0]);
    return joins.valid() && kConcat.contains(graph_.op(joins)) && !has_samples(graph_, graph_.inputs(maker)[0]);
  }
  if (ir::match(graph_, maker, kSums))
    return is_single(graph_, graph_.inputs(maker)[0]) && !has_samples(graph_, graph_.inputs(maker)[0]);
  return ir::match(graph_, maker, kProducts) && (number(graph_.inputs(maker)[0]) || number(graph_.inputs(maker)[1]));
}

Result<Form> LinearForms::of_task(ValueId value) {
  Result<Form> found = by_rule(value);
  if (found.ok()) return found;
  if (auto whole = with_given(value); whole.ok()) return whole;
  return found;
}

// The value itself, with counts as inputs.
Result<Form> LinearForms::with_given(ValueId value) {
  if (graph_.batch_symbol().empty()) return Form{{value}};
  RANNC_ASSIGN(const ValueId made, without_counts(value));
  if (made == value || !fits(made)) return closed(value);
  return Form{{made}};
}

// Whether a value is a sum over samples, has samples, or is the same for all.
bool LinearForms::fits(ValueId value) const {
  const ir::Mix mix = graph_.type(value).batch.mix;
  return mix == ir::Mix::kNone || mix == ir::Mix::kPartial;
}

Result<ValueId> LinearForms::without_counts(ValueId value) {
  const auto reads = [&](ValueId one) { return one.valid() && (origins_.is_total(one) || origins_.reads_total(one)); };
  const auto operands_of = [&](ValueId one) {
    const auto in = graph_.inputs(graph_.producer(one));
    return std::vector<ValueId>(in.begin(), in.end());
  };
  std::vector<ValueId> left;
  std::set<ValueId> found;  // in the order of the graph: operands come first
  const auto visit = [&](ValueId one) {
    if (!reads(one)) return;
    const auto known = without_counts_.find(one);
    if ((known == without_counts_.end() || !known->second.valid()) && found.insert(one).second) left.push_back(one);
  };
  visit(value);
  while (!left.empty()) {
    const ValueId one = left.back();
    left.pop_back();
    if (without_counts_.contains(one)) return closed(one);
    if (origins_.is_count(one) || !origins_.reads_total(one)) continue;
    for (const ValueId operand : operands_of(one)) visit(operand);
  }
  for (const ValueId one : found) {
    Result<ValueId> made = one;
    if (origins_.is_count(one)) {
      made = given(one);
    } else if (!origins_.reads_total(one)) {
      if (!fits(one)) made = closed(one);
    } else {
      std::vector<ValueId> operands = operands_of(one);
      for (ValueId& operand : operands) {
        if (reads(operand)) operand = without_counts_.at(operand);
      }
      made = rebuilt(one, std::move(operands));
    }
    without_counts_.emplace(one, made.ok() ? *made : ValueId());
    if (made.ok()) continue;
    without_counts_.emplace(value, ValueId());
    return made;
  }
  return reads(value) ? without_counts_.at(value) : value;
}

ValueId LinearForms::given(ValueId count) {
  const auto found = std::find_if(given_.begin(), given_.end(), [&](const auto& each) { return each.second == count; });
  if (found != given_.end()) return found->first;
  ir::ValueType type = graph_.type(count);
  type.batch = {};
  type.contents.reset();
  const ValueId input =
      graph_.add_value(ir::ValueKind::kInput, "whole/" + std::string(graph_.value(count).name), std::move(type));
  given_.emplace_back(input, count);
  return input;
}

Result<ValueId> LinearForms::with_operand(ValueId value, size_t operand, ValueId by) {
  const auto in = graph_.inputs(graph_.producer(value));
  std::vector<ValueId> operands(in.begin(), in.end());
  if (operands[operand] == by) return value;
  operands[operand] = by;
  return rebuilt(value, std::move(operands));
}

Result<ValueId> LinearForms::rebuilt(ValueId value, std::vector<ValueId> operands) {
  const TaskId maker = graph_.producer(value);
  const auto in = graph_.inputs(maker);
  if (std::equal(in.begin(), in.end(), operands.begin(), operands.end())) {
    return fits(value) ? Result<ValueId>(value) : closed(value);
  }
  std::vector<std::string> names;
  for (const ValueId output : graph_.outputs(maker)) names.push_back(std::string(graph_.value(output).name) + ".part");
  const uint32_t index = graph_.value(value).output_index;
  const ir::OpInfo& op = graph_.op(maker);
  const TaskId task =
      graph_.add_task(op, operands, ir::Attributes(graph_.attributes(maker)), names, graph_.location(maker));
  const ValueId made = graph_.outputs(task)[index];
  if (!ir::infer_types(graph_, task).ok() || !graph_.type(made).shape || !fits(made)) return closed(value);
  return made;
}

Diagnostic LinearForms::closed(ValueId value) {
  const Graph::Value& found = graph_.value(value);
  if (!found.producer.valid()) return error(fmt::format("the loss reads %{}, which no task makes", found.name));
  // The sums over samples that the value is made of, each once.
  std::vector<ValueId> left = {value};
  std::set<ValueId> seen;
  std::string sums;
  for (size_t named = 0; !left.empty() && named < kMostNamed && seen.size() < kMostNamed * kMostNested;) {
    const ValueId one = left.back();
    left.pop_back();
    if (!seen.insert(one).second) continue;
    const size_t before = left.size();
    const auto in = graph_.inputs(graph_.producer(one));
    for (size_t i = in.size(); i-- > 0;) {
      if (in[i].valid() && origins_.is_total(in[i])) left.push_back(in[i]);
    }
    if (left.size() > before || one == value) continue;
    sums += fmt::format("{}%{}", named++ == 0 ? "; it reads " : " and ", graph_.value(one).name);
  }
  return error(
      graph_.location(found.producer),
      fmt::format("the loss needs %{}, made by {}, which cannot be rewritten as sums over samples{}; the model "
                  "may output predictions instead, with the loss specified by name",
                  found.name, graph_.op(found.producer).name, sums));
}

}  // namespace rannc::passes
