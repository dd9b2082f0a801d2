// Convolutions and pooling: samples lead, then channels, then 1 to 3 spatial axes.
#include <algorithm>

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

// Pads the operand by a statement of its own, from the last axis on, and clears the window's pads.
std::string padded(const LowerCall& call, Window& window, std::string& value, const std::string& fill) {
  std::vector<int64_t> pads;
  for (size_t i = window.rank(); i-- > 0;) {
    pads.push_back(window.begin[i]);
    pads.push_back(window.end[i]);
  }
  window.begin.assign(window.rank(), 0);
  window.end = window.begin;
  const std::string text =
      call.outputs[0] + " = torch.constant_pad_nd(" + value + ", " + int_list(pads) + ", " + fill + ")\n";
  value = call.outputs[0];
  return text;
}

std::string dimensional(std::string_view name, size_t rank) { return std::string(name) + std::to_string(rank) + "d"; }

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

Result<std::string> lower_conv(const LowerCall& call) {
  RANNC_ASSIGN(Window window, window_of(call.attributes, plain(shape_of(*call.input_types[1]), 2)));
  std::string value = call.inputs[0];
  std::string text = window.symmetric() ? "" : padded(call, window, value, "0.0");
  return text + assign(call, dimensional("conv", window.rank()),
                       {value, call.inputs[1], operand(call, 2), int_list(window.strides), int_list(window.begin),
                        int_list(window.dilations), std::to_string(call.attributes.integer("groups", 1))});
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
std::string without_late_windows(const LowerCall& call, const Window& window) {
  std::string text;
  const Shape& to = shape_of(*call.output_types[0]);
  for (size_t i = 0; i < window.rank(); ++i) {
    text += assign(call, "slice", {call.outputs[0], std::to_string(i + 2), "0", torchscript(to[i + 2]), "1"});
  }
  return text;
}

Result<std::string> lower_max_pool(const LowerCall& call) {
  RANNC_ASSIGN(Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  std::string value = call.inputs[0];
  const bool by_hand = !aten_pads(window), ceil = call.attributes.flag("ceil");
  std::string text = by_hand ? padded(call, window, value, "float('-inf')") : "";
  text += assign(call, dimensional("max_pool", window.rank()),
                 {value, int_list(window.kernel), int_list(window.strides), int_list(window.begin),
                  int_list(window.dilations), flag(ceil)});
  return by_hand && ceil ? text + without_late_windows(call, window) : text;
}

Result<std::string> lower_avg_pool(const LowerCall& call) {
  RANNC_ASSIGN(Window window, window_of(call.attributes, call.attributes.integers("kernel")));
  const bool count_pad = call.attributes.flag("count_include_pad"), ceil = call.attributes.flag("ceil");
  const bool by_hand = !aten_pads(window);
  std::string value = call.inputs[0], text;
  if (by_hand) {
    if (!count_pad) return error("avg_pool with unequal pads that are not counted");
    text = padded(call, window, value, "0.0");
  }
  text += assign(
      call, dimensional("avg_pool", window.rank()),
      {value, int_list(window.kernel), int_list(window.strides), int_list(window.begin), flag(ceil), flag(count_pad)});
  return by_hand && ceil ? text + without_late_windows(call, window) : text;
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

Result<std::string> lower_adaptive(const LowerCall& call) {
  const std::vector<int64_t> size = call.attributes.integers("size");
  return assign(call, dimensional("adaptive_avg_pool", size.size()), {call.inputs[0], int_list(size)});
}

}  // namespace

std::vector<OpInfo> convolution_ops() {
  return {
      {"core.conv",
       2,
       3,
       1,
       {"strides", "pads", "dilations", "groups"},
       Effect::kPure,
       infer_conv,
       conv_work,
       lower_conv},
      {"core.max_pool",
       1,
       1,
       1,
       {"kernel", "strides", "pads", "dilations", "ceil"},
       Effect::kPure,
       infer_pool,
       pool_work,
       lower_max_pool},
      {"core.avg_pool",
       1,
       1,
       1,
       {"kernel", "strides", "pads", "ceil", "count_include_pad"},
       Effect::kPure,
       infer_pool,
       pool_work,
       lower_avg_pool},
      {"core.adaptive_avg_pool", 1, 1, 1, {"size"}, Effect::kPure, infer_adaptive, adaptive_work, lower_adaptive},
  };
}

}  // namespace rannc::ir::ops
