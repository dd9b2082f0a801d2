// Backward operators of convolutions and pooling. `sizes` are those of the operand's spatial axes.
#include "ir/op/backward/gradient_kernels.h"
#include "ir/op/op_memory.h"
#include "ir/op/rules/memory.h"
#include "ir/op/rules/windows.h"

namespace rannc::ir::ops {
namespace {

// --- shared helpers: the operand's gradient is computed from the result's; both have their samples on axis 0

// A tensor of that shape in the task's memory format, for kernels that read its shape and format. Without a format it
// needs no memory.
aten::Value shaped(Calls& calls, const LowerCall& call, const Shape& shape) {
  const aten::Value made = shaped(calls, shape);
  if (!call.attributes.flag(kChannelsLast)) return made;
  return calls("aten::empty_like", {made, {"memory_format", aten::MemoryFormat::kChannelsLast}});
}

// The same for a convolution, whose kernels copy an operand that is not dense.
aten::Value dense(Calls& calls, const LowerCall& call, const Shape& shape) {
  if (call.attributes.flag(kChannelsLast)) return shaped(calls, call, shape);
  return calls("aten::new_empty", {aten::Operand{0}, shape});
}

// Type [samples, channels, sizes…] of the operand. Fails if windows over it do not give the shape of `gy`.
Result<Types> operand_type(const OpCall& call, const Window* window, const Dim& channels, const Dim& made) {
  RANNC_ASSIGN(const Shape gy, shape_of(call, 0));
  RANNC_TRY(samples_lead(call, 0));
  RANNC_TRY(channels_can_be_last(call));
  const Shape* sizes = call.attributes.list("sizes");
  if (sizes == nullptr || sizes->size() < 1 || sizes->size() > 3 || gy.size() != sizes->size() + 2) {
    return error("a gradient of shape " + str(gy) + " does not fit the sizes of the operand");
  }
  RANNC_TRY(require_sizes(call, *sizes));
  Shape to = {gy[0], channels};
  to.insert(to.end(), sizes->begin(), sizes->end());
  if (window != nullptr) {
    const bool ceil = call.attributes.declares("ceil") && call.attributes.flag("ceil");
    RANNC_ASSIGN(const Shape expected, windowed(*window, to, made, ceil));
    if (!taken_for_equal(call, expected, gy)) {
      return error("a gradient of shape " + str(gy) + " where the result is " + str(expected));
    }
  }
  return Types{make_type(call.in(0).dtype, std::move(to), call.in(0).batch)};
}

Result<Types> infer_pool_grad(const OpCall& call) {
  RANNC_ASSIGN(const Shape gy, shape_of(call, 0));
  if (gy.size() < 3) return error("a gradient of shape " + str(gy) + " has no spatial axes");
  RANNC_ASSIGN(const Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  return operand_type(call, &window, gy[1], gy[1]);
}

// --- conv

Result<Types> infer_conv_grad_input(const OpCall& call) {
  RANNC_ASSIGN(const Shape gy, shape_of(call, 0));
  RANNC_ASSIGN(const Shape weight, shape_of(call, 1));
  RANNC_TRY(common_dtype(call, {0, 1}));
  const int64_t groups = call.attributes.integer("groups");
  if (weight.size() < 3 || !constants(weight)) return error("weight " + str(weight) + " is not [out, in, spatial…]");
  if (groups < 1 || groups > weight[0].constant()) return error(std::to_string(groups) + " groups");
  RANNC_ASSIGN(const Window window, window_of(call.attributes, plain(weight, 2)));
  return operand_type(call, &window, weight[1] * Dim(groups), weight[0]);
}

Result<Types> infer_conv_grad_weight(const OpCall& call) {
  RANNC_ASSIGN(const Shape gy, shape_of(call, 0));
  RANNC_ASSIGN(const Shape x, shape_of(call, 1));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  RANNC_ASSIGN(const Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  if (gy.size() < 2 || x.size() < 2) return error("no channels in " + str(gy) + " and " + str(x));
  const int64_t groups = call.attributes.integer("groups");
  const std::optional<Dim> in = groups < 1 ? std::nullopt : exact_div(x[1], Dim(groups));
  if (!in) return error(x[1].str() + " channels do not divide into " + std::to_string(groups) + " groups");
  RANNC_ASSIGN(const Shape expected, windowed(window, x, gy[1], false));
  if (!taken_for_equal(call, expected, gy))
    return error("a gradient of shape " + str(gy) + " where the result is " + str(expected));
  RANNC_TRY(channels_can_be_last(call));
  if (!(call.in(0).batch == call.in(1).batch)) return error("x and the result's gradient differ in their samples");
  Shape to = {gy[1], *in};
  for (const int64_t size : window.kernel) to.emplace_back(size);
  return Types{make_type(dtype, std::move(to), {.mix = call.in(0).batch.has_batch() ? Mix::kPartial : Mix::kNone})};
}

// Same work as the forward pass: each element of gy is multiplied with each element of its filter.
Work conv_grad_input_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!call.in(0).shape || !call.in(1).shape) return {};
  const Shape& weight = *call.in(1).shape;
  const Dim filter = element_count(Shape(weight.begin() + 1, weight.end())) * Dim(2);
  return work(element_count(*call.in(0).shape) * filter, call, outputs);
}
Work conv_grad_weight_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!call.in(0).shape || !outputs[0].shape) return {};
  const Shape& weight = *outputs[0].shape;
  const Dim filter = element_count(Shape(weight.begin() + 1, weight.end())) * Dim(2);
  return work(element_count(*call.in(0).shape) * filter, call, outputs);
}

// --- pooling; ATen has no derivatives for one axis, so a first axis of one element is added

struct Lifted {
  Window window;
  Shape from;  ///< of the operand, after explicit padding if any
  bool lifted = false;
};

Lifted lift(Window window, Shape from) {
  if (window.rank() > 1) return {std::move(window), std::move(from)};
  for (auto* list : {&window.kernel, &window.strides, &window.dilations}) list->insert(list->begin(), 1);
  for (auto* list : {&window.begin, &window.end}) list->insert(list->begin(), 0);
  from.insert(from.begin() + 2, Dim(1));
  return {std::move(window), std::move(from), true};
}
aten::Value lifted(Calls& calls, bool is, aten::Value value) {
  return is ? aten::Value(calls("aten::unsqueeze", {value, 2})) : value;
}
aten::Value lowered(Calls& calls, bool is, aten::Value value) {
  return is ? aten::Value(calls("aten::squeeze.dim", {value, 2})) : value;
}

Result<aten::Lowering> lower_max_pool_grad(const LowerCall& call) {
  RANNC_ASSIGN(const Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  const Shape &gy = shape_of(*call.inputs[0]), &to = shape_of(*call.outputs[0]);
  const bool by_hand = !aten_pads(window);
  Shape from = to;
  if (by_hand) {
    from = exact_extents(window, gy);
    from[1] = to[1];
  }
  const Lifted at = lift(by_hand ? without_pads(window) : window, from);
  Calls calls;
  const aten::Value gradient = lifted(calls, at.lifted, aten::Operand{0});
  const aten::Value places = lifted(calls, at.lifted, aten::Operand{1});
  aten::Value made = calls(dimensional("max_pool", at.window.rank(), "d_with_indices_backward"),
                           {gradient, shaped(calls, call, at.from), at.window.kernel, at.window.strides,
                            at.window.begin, at.window.dilations, !by_hand && call.attributes.flag("ceil"), places});
  made = lowered(calls, at.lifted, made);
  if (by_hand) made = calls("aten::constant_pad_nd", {made, exact_pads(window, to, gy, -1), aten::Scalar{0.0}});
  return std::move(calls).with({made});
}

// Appends zeros for the windows that begin in an explicit right pad, which the forward pass drops.
aten::Value with_late_windows(Calls& calls, const Window& window, const Shape& gy, const Shape& from) {
  Shape pads;
  for (size_t i = window.rank(); i-- > 0;) {
    pads.emplace_back(0);
    pads.push_back(windows_once_padded(from[i + 2], window, i) - gy[i + 2]);
  }
  return calls("aten::constant_pad_nd", {aten::Operand{0}, pads, aten::Scalar{0.0}});
}

Result<aten::Lowering> lower_avg_pool_grad(const LowerCall& call) {
  RANNC_ASSIGN(const Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  const Shape& to = shape_of(*call.outputs[0]);
  const bool by_hand = !aten_pads(window), ceil = call.attributes.flag("ceil");
  if (by_hand && !call.attributes.flag("count_include_pad")) {
    return error("avg_pool with unequal pads that are not counted");
  }
  const Lifted at = by_hand ? lift(without_pads(window), padded_shape(window, to)) : lift(window, to);
  Calls calls;
  aten::Value gradient = aten::Operand{0};
  if (by_hand && ceil) gradient = with_late_windows(calls, window, shape_of(*call.inputs[0]), to);
  gradient = lifted(calls, at.lifted, gradient);
  aten::Value made = calls(dimensional("avg_pool", at.window.rank(), "d_backward"),
                           {gradient, shaped(calls, call, at.from), at.window.kernel, at.window.strides,
                            at.window.begin, ceil, call.attributes.flag("count_include_pad"), aten::None{}});
  made = lowered(calls, at.lifted, made);
  if (by_hand) made = without_pads(calls, window, made);
  return std::move(calls).with({made});
}

Result<Types> infer_adaptive_grad(const OpCall& call) {
  RANNC_ASSIGN(const Shape gy, shape_of(call, 0));
  if (gy.size() < 3) return error("a gradient of shape " + str(gy) + " has no spatial axes");
  return operand_type(call, nullptr, gy[1], gy[1]);
}

Result<aten::Lowering> lower_adaptive_grad(const LowerCall& call) {
  Shape from = shape_of(*call.outputs[0]);
  const bool is_lifted = from.size() == 3;
  if (is_lifted) from.insert(from.begin() + 2, Dim(1));
  Calls calls;
  const aten::Value gradient = lifted(calls, is_lifted, aten::Operand{0});
  const aten::Value made =
      calls(dimensional("_adaptive_avg_pool", from.size() - 2, "d_backward"), {gradient, shaped(calls, call, from)});
  return std::move(calls).with({lowered(calls, is_lifted, made)});
}

Work pool_grad_work(const OpCall& call, std::span<const ValueType> outputs) {
  int64_t window = 1;
  for (const int64_t k : call.attributes.integers("kernel")) window *= k;
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(window) : Dim(0), call, outputs);
}

}  // namespace

// ATen reads the numbers of x for the gradient of the weight, and those of the weight for the gradient of x. Of an
// operand that it does not read, it needs shape and format.
Result<aten::Lowering> convolution_backward(const KernelCall& call) {
  const OpAttributes& attributes = call.any().attributes;
  const std::vector<int64_t> kernel = plain(call.wants(1) ? call.shape(1) : shape_of(*call.any().inputs[1]), 2);
  RANNC_ASSIGN(const Window window, window_of(attributes, kernel));
  const bool by_hand = !window.symmetric();
  const Window inner = by_hand ? without_pads(window) : window;
  Calls calls;
  std::optional<aten::Value> x = call.operand("x"), weight = call.operand("weight");
  if (x && by_hand) x = padded(calls, window, *x, 0);
  if (!x) x = dense(calls, call.any(), by_hand ? padded_shape(window, call.shape(0)) : call.shape(0));
  if (!weight) weight = dense(calls, call.any(), call.shape(1));
  const aten::Argument bias = call.wants(2) ? aten::Argument(call.shape(2)) : aten::Argument(aten::None{});
  const std::vector<int64_t> none(window.rank(), 0);
  std::vector<aten::Value> made =
      gradients_of(calls("aten::convolution_backward",
                         {aten::Operand{0}, *x, *weight, bias, inner.strides, inner.begin, inner.dilations, false, none,
                          attributes.integer("groups"), call.mask()},
                         3));
  if (by_hand && call.wants(0)) made[0] = without_pads(calls, window, made[0]);
  return std::move(calls).with(std::move(made));
}

std::vector<OpInfo> grad_windows_ops() {
  using Kind = AttributeKind;
  const auto integers = [](std::string_view name) { return AttributeInfo{name, Kind::kIntegers}; };
  const AttributeInfo kernel{.name = "kernel", .kind = Kind::kIntegers, .required = true},
      sizes{.name = "sizes", .kind = Kind::kSizes, .required = true}, ceil{"ceil", Kind::kFlag, false},
      groups{"groups", Kind::kInteger, Dim(1)}, last = channels_last_attribute();
  return {
      {.name = "core.conv_grad_input",
       .summary = "the gradient of conv's x, whose spatial axes have `sizes`",
       .aten = {"aten::convolution_backward"},
       .operands = {{"gy"}, {"weight", Role::kWeight}},
       .attributes = {integers("strides"), integers("pads"), integers("dilations"), groups, sizes, last},
       .infer = infer_conv_grad_input,
       .linear = always<Linear::kEach>,
       .work = conv_grad_input_work,
       .lower = one_gradient<convolution_backward, 0>},
      {.name = "core.conv_grad_weight",
       .summary = "the gradient of conv's weight, whose spatial axes have the sizes `kernel`",
       .aten = {"aten::convolution_backward"},
       .operands = {{"gy"}, {"x"}},
       .attributes = {kernel, integers("strides"), integers("pads"), integers("dilations"), groups, last},
       .infer = infer_conv_grad_weight,
       .linear = always<Linear::kEach>,
       .work = conv_grad_weight_work,
       .lower = one_gradient<convolution_backward, 1>},
      {.name = "core.max_pool_grad_input",
       .summary = "the gradient of max_pool's x, whose spatial axes have `sizes`, from the places of the maxima",
       .aten = {"aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward"},
       .operands = {{"gy"}, {"places", Role::kIndex}},
       .attributes = {kernel, integers("strides"), integers("pads"), integers("dilations"), ceil, sizes, last},
       .infer = infer_pool_grad,
       .linear = always<Linear::kFirst>,
       .lower = lower_max_pool_grad,
       .temporary = [](const MemoryCall& call) { return call.copies({0}); }},
      {.name = "core.avg_pool_grad_input",
       .summary = "the gradient of avg_pool's x, whose spatial axes have `sizes`",
       .aten = {"aten::avg_pool2d_backward", "aten::avg_pool3d_backward"},
       .operands = {{"gy"}},
       .attributes = {kernel,
                      integers("strides"),
                      integers("pads"),
                      ceil,
                      {"count_include_pad", Kind::kFlag, false},
                      sizes,
                      last},
       .infer = infer_pool_grad,
       .linear = always<Linear::kFirst>,
       .work = pool_grad_work,
       .lower = lower_avg_pool_grad},
      {.name = "core.adaptive_avg_pool_grad_input",
       .summary = "the gradient of adaptive_avg_pool's x, whose spatial axes have `sizes`",
       .aten = {"aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward"},
       .operands = {{"gy"}},
       .attributes = {sizes, last},
       .infer = infer_adaptive_grad,
       .linear = always<Linear::kFirst>,
       .lower = lower_adaptive_grad},
  };
}

}  // namespace rannc::ir::ops
