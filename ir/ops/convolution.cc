// Convolutions and pooling: samples lead, then channels, then 1 to 3 spatial axes.
#include <algorithm>
#include <functional>
#include <limits>

#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

// --- windows

// Kernel, strides, pads begin…end and dilations of all spatial axes, with their defaults filled in.
struct Window {
  std::vector<int64_t> kernel, strides, begin, end, dilations;
  size_t rank() const { return kernel.size(); }
  bool symmetric() const { return begin == end; }
};

Result<Window> window_of(const Attributes& attributes, std::vector<int64_t> kernel) {
  const size_t n = kernel.size();
  if (n < 1 || n > 3) return error("a window of " + std::to_string(n) + " axes; 1 to 3 are supported");
  Window window;
  window.kernel = std::move(kernel);
  auto list = [&](std::string_view name, size_t size, int64_t otherwise) {
    const std::vector<int64_t> given = attributes.integers(name);
    return given.empty() ? std::vector<int64_t>(size, otherwise) : given;
  };
  window.strides = list("strides", n, 1);
  window.dilations = list("dilations", n, 1);
  const std::vector<int64_t> pads = list("pads", 2 * n, 0);
  if (window.strides.size() != n || window.dilations.size() != n || pads.size() != 2 * n) {
    return error("strides, pads or dilations do not fit " + std::to_string(n) + " spatial axes");
  }
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(n);
  window.begin.assign(pads.begin(), middle);
  window.end.assign(middle, pads.end());
  const auto within = [](const std::vector<int64_t>& numbers, int64_t least) {
    constexpr int64_t kMost = int64_t{1} << 31;  // sums and products of a few stay integers
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t x) { return x >= least && x < kMost; });
  };
  if (!within(window.kernel, 1) || !within(window.strides, 1) || !within(window.dilations, 1) ||
      !within(window.begin, 0) || !within(window.end, 0)) {
    return error("kernel, strides and dilations must be positive, pads not negative, all below 2^31");
  }
  return window;
}

// Positions of a window along one axis. With `ceil` a last window counts even where it ends beyond, but only where it
// starts inside the input or its left pad.
Result<Dim> positions(const Dim& extent, const Window& window, size_t i, bool ceil) {
  const int64_t reach = window.dilations[i] * (window.kernel[i] - 1) + 1;
  const Dim room = extent + Dim(window.begin[i] + window.end[i] - reach);
  if (room.is_constant() && room.constant() < 0) {
    return error("a window of " + std::to_string(reach) + " does not fit extent " + extent.str() + " with pads " +
                 std::to_string(window.begin[i]) + " and " + std::to_string(window.end[i]));
  }
  const Dim stride = window.strides[i];
  if (!ceil) return floor_div(room, stride) + Dim(1);
  const Dim count = floor_div(room + stride - Dim(1), stride) + Dim(1);
  const Dim starts = floor_div(extent + Dim(window.begin[i]) + stride - Dim(1), stride);
  return never_positive(count - starts) ? count : min(count, starts);
}

Result<Types> windowed(const OpCall& call, const Window& window, const Dim& channels, bool ceil) {
  const Shape& from = *call.in(0).shape;
  if (from.size() != window.rank() + 2) {
    return error("operand 0 of shape " + str(from) + " does not fit " + std::to_string(window.rank()) +
                 " spatial axes");
  }
  RANNC_TRY(samples_lead(call, 0));
  Shape to = {from[0], channels};
  for (size_t i = 0; i < window.rank(); ++i) {
    RANNC_ASSIGN(Dim count, positions(from[i + 2], window, i, ceil));
    to.push_back(std::move(count));
  }
  return Types{make_type(call.in(0).dtype, std::move(to), call.in(0).batch)};
}

std::vector<int64_t> plain(const Shape& shape, size_t from) {
  std::vector<int64_t> out;
  for (size_t i = from; i < shape.size(); ++i) out.push_back(shape[i].constant());
  return out;
}

// Pads `value` by a call of its own, from the last axis on, and clears the window's pads.
aten::Value padded(Calls& calls, Window& window, aten::Value value, double fill) {
  std::vector<int64_t> pads;
  for (size_t i = window.rank(); i-- > 0;) {
    pads.push_back(window.begin[i]);
    pads.push_back(window.end[i]);
  }
  window.begin.assign(window.rank(), 0);
  window.end = window.begin;
  return calls("aten::constant_pad_nd", {value, pads, aten::Scalar{fill}});
}

std::string dimensional(std::string_view name, size_t rank) {
  return "aten::" + std::string(name) + std::to_string(rank) + "d";
}

// --- conv

Result<Types> infer_conv(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Shape weight, shape_of(call, 1));
  RANNC_TRY(common_dtype(call, {0, 1, 2}));
  if (weight.size() < 3 || !constants(weight)) return error("weight " + str(weight) + " is not [out, in, spatial…]");
  const int64_t groups = call.attributes.integer("groups", 1);
  if (from.size() < 2 || !(from[1] == weight[1] * Dim(groups))) {
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
  return windowed(call, window, weight[0], false);
}

Work conv_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !call.in(1).shape) return {};
  const Shape& weight = *call.in(1).shape;
  const Dim per_output = element_count(Shape(weight.begin() + 1, weight.end())) * Dim(2);
  return work(element_count(*outputs[0].shape) * per_output, call, outputs);
}

Result<aten::Lowering> lower_conv(const LowerCall& call) {
  RANNC_ASSIGN(Window window, window_of(call.attributes, plain(shape_of(*call.inputs[1]), 2)));
  Calls calls;
  aten::Value value = aten::Operand{0};
  if (!window.symmetric()) value = padded(calls, window, value, 0);
  return std::move(calls).with(
      {calls(dimensional("conv", window.rank()), {value, aten::Operand{1}, aten::Operand{2}, window.strides, window.begin,
                                                  window.dilations, call.attributes.integer("groups", 1)})});
}

// --- max_pool, avg_pool

Result<Types> infer_pool(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  return windowed(call, window, from.size() < 2 ? Dim(0) : from[1], call.attributes.flag("ceil"));
}

Work pool_work(const OpCall& call, std::span<const ValueType> outputs) {
  int64_t window = 1;
  for (const int64_t k : call.attributes.integers("kernel")) window *= k;
  return work(outputs[0].shape ? element_count(*outputs[0].shape) * Dim(window) : Dim(0), call, outputs);
}

// ATen pads by at most half the kernel, on both sides alike; anything else is padded first.
bool aten_pads(const Window& window) {
  for (size_t i = 0; i < window.rank(); ++i) {
    if (2 * window.begin[i] > window.kernel[i]) return false;
  }
  return window.symmetric();
}

// Drops windows that start in the right pad, which ATen cannot tell from the input once it has been padded.
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
  if (by_hand) value = padded(calls, window, value, fill);
  std::vector<aten::Argument> arguments = {value, window.kernel, window.strides, window.begin};
  for (aten::Argument& argument : rest(window)) arguments.push_back(std::move(argument));
  value = calls(dimensional(name, window.rank()), std::move(arguments));
  if (by_hand && call.attributes.flag("ceil")) value = without_late_windows(calls, value, call, window);
  return std::move(calls).with({value});
}

Result<aten::Lowering> lower_max_pool(const LowerCall& call) {
  return lower_pool(call, "max_pool", -std::numeric_limits<double>::infinity(), [&](const Window& window) {
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

OpInfo row(std::string_view name, std::vector<std::string> attributes, InferRule infer, WorkRule work, LowerRule lower) {
  return {.name = "core." + std::string(name),
          .min_inputs = 1,
          .max_inputs = 1,
          .attributes = std::move(attributes),
          .infer = infer,
          .work = work,
          .lower = lower};
}

}  // namespace

std::vector<OpInfo> convolution_ops() {
  OpInfo conv = row("conv", {"strides", "pads", "dilations", "groups"}, infer_conv, conv_work, lower_conv);
  conv.min_inputs = 2;
  conv.max_inputs = 3;
  return {
      std::move(conv),
      row("max_pool", {"kernel", "strides", "pads", "dilations", "ceil"}, infer_pool, pool_work, lower_max_pool),
      row("avg_pool", {"kernel", "strides", "pads", "ceil", "count_include_pad"}, infer_pool, pool_work, lower_avg_pool),
      row("adaptive_avg_pool", {"size"}, infer_adaptive, adaptive_work, lower_adaptive),
  };
}

}  // namespace rannc::ir::ops
