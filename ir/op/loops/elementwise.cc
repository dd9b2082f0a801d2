// Loop rules of elementwise operators.
#include <cmath>

#include "ir/op/loops/loops.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

namespace {

Statements gelu(const LowerCall& call) {
  if (call.attributes.text("approximate") == "tanh") {
    return 0.5 * x0 * (1 + tanh(0.7978845608028654 * (x0 + 0.044715 * x0 * x0 * x0)));
  }
  return 0.5 * x0 * (1 + erf(0.7071067811865476 * x0));
}

// Operands: the result's gradient, x.
Statements gelu_grad(const LowerCall& call) {
  Statements s;
  if (call.attributes.text("approximate") == "tanh") {
    const Term square = s.each(x1 * x1);
    const Term t = s.each(tanh(0.7978845608028654 * x1 * (1 + 0.044715 * square)));
    const Term slope = s.each(0.7978845608028654 * (1 + 0.134145 * square));
    s.each(x0 * (0.5 * (1 + t) + 0.5 * x1 * (1 - t * t) * slope), 0);
    return s;
  }
  const Term below = s.each(0.5 * (1 + erf(0.7071067811865476 * x1)));
  const Term density = s.each(0.3989422804014327 * exp(-0.5 * x1 * x1));
  s.each(x0 * (below + x1 * density), 0);
  return s;
}

Statements silu_grad(const LowerCall&) {
  Statements s;
  const Term t = s.each(sigmoid(x1));
  s.each(x0 * t * (1 + x1 * (1 - t)), 0);
  return s;
}

Statements div(const LowerCall& call) {
  return call.attributes.text("rounding") == "none" ? Statements(x0 / x1) : Statements();
}

// NaN stays NaN.
Statements clamp(const LowerCall& call) {
  Term clamped = x0;
  for (const bool lower : {true, false}) {
    const Attribute* const bound = call.attributes.find(lower ? "min" : "max");
    if (bound == nullptr) continue;
    const auto* const dim = std::get_if<Dim>(bound);
    if (dim != nullptr && !dim->is_constant()) return {};
    const double number = dim != nullptr ? static_cast<double>(dim->constant()) : std::get<double>(*bound);
    if (!std::isfinite(number)) return {};
    clamped = lower ? max(clamped, number) : min(clamped, number);
  }
  return clamped;
}

Statements elu(const LowerCall& call) { return select(x0 > 0, x0, call.attributes.number("alpha") * (exp(x0) - 1)); }

Statements elu_grad(const LowerCall& call) {
  return select(x1 > 0, x0, x0 * (call.attributes.number("alpha") * exp(x1)));
}

Statements leaky_relu(const LowerCall& call) { return select(x0 > 0, x0, call.attributes.number("alpha") * x0); }

Statements leaky_relu_grad(const LowerCall& call) { return select(x1 > 0, x0, call.attributes.number("alpha") * x0); }

// A cast to the same type is no copy.
Statements cast(const LowerCall& call) {
  const DType from = call.inputs[0]->dtype, to = call.outputs[0]->dtype;
  if (from == to) return {};
  if (from == DType::kBool) return select(x0, 1, 0);
  return to == DType::kBool ? x0 != 0 : x0;
}

// From 40 on the result is x, as the lowering has it.
Statements softplus_grad(const LowerCall&) {
  Statements s;
  const Term power = s.each(exp(x1));
  s.each(select(x1 > 40, x0, x0 * power / (power + 1)), 0);
  return s;
}

constexpr LoopRow kElementwise[] = {
    {"core.abs", abs(x0)},
    {"core.add", x0 + x1},
    {.name = "core.cast", .rule = cast, .integers = true, .truths = true},
    {"core.ceil", ceil(x0)},
    {"core.clamp", {}, clamp},
    {"core.cos", cos(x0)},
    {"core.div", {}, div},
    {"core.elu", {}, elu},
    {"core.elu_grad", {}, elu_grad},
    {"core.eq", x0 == x1},
    {"core.erf", erf(x0)},
    {"core.exp", exp(x0)},
    {"core.floor", floor(x0)},
    {"core.ge", x0 >= x1},
    {"core.gelu", {}, gelu},
    {"core.gelu_grad", {}, gelu_grad},
    {"core.gt", x0 > x1},
    {"core.hardsigmoid", min(max(x0 + 3, 0), 6) / 6},
    {"core.hardswish", x0* min(max(x0 + 3, 0), 6) / 6},
    {"core.hardswish_grad", select(x1 <= -3, 0, select(x1 >= 3, x0, x0*(x1 / 3 + 0.5)))},
    {"core.isinf", abs(x0) == kInfinity},
    {"core.isnan", isnan(x0)},
    {"core.le", x0 <= x1},
    {"core.leaky_relu", {}, leaky_relu},
    {"core.leaky_relu_grad", {}, leaky_relu_grad},
    {"core.log", log(x0)},
    {"core.log1p", log1p(x0)},
    {.name = "core.logical_and", .expression = x0 & x1, .truths = true},
    {.name = "core.logical_not", .expression = !x0, .truths = true},
    {.name = "core.logical_or", .expression = x0 | x1, .truths = true},
    {.name = "core.logical_xor", .expression = x0 ^ x1, .truths = true},
    {"core.lt", x0 < x1},
    {"core.maximum", max(x0, x1)},
    {"core.maximum_grad", select(x1 < x2, 0, select(x1 == x2, 0.5 * x0, x0))},
    {"core.minimum", min(x0, x1)},
    {"core.minimum_grad", select(x1 > x2, 0, select(x1 == x2, 0.5 * x0, x0))},
    {"core.mul", x0* x1},
    {"core.ne", x0 != x1},
    {"core.neg", -x0},
    {"core.reciprocal", 1 / x0},
    {"core.relu", relu(x0)},
    {"core.relu_grad", select(x1 <= 0, 0, x0)},
    {"core.round", round(x0)},
    {"core.rsqrt", 1 / sqrt(x0)},
    {"core.sigmoid", sigmoid(x0)},
    {"core.sigmoid_grad", x0*(1 - x1) * x1},
    {"core.sign", select(x0 > 0, 1, select(x0 < 0, -1, 0))},
    {"core.silu", x0* sigmoid(x0)},
    {"core.silu_grad", {}, silu_grad},
    {"core.sin", sin(x0)},
    {"core.softplus", select(x0 > 40, x0, log1p(exp(x0)))},
    {"core.softplus_grad", {}, softplus_grad},
    {"core.sqrt", sqrt(x0)},
    {"core.sub", x0 - x1},
    {"core.tanh", tanh(x0)},
    {"core.tanh_grad", x0*(1 - x1 * x1)},
    {"core.where", select(x0, x1, x2)},
    {"core.where_grad", select(x1, x0, 0)},
};

}  // namespace

std::span<const LoopRow> elementwise_loops() { return kElementwise; }

}  // namespace rannc::ir::ops
