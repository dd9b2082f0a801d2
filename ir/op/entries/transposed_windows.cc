// Transposed convolution and unpooling.
#include <algorithm>

#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/rules/picks.h"
#include "ir/op/rules/windows.h"

namespace rannc::ir::ops {
namespace {

// --- conv_transpose

// Number of elements added at the end of each axis.
Result<std::vector<int64_t>> added_at_ends(const OpAttributes& attributes, const Window& window) {
  std::vector<int64_t> added = attributes.integers("output_padding");
  if (added.empty()) added.assign(window.rank(), 0);
  if (added.size() != window.rank()) return error("output_padding does not fit the spatial axes");
  for (size_t i = 0; i < added.size(); ++i) {
    const int64_t most = std::max(window.strides[i], window.dilations[i]);
    if (added[i] >= 0 && added[i] < most) continue;
    return error("output_padding " + std::to_string(added[i]) + " of axis " + std::to_string(i + 2) +
                 " must lie below its stride or dilation, of " + std::to_string(most));
  }
  return added;
}

Result<Shape> spread_shape(const Window& window, const std::vector<int64_t>& added, const Shape& from,
                           const Dim& channels) {
  Shape to = {from[0], channels};
  for (size_t i = 0; i < window.rank(); ++i) {
    const Dim stride = window.strides[i];
    to.push_back((from[i + 2] - Dim(1)) * stride + Dim(window.reach(i) + added[i] - window.begin[i] - window.end[i]));
    if (to.back().is_constant() && to.back().constant() < 1) {
      return error("nothing is left of axis " + std::to_string(i + 2) + " of " + str(from) + " without its pads");
    }
  }
  return to;
}

Result<Types> infer_conv_transpose(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Shape weight, shape_of(call, 1));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1, 2}));
  if (weight.size() < 3 || !constants(weight)) return error("weight " + str(weight) + " is not [in, out, spatial…]");
  const int64_t groups = call.attributes.integer("groups");
  if (from.size() != weight.size() || !taken_for_equal(call, from[1], weight[0])) {
    return error("input " + str(from) + " does not fit weight " + str(weight));
  }
  if (groups < 1 || weight[0].constant() % groups != 0) {
    return error(weight[0].str() + " input channels do not divide into " + std::to_string(groups) + " groups");
  }
  const Dim channels = weight[1] * Dim(groups);
  if (call.has(2)) {
    RANNC_ASSIGN(const Shape bias, shape_of(call, 2));
    if (bias != Shape{channels}) return error("bias " + str(bias) + " does not fit " + channels.str() + " channels");
  }
  RANNC_ASSIGN(const Window window, window_of(call.attributes, plain(weight, 2)));
  RANNC_ASSIGN(const std::vector<int64_t> added, added_at_ends(call.attributes, window));
  RANNC_TRY(samples_lead(call, 0));
  RANNC_ASSIGN(Shape to, spread_shape(window, added, from, channels));
  return Types{make_type(dtype, std::move(to), call.in(0).batch)};
}

// With a bias it is not linear in x.
Linear conv_transpose_linear(const OpCall& call) { return call.has(2) ? Linear::kNo : Linear::kEach; }

// Each element of x is multiplied with each element of its filter.
Work conv_transpose_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!call.in(0).shape || !call.in(1).shape) return {};
  const Shape& weight = *call.in(1).shape;
  const Dim filter = element_count(Shape(weight.begin() + 1, weight.end())) * Dim(2);
  return work(element_count(*call.in(0).shape) * filter, call, outputs);
}

// ATen removes equal pads from both sides. Unequal ones are removed explicitly.
Result<aten::Lowering> lower_conv_transpose(const LowerCall& call) {
  RANNC_ASSIGN(const Window window, window_of(call.attributes, plain(shape_of(*call.inputs[1]), 2)));
  RANNC_ASSIGN(const std::vector<int64_t> added, added_at_ends(call.attributes, window));
  const bool by_hand = !window.symmetric();
  const Window taken = by_hand ? without_pads(window) : window;
  const std::string_view overload = window.rank() == 1 ? "d" : "d.input";
  Calls calls;
  aten::Value made = calls(dimensional("conv_transpose", window.rank(), overload),
                           {aten::Operand{0}, aten::Operand{1}, aten::Operand{2}, taken.strides, taken.begin, added,
                            call.attributes.integer("groups"), taken.dilations});
  if (by_hand) made = without_pads(calls, window, made);
  return std::move(calls).with({made});
}

TapeUse conv_transpose_tape(const TapeCall& call) {
  const ValueType& weight = *call.inputs[1];
  return {
      .keeps = {kept_operand(0), kept_operand(1)},
      .workspace_bytes = element_count(shape_of(weight)) * Dim(byte_size(weight.dtype))};  // a copy in another layout
}

// --- max_unpool

// Shape viewed as [samples, channels, positions].
Shape flat(const Shape& shape) { return {shape[0], shape[1], element_count(Shape(shape.begin() + 2, shape.end()))}; }

Result<Types> infer_max_unpool(const OpCall& call) {
  RANNC_ASSIGN(Shape to, shape_of(call, 0));
  RANNC_ASSIGN(const Shape places, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  RANNC_TRY(samples_lead(call, 0));
  const Shape& sizes = *call.attributes.list("sizes");
  if (!taken_for_equal(call, places, to) || to.size() < 3 || to.size() != sizes.size() + 2) {
    return error("x " + str(to) + ", places " + str(places) + " and sizes " + str(sizes) + " do not fit");
  }
  if (!(call.in(0).batch == call.in(1).batch)) return error("x and places have their samples in different places");
  RANNC_TRY(require_sizes(call, sizes));
  std::copy(sizes.begin(), sizes.end(), to.begin() + 2);
  return Types{make_type(call.in(0).dtype, std::move(to), call.in(0).batch)};
}

Result<aten::Lowering> lower_max_unpool(const LowerCall& call) {
  const Shape &from = shape_of(*call.inputs[0]), &to = shape_of(*call.outputs[0]);
  Calls calls;
  aten::Value places = aten::Operand{1};
  if (call.inputs[1]->dtype != DType::kI64) places = calls("aten::to.dtype", {places, DType::kI64});
  const aten::Value index = calls("aten::reshape", {places, flat(from)});
  const aten::Value source = calls("aten::reshape", {aten::Operand{0}, flat(from)});
  const aten::Value zeros = calls("aten::new_zeros", {aten::Operand{0}, flat(to)});
  const aten::Value spread = calls("aten::scatter.src", {zeros, 2, index, source});
  return std::move(calls).with({calls("aten::reshape", {spread, to})});
}

}  // namespace

std::vector<OpInfo> transposed_window_ops() {
  using Kind = AttributeKind;
  const auto integers = [](std::string_view name) { return AttributeInfo{name, Kind::kIntegers}; };
  return {
      {.name = "core.conv_transpose",
       .summary =
           "what conv over 1 to 3 axes does to its gradient, and a bias; pads are taken off, output_padding added",
       .onnx = {"ConvTranspose", "Col2Im"},
       .aten = {"aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"},
       .operands = {{"x"}, {"weight", Role::kWeight}, {"bias", Role::kWeight, Presence::kOptional}},
       .attributes = {integers("strides"),
                      integers("pads"),
                      integers("dilations"),
                      integers("output_padding"),
                      {"groups", Kind::kInteger, Dim(1)}},
       .autocast = Autocast::kSixteenBit,
       .infer = infer_conv_transpose,
       .linear = conv_transpose_linear,
       .work = conv_transpose_work,
       .lower = lower_conv_transpose,
       .gradient = gradient::conv_transpose,
       .tape = TapeInfo{.rule = conv_transpose_tape}},
      {.name = "core.max_unpool",
       .summary = "x at its places in the spatial axes, whose `sizes` are given, seen as one; zeros elsewhere",
       .onnx = {"MaxUnpool"},
       .aten = {"aten::max_unpool2d", "aten::max_unpool3d"},
       .operands = {{"x"}, {"places", Role::kIndex}},
       .attributes = {{.name = "sizes", .kind = Kind::kSizes, .required = true}},
       .infer = infer_max_unpool,
       .linear = always<Linear::kFirst>,
       .lower = lower_max_unpool,
       .gradient = gradient::max_unpool},
  };
}

}  // namespace rannc::ir::ops
