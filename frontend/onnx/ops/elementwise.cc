/// Translates elementwise ONNX operators.
#include <array>
#include <cmath>

#include "frontend/onnx/internal/translate/fixed_sizes.h"
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Translates an operator of one operand to the core operator `name`.
template <const char* name>
void unary(Node& node) {
  node.result(name, {node.in(0)});
}

template <const char* name>
void binary(Node& node) {
  node.result(name, {node.in(0), node.in(1)});
}

void abs(Node& node) { node.result(is_wide_unsigned(node.dtype(node.in(0))) ? "identity" : "abs", {node.in(0)}); }

void mean(Node& node) {
  ValueId sum = node.in(0);
  for (size_t i = 1; i < node.input_count(); ++i) sum = node.emit("add", {sum, node.in(i)});
  node.result("div", {sum, node.scalar(static_cast<double>(node.input_count()), node.dtype(sum))});
}

void bit_shift(Node& node) {
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return node.fail("BitShift: direction must be LEFT or RIGHT, found \"" + direction + "\"");
  }
  node.result(direction == "LEFT" ? "shift_left" : "shift_right", {node.in(0), node.in(1)});
}

/// The type of the exponent may differ from that of base and result.
void pow(Node& node) {
  const ValueId base = node.in(0);
  ValueId exponent = node.in(1);
  if (node.dtype(exponent) != node.dtype(base) && ir::is_float(node.dtype(base))) {
    exponent = node.emit("cast", {exponent}, {{"dtype", node.dtype(base)}});
  }
  node.result("pow", {base, exponent});
}

/// Emits sizes that went through floats as integers again, so that their readers know them.
void as_integers(Node& node, const ir::Shape& sizes, ir::DType dtype, bool scalar) {
  const auto filled = [&](const ir::Dim& size) {
    return ir::Attributes{{"shape", scalar ? ir::Shape{} : ir::Shape{1}}, {"value", size}, {"dtype", dtype}};
  };
  if (sizes.size() == 1) return node.result("full", {}, filled(sizes[0]));
  std::vector<ValueId> parts;
  for (const ir::Dim& size : sizes) parts.push_back(node.emit("full", {}, filled(size)));
  node.result("concat", parts, {{"axis", ir::Dim(0)}});
}

void cast(Node& node) {
  const auto dtype = element_type(static_cast<int>(node.integer("to", 0)));
  if (!dtype) {
    return node.fail("Cast to " + element_type_name(static_cast<int>(node.integer("to", 0))) + " is not supported");
  }
  const ValueId x = node.in(0);
  const auto sizes = ir::is_integer(*dtype) && ir::byte_size(*dtype) >= 4 ? node.cut_to_sizes(x) : std::nullopt;
  if (sizes) return as_integers(node, *sizes, *dtype, node.type(x).shape->empty());
  node.result("cast", {x}, {{"dtype", *dtype}});
}

void bit_cast(Node& node) {
  const auto dtype = element_type(static_cast<int>(node.integer("to", 0)));
  if (!dtype) {
    return node.fail("BitCast to " + element_type_name(static_cast<int>(node.integer("to", 0))) + " is not supported");
  }
  node.result("bitcast", {node.in(0)}, {{"dtype", *dtype}});
}

void cast_like(Node& node) { node.result("cast", {node.in(0)}, {{"dtype", node.dtype(node.in(1))}}); }

void gelu(Node& node) { node.result("gelu", {node.in(0)}, {{"approximate", node.text("approximate", "none")}}); }
void leaky_relu(Node& node) { node.result("leaky_relu", {node.in(0)}, {{"alpha", node.number("alpha", 0.01)}}); }
void elu(Node& node) { node.result("elu", {node.in(0)}, {{"alpha", node.number("alpha", 1.0)}}); }

/// max(0, min(1, alpha x + beta)). The alpha of the file is not ATen's exact 1/6. The gradient is zero at
/// the bounds, as in PyTorch.
void hard_sigmoid(Node& node) {
  const ValueId x = node.in(0);
  const ValueId scaled = node.emit("mul", {x, node.scalar(node.number("alpha", 0.2f), node.dtype(x))});
  const ValueId shifted = node.emit("add", {scaled, node.scalar(node.number("beta", 0.5), node.dtype(x))});
  node.result("clamp", {shifted}, {{"min", 0.0}, {"max", 1.0}, {"strict", true}});
}

/// Positive and negative infinity can be tested separately.
void is_inf(Node& node) {
  const ValueId x = node.in(0);
  const bool positive = node.integer("detect_positive", 1) != 0, negative = node.integer("detect_negative", 1) != 0;
  if (positive && negative) return node.result("isinf", {x});
  const double bound = positive ? HUGE_VAL : -HUGE_VAL;
  if (!positive && !negative) return node.result("lt", {x, x});
  node.result("eq", {x, node.scalar(bound, node.dtype(x))});
}

void prelu(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const shape = node.shape(x);
  if (!shape || !stretches_to(node, 1, "slope", *shape)) return;
  const ValueId positive = node.emit("gt", {x, node.scalar(0, node.dtype(x))});
  const ValueId scaled = node.emit("mul", {x, node.in(1)});
  node.note_weight(node.in(1));
  node.result("where", {positive, x, scaled});
}

/// x + bias below -lambd, x - bias above lambd, 0 between. Other integers than those of 64 bits and
/// whole attributes are computed in doubles and truncated.
void shrink(Node& node) {
  const ir::DType of_x = node.dtype(node.in(0));
  const double bias = node.number("bias", 0.0), lambd = node.number("lambd", 0.5);
  const auto is_whole = [](double number) { return static_cast<double>(whole(number)) == number; };
  const bool is_exact = ir::is_float(of_x) || (of_x == ir::DType::kI64 && is_whole(bias) && is_whole(lambd));
  const ir::DType dtype = is_exact ? of_x : ir::DType::kF64;
  const ValueId x = node.cast(node.in(0), dtype);
  const ValueId zero = node.scalar(0, dtype);
  const ValueId below = node.emit("add", {x, node.scalar(bias, dtype)});
  const ValueId above = node.emit("sub", {x, node.scalar(bias, dtype)});
  const ValueId high = node.emit("where", {node.emit("gt", {x, node.scalar(lambd, dtype)}), above, zero});
  const ValueId is_low = node.emit("lt", {x, node.scalar(-lambd, dtype)});
  if (dtype == of_x) return node.result("where", {is_low, below, high});
  node.result("cast", {node.emit("where", {is_low, below, high})}, {{"dtype", of_x}});
}

/// x above alpha, 0 elsewhere.
void thresholded_relu(Node& node) {
  const ValueId x = node.in(0);
  const ValueId above = node.emit("gt", {x, node.scalar(node.number("alpha", 1.0), node.dtype(x))});
  node.result("where", {above, x, node.scalar(0, node.dtype(x))});
}

void softsign(Node& node) {
  const ValueId x = node.in(0);
  const ValueId one = node.scalar(1, node.dtype(x));
  node.result("div", {x, node.emit("add", {node.emit("abs", {x}), one})});
}

void tan(Node& node) {
  const ValueId x = node.in(0);
  node.result("div", {node.emit("sin", {x}), node.emit("cos", {x})});
}

/// x * tanh(softplus(x)).
void mish(Node& node) {
  const ValueId x = node.in(0);
  node.result("mul", {x, node.emit("tanh", {node.emit("softplus", {x})})});
}

/// x * sigmoid(alpha x).
void swish(Node& node) {
  const ValueId x = node.in(0);
  const double alpha = node.number("alpha", 1.0);
  if (alpha == 1) return node.result("silu", {x});
  const ValueId scaled = node.emit("mul", {x, node.scalar(alpha, node.dtype(x))});
  node.result("mul", {x, node.emit("sigmoid", {scaled})});
}

/// gamma * (x > 0 ? x : alpha (e^x - 1)).
void selu(Node& node) {
  const ValueId x = node.in(0);
  const ValueId gamma = node.scalar(node.number("gamma", 1.05070102214813232421875), node.dtype(x));
  const double alpha = node.number("alpha", 1.67326319217681884765625);
  node.result("mul", {node.emit("elu", {x}, {{"alpha", alpha}}), gamma});
}

/// max(0, x) + min(0, alpha (e^(x/alpha) - 1)), which is alpha * elu(x / alpha) for a positive alpha.
void celu(Node& node) {
  const ValueId x = node.in(0);
  const double number = node.number("alpha", 1.0);
  const ValueId alpha = node.scalar(number, node.dtype(x));
  if (number < 0) {
    const ValueId rest = node.emit("mul", {node.emit("expm1", {node.emit("div", {x, alpha})}), alpha});
    const ValueId negative = node.emit("neg", {node.emit("relu", {node.emit("neg", {rest})})});
    return node.result("add", {node.emit("relu", {x}), negative});
  }
  node.result("mul", {node.emit("elu", {node.emit("div", {x, alpha})}), alpha});
}

#define CORE_NAME(name) constexpr char k_##name[] = #name
CORE_NAME(acos);
CORE_NAME(acosh);
CORE_NAME(asin);
CORE_NAME(asinh);
CORE_NAME(atan);
CORE_NAME(atanh);
CORE_NAME(bitwise_and);
CORE_NAME(bitwise_not);
CORE_NAME(bitwise_or);
CORE_NAME(bitwise_xor);
CORE_NAME(ceil);
CORE_NAME(cos);
CORE_NAME(cosh);
CORE_NAME(eq);
CORE_NAME(erf);
CORE_NAME(exp);
CORE_NAME(floor);
CORE_NAME(hardswish);
CORE_NAME(isnan);
CORE_NAME(log);
CORE_NAME(logical_and);
CORE_NAME(logical_not);
CORE_NAME(logical_or);
CORE_NAME(logical_xor);
CORE_NAME(neg);
CORE_NAME(reciprocal);
CORE_NAME(relu);
CORE_NAME(round);
CORE_NAME(sigmoid);
CORE_NAME(sign);
CORE_NAME(sin);
CORE_NAME(sinh);
CORE_NAME(softplus);
CORE_NAME(sqrt);
CORE_NAME(tanh);
#undef CORE_NAME

/// Also accepts sequences and optionals.
void identity(Node& node) {
  if (const List* const list = node.list(0)) return node.pass(0, *list);
  node.result("identity", {node.in(0)});
}

void where(Node& node) { node.result("where", {node.in(0), node.in(1), node.in(2)}); }

}  // namespace

std::span<const Translator> elementwise_translators() {
  static constexpr Translator kTable[] = {
      {"Abs", 7, 27, abs},
      {"Acos", 7, 27, unary<k_acos>},
      {"Acosh", 9, 27, unary<k_acosh>},
      {"And", 7, 27, binary<k_logical_and>},
      {"Asin", 7, 27, unary<k_asin>},
      {"Asinh", 9, 27, unary<k_asinh>},
      {"Atan", 7, 27, unary<k_atan>},
      {"Atanh", 9, 27, unary<k_atanh>},
      {"BitCast", 26, 27, bit_cast},
      {"BitShift", 11, 27, bit_shift},
      {"BitwiseAnd", 18, 27, binary<k_bitwise_and>},
      {"BitwiseNot", 18, 27, unary<k_bitwise_not>},
      {"BitwiseOr", 18, 27, binary<k_bitwise_or>},
      {"BitwiseXor", 18, 27, binary<k_bitwise_xor>},
      {"Cast", 7, 27, cast},
      {"CastLike", 15, 27, cast_like},
      {"Ceil", 7, 27, unary<k_ceil>},
      {"Celu", 12, 27, rounded_once<celu>},
      {"Cos", 7, 27, unary<k_cos>},
      {"Cosh", 9, 27, unary<k_cosh>},
      {"Elu", 7, 27, elu},
      {"Equal", 7, 27, binary<k_eq>},
      {"Erf", 9, 27, unary<k_erf>},
      {"Exp", 7, 27, unary<k_exp>},
      {"Floor", 7, 27, unary<k_floor>},
      {"Gelu", 20, 27, gelu},
      {"HardSigmoid", 7, 27, rounded_once<hard_sigmoid>},
      {"HardSwish", 14, 27, unary<k_hardswish>},
      {"Identity", 7, 27, identity},
      {"IsInf", 10, 27, is_inf},
      {"IsNaN", 9, 27, unary<k_isnan>},
      {"LeakyRelu", 7, 27, leaky_relu},
      {"Log", 7, 27, unary<k_log>},
      {"Mean", 7, 27, rounded_once<mean>},
      {"Mish", 18, 27, rounded_once<mish>},
      {"Neg", 7, 27, unary<k_neg>},
      {"Not", 7, 27, unary<k_logical_not>},
      {"Or", 7, 27, binary<k_logical_or>},
      {"Pow", 7, 27, pow},
      {"PRelu", 7, 27, in_i64<prelu, Keeps::kOrder>},
      {"Reciprocal", 7, 27, unary<k_reciprocal>},
      {"Relu", 7, 27, unary<k_relu>},
      {"Round", 11, 27, unary<k_round>},
      {"Selu", 7, 27, rounded_once<selu>},
      {"Shrink", 9, 27, rounded_once<shrink>},
      {"Sigmoid", 7, 27, unary<k_sigmoid>},
      {"Sign", 9, 27, in_i64<unary<k_sign>, Keeps::kOrder>},
      {"Sin", 7, 27, unary<k_sin>},
      {"Sinh", 9, 27, unary<k_sinh>},
      {"Softplus", 7, 27, unary<k_softplus>},
      {"Softsign", 7, 27, rounded_once<softsign>},
      {"Sqrt", 7, 27, unary<k_sqrt>},
      {"Swish", 24, 27, rounded_once<swish>},
      {"Tan", 7, 27, rounded_once<tan>},
      {"Tanh", 7, 27, unary<k_tanh>},
      {"ThresholdedRelu", 10, 27, rounded_once<thresholded_relu>},
      {"Where", 9, 27, in_i64<where>},
      {"Xor", 7, 27, binary<k_logical_xor>},
  };
  return kTable;
}

}  // namespace rannc::frontend
