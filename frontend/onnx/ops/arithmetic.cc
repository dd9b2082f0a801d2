/// Translates ONNX operators for arithmetic, comparisons and clipping.
#include <array>

#include "frontend/onnx/internal/translate/fixed_sizes.h"
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

using ir::DType;

/// Flips the sign bit, which maps the order of u64 to that of i64 and back.
ValueId halves_swapped(Node& node, ValueId x) {
  const ir::Attributes lowest = {{"shape", ir::Shape{}}, {"value", ir::Dim(INT64_MIN)}, {"dtype", DType::kI64}};
  return node.emit("bitwise_xor", {x, node.emit("full", {}, lowest)});
}

/// An operation on two operands of one type.
struct Operation {
  std::string_view op;
  Keeps keeps;
  ir::Attributes attributes = {};
};

bool is_direct(const Node& node, ValueId a, ValueId b) {
  const DType dtype = node.dtype(a);
  return !is_wide_unsigned(dtype) || node.dtype(b) != dtype;
}

/// Computes an operation in i64. The caller casts the result back to the operands' type.
ValueId detoured(Node& node, const Operation& of, ValueId a, ValueId b) {
  const bool swaps = node.dtype(a) == DType::kU64 && of.keeps == Keeps::kOrder;
  for (ValueId* each : {&a, &b}) {
    *each = node.emit("cast", {*each}, {{"dtype", DType::kI64}});
    if (swaps) *each = halves_swapped(node, *each);
  }
  const ValueId y = node.emit(of.op, {a, b}, of.attributes);
  return swaps && node.dtype(y) == DType::kI64 ? halves_swapped(node, y) : y;
}

ValueId computed(Node& node, const Operation& of, ValueId a, ValueId b) {
  if (is_direct(node, a, b)) return node.emit(of.op, {a, b}, of.attributes);
  return node.emit("cast", {detoured(node, of, a, b)}, {{"dtype", node.dtype(a)}});
}

void compute(Node& node, const Operation& of, ValueId a, ValueId b) {
  if (is_direct(node, a, b)) return node.result(of.op, {a, b}, of.attributes);
  const DType dtype = node.dtype(a);
  const ValueId y = detoured(node, of, a, b);
  if (node.dtype(y) == DType::kBool) return node.result("identity", {y});
  node.result("cast", {y}, {{"dtype", dtype}});
}

constexpr char kAdd[] = "add", kSub[] = "sub", kMul[] = "mul", kMaximum[] = "maximum", kMinimum[] = "minimum",
               kLess[] = "lt", kLessOrEqual[] = "le", kGreater[] = "gt", kGreaterOrEqual[] = "ge";

template <const char* name, Keeps keeps>
void binary(Node& node) {
  compute(node, {name, keeps}, node.in(0), node.in(1));
}

/// Folds any number of operands from the left.
template <const char* name, Keeps keeps>
void variadic(Node& node) {
  ValueId made = node.in(0);
  if (node.input_count() == 1) return node.result("identity", {made});
  for (size_t i = 1; i + 1 < node.input_count(); ++i) made = computed(node, {name, keeps}, made, node.in(i));
  compute(node, {name, keeps}, made, node.in(node.input_count() - 1));
}

// --- division of u64, which ATen does not support

ValueId wide_number(Node& node, int64_t number) {
  return node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", ir::Dim(number)}, {"dtype", DType::kI64}});
}

ValueId is_at_least(Node& node, ValueId a, ValueId b) {
  return node.emit("ge", {halves_swapped(node, a), halves_swapped(node, b)});
}

/// Quotient and remainder of u64, as i64 with the same bits. 2 * (floor(a / 2) / b) is the quotient or one less, and
/// floor(a / 2) fits i64. For b of at least 2^63 the quotient is 0 or 1.
struct Quotient {
  ValueId whole, rest;
};
Quotient quotient_of_u64(Node& node, ValueId a, ValueId b) {
  a = node.emit("cast", {a}, {{"dtype", DType::kI64}});
  b = node.emit("cast", {b}, {{"dtype", DType::kI64}});
  const ValueId zero = wide_number(node, 0), one = wide_number(node, 1), two = wide_number(node, 2);
  const ValueId is_large = node.emit("lt", {b, zero});
  const ValueId moved = node.emit("shift_right", {a, one});  // shifts in the sign bit
  const ValueId half = node.emit("bitwise_and", {moved, wide_number(node, INT64_MAX)});
  const ValueId divisor = node.emit("where", {is_large, one, b});
  const ValueId parts = node.emit("div", {half, divisor}, {{"rounding", std::string("trunc")}});
  const ValueId least = node.emit("where", {is_large, zero, node.emit("mul", {parts, two})});
  const ValueId left = node.emit("sub", {a, node.emit("mul", {least, b})});
  const ValueId more = is_at_least(node, left, b);
  return {node.emit("add", {least, node.emit("cast", {more}, {{"dtype", DType::kI64}})}),
          node.emit("where", {more, node.emit("sub", {left, b}), left})};
}

bool are_u64(const Node& node, ValueId a, ValueId b) {
  return node.dtype(a) == DType::kU64 && node.dtype(b) == DType::kU64;
}

/// Integer division rounds towards zero in ONNX.
void div(Node& node) {
  const ValueId a = node.in(0);
  if (are_u64(node, a, node.in(1))) {
    return node.result("cast", {quotient_of_u64(node, a, node.in(1)).whole}, {{"dtype", DType::kU64}});
  }
  ir::Attributes attributes;
  if (!ir::is_float(node.dtype(a))) attributes.set("rounding", std::string("trunc"));
  compute(node, {"div", Keeps::kSums, attributes}, a, node.in(1));
}

/// The result has the sign of the divisor, or with `fmod` that of the dividend.
void mod(Node& node) {
  if (are_u64(node, node.in(0), node.in(1))) {
    return node.result("cast", {quotient_of_u64(node, node.in(0), node.in(1)).rest}, {{"dtype", DType::kU64}});
  }
  compute(node, {node.integer("fmod", 0) == 0 ? "mod" : "fmod", Keeps::kSums}, node.in(0), node.in(1));
}

// --- bounds

/// Clips by bounds that are values.
ValueId clipped(Node& node, ValueId x, const std::array<ValueId, 2>& bounds) {
  if (bounds[0].valid()) x = computed(node, {kMaximum, Keeps::kOrder}, x, bounds[0]);
  return bounds[1].valid() ? computed(node, {kMinimum, Keeps::kOrder}, x, bounds[1]) : x;
}

/// Bounds are attributes before opset 11, operands since.
void clip(Node& node) {
  const ValueId x = node.in(0);
  for (const size_t bound : {1, 2}) {
    if (node.has(bound) && !is_one_element(node, bound, bound == 1 ? "min" : "max")) return;
  }
  if (is_wide_unsigned(node.dtype(x))) {
    return node.result("identity", {clipped(node, x, {node.optional(1), node.optional(2)})});
  }
  ir::Attributes attributes;
  constexpr std::array kBounds = {"min", "max"};
  std::array<ValueId, 2> given;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    if (node.opset() < 11) {
      if (node.has_attribute(kBounds[i])) attributes.set(kBounds[i], node.number(kBounds[i], 0.0));
    } else if (node.has(i + 1)) {
      const auto bound = node.exact_number(node.in(i + 1));
      const bool after_value = given[0].valid();  // the upper bound wins, so that it must not go ahead of the lower one
      if (bound && !after_value) {
        attributes.set(kBounds[i], *bound);
      } else {
        given[i] = node.in(i + 1);
      }
    }
  }
  const bool low = given[0].valid(), high = given[1].valid();
  const bool both = attributes.has("min") && attributes.has("max") && ir::is_float(node.dtype(x));
  if (both && node.traced_strict_bounds()) attributes.set("strict", true);
  if (!low && !high)
    return attributes.empty() ? node.result("identity", {x}) : node.result("clamp", {x}, std::move(attributes));
  ValueId y = attributes.empty() ? x : node.emit("clamp", {x}, std::move(attributes));
  if (low && high) y = node.emit("maximum", {y, given[0]});
  node.result(high ? "minimum" : "maximum", {y, given[high ? 1 : 0]});
}

}  // namespace

std::span<const Translator> arithmetic_translators() {
  static constexpr Translator kTable[] = {
      {"Add", 7, 27, binary<kAdd, Keeps::kSums>},
      {"Clip", 7, 27, clip},
      {"Div", 7, 27, div},
      {"Greater", 7, 27, binary<kGreater, Keeps::kOrder>},
      {"GreaterOrEqual", 12, 27, binary<kGreaterOrEqual, Keeps::kOrder>},
      {"Less", 7, 27, binary<kLess, Keeps::kOrder>},
      {"LessOrEqual", 12, 27, binary<kLessOrEqual, Keeps::kOrder>},
      {"Max", 7, 27, variadic<kMaximum, Keeps::kOrder>},
      {"Min", 7, 27, variadic<kMinimum, Keeps::kOrder>},
      {"Mod", 10, 27, mod},
      {"Mul", 7, 27, binary<kMul, Keeps::kSums>},
      {"Sub", 7, 27, binary<kSub, Keeps::kSums>},
      {"Sum", 7, 27, variadic<kAdd, Keeps::kSums>},
  };
  return kTable;
}

}  // namespace rannc::frontend
