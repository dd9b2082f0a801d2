#include "passes/loss/internal/totals_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/op/foreign.h"
#include "ir/op/op.h"
#include "passes/loss/internal/body_parts.h"
#include "passes/loss/internal/count_body.h"

namespace rannc::passes {

using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Shape;
using ir::ValueKind;

namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 20;  // of a stored value that counts read

// Counts are computed without rounding, or in double precision.
DType wide(DType dtype) {
  if (ir::is_float(dtype)) return DType::kF64;
  return dtype == DType::kBool ? dtype : DType::kI64;
}

ValueId scalar(Graph& graph, DType dtype, double number) {
  const std::vector<double> floats = {number};
  const std::vector<int64_t> integers = {static_cast<int64_t>(number)};
  return ir::is_float(dtype) ? ir::add_constant(graph, "number", dtype, {}, std::span<const double>(floats))
                             : ir::add_constant(graph, "number", dtype, {}, std::span<const int64_t>(integers));
}

Result<ValueId> as(Graph& graph, ValueId value, DType dtype) {
  return graph.type(value).dtype == dtype ? Result<ValueId>(value)
                                          : add_task(graph, "cast", {value}, {{"dtype", dtype}});
}

Result<ValueId> shaped(Graph& graph, ValueId value, const Shape& shape) {
  return graph.type(value).shape == shape ? Result<ValueId>(value)
                                          : add_task(graph, "reshape", {value}, {{"shape", shape}});
}

}  // namespace

TotalsBuilder::TotalsBuilder(Graph& graph, Origins& origins, LinearForms& forms)
    : graph_(graph), origins_(origins), forms_(forms), totals_(graph.totals()) {
  if (totals_.coefficients) coefficients_.graph = totals_.coefficients->graph().clone();
  if (totals_.metrics) metrics_.graph = totals_.metrics->graph().clone();
  const auto& inputs = coefficients_.graph.inputs();
  coefficients_.counts.assign(inputs.begin(), inputs.end());
  const auto& read = metrics_.graph.inputs();
  metrics_.sums.assign(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(totals_.sums.size()));
  metrics_.counts.assign(read.begin() + static_cast<std::ptrdiff_t>(totals_.sums.size()), read.end());
}

Diagnostic TotalsBuilder::closed(ValueId value, const std::string& why) const {
  const TaskId maker = graph_.producer(value);
  return error(maker.valid() ? graph_.location(maker) : Location{},
               fmt::format("%{}{} {}", graph_.value(value).name,
                           maker.valid() ? ", made by " + graph_.op(maker).name + "," : "", why));
}

Result<ir::LossTerm> TotalsBuilder::term(ValueId numerator, const Coefficient& by) {
  ir::LossTerm made{numerator, by.weight};
  RANNC_ASSIGN(made.factor, product(by.factors, by, false));
  RANNC_ASSIGN(made.divisor, product(by.divisors, by, true));
  return made;
}

// Multiplies counts. What conditions exclude is 0 / 1.
Result<std::optional<uint32_t>> TotalsBuilder::product(const std::vector<ValueId>& values, const Coefficient& by,
                                                       bool divides) {
  if (values.empty() && (divides || by.conditions.empty())) return std::optional<uint32_t>();
  std::string key = divides ? "/" : "*";
  for (const ValueId value : values) key += fmt::format(" {}", value.index());
  for (const auto& [condition, holds] : by.conditions)
    key += fmt::format(" {}{}", holds ? "if" : "unless", condition.index());
  if (const auto found = results_.find(key); found != results_.end()) return std::optional(found->second);
  Graph& graph = coefficients_.graph;
  ValueId made;
  for (const ValueId value : values) {
    RANNC_ASSIGN(const ValueId factor, scalar_in(coefficients_, value, DType::kF64));
    if (!made.valid()) {
      made = factor;
      continue;
    }
    RANNC_ASSIGN(made, add_task(graph, "mul", {made, factor}));
  }
  if (!made.valid()) made = scalar(graph, DType::kF64, 1);
  for (const auto& [condition, holds] : by.conditions) {
    RANNC_ASSIGN(const ValueId flag, scalar_in(coefficients_, condition, DType::kBool));
    const ValueId none = scalar(graph, DType::kF64, divides ? 1 : 0);
    RANNC_ASSIGN(made,
                 add_task(graph, "where",
                          holds ? std::vector<ValueId>{flag, made, none} : std::vector<ValueId>{flag, none, made}));
  }
  const auto number = static_cast<uint32_t>(graph.outputs().size());
  graph.add_output(made);
  results_.emplace(key, number);
  return std::optional(number);
}

Result<void> TotalsBuilder::give(ValueId input, ValueId count) {
  RANNC_ASSIGN(const ValueId made, copied(coefficients_, count));
  totals_.given.push_back({input, static_cast<uint32_t>(coefficients_.graph.outputs().size())});
  coefficients_.graph.add_output(made);
  return {};
}

Result<void> TotalsBuilder::measure(ValueId output) {
  const std::string name(graph_.value(output).name);
  RANNC_ASSIGN(const ValueId made, copied(metrics_, output));
  RANNC_ASSIGN(const ValueId named, add_task(metrics_.graph, "identity", {made}, {}, name));
  metrics_.graph.add_output(named);
  return {};
}

// A value of the model in a body after the counts. Operands come before what is made of them, so that recursion is only
// as deep as reductions are nested.
Result<ValueId> TotalsBuilder::copied(Copy& to, ValueId value) {
  if (nested_ == kMostNested) return closed(value, "is made of too many sums over samples, one after another");
  ++nested_;
  std::vector<ValueId> left = {value};
  Result<ValueId> made = value;
  while (made.ok() && !left.empty()) {
    const ValueId last = left.back();
    if (!to.made.contains(last)) {
      const std::vector<ValueId> operands = copied_operands(to, last);
      const auto next = std::find_if(operands.begin(), operands.end(),
                                     [&](ValueId each) { return each.valid() && !to.made.contains(each); });
      if (next != operands.end()) {
        left.push_back(*next);
        continue;
      }
      made = number(to, last);
      if (!made.ok()) break;
      to.made[last] = *made;
    }
    left.pop_back();
  }
  --nested_;
  return made.ok() ? to.made.at(value) : made;
}

// The same for a value of one element.
Result<ValueId> TotalsBuilder::scalar_in(Copy& to, ValueId value, DType dtype) {
  RANNC_ASSIGN(ValueId made, copied(to, value));
  RANNC_ASSIGN(made, as(to.graph, made, dtype));
  return shaped(to.graph, made, {});
}

Result<ValueId> TotalsBuilder::number(Copy& to, ValueId value) {
  const ir::ValueType& type = graph_.type(value);
  if (!type.shape) return closed(value, "has an unknown shape");
  if (type.contents) {
    RANNC_ASSIGN(const auto counted, sizes(to, *type.contents));
    if (counted) {
      RANNC_ASSIGN(const ValueId cast, as(to.graph, *counted, wide(type.dtype)));
      return shaped(to.graph, cast, *type.shape);
    }
  }
  const TaskId maker = graph_.producer(value);
  if (!maker.valid()) return stored(to, value);
  const bool metric = &to == &metrics_;
  if (!metric && !origins_.is_determined(value)) return closed(value, "depends on parameters or random numbers");
  if (graph_.batch_symbol().empty() && origins_.from_inputs(value)) {
    RANNC_ASSIGN(const uint32_t whole, count(value));
    return count_in(to, whole);
  }
  return reduces(value) ? reduced(to, value) : task(to, value);
}

bool TotalsBuilder::reduces(ValueId value) const {
  const auto in = graph_.inputs(graph_.producer(value));
  return std::any_of(in.begin(), in.end(),
                     [&](ValueId operand) { return operand.valid() && has_samples(graph_, operand); });
}

// The operands that `number` will copy with the task of a value; none of other values.
std::vector<ValueId> TotalsBuilder::copied_operands(const Copy& to, ValueId value) {
  const TaskId maker = graph_.producer(value);
  const ir::ValueType& type = graph_.type(value);
  if (!type.shape || type.contents || !maker.valid() || reduces(value)) return {};
  if (&to != &metrics_ && !origins_.is_determined(value)) return {};
  if (graph_.batch_symbol().empty() && origins_.from_inputs(value)) return {};
  const auto in = graph_.inputs(maker);
  return {in.begin(), in.end()};
}

Result<ValueId> TotalsBuilder::stored(Copy& to, ValueId value) {
  const ir::ValueType type = graph_.type(value);
  const ValueKind kind = graph_.kind(value);
  if (kind == ValueKind::kInput && !has_samples(graph_, value)) return shared(to, value);
  if (kind == ValueKind::kInput || kind == ValueKind::kRandomInput) {
    return closed(value, "is not summed over the samples");
  }
  if (&to == &metrics_ && !origins_.is_determined(value)) return closed(value, "is trained, and no sum over samples");
  const auto count = ir::static_count(type);
  if (!count || !graph_.value(value).data.present()) return closed(value, "has no numbers in the file");
  const std::string name(graph_.value(value).name);
  std::vector<int64_t> sizes;
  for (const Dim& dim : *type.shape) sizes.push_back(dim.constant());
  if (ir::is_float(type.dtype)) {
    RANNC_ASSIGN(const auto numbers, ir::decode_numbers(type, graph_.value(value).data, kMostNumbers));
    return ir::add_constant(to.graph, name, DType::kF64, sizes, std::span<const double>(numbers));
  }
  RANNC_ASSIGN(const auto numbers, ir::decode_integers(type, graph_.value(value).data, kMostNumbers));
  return ir::add_constant(to.graph, name, wide(type.dtype), sizes, std::span<const int64_t>(numbers));
}

// The mean over the samples of a body's result, which is the same for all of them.
Result<ValueId> TotalsBuilder::mean_in(Copy& to, uint32_t count) {
  const ValueId all = count_in(to, count), samples = count_in(to, count_of_sizes(1));
  std::vector<ValueId> sides;
  for (const ValueId side : {all, samples}) {
    RANNC_ASSIGN(sides.emplace_back(), as(to.graph, side, DType::kF64));
  }
  return add_task(to.graph, "div", sides);
}

// An input that all samples share.
Result<ValueId> TotalsBuilder::shared(Copy& to, ValueId value) {
  const ir::ValueType type = graph_.type(value);
  Graph body;
  body.set_batch_symbol(graph_.batch_symbol());
  const ValueId input = body.add_value(ValueKind::kInput, graph_.value(value).name, type);
  body.add_input(input);
  RANNC_ASSIGN(ValueId made, as(body, input, ir::is_float(type.dtype) ? DType::kF64 : DType::kI64));
  Shape shape = *type.shape;
  if (!graph_.batch_symbol().empty()) {
    shape.insert(shape.begin(), Dim::symbol(graph_.batch_symbol()));
    RANNC_ASSIGN(made, add_task(body, "expand", {made}, {{"shape", shape}}));
  }
  body.add_output(made);
  const uint32_t count = add_count(std::move(body));
  if (graph_.batch_symbol().empty()) return as(to.graph, count_in(to, count), wide(type.dtype));
  RANNC_ASSIGN(const ValueId mean, mean_in(to, count));
  return as(to.graph, mean, wide(type.dtype));
}

// A sum or mean over samples.
Result<ValueId> TotalsBuilder::reduced(Copy& to, ValueId value) {
  static const ir::Ops kSum = "sum", kMean = "mean";
  const ir::OpInfo& op = graph_.op(graph_.producer(value));
  const bool sums = graph_.type(value).batch.is_partial();
  if (sums && !origins_.is_determined(value)) return sum_in(to, value);
  const bool plain = kSum.contains(op) && !origins_.reads_total(value);
  if (plain && origins_.is_determined(value)) {
    RANNC_ASSIGN(const uint32_t found, count(value));
    return count_in(to, found);
  }
  if (!kSum.contains(op) && !kMean.contains(op)) return closed(value, "is neither a sum nor a mean over samples");
  RANNC_ASSIGN(const Form form, forms_.of_reduction(value));
  const bool itself = form.size() == 1 && form[0].value == value;
  if (itself) return closed(value, "is no sum over samples");
  return form_in(to, form, value);
}

// weight * factors / divisors * value, added up.
Result<ValueId> TotalsBuilder::form_in(Copy& to, const Form& form, ValueId of) {
  const DType dtype = wide(graph_.type(of).dtype);
  ValueId total;
  for (const Part& part : form) {
    if (!part.by.conditions.empty()) return closed(of, "is summed under a condition");
    ValueId made = scalar(to.graph, DType::kF64, part.by.weight);
    if (part.value.valid()) {
      RANNC_ASSIGN(ValueId sum, copied(to, part.value));
      RANNC_ASSIGN(sum, as(to.graph, sum, DType::kF64));
      RANNC_ASSIGN(made, add_task(to.graph, "mul", {sum, made}));
    }
    for (const auto& [op, values] : {std::pair{"mul", &part.by.factors}, std::pair{"div", &part.by.divisors}}) {
      for (const ValueId factor : *values) {
        RANNC_ASSIGN(const ValueId number, scalar_in(to, factor, DType::kF64));
        RANNC_ASSIGN(made, add_task(to.graph, op, {made, number}));
      }
    }
    if (total.valid()) {
      RANNC_ASSIGN(total, add_task(to.graph, "add", {total, made}));
    } else {
      total = made;
    }
  }
  if (!total.valid()) total = scalar(to.graph, DType::kF64, 0);
  RANNC_ASSIGN(total, as(to.graph, total, dtype));
  return shaped(to.graph, total, *graph_.type(of).shape);
}

// Any other operator, on copies of its operands.
Result<ValueId> TotalsBuilder::task(Copy& to, ValueId value) {
  const TaskId maker = graph_.producer(value);
  const auto in = graph_.inputs(maker);
  std::vector<ValueId> operands;
  for (const ValueId operand : std::vector<ValueId>(in.begin(), in.end())) {
    operands.emplace_back();
    if (!operand.valid()) continue;
    RANNC_ASSIGN(operands.back(), copied(to, operand));
  }
  ir::Attributes attributes = graph_.attributes(maker);
  for (const auto& [name, attribute] : ir::Attributes(attributes)) {
    if (std::holds_alternative<ir::Body>(attribute)) return closed(value, "is computed by a loop or a branch");
    if (const auto* dtype = std::get_if<DType>(&attribute)) attributes.set(name, wide(*dtype));
  }
  const ir::OpInfo& op = graph_.op(maker);
  const ir::OpInfo& own = ir::is_foreign(op) ? to.graph.foreign_op(op.name) : op;
  std::vector<std::string> names(graph_.outputs(maker).size());
  const TaskId made = to.graph.add_task(own, operands, std::move(attributes), names, graph_.location(maker));
  if (const auto types = ir::infer_types(to.graph, made); !types.ok()) {
    return closed(value, "cannot be computed of the sums over samples: " + types.diagnostic().message);
  }
  for (size_t i = 0; i < names.size(); ++i) to.made[graph_.outputs(maker)[i]] = to.graph.outputs(made)[i];
  return to.made.at(value);
}

Result<std::optional<ValueId>> TotalsBuilder::sizes(Copy& to, const ir::Contents& contents) {
  if (contents.size() == 1) return size(to, contents.front());
  std::vector<ValueId> parts;
  for (const Dim& dim : ir::Contents(contents)) {
    RANNC_ASSIGN(const auto counted, size(to, dim));
    if (!counted) return std::optional<ValueId>();
    RANNC_ASSIGN(const ValueId number, as(to.graph, *counted, DType::kI64));
    RANNC_ASSIGN(parts.emplace_back(), shaped(to.graph, number, {Dim(1)}));
  }
  if (parts.empty()) return std::optional<ValueId>();
  RANNC_ASSIGN(const ValueId made, add_task(to.graph, "concat", std::move(parts), {{"axis", Dim(0)}}));
  return std::optional(made);
}

// A size as a number; nothing if it is no multiple of the number of samples.
Result<std::optional<ValueId>> TotalsBuilder::size(Copy& to, const Dim& dim) {
  if (dim.is_constant()) {
    return std::optional(scalar(to.graph, DType::kI64, static_cast<double>(dim.constant())));
  }
  const std::string& batch = graph_.batch_symbol();
  if (batch.empty()) return std::optional(count_in(to, count_of_sizes(dim)));
  if (const auto each = ir::exact_div(dim, Dim::symbol(batch)); each && !each->uses(batch)) {
    return std::optional(count_in(to, count_of_sizes(*each)));
  }
  if (dim.uses(batch)) return std::optional<ValueId>();
  RANNC_ASSIGN(const ValueId mean, mean_in(to, count_of_sizes(dim)));
  return std::optional(mean);
}

ValueId TotalsBuilder::count_in(Copy& to, uint32_t count) {
  while (to.counts.size() <= count) {
    const auto next = static_cast<uint32_t>(to.counts.size());
    to.counts.push_back(to.graph.add_value(ValueKind::kInput, fmt::format("count.{}", next), count_type(next)));
  }
  return to.counts[count];
}

// A sum over samples that depends on parameters: an output of the graph.
Result<ValueId> TotalsBuilder::sum_in(Copy& to, ValueId value) {
  if (&to != &metrics_) return closed(value, "depends on parameters");
  ir::ValueType type = graph_.type(value);
  type.batch = {};
  type.dtype = wide(type.dtype);
  const std::string name(graph_.value(value).name);
  totals_.sums.push_back(value);
  graph_.add_output(value);
  to.sums.push_back(to.graph.add_value(ValueKind::kInput, "sum." + name, std::move(type)));
  return to.sums.back();
}

ir::ValueType TotalsBuilder::count_type(uint32_t count) const {
  const Graph& body = totals_.counts[count].graph();
  ir::ValueType type = body.type(body.outputs()[0]);
  if (!graph_.batch_symbol().empty()) type.shape->erase(type.shape->begin());
  type.batch = {};
  type.contents.reset();
  return type;
}

uint32_t TotalsBuilder::add_count(Graph body) {
  const ir::Body made(std::move(body));
  const auto found = std::find(totals_.counts.begin(), totals_.counts.end(), made);
  if (found != totals_.counts.end()) return static_cast<uint32_t>(found - totals_.counts.begin());
  totals_.counts.push_back(made);
  return static_cast<uint32_t>(totals_.counts.size() - 1);
}

// A size of each sample, summed over them.
uint32_t TotalsBuilder::count_of_sizes(const Dim& each) {
  Graph body;
  body.set_batch_symbol(graph_.batch_symbol());
  Shape shape;
  if (!graph_.batch_symbol().empty()) shape.push_back(Dim::symbol(graph_.batch_symbol()));
  const ValueId made =
      body.add(ir::core("full"), {}, {{"shape", shape}, {"value", each}, {"dtype", DType::kI64}}, "size");
  const auto typed = ir::infer_types(body, body.producer(made));
  RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
  if (!shape.empty()) {
    ir::ValueType type = body.type(made);
    type.batch = {.axis = 0};
    body.set_type(made, std::move(type));
  }
  body.add_output(made);
  return add_count(std::move(body));
}

Result<uint32_t> TotalsBuilder::count(ValueId value) {
  RANNC_ASSIGN(Graph body, count_body(graph_, value));
  return add_count(std::move(body));
}

void TotalsBuilder::finish() && {
  const auto close = [&](Copy& copy) {
    if (!totals_.counts.empty()) count_in(copy, static_cast<uint32_t>(totals_.counts.size() - 1));
    const size_t listed = copy.graph.inputs().size();
    std::vector<ValueId> inputs = copy.sums;
    inputs.insert(inputs.end(), copy.counts.begin(), copy.counts.end());
    for (size_t i = listed; i < inputs.size(); ++i) copy.graph.add_input(inputs[i]);
    return ir::Body(std::move(copy.graph));
  };
  if (!coefficients_.graph.outputs().empty()) totals_.coefficients = close(coefficients_);
  if (!metrics_.graph.outputs().empty()) totals_.metrics = close(metrics_);
  graph_.set_totals(std::move(totals_));
}

}  // namespace rannc::passes
