/// Windows of convolutions and pooling over [samples, channels, 1 to 3 spatial axes]. Private to ir/op.
#pragma once

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// Algorithms of a convolution: a product over channels at each position, or oneDNN's kernel.
inline constexpr std::string_view kLinear = "linear", kOneDnn = "onednn";

/// Kernel, strides, pads begin…end and dilations of all spatial axes, with their defaults filled in.
struct Window {
  std::vector<int64_t> kernel, strides, begin, end, dilations;
  size_t rank() const { return kernel.size(); }
  bool symmetric() const { return begin == end; }
  /// Number of elements from the first to the last one that the window covers along an axis.
  int64_t reach(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

/// The window of that kernel with the attributes `strides`, `pads` and `dilations`. Fails if they do not fit.
Result<Window> window_of(const OpAttributes& attributes, std::vector<int64_t> kernel);
/// Shape of the windows over `from`, with `channels` channels. With `ceil` a last window that ends beyond the operand
/// counts if it starts inside the operand or its left pad. Fails if a window does not fit.
Result<Shape> windowed(const Window& window, const Shape& from, const Dim& channels, bool ceil);
/// Whether ATen's pooling supports these pads: at most half the kernel and equal on both sides.
bool aten_pads(const Window& window);
/// Number of windows along an explicitly padded axis of that extent as ATen counts them with `ceil`: it includes
/// windows that begin in the right pad.
Dim windows_once_padded(const Dim& extent, const Window& window, size_t i);

std::vector<int64_t> plain(const Shape& shape, size_t from);
/// `aten::conv` and 2 give `aten::conv2d`.
std::string dimensional(std::string_view name, size_t rank, std::string_view rest = "d");
/// The shape after padding.
Shape padded_shape(const Window& window, Shape shape);
/// The smallest shape that contains the windows of a result of shape `to`, without pads.
Shape exact_extents(const Window& window, const Shape& to);
/// Pads, in ATen's order from the last axis on, that extend an operand of shape `from` to the exact extents (`sign` 1)
/// or back (`sign` -1). An end that no window reaches is cut off.
Shape exact_pads(const Window& window, const Shape& from, const Shape& to, int64_t sign);
/// Pads `value` by a separate call.
aten::Value padded(Calls& calls, const Window& window, aten::Value value, double fill);
/// The part of `value` without the pads.
aten::Value without_pads(Calls& calls, const Window& window, aten::Value value);
/// The same window without pads.
Window without_pads(Window window);

}  // namespace rannc::ir::ops
