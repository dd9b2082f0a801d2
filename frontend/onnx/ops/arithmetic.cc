/// Translates ONNX's arithmetic and comparisons.
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"

namespace rannc::frontend {

namespace {

using ir::DType;

/// What a detour by i64 keeps of unsigned integers of more than one byte, with which ATen does not compute: all of
/// those of 16 and 32 bits, and of those of 64 either sums and products, which wrap alike, or the order.
enum class Keeps { kSums, kOrder, kNothingOf64 };

bool is_wide_unsigned(DType dtype) { return dtype == DType::kU16 || dtype == DType::kU32 || dtype == DType::kU64; }

/// The other half of the numbers first: the order of u64 as that of i64, and back.
ValueId halves_swapped(Node& node, ValueId x) {
  const ir::Attributes lowest = {{"shape", ir::Shape{}}, {"value", ir::Dim(INT64_MIN)}, {"dtype", DType::kI64}};
  return node.emit("bitwise_xor", {x, node.emit("full", {}, lowest)});
}

/// One operation on two operands of one type.
struct Operation {
  std::string_view op;
  Keeps keeps;
  ir::Attributes attributes = {};
};

bool is_direct(const Node& node, const Operation& of, ValueId a, ValueId b) {
  const DType dtype = node.dtype(a);
  if (!is_wide_unsigned(dtype) || node.dtype(b) != dtype) return true;
  return dtype == DType::kU64 && of.keeps == Keeps::kNothingOf64;
}

/// The result before it is brought back into the operands' type.
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
  if (is_direct(node, of, a, b)) return node.emit(of.op, {a, b}, of.attributes);
  return node.emit("cast", {detoured(node, of, a, b)}, {{"dtype", node.dtype(a)}});
}

void compute(Node& node, const Operation& of, ValueId a, ValueId b) {
  if (is_direct(node, of, a, b)) return node.result(of.op, {a, b}, of.attributes);
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

/// Any number of operands, folded from the left.
template <const char* name, Keeps keeps>
void variadic(Node& node) {
  ValueId made = node.in(0);
  if (node.input_count() == 1) return node.result("identity", {made});
  for (size_t i = 1; i + 1 < node.input_count(); ++i) made = computed(node, {name, keeps}, made, node.in(i));
  compute(node, {name, keeps}, made, node.in(node.input_count() - 1));
}

/// ONNX divides integers towards zero.
void div(Node& node) {
  const ValueId a = node.in(0);
  ir::Attributes attributes;
  if (!ir::is_float(node.dtype(a))) attributes.set("rounding", std::string("trunc"));
  compute(node, {"div", Keeps::kNothingOf64, attributes}, a, node.in(1));
}

/// Sign of the divisor, or of the dividend with `fmod`.
void mod(Node& node) {
  compute(node, {node.integer("fmod", 0) == 0 ? "mod" : "fmod", Keeps::kNothingOf64}, node.in(0), node.in(1));
}

constexpr Translator kTable[] = {
    {"Add", 7, 27, binary<kAdd, Keeps::kSums>},
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

}  // namespace

std::span<const Translator> arithmetic_translators() { return kTable; }

}  // namespace rannc::frontend
