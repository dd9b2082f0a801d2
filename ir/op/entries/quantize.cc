// Quantization and dequantization with a scale and a zero point.
#include <algorithm>

#include "ir/op/entries/elementwise_rows.h"
#include "ir/op/gradients/gradients_elementwise.h"
#include "ir/op/rules/picks.h"

namespace rannc::ir::ops {
namespace {

using aten::Operand;
using aten::Scalar;

enum QuantizeOf : size_t { kFrom, kScale, kZero };

// --- type rules

// Checks scale and zero point: one number, one number per position on attribute `axis`, or broadcastable to x.
Result<void> require_steps(const OpCall& call) {
  RANNC_ASSIGN(const Shape x, shape_of(call, kFrom));
  RANNC_ASSIGN(const Shape scale, shape_of(call, kScale));
  if (!is_float(call.in(kScale).dtype)) {
    return error("the scale is " + std::string(str(call.in(kScale).dtype)) + "; it must be a float type");
  }
  RANNC_ASSIGN(const Shape zero, shape_of(call, kZero));
  if (!taken_for_equal(call, zero, scale)) {
    return error("the zero point has not the scale's shape " + str(scale));
  }
  if (call.attributes.has("axis")) {
    RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), x.size()));
    RANNC_TRY(keep_samples_apart(call, kFrom, axis));
    if (taken_for_equal(call, scale, {x[static_cast<size_t>(axis)]})) return {};
    return error("scale " + str(scale) + " is not one number for each of axis " + std::to_string(axis) + " of " +
                 str(x));
  }
  RANNC_ASSIGN(const Shape both, broadcast(call, x, scale));
  if (taken_for_equal(call, both, x)) return {};
  return error("scale " + str(scale) + " does not stretch to " + str(x));
}

Result<Types> infer_quantize(const OpCall& call) {
  RANNC_TRY(require_steps(call));
  const DType dtype = *call.attributes.dtype("dtype");
  if (!is_float(call.in(kFrom).dtype)) return error("quantize of " + std::string(str(call.in(kFrom).dtype)));
  if (!is_integer(dtype) || byte_size(dtype) > 2) {
    return error("quantize to " + std::string(str(dtype)) + "; integers of 8 and 16 bits are supported");
  }
  return Types{like(call, dtype)};
}

Result<Types> infer_dequantize(const OpCall& call) {
  RANNC_TRY(require_steps(call));
  if (!is_integer(call.in(kFrom).dtype)) return error("dequantize of " + std::string(str(call.in(kFrom).dtype)));
  return Types{like(call, call.in(kScale).dtype)};
}

Result<Types> infer_fake_quantize(const OpCall& call) {
  RANNC_TRY(require_steps(call));
  if (!is_float(call.in(kFrom).dtype)) return error("fake_quantize of " + std::string(str(call.in(kFrom).dtype)));
  const bool whole = call.attributes.has("axis") || call.in(kScale).shape->empty();
  if (!whole) return error("fake_quantize by a scale " + str(*call.in(kScale).shape) + " without axis");
  const int64_t low = call.attributes.integer("low"), high = call.attributes.integer("high");
  if (low < high) return Types{like(call, call.in(kFrom).dtype)};
  return error("there are no integers from " + std::to_string(low) + " to " + std::to_string(high));
}

// --- lowering

// Reshapes a value with one number per position on the axis so that it broadcasts to x.
aten::Value along_axis(Calls& calls, const LowerCall& call, aten::Value value) {
  if (!call.attributes.has("axis")) return value;
  const Shape& x = shape_of(*call.inputs[kFrom]);
  const size_t axis = counted_axis(call.attributes, x.size());
  if (axis + 1 == x.size()) return value;
  Shape to(x.size() - axis, Dim(1));
  to[0] = x[axis];
  return calls("aten::reshape", {value, to});
}

aten::Value in_type(Calls& calls, aten::Value value, DType from, DType to) {
  return from == to ? value : calls("aten::to.dtype", {value, to});
}

struct Bounds8Or16 {
  int64_t low, high;
};
Bounds8Or16 bounds_of_type(DType dtype) {
  const int64_t half = int64_t{1} << (8 * byte_size(dtype) - 1);
  const bool has_sign = dtype == DType::kI8 || dtype == DType::kI16;
  return has_sign ? Bounds8Or16{-half, half - 1} : Bounds8Or16{0, 2 * half - 1};
}

Result<aten::Lowering> lower_quantize(const LowerCall& call) {
  const DType of_x = call.inputs[kFrom]->dtype, to = call.outputs[0]->dtype;
  Calls calls;
  const aten::Value steps = in_type(calls, Operand{kScale}, call.inputs[kScale]->dtype, of_x);
  const aten::Value parts = calls("aten::div.Tensor", {Operand{kFrom}, along_axis(calls, call, steps)});
  aten::Value number = calls("aten::round", {parts});
  const aten::Value zero = calls("aten::to.dtype", {Operand{kZero}, of_x});
  number = calls("aten::add.Tensor", {number, along_axis(calls, call, zero)});
  const auto [low, high] = bounds_of_type(to);
  number = calls("aten::clamp", {number, Scalar{Dim(low)}, Scalar{Dim(high)}});
  return std::move(calls).with({calls("aten::to.dtype", {number, to})});
}

Result<aten::Lowering> lower_dequantize(const LowerCall& call) {
  const DType to = call.outputs[0]->dtype;
  Calls calls;
  const aten::Value number = calls("aten::to.dtype", {Operand{kFrom}, to});
  const aten::Value zero = along_axis(calls, call, calls("aten::to.dtype", {Operand{kZero}, to}));
  const aten::Value apart = calls("aten::sub.Tensor", {number, zero});
  return std::move(calls).with({calls("aten::mul.Tensor", {apart, along_axis(calls, call, Operand{kScale})})});
}

// x within one step of what `low` and `high` stand for. ATen's kernel with an axis converts quotients to integers,
// which do not hold infinity, before it clips them.
aten::Value within_a_step(Calls& calls, const LowerCall& call, aten::Value scale) {
  const DType of_x = call.inputs[kFrom]->dtype;
  const aten::Value zero = in_type(calls, Operand{kZero}, call.inputs[kZero]->dtype, DType::kF32);
  const auto bound = [&](int64_t number) {
    const aten::Value steps = calls("aten::rsub.Scalar", {zero, Scalar{Dim(number)}});
    const aten::Value at = calls("aten::mul.Tensor", {steps, scale});
    return along_axis(calls, call, in_type(calls, at, DType::kF32, of_x));
  };
  const aten::Value least = bound(call.attributes.integer("low") - 1);
  return calls("aten::clamp.Tensor", {Operand{kFrom}, least, bound(call.attributes.integer("high") + 1)});
}

// ATen requires f32 scales, for which it has no derivative, and i32 zero points.
Result<aten::Lowering> lower_fake_quantize(const LowerCall& call) {
  Calls calls;
  const aten::Value fixed = calls("aten::detach", {Operand{kScale}});
  const aten::Value scale = in_type(calls, fixed, call.inputs[kScale]->dtype, DType::kF32);
  const aten::Value zero = in_type(calls, Operand{kZero}, call.inputs[kZero]->dtype, DType::kI32);
  const int64_t low = call.attributes.integer("low"), high = call.attributes.integer("high");
  if (!call.attributes.has("axis")) {
    return std::move(calls).with(
        {calls("aten::fake_quantize_per_tensor_affine.tensor_qparams", {Operand{kFrom}, scale, zero, low, high})});
  }
  const size_t axis = counted_axis(call.attributes, shape_of(*call.inputs[kFrom]).size());
  return std::move(calls).with({calls("aten::fake_quantize_per_channel_affine",
                                      {within_a_step(calls, call, scale), scale, zero, axis, low, high})});
}

// --- gradients

// Gives the scale a gradient of x's shape, summed over all elements that share one number of the scale.
void give_to_scale(GradientCall& call, ValueId gradient) {
  if (!call.attributes().has("axis")) return call.give_unstretched(kScale, gradient);
  const auto rank = static_cast<int64_t>(call.shape(gradient).size());
  const auto axis = static_cast<int64_t>(counted_axis(call.attributes(), static_cast<size_t>(rank)));
  Shape others;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) others.emplace_back(i);
  }
  call.give(kScale, others.empty() ? gradient : call.add("sum", {gradient}, {{"axes", others}, {"keepdim", false}}));
}

ValueId stretched(GradientCall& call, ValueId value) {
  if (!call.attributes().has("axis")) return value;
  const Shape& x = call.shape(call.operand(kFrom));
  const size_t axis = counted_axis(call.attributes(), x.size());
  Shape to(x.size() - axis, Dim(1));
  to[0] = x[axis];
  return to.size() == 1 ? value : call.add("reshape", {value}, {{"shape", to}});
}

ValueId as_float(GradientCall& call, ValueId value, ValueId like) {
  const DType dtype = call.type(like).dtype;
  return call.type(value).dtype == dtype ? value : call.add("cast", {value}, {{"dtype", dtype}});
}

bool dequantize_gradient(GradientCall& call) {
  if (!call.wants(kScale)) return true;
  const ValueId scale = call.operand(kScale), zero = call.operand(kZero);
  const ValueId middle = stretched(call, as_float(call, zero, scale));
  const ValueId number = call.add("sub", {as_float(call, call.operand(kFrom), scale), middle});
  give_to_scale(call, call.add("mul", {call.gradient(), number}));
  return true;
}

// Straight-through gradient where the integer is within the bounds, 0 where it was clipped. As in LibTorch, the scale
// has no gradient.
bool fake_quantize_gradient(GradientCall& call) {
  const ValueId x = call.operand(kFrom), zero = call.operand(kZero);
  const auto number = [&](std::string_view bound) {
    return call.number(static_cast<double>(call.attributes().integer(bound)), x);
  };
  const auto where_true = [&](ValueId condition) { return call.add("where_grad", {call.gradient(), condition}); };
  if (call.wants(kFrom)) {
    const ValueId parts = call.add("div", {x, stretched(call, as_float(call, call.operand(kScale), x))});
    const ValueId place = call.add("round", {call.add("add", {parts, stretched(call, as_float(call, zero, x))})});
    const ValueId above = call.add("ge", {place, number("low")}), below = call.add("le", {place, number("high")});
    call.give(kFrom, where_true(call.add("logical_and", {above, below})));
  }
  if (!call.wants(kScale)) return true;
  const Attributes no = {{"shape", Shape{}}, {"value", false}, {"dtype", DType::kBool}};
  give_to_scale(call, where_true(call.add("full", {}, no)));
  return true;
}

// --- tape

// Keeps one boolean per element. With an axis also x and its bounds.
TapeUse fake_quantize_tape(const TapeCall& call) {
  if (call.wants(kFrom) && call.attributes.has("axis")) {
    const Dim elements = element_count(shape_of(*call.inputs[kFrom]));
    const Dim bounds = element_count(shape_of(*call.inputs[kScale])) * Dim(2 * byte_size(call.inputs[kFrom]->dtype));
    return {.keeps = {kept_operand(kFrom)}, .own_bytes = elements + bounds};
  }
  return {.own_bytes = call.wants(kFrom) ? element_count(shape_of(*call.inputs[kFrom])) : Dim(0)};
}

}  // namespace

std::vector<OpInfo> quantize_ops() {
  using Kind = AttributeKind;
  const std::vector<OperandInfo> operands = {{"x"}, {"scale", Role::kStatistics}, {"zero"}};
  const AttributeInfo axis{"axis", Kind::kInteger};
  const AttributeInfo low{.name = "low", .kind = Kind::kInteger, .required = true},
      high{.name = "high", .kind = Kind::kInteger, .required = true};
  return {
      {.name = "core.quantize",
       .summary = "x / scale, rounded to even, plus zero point, within what the integer type holds",
       .onnx = {"QuantizeLinear"},
       .aten = {"aten::round", "aten::clamp"},
       .operands = operands,
       .attributes = {axis, {.name = "dtype", .kind = Kind::kDType, .required = true}},
       .autocast = Autocast::kFloat32,
       .infer = infer_quantize,
       .work = elementwise_work<4>,
       .lower = lower_quantize},
      {.name = "core.dequantize",
       .summary = "(x - zero point) * scale, of integers",
       .onnx = {"DequantizeLinear"},
       .aten = {"aten::sub", "aten::mul"},
       .operands = operands,
       .attributes = {axis},
       .autocast = Autocast::kFloat32,
       .infer = infer_dequantize,
       .work = elementwise_work<2>,
       .lower = lower_dequantize,
       .gradient = dequantize_gradient},
      {.name = "core.fake_quantize",
       .summary = "x as quantizing and dequantizing it leaves it; its gradient passes where no integer was clipped",
       .onnx = {"DequantizeLinear"},
       .aten = {"aten::fake_quantize_per_tensor_affine", "aten::fake_quantize_per_channel_affine"},
       .operands = operands,
       .attributes = {axis, low, high},
       .autocast = Autocast::kFloat32,
       .infer = infer_fake_quantize,
       .work = elementwise_work<6>,
       .lower = lower_fake_quantize,
       .gradient = fake_quantize_gradient,
       .tape = TapeInfo{.rule = fake_quantize_tape}},
  };
}

}  // namespace rannc::ir::ops
