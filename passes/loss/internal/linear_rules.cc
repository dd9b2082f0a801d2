// What operators make of the forms of their operands.
#include <algorithm>

#include "ir/match/match.h"
#include "ir/op/foreign.h"
#include "ir/op/op.h"
#include "passes/loss/internal/linear_form.h"

namespace rannc::passes {

using ir::Dim;
using ir::Graph;
using ir::Ops;

namespace {

constexpr ir::Capture kDifference{0}, kPrediction{1}, kTarget{2};

// Adds a part, or its weight to an equal one: a sum of itself, again and again, would have exponentially many.
void add(Form& form, const Part& part) {
  for (Part& found : form) {
    if (found.value != part.value || found.by.factors != part.by.factors || found.by.divisors != part.by.divisors ||
        found.by.conditions != part.by.conditions) {
      continue;
    }
    found.by.weight += part.by.weight;
    return;
  }
  form.push_back(part);
}

Form times(Form form, const Coefficient& by) {
  for (Part& part : form) part.by *= by;
  return form;
}

// Whether a mean of squares runs over all axes: no list of them, or as many as the target has.
bool folds_all(const ir::Match& found) {
  const ir::Attributes& mean = found.graph().attributes(found.tasks()[0]);
  const auto& shape = found.graph().type(found[kTarget]).shape;
  return shape && (!mean.has("axes") || mean.integers("axes").size() == shape->size());
}

// mean((a - b)²) with an input on one side; a square does not tell a - b from b - a.
std::optional<ir::Match> mean_of_squares(const Graph& graph, ValueId value) {
  using namespace ir;
  static const Pattern kDifferenceOf = commutative(op("sub", any(kPrediction), input(kTarget))).as(kDifference);
  static const Pattern kSquare =
      either({op("mul", kDifferenceOf, same(kDifference)), op("pow", kDifferenceOf, constant(2.0))});
  static const Pattern kMean = op("mean", kSquare).where(folds_all);
  return match(graph, value, kMean);
}

}  // namespace

// A mini-batch that is never divided needs no sums. A side that depends on no input is no part of its own: 1 - dice.
bool LinearForms::whole_has_parts(ValueId value) {
  static const Ops kSums = {"add", "sub"}, kQuotient = "div";
  const TaskId maker = graph_.producer(value);
  const ir::OpInfo& op = graph_.op(maker);
  const auto in = graph_.inputs(maker);
  const auto zero = [&](ValueId v) { return number(v) == 0.0; };
  const auto serves = [&](ValueId v) { return origins_.from_inputs(v) || zero(v); };
  if (mean_of_squares(graph_, value)) return true;
  const bool divides = kQuotient.contains(op) && origins_.is_count(in[1]);
  if (kSums.contains(op) && !(serves(in[0]) && serves(in[1]))) return false;
  return is_splittable(value) || divides;
}

// The operator of the task decides.
Result<Form> LinearForms::by_rule(ValueId value) {
  if (!graph_.producer(value).valid()) return closed(value);
  struct Rule {
    ir::Pattern task;
    Result<Form> (LinearForms::*form)(ValueId);
  };
  static const std::vector<Rule> kRules = {
      {ir::op({"identity", "reshape", "squeeze", "unsqueeze"}), &LinearForms::same},
      {ir::op({"cast", "stop_gradient"}), &LinearForms::cast},
      {ir::op("mul"), &LinearForms::product},
      {ir::op("div"), &LinearForms::quotient},
      {ir::op("where"), &LinearForms::choice},
      {ir::op({"sum", "mean"}), &LinearForms::reduced},
  };
  const ir::OpInfo& op = graph_.op(graph_.producer(value));
  static const Ops kAdd = "add", kSubtract = "sub", kNegative = "neg";
  if (kAdd.contains(op) || kSubtract.contains(op)) return sum(value, kAdd.contains(op) ? 1 : -1);
  if (kNegative.contains(op)) {
    RANNC_ASSIGN(Form form, of(graph_.inputs(graph_.producer(value))[0]));
    return times(std::move(form), {-1});
  }
  const auto rule = std::find_if(kRules.begin(), kRules.end(),
                                 [&](const Rule& each) { return ir::match(graph_, value, each.task).has_value(); });
  return rule == kRules.end() ? linear_in_one(value) : (this->*rule->form)(value);
}

// A value of as many elements.
Result<Form> LinearForms::same(ValueId value) {
  const ValueId operand = graph_.inputs(graph_.producer(value))[0];
  return is_single(graph_, value) && !has_samples(graph_, value) && !has_samples(graph_, operand) ? of(operand)
                                                                                                  : mapped(value, 0);
}

// To another float type, or without a gradient: coefficients stay.
Result<Form> LinearForms::cast(ValueId value) {
  const ValueId operand = graph_.inputs(graph_.producer(value))[0];
  if (!ir::is_float(graph_.type(value).dtype) || !ir::is_float(graph_.type(operand).dtype)) return closed(value);
  RANNC_ASSIGN(const Form from, of(operand));
  Form form;
  for (Part part : from) {
    if (part.value.valid()) {
      RANNC_ASSIGN(part.value, with_operand(value, 0, part.value));
    }
    add(form, part);
  }
  return form;
}

Result<Form> LinearForms::sum(ValueId value, double other_weight) {
  const TaskId maker = graph_.producer(value);
  const ValueId first = graph_.inputs(maker)[0], second = graph_.inputs(maker)[1];
  Form form;
  for (const auto& [operand, weight] : {std::pair{first, 1.0}, std::pair{second, other_weight}}) {
    RANNC_ASSIGN(Form side, of(operand));
    side = times(std::move(side), {weight});
    for (Part& part : side) {
      RANNC_ASSIGN(part.value, spread(part.value, value));
    }
    if (form.empty()) {
      form = std::move(side);
    } else {
      for (const Part& part : side) add(form, part);
    }
  }
  return form;
}

// The value of a part with all elements that a sum has of it.
Result<ValueId> LinearForms::spread(ValueId part, ValueId sum) {
  if (is_single(graph_, sum) || (part.valid() && graph_.type(part).shape == graph_.type(sum).shape)) return part;
  if (!part.valid()) part = add_number(graph_, graph_.type(sum).dtype, 1);
  const TaskId task =
      graph_.add_task(ir::core("expand"), std::vector<ValueId>{part}, {{"shape", *graph_.type(sum).shape}},
                      {{std::string(graph_.value(sum).name) + ".part"}}, graph_.location(graph_.producer(sum)));
  const ValueId made = graph_.outputs(task)[0];
  if (!ir::infer_types(graph_, task).ok() || !fits(made)) return closed(sum);
  return made;
}

std::optional<size_t> LinearForms::factor_of(ValueId product) {
  const auto in = graph_.inputs(graph_.producer(product));
  for (const size_t factor : {1, 0}) {
    const ValueId other = in[1 - factor];
    if (!is_coefficient(in[factor]) || graph_.type(other).shape != graph_.type(product).shape) continue;
    if (is_single(graph_, product) || origins_.is_count(in[factor]) || origins_.reads_total(other)) return factor;
  }
  return std::nullopt;
}

Result<Form> LinearForms::product(ValueId value) {
  const auto in = graph_.inputs(graph_.producer(value));
  const ValueId first = in[0], second = in[1];
  if (const auto factor = factor_of(value)) {
    RANNC_ASSIGN(Form form, of(*factor == 0 ? second : first));
    return times(std::move(form), coefficient(*factor == 0 ? first : second));
  }
  RANNC_ASSIGN(const Form of_first, of(first));
  RANNC_ASSIGN(const Form of_second, of(second));
  Form form;
  for (const Part& a : of_first) {
    for (const Part& b : of_second) {
      Part part = a;
      part.by *= b.by;
      if (!a.value.valid()) part.value = b.value;
      if (a.value.valid() && b.value.valid()) {
        RANNC_ASSIGN(part.value, rebuilt(value, {a.value, b.value}));
      }
      add(form, part);
    }
  }
  return form;
}

Result<Form> LinearForms::quotient(ValueId value) {
  const auto in = graph_.inputs(graph_.producer(value));
  const ValueId dividend = in[0], divisor = in[1];
  RANNC_ASSIGN(const Form over, of(dividend));
  if (is_coefficient(divisor) &&
      (graph_.type(dividend).shape == graph_.type(value).shape || is_single(graph_, value))) {
    const Coefficient by = coefficient(divisor);
    if (by.weight == 0) return closed(value);
    Form form = over;
    for (Part& part : form) part.by /= by;
    return form;
  }
  const auto found = of(divisor);
  if (!found.ok() || found->size() != 1 || !found->front().value.valid()) return closed(value);
  const Part under = found->front();
  Form form;
  for (const Part& part : over) {
    const ValueId one = part.value.valid() ? part.value : add_number(graph_, graph_.type(dividend).dtype, 1);
    Part made = part;
    made.by /= under.by;
    RANNC_ASSIGN(made.value, rebuilt(value, {one, under.value}));
    add(form, made);
  }
  return form;
}

// Either value of a condition, which counts determine or which each element has for itself.
Result<Form> LinearForms::choice(ValueId value) {
  const auto in = graph_.inputs(graph_.producer(value));
  const ValueId condition = in[0];
  const std::vector<ValueId> sides = {in[1], in[2]};
  const bool known = is_single(graph_, condition) && origins_.is_count(condition);
  if (!known && (origins_.is_total(condition) || origins_.reads_total(condition))) return closed(value);
  Form form;
  for (size_t i = 0; i < sides.size(); ++i) {
    if (!is_single(graph_, value) && graph_.type(sides[i]).shape != graph_.type(value).shape) return closed(value);
    RANNC_ASSIGN(const Form side, of(sides[i]));
    for (Part part : side) {
      if (known) {
        part.by.conditions.emplace_back(condition, i == 0);
      } else if (part.value.valid()) {
        const ValueId none = add_number(graph_, graph_.type(value).dtype, 0);
        RANNC_ASSIGN(part.value, rebuilt(value, i == 0 ? std::vector<ValueId>{condition, part.value, none}
                                                       : std::vector<ValueId>{condition, none, part.value}));
      } else {
        return closed(value);
      }
      add(form, part);
    }
  }
  return form;
}

bool LinearForms::folds_itself(ValueId value) {
  static const Ops kConcat = "concat";
  if (!origins_.reads_total(value) || mean_of_squares(graph_, value)) return false;
  const TaskId maker = graph_.producer(graph_.inputs(graph_.producer(value))[0]);
  return !maker.valid() || !kConcat.contains(graph_.op(maker));
}

// A sum or mean of samples, of parts, or over other axes.
Result<Form> LinearForms::reduced(ValueId value) {
  static const Ops kMean = "mean", kConcat = "concat";
  const TaskId maker = graph_.producer(value);
  const bool mean = kMean.contains(graph_.op(maker));
  if (const auto squares = mean_of_squares(graph_, value)) {
    const std::string name(graph_.value(value).name);
    const ValueId elements =
        add_size(graph_, ir::element_count(*graph_.type((*squares)[kTarget]).shape), name, graph_.location(maker));
    const ValueId total = graph_.add(ir::core("mse_sum"), {(*squares)[kPrediction], (*squares)[kTarget]}, {},
                                     name + ".sum", graph_.location(maker));
    RANNC_TRY(ir::infer_types(graph_, graph_.producer(total)));
    return Form{{total, {1, {}, {elements}}}};
  }
  const ValueId operand = graph_.inputs(maker)[0];
  const ir::Shape shape = *graph_.type(operand).shape;
  if (!has_samples(graph_, operand) && graph_.producer(operand).valid() &&
      kConcat.contains(graph_.op(graph_.producer(operand))) && is_single(graph_, value)) {
    const Dim count = ir::element_count(shape);
    if (!count.is_constant()) return closed(value);
    return joined(value, operand, mean ? 1 / static_cast<double>(count.constant()) : 1);
  }
  if (!mean || !has_samples(graph_, operand) || has_samples(graph_, value)) return mapped(value, 0);
  const ir::Attributes attributes = graph_.attributes(maker);
  const Location where = graph_.location(maker);
  const std::string name(graph_.value(value).name);
  Dim count = 1;
  const std::vector<int64_t> axes = attributes.integers("axes");
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto from_end = static_cast<int64_t>(i) - static_cast<int64_t>(shape.size());
    const auto is_axis = [&](int64_t axis) { return axis == static_cast<int64_t>(i) || axis == from_end; };
    if (!attributes.has("axes") || std::any_of(axes.begin(), axes.end(), is_axis)) count = count * shape[i];
  }
  const ValueId sum = graph_.add(ir::core("sum"), {operand}, attributes, name + ".sum", where);
  RANNC_TRY(ir::infer_types(graph_, graph_.producer(sum)));
  RANNC_ASSIGN(Form form, of(sum));
  const Dim samples = Dim::symbol(graph_.batch_symbol());
  const auto each = ir::exact_div(count, samples);
  const bool constant = each && each->is_constant();
  Coefficient by{constant ? 1 / static_cast<double>(each->constant()) : 1};
  by.divisors.push_back(add_size(graph_, constant ? samples : count, name, where));
  return times(std::move(form), by);
}

// The sum of stacked values, each of which has parts of its own.
Result<Form> LinearForms::joined(ValueId value, ValueId parts, double weight) {
  const auto operands = graph_.inputs(graph_.producer(parts));
  Form form;
  for (const ValueId each : std::vector<ValueId>(operands.begin(), operands.end())) {
    if (!graph_.type(each).shape) return closed(value);
    RANNC_ASSIGN(const Form found, of(is_single(graph_, each) ? each : scalar_sum(graph_, each)));
    for (const Part& part : times(found, {weight})) add(form, part);
  }
  return form;
}

std::optional<size_t> LinearForms::linear_operand(ValueId value) {
  const TaskId maker = graph_.producer(value);
  const ir::OpInfo& op = graph_.op(maker);
  if (!op.known() || ir::is_foreign(op) || op.linear == nullptr || graph_.outputs(maker).size() != 1) {
    return std::nullopt;
  }
  const auto types = ir::type_list(graph_, graph_.inputs(maker));
  const ir::Linear linear = op.linear({op, types, graph_.attributes(maker), graph_.batch_symbol()});
  if (linear != ir::Linear::kFirst && linear != ir::Linear::kEach) return std::nullopt;
  std::optional<size_t> only;
  const auto in = graph_.inputs(maker);
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].valid() || !(origins_.is_total(in[i]) || origins_.reads_total(in[i]))) continue;
    if (only || (linear == ir::Linear::kFirst && i > 0)) return std::nullopt;
    only = i;
  }
  return only;
}

Result<Form> LinearForms::linear_in_one(ValueId value) {
  const auto only = linear_operand(value);
  return only ? mapped(value, *only) : closed(value);
}

Result<Form> LinearForms::mapped(ValueId value, size_t operand) {
  RANNC_ASSIGN(const Form from, of(graph_.inputs(graph_.producer(value))[operand]));
  Form form;
  for (const Part& part : from) {
    if (!part.value.valid()) return closed(value);
    Part made = part;
    RANNC_ASSIGN(made.value, with_operand(value, operand, part.value));
    add(form, made);
  }
  return form;
}

}  // namespace rannc::passes
