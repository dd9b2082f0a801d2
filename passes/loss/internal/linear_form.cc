#include "passes/loss/internal/linear_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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
  if (const auto found = known_.find(value); found != known_.end()) return found->second;
  if (++steps_ > kMostSteps) return closed(value);
  RANNC_ASSIGN(Form form, find(value));
  return known_.emplace(value, std::move(form)).first->second;
}

// The number of a constant. What is trained is none, whatever the file has for it.
std::optional<double> LinearForms::number(ValueId value) {
  return origins_.from_parameters(value) ? std::nullopt : ir::scalar_constant(graph_, value);
}

// Whether a constant or a count of one element can be a coefficient.
bool LinearForms::is_coefficient(ValueId value) {
  return is_single(graph_, value) && (origins_.is_count(value) || number(value));
}

Coefficient LinearForms::coefficient(ValueId value) {
  if (const auto constant = number(value)) return {*constant};
  static const Ops kSame = {"identity", "reshape", "squeeze", "unsqueeze"}, kProduct = "mul", kQuotient = "div",
                   kNegative = "neg", kCast = "cast";
  const TaskId maker = graph_.producer(value);
  const ir::OpInfo& op = graph_.op(maker);
  const auto in = graph_.inputs(maker);
  const bool is_number = ir::is_float(graph_.type(value).dtype);
  const bool same = kSame.contains(op) || (kCast.contains(op) && is_number && ir::is_float(graph_.type(in[0]).dtype));
  if (same && is_coefficient(in[0])) return coefficient(in[0]);
  if (is_number && (kProduct.contains(op) || kQuotient.contains(op)) && is_coefficient(in[0]) &&
      is_coefficient(in[1])) {
    const Coefficient first = coefficient(in[0]), second = coefficient(in[1]);
    Coefficient made = first;
    if (kProduct.contains(op)) return made *= second;
    if (second.weight != 0) return made /= second;
  }
  if (kNegative.contains(op) && is_coefficient(in[0])) {
    Coefficient made = coefficient(in[0]);
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
  const bool sums = graph_.type(value).batch.is_partial();
  if (origins_.is_count(value) && !sums && !graph_.batch_symbol().empty()) {
    // A mean of inputs is summed over samples as one of predictions is.
    if (auto form = by_rule(value); form.ok()) return form;
    if (is_single(graph_, value)) return Form{{{}, coefficient(value)}};
    return Form{{given(value)}};
  }
  if (!graph_.producer(value).valid()) return Form{{value}};
  if (graph_.batch_symbol().empty()) return of_whole(value);
  const bool splits = is_splittable(value);
  if (!origins_.reads_total(value) && !splits && (sums || !origins_.is_total(value))) {
    return fits(value) ? Result<Form>(Form{{value}}) : closed(value);
  }
  return of_task(value);
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
  if (!origins_.is_total(value) && !origins_.reads_total(value)) return value;
  if (const auto found = without_counts_.find(value); found != without_counts_.end()) return found->second;
  if (++steps_ > kMostSteps) return closed(value);
  ValueId made;
  if (origins_.is_count(value)) {
    made = given(value);
  } else if (!origins_.reads_total(value)) {
    if (!fits(value)) return closed(value);
    made = value;
  } else {
    std::vector<ValueId> operands;
    const auto in = graph_.inputs(graph_.producer(value));
    for (const ValueId operand : std::vector<ValueId>(in.begin(), in.end())) {
      operands.push_back(operand);
      if (!operand.valid()) continue;
      RANNC_ASSIGN(operands.back(), without_counts(operand));
    }
    RANNC_ASSIGN(made, rebuilt(value, std::move(operands)));
  }
  without_counts_.emplace(value, made);
  return made;
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

// The sums over samples that a value is made of, each once.
void LinearForms::find_sums(ValueId value, std::vector<ValueId>& sums) {
  if (sums.size() == kMostNamed || std::find(sums.begin(), sums.end(), value) != sums.end()) return;
  std::vector<ValueId> totals;
  const auto in = graph_.inputs(graph_.producer(value));
  const auto is_made_of = [&](ValueId operand) { return operand.valid() && origins_.is_total(operand); };
  std::copy_if(in.begin(), in.end(), std::back_inserter(totals), is_made_of);
  if (totals.empty()) sums.push_back(value);
  for (const ValueId total : totals) find_sums(total, sums);
}

Diagnostic LinearForms::closed(ValueId value) {
  const Graph::Value& found = graph_.value(value);
  if (!found.producer.valid()) return error(fmt::format("the loss reads %{}, which no task makes", found.name));
  std::vector<ValueId> read;
  for (const ValueId operand : graph_.inputs(found.producer)) {
    if (operand.valid() && origins_.is_total(operand)) find_sums(operand, read);
  }
  std::string sums;
  for (const ValueId sum : read) {
    sums += fmt::format("{}%{}", sums.empty() ? "; it reads " : " and ", graph_.value(sum).name);
  }
  return error(
      graph_.location(found.producer),
      fmt::format("the loss needs %{}, made by {}, which cannot be rewritten as sums over samples{}; the model "
                  "may output predictions instead, with the loss specified by name",
                  found.name, graph_.op(found.producer).name, sums));
}

}  // namespace rannc::passes
