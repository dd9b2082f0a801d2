// Mathematical functions of one operand.
#include <numbers>

#include "ir/gradient/gradient.h"
#include "ir/op/entries/elementwise_rows.h"
#include "ir/op/gradients/gradients_elementwise.h"

namespace rannc::ir::ops {

namespace {

// gy / (1 + x²)
bool atan_gradient(GradientCall& call) {
  const ValueId x = call.operand(0), square = call.add("mul", {x, x});
  call.give(0, call.add("div", {call.gradient(), call.add("add", {square, call.number(1, x)})}));
  return true;
}

bool give(GradientCall& call, ValueId gradient) {
  call.give(0, gradient);
  return true;
}

ValueId square(GradientCall& call) { return call.add("mul", {call.operand(0), call.operand(0)}); }
ValueId one(GradientCall& call) { return call.number(1, call.operand(0)); }

// gy / √inside
ValueId over_root(GradientCall& call, ValueId inside) {
  return call.add("mul", {call.gradient(), call.add("rsqrt", {inside})});
}

bool asin_gradient(GradientCall& call) {
  return give(call, over_root(call, call.add("sub", {one(call), square(call)})));
}
bool acos_gradient(GradientCall& call) {
  return give(call, call.add("neg", {over_root(call, call.add("sub", {one(call), square(call)}))}));
}
bool asinh_gradient(GradientCall& call) {
  return give(call, over_root(call, call.add("add", {square(call), one(call)})));
}
bool acosh_gradient(GradientCall& call) {
  return give(call, over_root(call, call.add("sub", {square(call), one(call)})));
}
bool atanh_gradient(GradientCall& call) {
  return give(call, call.add("div", {call.gradient(), call.add("sub", {one(call), square(call)})}));
}
bool sinh_gradient(GradientCall& call) {
  return give(call, call.add("mul", {call.gradient(), call.add("cosh", {call.operand(0)})}));
}
bool cosh_gradient(GradientCall& call) {
  return give(call, call.add("mul", {call.gradient(), call.add("sinh", {call.operand(0)})}));
}

ValueId times(GradientCall& call, ValueId a, double number) { return call.add("mul", {a, call.number(number, a)}); }

// gy / (x * ln base)
template <int base>
bool log_gradient(GradientCall& call) {
  const double scale = base == 2 ? std::numbers::ln2 : std::numbers::ln10;
  return give(call, call.add("div", {call.gradient(), times(call, call.operand(0), scale)}));
}
bool log1p_gradient(GradientCall& call) {
  const ValueId x = call.operand(0);
  return give(call, call.add("div", {call.gradient(), call.add("add", {x, call.number(1, x)})}));
}
bool expm1_gradient(GradientCall& call) {
  const ValueId y = call.result();
  return give(call, call.add("mul", {call.gradient(), call.add("add", {y, call.number(1, y)})}));
}
bool exp2_gradient(GradientCall& call) {
  return give(call, call.add("mul", {call.gradient(), times(call, call.result(), std::numbers::ln2)}));
}
bool erfc_gradient(GradientCall& call) {
  const ValueId bell = call.add("exp", {call.add("neg", {square(call)})});
  return give(call, call.add("mul", {call.gradient(), times(call, bell, -2 * std::numbers::inv_sqrtpi)}));
}

// A function that formulas of others compute with fewer digits.
OpInfo exact(std::string_view name, std::string_view summary, GradientRule gradient,
             Autocast autocast = Autocast::kFloat32) {
  return unary(name, summary, {}, infer_float, {.autocast = autocast, .gradient = gradient, .costly = true});
}

OpInfo hyperbolic_or_arc(std::string_view name, std::string_view summary, std::string_view onnx, GradientRule gradient,
                         Autocast autocast = Autocast::kWidest) {
  return unary(name, summary, {onnx}, infer_float, {.autocast = autocast, .gradient = gradient, .costly = true});
}

}  // namespace

std::vector<OpInfo> function_ops() {
  using aten::FromAttribute;
  using aten::Scalar;
  using Kind = AttributeKind;
  const AttributeInfo approximate{"approximate", Kind::kText, "none", false, {"none", "tanh"}};
  return {unary("floor", "rounded down", {"Floor"}, infer_float, {.gradient = gradient::steps}),
          unary("ceil", "rounded up", {"Ceil"}, infer_float, {.gradient = gradient::steps}),
          unary("round", "rounded to the nearest integer, a half to the even one", {"Round"}, infer_float,
                {.gradient = gradient::steps}),
          unary("exp", "e to the power of x", {"Exp"}, infer_float,
                {.autocast = Autocast::kFloat32, .gradient = gradient::exp, .costly = true}),
          unary("log", "natural logarithm", {"Log"}, infer_float,
                {.autocast = Autocast::kFloat32, .gradient = gradient::log, .costly = true}),
          exact("log1p", "log(1 + x), exact for small x", log1p_gradient),
          exact("log2", "logarithm to base 2", log_gradient<2>),
          exact("log10", "logarithm to base 10", log_gradient<10>),
          exact("expm1", "e^x - 1, exact for small x", expm1_gradient),
          exact("exp2", "2 to the power of x", exp2_gradient, Autocast::kWidest),
          exact("erfc", "1 - erf(x), exact for large x", erfc_gradient, Autocast::kWidest),
          unary("sqrt", "square root", {"Sqrt"}, infer_float, {.gradient = gradient::sqrt}),
          unary("rsqrt", "1 / √x", {}, infer_float, {.autocast = Autocast::kFloat32, .gradient = gradient::rsqrt}),
          unary("reciprocal", "1 / x", {"Reciprocal"}, infer_float,
                {.autocast = Autocast::kFloat32, .gradient = gradient::reciprocal}),
          unary("erf", "error function", {"Erf"}, infer_float, {.gradient = gradient::erf, .costly = true}),
          unary("tanh", "hyperbolic tangent", {"Tanh"}, infer_float, {.gradient = gradient::tanh, .costly = true}),
          unary("sigmoid", "1 / (1 + e^-x)", {"Sigmoid"}, infer_float, {.gradient = gradient::sigmoid, .costly = true}),
          unary("sin", "sine", {"Sin"}, infer_float, {.gradient = gradient::sin, .costly = true}),
          unary("cos", "cosine", {"Cos"}, infer_float, {.gradient = gradient::cos, .costly = true}),
          unary("atan", "arc whose tangent is x", {"Atan"}, infer_float, {.gradient = atan_gradient, .costly = true}),
          hyperbolic_or_arc("asin", "arc whose sine is x", "Asin", asin_gradient, Autocast::kFloat32),
          hyperbolic_or_arc("acos", "arc whose cosine is x", "Acos", acos_gradient, Autocast::kFloat32),
          hyperbolic_or_arc("sinh", "hyperbolic sine", "Sinh", sinh_gradient, Autocast::kFloat32),
          hyperbolic_or_arc("cosh", "hyperbolic cosine", "Cosh", cosh_gradient, Autocast::kFloat32),
          hyperbolic_or_arc("asinh", "number whose hyperbolic sine is x", "Asinh", asinh_gradient),
          hyperbolic_or_arc("acosh", "number from 0 on whose hyperbolic cosine is x", "Acosh", acosh_gradient),
          hyperbolic_or_arc("atanh", "number whose hyperbolic tangent is x", "Atanh", atanh_gradient),
          unary("silu", "x * sigmoid(x)", {"Swish"}, infer_float, {.gradient = gradient::silu, .costly = true}),
          unary("hardswish", "x * hardsigmoid(x)", {"HardSwish"}, infer_float, {.gradient = gradient::hardswish}),
          unary("hardsigmoid", "x / 6 + 1 / 2 within 0 and 1", {"HardSigmoid"}, infer_float,
                {.gradient = gradient::hardsigmoid}),
          // ATen's default threshold of 20 would give an error of 1e-9.
          unary("softplus", "log(1 + e^x)", {"Softplus"}, infer_float,
                {.autocast = Autocast::kFloat32,
                 .gradient = gradient::softplus,
                 .costly = true,
                 .slots = {{"", Scalar{Dim(1)}}, {"", Scalar{Dim(40)}}}}),
          unary("gelu", "x times the share of a normal distribution below it", {"Gelu"}, infer_float,
                {.gradient = gradient::gelu,
                 .costly = true,
                 .attributes = {approximate},
                 .slots = {{"approximate", FromAttribute{"approximate"}}}}),
          unary("leaky_relu", "x where it is positive, else alpha * x", {"LeakyRelu"}, infer_float,
                {.gradient = gradient::leaky_relu,
                 .attributes = {{"alpha", Kind::kNumber, 0.01}},
                 .slots = {{"", FromAttribute{"alpha"}}}}),
          unary("elu", "x where it is positive, else alpha * (e^x - 1)", {"Elu"}, infer_float,
                {.gradient = gradient::elu,
                 .costly = true,
                 .attributes = {{"alpha", Kind::kNumber, 1.0}},
                 .slots = {{"", FromAttribute{"alpha"}}}})};
}

}  // namespace rannc::ir::ops
