/// Translates ONNX operators for quantization and for products of quantized integers.
#include <algorithm>
#include <array>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "frontend/onnx/internal/translate/window.h"

namespace rannc::frontend {

namespace {

using ir::DType;

ValueId in_type(Node& node, ValueId value, DType dtype) {
  return node.dtype(value) == dtype ? value : node.emit("cast", {value}, {{"dtype", dtype}});
}

/// Scale and zero point per block of `length` elements along an axis. The last block may be shorter.
struct Blocks {
  ValueId scale, zero;
  int64_t axis = 0, length = 0;
};

/// Scale and zero point for core operators: one number, one per position on `axis`, or one per element of x.
struct Steps {
  ValueId scale, zero;
  std::optional<int64_t> axis;
  std::optional<Blocks> blocks;  ///< from which `scale` and `zero` were expanded

  ir::Attributes attributes() const { return axis ? ir::Attributes{{"axis", ir::Dim(*axis)}} : ir::Attributes{}; }
};

/// Repeats the number of each block over the elements of the block, up to `extent` elements.
ValueId repeated(Node& node, ValueId value, int64_t axis, int64_t block, const ir::Dim& extent) {
  const ir::Shape* const known = node.shape(value);
  if (!known || !node.good()) return {};
  const auto at = static_cast<size_t>(axis);
  ir::Shape stretched = *known, joined = *known;
  stretched.insert(stretched.begin() + axis + 1, ir::Dim(block));
  joined[at] = joined[at] * ir::Dim(block);
  const ValueId apart = node.emit("unsqueeze", {value}, {{"axes", ir::Shape{axis + 1}}});
  const ValueId whole =
      node.emit("reshape", {node.emit("expand", {apart}, {{"shape", stretched}})}, {{"shape", joined}});
  if (joined[at] == extent) return whole;
  return node.emit("slice", {whole},
                   {{"axes", ir::Shape{axis}}, {"starts", ir::Shape{0}}, {"ends", ir::Shape{extent}}});
}

/// Reads scale and zero point. A missing zero point becomes zeros of type `integers`. Fails if the shape of the scale
/// does not fit. `x` is a copy, because adding tasks moves the shapes of values.
std::optional<Steps> read_steps(Node& node, ir::Shape x, DType integers) {
  Steps steps{node.in(1), node.optional(2), {}, {}};
  const ir::Shape* const known = node.shape(steps.scale);
  if (!known) return std::nullopt;
  const ir::Shape scale = *known;
  if (!steps.zero.valid()) {
    steps.zero = node.emit("full", {}, {{"shape", scale}, {"value", ir::Dim(0)}, {"dtype", integers}});
  }
  const int64_t block = node.integer("block_size", 0);
  if (block == 0 && ir::element_count(scale) == ir::Dim(1) && scale.size() <= 1) {
    for (ValueId* each : {&steps.scale, &steps.zero}) {
      if (!scale.empty()) *each = node.emit("reshape", {*each}, {{"shape", ir::Shape{}}});
    }
    return steps;
  }
  const int64_t axis = node.axis(node.integer("axis", 1), static_cast<int64_t>(x.size()));
  if (!node.good()) return std::nullopt;
  if (block == 0 && scale.size() == 1) {
    steps.axis = axis;
    return steps;
  }
  if (block <= 0 || scale.size() != x.size()) {
    node.fail(node.op() + ": scale has shape " + ir::str(scale) + " for " + ir::str(x) +
              "; expected one number, one per position on axis " + std::to_string(axis) +
              ", or, with a block_size, one per block");
    return std::nullopt;
  }
  if (const ir::Shape* const zero = node.shape(steps.zero); !zero || *zero != scale) {
    if (zero) {
      node.fail(node.op() + ": the zero point has shape " + ir::str(*zero) + ", but the scale has " + ir::str(scale));
    }
    return std::nullopt;
  }
  steps.blocks = Blocks{steps.scale, steps.zero, axis, block};
  for (ValueId* each : {&steps.scale, &steps.zero}) {
    *each = repeated(node, *each, axis, block, x[static_cast<size_t>(axis)]);
  }
  return steps;
}

/// Quotients of half-precision numbers are computed in single precision.
DType precision_of(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

/// Returns the type of attribute `output_dtype`, or `otherwise`. Fails on an unsupported type.
std::optional<DType> requested_type(Node& node, DType otherwise) {
  const auto requested = static_cast<int>(node.integer("output_dtype", 0));
  const auto dtype = requested == 0 ? std::optional(otherwise) : element_type(requested);
  if (!dtype) node.fail(node.op() + " to " + element_type_name(requested) + " is not supported");
  return dtype;
}

void quantize_linear(Node& node) {
  ValueId x = node.in(0);
  const ir::Shape* const known = node.shape(x);
  const auto to = node.has(2) ? std::optional(node.dtype(node.in(2))) : requested_type(node, DType::kU8);
  if (!known || !to) return;
  auto steps = read_steps(node, *known, *to);
  if (!steps) return;
  const DType precision = precision_of(node.dtype(x));
  x = in_type(node, x, precision);
  steps->scale = in_type(node, steps->scale, precision);
  ir::Attributes attributes = steps->attributes();
  attributes.set("dtype", *to);
  node.result("quantize", {x, steps->scale, steps->zero}, std::move(attributes));
}

// --- pairs of QuantizeLinear and DequantizeLinear

constexpr ir::Capture kX{0}, kScale{1}, kZero{2}, kQuantized{3}, kTask{4};

/// Returns the elements of a constant, also through casts and reshapes, or the number that a value repeats.
std::optional<std::vector<double>> numbers_of(const Node& node, ValueId value) {
  static const ir::Pattern kStored =
      ir::through({"cast", "reshape", "identity"}, ir::of_kind(ir::ValueKind::kConstant, kX));
  if (const auto stored = node.match(value, kStored)) return node.elements((*stored)[kX]);
  const auto repeated = node.match(value, ir::constant(kX));
  return repeated ? std::optional(std::vector{repeated->number(kX)}) : std::nullopt;
}

bool same_numbers(const Node& node, ValueId a, ValueId b) {
  if (a == b) return true;
  if (!(node.type(a).shape == node.type(b).shape)) return false;
  auto x = numbers_of(node, a), y = numbers_of(node, b);
  if (!x || !y) return false;
  for (auto* each : {&*x, &*y}) {
    const bool one = !each->empty() && std::equal(each->begin() + 1, each->end(), each->begin());
    if (one) each->resize(1);
  }
  return *x == *y;
}

/// Whether two values contain the same numbers, repeated over blocks in the same way.
bool repeat_the_same(const Node& node, ValueId a, ValueId b) {
  static const ir::Pattern kStep = ir::op({"slice", "reshape", "expand", "unsqueeze", "cast"}, ir::any(kX)).as(kTask);
  while (!same_numbers(node, a, b)) {
    const auto x = node.match(a, kStep), y = node.match(b, kStep);
    if (!x || !y || &x->graph().op(x->task(kTask)) != &y->graph().op(y->task(kTask))) return false;
    if (!(x->attributes(kTask) == y->attributes(kTask))) return false;
    a = (*x)[kX];
    b = (*y)[kX];
  }
  return true;
}

/// Whether `made`, a quantization, has the same scale, zero point and axis as `steps`.
bool is_undone(const Node& node, const ir::Match& made, const Steps& steps) {
  const ir::Attributes& given = made.attributes(kQuantized);
  const ir::Attribute* const axis = given.find("axis");
  if ((axis != nullptr) != steps.axis.has_value()) return false;
  if (axis != nullptr && !(*axis == ir::Attribute(ir::Dim(*steps.axis)))) return false;
  if (steps.blocks) {
    return repeat_the_same(node, made[kScale], steps.scale) && repeat_the_same(node, made[kZero], steps.zero);
  }
  return same_numbers(node, made[kScale], steps.scale) && same_numbers(node, made[kZero], steps.zero);
}

std::pair<int64_t, int64_t> range_of(DType dtype) {
  const int64_t half = int64_t{1} << (8 * ir::byte_size(dtype) - 1);
  return dtype == DType::kI8 || dtype == DType::kI16 ? std::pair(-half, half - 1) : std::pair(int64_t{0}, 2 * half - 1);
}

/// Returns the operand of QuantizeLinear if it produced x with the same scale, zero point and axis.
std::optional<ValueId> quantized_by_the_same(Node& node, ValueId x, const Steps& steps) {
  static const ir::Pattern kPair = ir::op("quantize", ir::any(kX), ir::any(kScale), ir::any(kZero)).as(kQuantized);
  const auto pair = node.match(x, kPair);
  const ir::Shape* const scale = node.shape(steps.scale);
  const bool whole = scale && (steps.axis || scale->empty() || (steps.blocks && !node.type(x).batch.has_batch()));
  return pair && whole && is_undone(node, *pair, steps) ? std::optional((*pair)[kX]) : std::nullopt;
}

/// Reshapes blocks to rows, which have separate scales.
ValueId fake_quantized_blocks(Node& node, ValueId x, const Blocks& blocks, ir::Attributes attributes) {
  const ir::Shape from = *node.shape(x);
  const ir::Shape counts = *node.shape(blocks.scale);
  const auto at = static_cast<size_t>(blocks.axis);
  const auto rank = static_cast<int64_t>(from.size());
  ir::Shape padded = from, apart = from, order, back;
  padded[at] = counts[at] * ir::Dim(blocks.length);
  apart[at] = counts[at];
  apart.insert(apart.begin() + blocks.axis + 1, ir::Dim(blocks.length));
  for (int64_t i = 0; i <= rank; ++i) {
    if (i != blocks.axis + 1) order.emplace_back(i);
    back.emplace_back(i <= blocks.axis ? i : i == blocks.axis + 1 ? rank : i - 1);
  }
  order.emplace_back(blocks.axis + 1);
  ir::Shape moved = counts;
  moved.emplace_back(blocks.length);
  const ir::Dim rows = ir::element_count(counts);
  const bool is_short = !(padded[at] == from[at]);
  if (is_short) {
    ir::Shape pads(2 * from.size(), ir::Dim(0));
    pads[at + from.size()] = padded[at] - from[at];
    x = node.emit("pad", {x}, {{"pads", pads}, {"value", 0.0}});
  }
  x = node.emit("permute", {node.emit("reshape", {x}, {{"shape", apart}})}, {{"dims", order}});
  x = node.emit("reshape", {x}, {{"shape", ir::Shape{rows, ir::Dim(blocks.length)}}});
  const ValueId scale = node.emit("reshape", {in_type(node, blocks.scale, DType::kF32)}, {{"shape", ir::Shape{rows}}});
  const ValueId zero = node.emit("reshape", {blocks.zero}, {{"shape", ir::Shape{rows}}});
  attributes.set("axis", ir::Dim(0));
  x = node.emit("fake_quantize", {x, scale, zero}, std::move(attributes));
  x = node.emit("permute", {node.emit("reshape", {x}, {{"shape", moved}})}, {{"dims", back}});
  x = node.emit("reshape", {x}, {{"shape", padded}});
  if (!is_short) return x;
  return node.emit("slice", {x},
                   {{"axes", ir::Shape{blocks.axis}}, {"starts", ir::Shape{0}}, {"ends", ir::Shape{from[at]}}});
}

void dequantize_linear(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const sizes = node.shape(x);
  const auto to = requested_type(node, node.dtype(node.in(1)));
  if (!sizes || !to) return;
  auto steps = read_steps(node, *sizes, node.dtype(x));
  if (!steps) return;
  steps->scale = in_type(node, steps->scale, precision_of(*to));
  std::array operands = {x, steps->scale, steps->zero};
  ir::Attributes attributes = steps->attributes();
  std::string_view op = "dequantize";
  DType made = precision_of(*to);
  if (const auto through = quantized_by_the_same(node, x, *steps)) {
    op = "fake_quantize";
    operands[0] = *through;
    made = node.dtype(*through);
    const auto [low, high] = range_of(node.dtype(x));
    attributes.set("low", ir::Dim(low));
    attributes.set("high", ir::Dim(high));
    node.remark("pairs of QuantizeLinear and DequantizeLinear pass gradients where nothing is clipped");
  }
  if (steps->blocks && op == "fake_quantize") {
    const ValueId y = fake_quantized_blocks(node, operands[0], *steps->blocks, std::move(attributes));
    return made == *to ? node.result_at(0, y) : node.result("cast", {y}, {{"dtype", *to}});
  }
  if (made == *to) return node.result(op, operands, std::move(attributes));
  node.result("cast", {node.emit(op, operands, std::move(attributes))}, {{"dtype", *to}});
}

// --- products of integers

/// Returns a float type that exactly represents sums of `terms` products of 8-bit integers minus their zero points.
DType exact_for(const ir::Dim& terms) {
  constexpr int64_t kMost = (int64_t{1} << 24) / (255 * 255);
  return terms.is_constant() && terms.constant() <= kMost ? DType::kF32 : DType::kF64;
}

/// Reshapes one number per position of an axis, counted from the end, so that it broadcasts along that axis.
ValueId on_axis(Node& node, ValueId value, size_t from_end) {
  const ir::Shape* const known = node.shape(value);
  if (!known || known->size() != 1 || from_end == 1) return value;
  ir::Shape to(from_end, ir::Dim(1));
  to[0] = (*known)[0];
  return node.emit("reshape", {value}, {{"shape", to}});
}

/// Returns x minus its zero point, as floats.
ValueId centred(Node& node, ValueId x, ValueId zero, DType dtype, size_t from_end) {
  const ValueId number = node.emit("cast", {x}, {{"dtype", dtype}});
  if (!zero.valid()) return number;
  return node.emit("sub", {number, on_axis(node, node.emit("cast", {zero}, {{"dtype", dtype}}), from_end)});
}

ValueId product(Node& node, ValueId a, ValueId a_zero, ValueId b, ValueId b_zero) {
  const ir::Shape *const left = node.shape(a), *const right = node.shape(b);
  if (!left || !right) return {};
  if (left->empty() || right->empty()) {
    node.fail(node.op() + " needs operands of at least one axis");
    return {};
  }
  const DType dtype = exact_for(left->back());
  const size_t rows = left->size() > 1 ? 2 : 1;
  const ValueId x = centred(node, a, a_zero, dtype, rows), y = centred(node, b, b_zero, dtype, 1);
  return node.emit("matmul", {x, y});
}

void matmul_integer(Node& node) {
  const ValueId sums = product(node, node.in(0), node.optional(2), node.in(1), node.optional(3));
  node.result("cast", {sums}, {{"dtype", DType::kI32}});
}

/// Multiplies sums by the scales of both factors and divides by the scale of the result.
void requantized(Node& node, ValueId sums, ValueId factors, ValueId scale, ValueId zero) {
  const ValueId wide = in_type(node, sums, DType::kF32);
  const ValueId numbers = node.emit("mul", {wide, factors});
  const ValueId steps = node.emit("reshape", {in_type(node, scale, DType::kF32)}, {{"shape", ir::Shape{}}});
  const ValueId middle = node.emit("reshape", {zero}, {{"shape", ir::Shape{}}});
  node.result("quantize", {numbers, steps, middle}, {{"dtype", node.dtype(zero)}});
}

void qlinear_matmul(Node& node) {
  const ir::Shape* const left = node.shape(node.in(0));
  if (!left) return;
  const size_t from_end = left->size() > 1 ? 2 : 1;
  const ValueId sums = product(node, node.in(0), node.in(2), node.in(3), node.in(5));
  const ValueId rows = on_axis(node, in_type(node, node.in(1), DType::kF32), from_end);
  const ValueId columns = in_type(node, node.in(4), DType::kF32);
  requantized(node, sums, node.emit("mul", {rows, columns}), node.in(6), node.in(7));
}

/// Operands of an integer convolution.
struct IntegerConvolution {
  ValueId x, x_zero, weight, weight_zero, bias;
};

ValueId convolved(Node& node, const IntegerConvolution& of) {
  const auto window = read_window(node, of.x, kernel_of(node, of.weight));
  const ir::Shape* const weight = node.shape(of.weight);
  if (!window || !weight) return {};
  const size_t rank = weight->size();
  const DType dtype = exact_for(ir::element_count(ir::Shape(weight->begin() + 1, weight->end())));
  std::vector<ValueId> operands = {centred(node, of.x, of.x_zero, dtype, 1),
                                   centred(node, of.weight, of.weight_zero, dtype, rank)};
  if (of.bias.valid()) operands.push_back(node.emit("cast", {of.bias}, {{"dtype", dtype}}));
  return node.emit("conv", operands,
                   {{"strides", list(window->strides)},
                    {"pads", list(window->pads)},
                    {"dilations", list(window->dilations)},
                    {"groups", ir::Dim(node.integer("group", 1))}});
}

void conv_integer(Node& node) {
  const ValueId sums = convolved(node, {node.in(0), node.optional(2), node.in(1), node.optional(3), {}});
  node.result("cast", {sums}, {{"dtype", DType::kI32}});
}

void qlinear_conv(Node& node) {
  const ValueId sums = convolved(node, {node.in(0), node.in(2), node.in(3), node.in(5), node.optional(8)});
  const ir::Shape* const weight = node.shape(node.in(3));
  if (!weight || !node.good()) return;
  const size_t from_end = weight->size() - 1;
  const ValueId channels = on_axis(node, in_type(node, node.in(4), DType::kF32), from_end);
  const ValueId factors = node.emit("mul", {in_type(node, node.in(1), DType::kF32), channels});
  requantized(node, sums, factors, node.in(6), node.in(7));
}

}  // namespace

std::span<const Translator> quantize_translators() {
  static constexpr Translator kTable[] = {
      {"ConvInteger", 10, 27, conv_integer},     {"DequantizeLinear", 10, 27, dequantize_linear},
      {"MatMulInteger", 10, 27, matmul_integer}, {"QLinearConv", 10, 27, qlinear_conv},
      {"QLinearMatMul", 10, 27, qlinear_matmul}, {"QuantizeLinear", 10, 27, quantize_linear},
  };
  return kTable;
}

}  // namespace rannc::frontend
