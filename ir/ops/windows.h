/// Windows of convolutions and pooling: samples lead, then channels, then 1 to 3 spatial axes. Private to ir/ops.
#pragma once

#include "ir/ops/rules.h"

namespace rannc::ir::ops {

/// Kernel, strides, pads begin…end and dilations of all spatial axes, with their defaults filled in.
struct Window {
  std::vector<int64_t> kernel, strides, begin, end, dilations;
  size_t rank() const { return kernel.size(); }
  bool symmetric() const { return begin == end; }
  /// Elements from the first to the last one that it covers along an axis.
  int64_t reach(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

/// The window of that kernel as the attributes `strides`, `pads` and `dilations` say; an error where they do not fit.
Result<Window> window_of(const OpAttributes& attributes, std::vector<int64_t> kernel);
/// Shape of the windows over `from`, by `channels`. With `ceil` a last window counts even where it ends beyond, but
/// only where it starts inside the operand or its left pad. An error where one does not fit.
Result<Shape> windowed(const Window& window, const Shape& from, const Dim& channels, bool ceil);
/// Whether ATen's pooling pads so by itself: by at most half the kernel, on both sides alike.
bool aten_pads(const Window& window);
/// Windows along an axis of that extent as ATen counts them once it has been padded by hand, with `ceil`: also those
/// that begin in its right pad.
Dim windows_once_padded(const Dim& extent, const Window& window, size_t i);

std::vector<int64_t> plain(const Shape& shape, size_t from);
/// `aten::conv` and 2 give `aten::conv2d`.
std::string dimensional(std::string_view name, size_t rank, std::string_view rest = "d");
/// A shape once padded.
Shape padded_shape(const Window& window, Shape shape);
/// The shape in which the windows of a result of shape `to` just fit, without pads.
Shape exact_extents(const Window& window, const Shape& to);
/// Pads that bring an operand of shape `from` there (`sign` 1), or the other way (-1): as ATen takes them, from the
/// last axis on; an end that no window reaches is cut off.
Shape exact_pads(const Window& window, const Shape& from, const Shape& to, int64_t sign);
/// Pads `value` by a call of its own.
aten::Value padded(Calls& calls, const Window& window, aten::Value value, double fill);
/// The part of `value` that is no pad.
aten::Value without_pads(Calls& calls, const Window& window, aten::Value value);
/// The same window without pads.
Window without_pads(Window window);

}  // namespace rannc::ir::ops
