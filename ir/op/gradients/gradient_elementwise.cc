// Gradient rules of elementwise operators.
#include <cmath>
#include <numbers>

#include "ir/op/gradients/gradients_elementwise.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops::gradient {
namespace {

ValueId product(GradientCall& call, ValueId a, ValueId b) { return call.add("mul", {a, b}); }
ValueId negated(GradientCall& call, ValueId x) { return call.add("neg", {x}); }

// Gives the gradient by one task of a fused operator that reads `read`, with the attributes of the forward task.
bool give_fused(GradientCall& call, std::string_view op, ValueId read) {
  return give(call, call.add(op, {call.gradient(), read}, call.attributes().given()));
}

// The result's gradient where the condition holds, 0 elsewhere.
ValueId where_true(GradientCall& call, ValueId condition) {
  return call.add("where_grad", {call.gradient(), condition});
}

// Zeros computed from the result's gradient, so that they have its samples or are a partial sum like it.
ValueId nothing(GradientCall& call) {
  return where_true(call, call.add("full", {}, {{"shape", Shape{}}, {"value", false}, {"dtype", DType::kBool}}));
}

bool extreme(GradientCall& call, std::string_view op) {
  for (const size_t k : {0, 1}) {
    if (!call.wants(k)) continue;
    call.give_unstretched(k, call.add(op, {call.gradient(), call.operand(k), call.operand(1 - k)}));
  }
  return true;
}

// Gradient of a - b * q, where q is the rounded quotient.
bool remainder(GradientCall& call, const std::string& rounding) {
  if (call.wants(0)) call.give_unstretched(0, call.gradient());
  if (!call.wants(1)) return true;
  const ValueId times = call.add("div", {call.operand(0), call.operand(1)}, {{"rounding", rounding}});
  call.give_unstretched(1, negated(call, product(call, call.gradient(), times)));
  return true;
}

}  // namespace

// --- two operands

bool add(GradientCall& call) {
  for (const size_t k : {0, 1}) {
    if (call.wants(k)) call.give_unstretched(k, call.gradient());
  }
  return true;
}

bool sub(GradientCall& call) {
  if (call.wants(0)) call.give_unstretched(0, call.gradient());
  if (call.wants(1)) call.give_unstretched(1, negated(call, call.gradient()));
  return true;
}

bool mul(GradientCall& call) {
  for (const size_t k : {0, 1}) {
    if (call.wants(k)) call.give_unstretched(k, product(call, call.gradient(), call.operand(1 - k)));
  }
  return true;
}

// The divisor's gradient is -gy * (y / b).
bool div(GradientCall& call) {
  const bool rounded = call.attributes().text("rounding") != "none";
  const ValueId zeros = rounded ? nothing(call) : ValueId();
  const ValueId gy = call.gradient(), b = call.operand(1);
  if (call.wants(0)) call.give_unstretched(0, rounded ? zeros : call.add("div", {gy, b}));
  if (!call.wants(1)) return true;
  const auto of_divisor = [&] { return negated(call, product(call, gy, call.add("div", {call.result(), b}))); };
  call.give_unstretched(1, rounded ? zeros : of_divisor());
  return true;
}

bool mod(GradientCall& call) { return remainder(call, "floor"); }
bool fmod(GradientCall& call) { return remainder(call, "trunc"); }

// The exponent's gradient recomputes the power, so that only the operands are kept.
bool pow(GradientCall& call) {
  const std::vector<ValueId> reads = {call.gradient(), call.operand(0), call.operand(1)};
  if (call.wants(0)) call.give_unstretched(0, call.add("pow_base_grad", reads));
  if (call.wants(1)) call.give_unstretched(1, call.add("pow_exponent_grad", reads));
  return true;
}

bool maximum(GradientCall& call) { return extreme(call, "maximum_grad"); }
bool minimum(GradientCall& call) { return extreme(call, "minimum_grad"); }

// --- numbers

bool neg(GradientCall& call) { return give(call, negated(call, call.gradient())); }
bool abs(GradientCall& call) { return give(call, product(call, call.gradient(), call.add("sign", {call.operand(0)}))); }
bool relu(GradientCall& call) { return give_fused(call, "relu_grad", call.result()); }
bool steps(GradientCall& call) { return give(call, nothing(call)); }

// The gradient also passes at the bounds unless they are strict.
bool clamp(GradientCall& call) {
  const ValueId x = call.operand(0);
  const bool strict = call.attributes().flag("strict");
  const auto within = [&](std::string_view name, std::string_view compare) {
    const Attribute* bound = call.attributes().find(name);
    return bound ? call.add(compare, {x, call.number(number_value(*bound), x)}) : ValueId();
  };
  const ValueId above = within("min", strict ? "gt" : "ge"), below = within("max", strict ? "lt" : "le");
  const bool both = above.valid() && below.valid();
  return give(call, where_true(call, both ? call.add("logical_and", {above, below}) : above.valid() ? above : below));
}

bool where(GradientCall& call) {
  const ValueId condition = call.operand(0);
  if (call.wants(1)) call.give_unstretched(1, where_true(call, condition));
  if (call.wants(2)) call.give_unstretched(2, where_true(call, call.add("logical_not", {condition})));
  return true;
}

bool cast(GradientCall& call) {
  return give(call, call.add("cast", {call.gradient()}, {{"dtype", call.type(call.operand(0)).dtype}}));
}

bool identity(GradientCall& call) { return give(call, call.gradient()); }

// --- functions

bool exp(GradientCall& call) { return give(call, product(call, call.gradient(), call.result())); }
bool log(GradientCall& call) { return give(call, call.add("div", {call.gradient(), call.operand(0)})); }

bool sqrt(GradientCall& call) {
  return give(call, call.add("div", {call.gradient(), call.add("add", {call.result(), call.result()})}));
}

bool rsqrt(GradientCall& call) {
  const ValueId y = call.result(), cube = product(call, product(call, y, y), y);
  return give(call, product(call, product(call, call.gradient(), call.number(-0.5, y)), cube));
}

bool reciprocal(GradientCall& call) {
  const ValueId square = product(call, call.result(), call.result());
  return give(call, negated(call, product(call, call.gradient(), square)));
}

bool erf(GradientCall& call) {
  const ValueId x = call.operand(0), bell = call.add("exp", {negated(call, product(call, x, x))});
  const ValueId scaled = product(call, bell, call.number(2 * std::numbers::inv_sqrtpi, x));
  return give(call, product(call, call.gradient(), scaled));
}

bool sin(GradientCall& call) { return give(call, product(call, call.gradient(), call.add("cos", {call.operand(0)}))); }
bool cos(GradientCall& call) {
  return give(call, product(call, call.gradient(), negated(call, call.add("sin", {call.operand(0)}))));
}

bool tanh(GradientCall& call) { return give_fused(call, "tanh_grad", call.result()); }
bool sigmoid(GradientCall& call) { return give_fused(call, "sigmoid_grad", call.result()); }
bool silu(GradientCall& call) { return give_fused(call, "silu_grad", call.operand(0)); }
bool hardswish(GradientCall& call) { return give_fused(call, "hardswish_grad", call.operand(0)); }
bool hardsigmoid(GradientCall& call) { return give_fused(call, "hardsigmoid_grad", call.operand(0)); }
bool softplus(GradientCall& call) { return give_fused(call, "softplus_grad", call.operand(0)); }
bool gelu(GradientCall& call) { return give_fused(call, "gelu_grad", call.operand(0)); }
bool leaky_relu(GradientCall& call) { return give_fused(call, "leaky_relu_grad", call.operand(0)); }
bool elu(GradientCall& call) { return give_fused(call, "elu_grad", call.operand(0)); }

}  // namespace rannc::ir::ops::gradient
