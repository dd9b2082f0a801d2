// Reductions along axes.
#include <algorithm>

#include "ir/op/folding/fold.h"
#include "ir/op/gradients/gradients_elementwise.h"
#include "ir/op/op_memory.h"
#include "ir/op/rules/interval.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {
namespace {

// --- type rule

// The operand's type without the reduced `axes` (sorted).
ValueType reduced(const OpCall& call, DType dtype, const std::vector<int64_t>& axes, bool keepdim) {
  const Shape& from = *call.in(0).shape;
  Shape to;
  BatchLayout layout = call.in(0).batch;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool folded = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    const bool samples = static_cast<int32_t>(i) == call.in(0).batch.axis;
    if (samples) layout.axis = static_cast<int32_t>(to.size());
    if (samples && folded) layout = {};
    if (!folded) to.push_back(from[i]);
    if (folded && keepdim) to.push_back(1);
  }
  return make_type(dtype, std::move(to), std::move(layout));
}

using Step = Dim (*)(const Dim&, const Dim&);

// Reduces contents by `step`, starting with `start` if given, else with the first element.
template <Step step>
std::optional<Contents> folded(const OpCall& call, std::optional<Dim> start) {
  const auto& values = call.in(0).contents;
  if (!values || call.in(0).shape->size() != 1 || (values->empty() && !start)) return std::nullopt;
  Dim out = start ? *start : (*values)[0];
  for (const Dim& value : *values) out = step(out, value);
  return Contents{out};
}

Result<ValueType> reduced_by_axes(const OpCall& call, bool over_samples) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const std::vector<int64_t> axes, reduced_axes(call.attributes, from.size()));
  for (const int64_t axis : axes) {
    if (!over_samples) RANNC_TRY(keep_samples_apart(call, 0, axis));
  }
  if (call.in(0).dtype == DType::kBool) return error("operand 0 is bool; it must be a number");
  return reduced(call, call.in(0).dtype, axes, call.attributes.flag("keepdim"));
}

// Whether the operand has a batch axis and the result has none.
bool folds_samples(const OpCall& call, const ValueType& result) {
  return call.in(0).batch.has_batch() && !result.batch.has_batch();
}

Result<Types> infer_sum(const OpCall& call) {
  RANNC_ASSIGN(ValueType type, reduced_by_axes(call, true));
  if (folds_samples(call, type)) type.batch.mix = Mix::kPartial;
  set_contents(type, folded<plus>(call, Dim(0)));
  return Types{std::move(type)};
}
Result<Types> infer_mean(const OpCall& call) {
  RANNC_ASSIGN(ValueType type, reduced_by_axes(call, true));
  if (!is_float(type.dtype)) return error("mean of integers");
  if (folds_samples(call, type)) type.batch.mix = Mix::kMixed;
  return Types{std::move(type)};
}
Result<Types> infer_product(const OpCall& call) {
  RANNC_ASSIGN(ValueType type, reduced_by_axes(call, false));
  set_contents(type, folded<times>(call, Dim(1)));
  return Types{std::move(type)};
}
template <Step step>
Result<Types> infer_extreme(const OpCall& call) {
  RANNC_ASSIGN(ValueType type, reduced_by_axes(call, false));
  set_contents(type, folded<step>(call, std::nullopt));
  return Types{std::move(type)};
}
Dim greatest(const Dim& a, const Dim& b) { return max(a, b); }
Dim least(const Dim& a, const Dim& b) { return min(a, b); }

Result<Types> infer_argmax(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), from.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  return Types{reduced(call, DType::kI64, {axis}, call.attributes.flag("keepdim"))};
}

Result<Types> infer_softmax(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), from.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  if (!is_float(call.in(0).dtype)) return error(std::string(short_name(call.op)) + " of integers");
  return Types{make_type(call.in(0).dtype, from, call.in(0).batch)};
}

Result<Types> infer_total(const OpCall& call) {
  ValueType type = call.in(0);
  type.contents.reset();
  return Types{std::move(type)};
}

// --- work

Work reduce_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) : Dim(0), call, outputs);
}

// Maximum, difference, exponential (counted as 10), sum, quotient.
Work softmax_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(14) : Dim(0), call, outputs);
}

// --- lowering

// One call of `schema` with the axes. Without axes the result is the operand, as in the type rule.
Result<aten::Lowering> over_axes(const LowerCall& call, std::string schema, bool with_type) {
  RANNC_ASSIGN(const std::vector<int64_t> axes, reduced_axes(call.attributes, shape_of(*call.inputs[0]).size()));
  if (axes.empty()) return passed_on();
  std::vector<aten::Argument> arguments = {aten::Operand{0}, axes, call.attributes.flag("keepdim")};
  if (with_type) arguments.emplace_back("dtype", call.outputs[0]->dtype);
  return one_call(std::move(schema), std::move(arguments));
}
Result<aten::Lowering> lower_sum(const LowerCall& call) { return over_axes(call, "aten::sum.dim_IntList", true); }
Result<aten::Lowering> lower_mean(const LowerCall& call) { return over_axes(call, "aten::mean.dim", true); }
Result<aten::Lowering> lower_amax(const LowerCall& call) { return over_axes(call, "aten::amax", false); }
Result<aten::Lowering> lower_amin(const LowerCall& call) { return over_axes(call, "aten::amin", false); }

// ATen's safe softmax has the derivative of the plain one, which is 0 for zero rows.
Result<aten::Lowering> lower_softmax(const LowerCall& call) {
  const bool safe = call.attributes.text("hidden_rows") == "zero";
  return one_call(safe ? "aten::_safe_softmax" : "aten::softmax.int",
                  {aten::Operand{0}, call.attributes.integer("axis")});
}

// Reduces one axis after another, from the last on.
Result<aten::Lowering> lower_prod(const LowerCall& call) {
  RANNC_ASSIGN(const std::vector<int64_t> axes, reduced_axes(call.attributes, shape_of(*call.inputs[0]).size()));
  Calls calls;
  aten::Value value = aten::Operand{0};
  for (size_t i = axes.size(); i-- > 0;) {
    value = calls("aten::prod.dim_int",
                  {value, axes[i], call.attributes.flag("keepdim"), {"dtype", call.outputs[0]->dtype}});
  }
  return std::move(calls).with({value});
}

// --- tape

// Keeps the operand and all products if there are axes.
TapeUse prod_tape(const TapeCall& call) {
  const Shape& from = shape_of(*call.inputs[0]);
  const auto axes = reduced_axes(OpAttributes(call.op, call.attributes), from.size());
  if (!axes.ok() || axes->empty()) return {};
  TapeUse use{.keeps = {kept_operand(0), kept_result()}};
  Dim left = element_count(from) * Dim(byte_size(call.inputs[0]->dtype));
  for (size_t i = axes->size(); i-- > 1;) {
    left = exact_div(left, from[(*axes)[i]]).value_or(Dim(0));
    use.own_bytes = use.own_bytes + left;
  }
  return use;
}

OpInfo row(std::string_view name, std::string_view summary, std::vector<std::string_view> onnx, InferRule infer,
           LowerRule lower, FoldRule fold, GradientRule gradient, Linear (*linear)(const OpCall&) = nullptr) {
  return {.name = "core." + std::string(name),
          .summary = summary,
          .onnx = std::move(onnx),
          .operands = {{"x"}},
          .attributes = {{"axes", AttributeKind::kIntegers}, {"keepdim", AttributeKind::kFlag, false}},
          .infer = infer,
          .linear = linear,
          .work = reduce_work,
          .lower = lower,
          .fold = fold,
          .gradient = gradient};
}

OpInfo exponential(std::string_view name, std::string_view summary, std::string_view onnx, GradientRule gradient) {
  return {.name = "core." + std::string(name),
          .summary = summary,
          .onnx = {onnx},
          .operands = {{"x"}},
          .attributes = {{"axis", AttributeKind::kInteger, Dim(-1)}},
          .autocast = Autocast::kFloat32,
          .infer = infer_softmax,
          .work = softmax_work,
          .form = form("aten::" + std::string(name) + ".int", 1, {{"", aten::FromAttribute{"axis"}}}),
          .gradient = gradient};
}

// Which elements are -infinity.
Dim softmax_temporary(const MemoryCall& call) {
  const OpAttributes attributes(call.graph().op(call.task()), call.attributes());
  return attributes.text("hidden_rows") == "zero" ? element_count(*call.result().shape) : Dim(0);
}

OpInfo softmax() {
  OpInfo op = exponential(
      "softmax", "e^x over its sum along an axis; rows of all -infinity give NaN, or zeros if hidden_rows=zero",
      "Softmax", gradient::softmax);
  op.form.reset();
  op.lower = lower_softmax;
  op.temporary = softmax_temporary;
  op.aten = {"aten::softmax", "aten::_safe_softmax"};
  op.attributes.push_back({"hidden_rows", AttributeKind::kText, "nan", false, {"nan", "zero"}});
  return op;
}

OpInfo named(OpInfo op, std::string_view aten, Autocast autocast = Autocast::kWidest) {
  op.aten = {aten};
  op.autocast = autocast;
  return op;
}

}  // namespace

std::vector<OpInfo> reduce_ops() {
  OpInfo prod =
      named(row("prod", "product over axes", {"ReduceProd"}, infer_product, lower_prod, fold::prod, gradient::prod),
            "aten::prod", Autocast::kFloat32);
  prod.tape = TapeInfo{.rule = prod_tape};
  return {
      named(row("sum", "sum over axes; over all where none are given", {"ReduceSum"}, infer_sum, lower_sum, fold::sum,
                gradient::sum, always<Linear::kFirst>),
            "aten::sum", Autocast::kFloat32),
      named(row("mean", "mean over axes", {"ReduceMean"}, infer_mean, lower_mean, nullptr, gradient::mean,
                always<Linear::kFirst>),
            "aten::mean"),
      named(row("amax", "largest element over axes", {"ReduceMax"}, infer_extreme<greatest>, lower_amax, fold::amax,
                gradient::amax),
            "aten::amax"),
      named(row("amin", "smallest element over axes", {"ReduceMin"}, infer_extreme<least>, lower_amin, fold::amin,
                gradient::amin),
            "aten::amin"),
      std::move(prod),
      {.name = "core.argmax",
       .summary = "place of the first largest element on an axis",
       .onnx = {"ArgMax"},
       .operands = {{"x"}},
       .attributes = {{"axis", AttributeKind::kInteger, Dim(0)}, {"keepdim", AttributeKind::kFlag, false}},
       .infer = infer_argmax,
       .work = reduce_work,
       .form = form("aten::argmax", 1, {{"", aten::FromAttribute{"axis"}}, {"", aten::FromAttribute{"keepdim"}}}),
       .fold = fold::argmax,
       .interval = interval::argmax},
      {.name = "core.total",
       .summary =
           "a sum over the samples of a micro-batch made whole: over all micro-batches and replicas, once a step",
       .operands = {{"partial"}},
       .view = View::kSame,
       .infer = infer_total,
       .linear = always<Linear::kWhole>,
       .lower = [](const LowerCall&) -> Result<aten::Lowering> { return passed_on(); },
       .tape = TapeInfo{}},
      softmax(),
      exponential("log_softmax", "logarithm of softmax", "LogSoftmax", gradient::log_softmax),
  };
}

}  // namespace rannc::ir::ops
