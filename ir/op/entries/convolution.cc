// Convolutions and pooling over [samples, channels, 1 to 3 spatial axes].
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/rules/interval.h"
#include "ir/op/rules/memory.h"
#include "ir/op/rules/windows.h"

namespace rannc::ir::ops {
namespace {

// Type of the result with `channels` channels.
Result<Types> windowed(const OpCall& call, const Window& window, const Dim& channels, bool ceil) {
  RANNC_ASSIGN(Shape to, windowed(window, *call.in(0).shape, channels, ceil));
  RANNC_TRY(samples_lead(call, 0));
  RANNC_TRY(channels_can_be_last(call));
  return Types{make_type(call.in(0).dtype, std::move(to), call.in(0).batch)};
}

// Pads `value` by a separate call and clears the window's pads.
aten::Value padded_by_hand(Calls& calls, Window& window, aten::Value value, double fill) {
  value = padded(calls, window, value, fill);
  window = without_pads(window);
  return value;
}

// --- conv

bool are_all(const std::vector<int64_t>& numbers, int64_t each) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == each; });
}

// Checks the conditions of the algorithms: `linear` is a product over channels at each position, and `onednn` needs
// equal pads at both ends.
Result<void> algorithm_fits(const OpCall& call, const Window& window) {
  const std::string algorithm = call.attributes.text("algorithm");
  if (algorithm == kOneDnn && !(window.symmetric() && call.in(0).dtype == DType::kF32))
    return error("onednn takes float32, and equal pads at both ends");
  if (algorithm != kLinear) return {};
  const bool by_places = are_all(window.kernel, 1) && are_all(window.begin, 0) && are_all(window.end, 0) &&
                         call.attributes.integer("groups") == 1;
  if (by_places && call.attributes.flag(kChannelsLast)) return {};
  return error("a convolution is linear where its window is one place, of one group, without pads, channels last");
}

Result<Types> infer_conv(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Shape weight, shape_of(call, 1));
  RANNC_TRY(common_dtype(call, {0, 1, 2}));
  if (weight.size() < 3 || !constants(weight)) return error("weight " + str(weight) + " is not [out, in, spatial…]");
  const int64_t groups = call.attributes.integer("groups");
  if (from.size() < 2 || !taken_for_equal(call, from[1], weight[1] * Dim(groups))) {
    return error("input " + str(from) + " does not fit weight " + str(weight) + " with " + std::to_string(groups) +
                 " groups");
  }
  if (groups < 1 || weight[0].constant() % groups != 0) {
    return error(weight[0].str() + " output channels do not divide into " + std::to_string(groups) + " groups");
  }
  if (call.has(2)) {
    RANNC_ASSIGN(const Shape bias, shape_of(call, 2));
    if (bias != Shape{weight[0]}) return error("bias " + str(bias) + " does not fit " + weight[0].str() + " channels");
  }
  RANNC_ASSIGN(const Window window, window_of(call.attributes, plain(weight, 2)));
  RANNC_TRY(algorithm_fits(call, window));
  return windowed(call, window, weight[0], false);
}

// With a bias it is not linear in x.
Linear conv_linear(const OpCall& call) { return call.has(2) ? Linear::kNo : Linear::kEach; }

Work conv_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !call.in(1).shape) return {};
  const Shape& weight = *call.in(1).shape;
  const Dim per_output = element_count(Shape(weight.begin() + 1, weight.end())) * Dim(2);
  return work(element_count(*outputs[0].shape) * per_output, call, outputs);
}

// Product of the weight with the positions that the window visits, channels last.
aten::Lowering lower_linear_conv(const LowerCall& call, const Window& window) {
  const Shape& weight = shape_of(*call.inputs[1]);
  Calls calls;
  aten::Value value = aten::Operand{0};
  for (size_t i = 0; i < window.rank(); ++i) {
    if (window.strides[i] == 1) continue;
    value = calls("aten::slice.Tensor", {value, i + 2, 0, aten::None{}, window.strides[i]});
  }
  value = calls("aten::permute", {value, Shape(std::begin(kBehind), std::end(kBehind))});
  const aten::Value rows = calls("aten::reshape", {aten::Operand{1}, Shape{weight[0], weight[1]}});
  value = calls("aten::linear", {value, rows, aten::Operand{2}});
  return std::move(calls).with({calls("aten::permute", {value, Shape(std::begin(kInFront), std::end(kInFront))})});
}

Result<aten::Lowering> lower_conv(const LowerCall& call) {
  RANNC_ASSIGN(Window window, window_of(call.attributes, plain(shape_of(*call.inputs[1]), 2)));
  const std::string algorithm = call.attributes.text("algorithm");
  if (algorithm == kLinear) return lower_linear_conv(call, window);
  if (algorithm == kOneDnn) {
    RANNC_TRY(require_cpu(call, "aten::mkldnn_convolution"));
    return one_call("aten::mkldnn_convolution", {aten::Operand{0}, aten::Operand{1}, aten::Operand{2}, window.begin,
                                                 window.strides, window.dilations, call.attributes.integer("groups")});
  }
  Calls calls;
  aten::Value value = aten::Operand{0};
  if (!window.symmetric()) value = padded_by_hand(calls, window, value, 0);
  return std::move(calls).with(
      {calls(dimensional("conv", window.rank()), {value, aten::Operand{1}, aten::Operand{2}, window.strides,
                                                  window.begin, window.dilations, call.attributes.integer("groups")})});
}

// --- max_pool, avg_pool

Result<Types> infer_pool(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  return windowed(call, window, from.size() < 2 ? Dim(0) : from[1], call.attributes.flag("ceil"));
}

Result<Types> infer_max_pool(const OpCall& call) {
  RANNC_ASSIGN(Types types, infer_pool(call));
  if (call.output_count == 1) return types;
  types.push_back(types[0]);
  types[1].dtype = DType::kI64;
  return types;
}

Work pool_work(const OpCall& call, std::span<const ValueType> outputs) {
  int64_t window = 1;
  for (const int64_t k : call.attributes.integers("kernel")) window *= k;
  return work(outputs[0].shape ? element_count(*outputs[0].shape) * Dim(window) : Dim(0), call, outputs);
}

// Drops windows that start in the right pad, which ATen cannot distinguish from the input after explicit padding.
aten::Value without_late_windows(Calls& calls, aten::Value value, const LowerCall& call, const Window& window) {
  const Shape& to = shape_of(*call.outputs[0]);
  for (size_t i = 0; i < window.rank(); ++i) value = calls("aten::slice.Tensor", {value, i + 2, 0, to[i + 2], 1});
  return value;
}

Result<aten::Lowering> lower_pool(const LowerCall& call, std::string_view name, double fill,
                                  const std::function<std::vector<aten::Argument>(const Window&)>& rest) {
  RANNC_ASSIGN(Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  const bool by_hand = !aten_pads(window);
  Calls calls;
  aten::Value value = aten::Operand{0};
  if (by_hand) value = padded_by_hand(calls, window, value, fill);
  std::vector<aten::Argument> arguments = {value, window.kernel, window.strides, window.begin};
  for (aten::Argument& argument : rest(window)) arguments.push_back(std::move(argument));
  value = calls(dimensional(name, window.rank()), std::move(arguments));
  if (by_hand && call.attributes.flag("ceil")) value = without_late_windows(calls, value, call, window);
  return std::move(calls).with({value});
}

// The least number, which pads never exceed.
double least_of(DType dtype) {
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  const bool has_sign = dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
  return has_sign ? -std::ldexp(1.0, static_cast<int>(8 * byte_size(dtype)) - 1) : 0;
}

// Positions refer to an operand that is explicitly padded so that the windows fit exactly.
Result<aten::Lowering> lower_max_pool_with_places(const LowerCall& call) {
  RANNC_ASSIGN(Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  const bool by_hand = !aten_pads(window);
  Calls calls;
  aten::Value value = aten::Operand{0};
  if (by_hand) {
    const Shape pads = exact_pads(window, shape_of(*call.inputs[0]), shape_of(*call.outputs[0]), 1);
    value = calls("aten::constant_pad_nd", {value, pads, aten::Scalar{least_of(call.inputs[0]->dtype)}});
    window = without_pads(window);
  }
  const aten::Made pooled = calls(
      dimensional("max_pool", window.rank(), "d_with_indices"),
      {value, window.kernel, window.strides, window.begin, window.dilations, !by_hand && call.attributes.flag("ceil")},
      2);
  if (call.outputs.size() == 1) return std::move(calls).with({pooled});
  return std::move(calls).with({pooled, aten::Made{pooled.call, 1}});
}

Result<aten::Lowering> lower_max_pool(const LowerCall& call) {
  const bool has_plain_kernel = is_float(call.inputs[0]->dtype);  // over one axis, ATen's pools floats alone
  if (call.outputs.size() > 1 || !has_plain_kernel) return lower_max_pool_with_places(call);
  return lower_pool(call, "max_pool", least_of(call.inputs[0]->dtype), [&](const Window& window) {
    return std::vector<aten::Argument>{window.dilations, call.attributes.flag("ceil")};
  });
}

Result<aten::Lowering> lower_avg_pool(const LowerCall& call) {
  const bool count_pad = call.attributes.flag("count_include_pad");
  RANNC_ASSIGN(const Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  if (!aten_pads(window) && !count_pad) return error("avg_pool with unequal pads that are not counted");
  return lower_pool(call, "avg_pool", 0, [&](const Window&) {
    return std::vector<aten::Argument>{call.attributes.flag("ceil"), count_pad};
  });
}

// --- adaptive_avg_pool

Result<Types> infer_adaptive(const OpCall& call) {
  RANNC_ASSIGN(Shape to, shape_of(call, 0));
  const std::vector<int64_t> size = call.attributes.integers("size");
  if (size.empty() || size.size() > 3 || to.size() != size.size() + 2) {
    return error("operand 0 of shape " + str(to) + " does not fit size of " + std::to_string(size.size()) + " axes");
  }
  RANNC_TRY(samples_lead(call, 0));
  RANNC_TRY(channels_can_be_last(call));
  for (size_t i = 0; i < size.size(); ++i) to[i + 2] = size[i];
  return Types{make_type(call.in(0).dtype, std::move(to), call.in(0).batch)};
}

Work adaptive_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) : Dim(0), call, outputs);
}

Result<aten::Lowering> lower_adaptive(const LowerCall& call) {
  const std::vector<int64_t> size = call.attributes.integers("size");
  return one_call(dimensional("adaptive_avg_pool", size.size()), {aten::Operand{0}, size});
}

// --- tape

// Keeps the input of the windows: the operand, or a padded copy if ATen's own padding does not suffice.
TapeUse windowed_tape(const TapeCall& call, const Window& window, bool by_hand) {
  if (!by_hand) return {.keeps = {kept_operand(0)}};
  const Shape padded = padded_shape(window, shape_of(*call.inputs[0]));
  return {.own_bytes = element_count(padded) * Dim(byte_size(call.inputs[0]->dtype))};
}

// Positions that the window skips are not kept.
TapeUse linear_conv_tape(const TapeCall& call, const Window& window) {
  if (are_all(window.strides, 1)) return {.keeps = {operand_where(0, 1), operand_where(1, 0)}};
  TapeUse use{.keeps = {operand_where(1, 0)}};
  const Shape &from = shape_of(*call.inputs[0]), &to = shape_of(*call.outputs[0]);
  const Dim places = element_count(Shape{to[0], to[2], to[3]});
  if (call.wants(1)) use.own_bytes = places * from[1] * Dim(byte_size(call.inputs[0]->dtype));
  return use;
}

TapeUse conv_tape(const TapeCall& call) {
  const ValueType& weight = *call.inputs[1];
  const OpAttributes attributes(call.op, call.attributes);
  const auto window = window_of(attributes, plain(shape_of(weight), 2));
  if (attributes.text("algorithm") == kLinear) return linear_conv_tape(call, *window);
  TapeUse use = windowed_tape(call, *window, !window->symmetric());
  use.keeps.push_back(kept_operand(1));
  use.workspace_bytes =
      element_count(shape_of(weight)) * Dim(byte_size(weight.dtype));  // oneDNN's layout of the filters
  return use;
}

Result<Window> pool_window(const TapeCall& call) {
  return window_of(OpAttributes(call.op, call.attributes), call.attributes.integers("kernel"));
}

TapeUse avg_pool_tape(const TapeCall& call) {
  const auto window = pool_window(call);
  return windowed_tape(call, *window, !aten_pads(*window));
}

// For one element per channel ATen computes the mean, which keeps nothing.
TapeUse adaptive_tape(const TapeCall& call) {
  const std::vector<int64_t> size = call.attributes.integers("size");
  const bool one = std::all_of(size.begin(), size.end(), [](int64_t n) { return n == 1; });
  return one ? TapeUse{} : TapeUse{.keeps = {kept_operand(0)}};
}

// Number of windows as ATen counts them, including the late ones of an explicitly padded operand, which are dropped
// afterwards.
Dim windows(const TapeCall& call, const Window& window) {
  const Shape &from = shape_of(*call.inputs[0]), &to = shape_of(*call.outputs[0]);
  const bool late = !aten_pads(window) && OpAttributes(call.op, call.attributes).flag("ceil");
  if (!late || call.outputs.size() > 1) return element_count(to);
  Shape counted = {to[0], to[1]};
  for (size_t i = 0; i < window.rank(); ++i) counted.push_back(windows_once_padded(from[i + 2], window, i));
  return element_count(counted);
}

TapeUse max_pool_tape(const TapeCall& call) {
  const auto window = pool_window(call);
  const bool by_hand = !aten_pads(*window);
  TapeUse use = windowed_tape(call, *window, by_hand);
  if (by_hand && call.outputs.size() > 1) {
    const Shape exact = exact_extents(*window, shape_of(*call.outputs[0]));
    use.own_bytes = element_count(exact) * Dim(byte_size(call.inputs[0]->dtype));
  }
  constexpr int64_t kPlaceBytes = 8;  // position of each maximum
  use.own_bytes = use.own_bytes + windows(call, *window) * Dim(kPlaceBytes);
  return use;
}

}  // namespace

std::vector<OpInfo> convolution_ops() {
  using Kind = AttributeKind;
  const auto integers = [](std::string_view name) { return AttributeInfo{name, Kind::kIntegers}; };
  const AttributeInfo kernel{.name = "kernel", .kind = Kind::kIntegers, .required = true},
      ceil{"ceil", Kind::kFlag, false}, last = channels_last_attribute();
  return {
      {.name = "core.conv",
       .summary =
           "convolution over 1 to 3 axes; pads are begin…end. LibTorch chooses the kernel unless an algorithm is said: "
           "oneDNN's, or a product for each place",
       .onnx = {"Conv"},
       .aten = {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::mkldnn_convolution", "aten::linear"},
       .operands = {{"x"}, {"weight", Role::kWeight}, {"bias", Role::kWeight, Presence::kOptional}},
       .attributes = {integers("strides"),
                      integers("pads"),
                      integers("dilations"),
                      {"groups", Kind::kInteger, Dim(1)},
                      {std::string_view(kAlgorithm), Kind::kText, "any", false, {"any", kLinear, kOneDnn}},
                      last},
       .autocast = Autocast::kSixteenBit,
       .infer = infer_conv,
       .linear = conv_linear,
       .work = conv_work,
       .lower = lower_conv,
       .gradient = gradient::conv,
       .tape = TapeInfo{.rule = conv_tape}},
      {.name = "core.max_pool",
       .summary = "largest element of each window; the auxiliary result is its place in the operand as padded",
       .onnx = {"MaxPool", "GlobalMaxPool"},
       .aten = {"aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"},
       .operands = {{"x"}},
       .attributes = {kernel, integers("strides"), integers("pads"), integers("dilations"), ceil, last},
       .results = {{"result"}, {"places", Presence::kOptional}},
       .infer = infer_max_pool,
       .work = pool_work,
       .lower = lower_max_pool,
       .interval = interval::max_pool,
       .gradient = gradient::max_pool,
       .gradient_takes_auxiliary = all_auxiliary,
       .tape = TapeInfo{.rule = max_pool_tape}},
      {.name = "core.avg_pool",
       .summary = "mean of each window",
       .onnx = {"AveragePool"},
       .aten = {"aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d"},
       .operands = {{"x"}},
       .attributes =
           {kernel, integers("strides"), integers("pads"), ceil, {"count_include_pad", Kind::kFlag, false}, last},
       .infer = infer_pool,
       .work = pool_work,
       .lower = lower_avg_pool,
       .gradient = gradient::avg_pool,
       .tape = TapeInfo{.rule = avg_pool_tape}},
      {.name = "core.adaptive_avg_pool",
       .summary = "mean of windows such that the result has the requested sizes",
       .onnx = {"GlobalAveragePool"},
       .aten = {"aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d"},
       .operands = {{"x"}},
       .attributes = {{.name = "size", .kind = Kind::kIntegers, .required = true}, last},
       .infer = infer_adaptive,
       .work = adaptive_work,
       .lower = lower_adaptive,
       .gradient = gradient::adaptive_avg_pool,
       .tape = TapeInfo{.rule = adaptive_tape}},
  };
}

}  // namespace rannc::ir::ops
