// Windows of convolutions and pooling: parsing, counting, padding.
#include "ir/op/rules/windows.h"

#include <algorithm>

namespace rannc::ir::ops {

Result<Window> window_of(const OpAttributes& attributes, std::vector<int64_t> kernel) {
  const size_t n = kernel.size();
  if (n < 1 || n > 3) return error("a window of " + std::to_string(n) + " axes; 1 to 3 are supported");
  Window window;
  window.kernel = std::move(kernel);
  auto list = [&](std::string_view name, size_t size, int64_t otherwise) {
    const std::vector<int64_t> given = attributes.integers(name);
    return given.empty() ? std::vector<int64_t>(size, otherwise) : given;
  };
  window.strides = list("strides", n, 1);
  window.dilations = attributes.declares("dilations") ? list("dilations", n, 1) : std::vector<int64_t>(n, 1);
  const std::vector<int64_t> pads = list("pads", 2 * n, 0);
  if (window.strides.size() != n || window.dilations.size() != n || pads.size() != 2 * n) {
    return error("strides, pads or dilations do not fit " + std::to_string(n) + " spatial axes");
  }
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(n);
  window.begin.assign(pads.begin(), middle);
  window.end.assign(middle, pads.end());
  const auto within = [](const std::vector<int64_t>& numbers, int64_t least) {
    constexpr int64_t kMost = int64_t{1} << 31;  // sums and products of a few such numbers do not overflow
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t x) { return x >= least && x < kMost; });
  };
  if (!within(window.kernel, 1) || !within(window.strides, 1) || !within(window.dilations, 1) ||
      !within(window.begin, 0) || !within(window.end, 0)) {
    return error("kernel, strides and dilations must be positive, pads not negative, all below 2^31");
  }
  return window;
}

namespace {

Result<Dim> positions(const Dim& extent, const Window& window, size_t i, bool ceil) {
  const int64_t reach = window.reach(i);
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

// Pads in ATen's order, from the last axis on.
std::vector<int64_t> in_atens_order(const Window& window, int64_t sign) {
  std::vector<int64_t> pads;
  for (size_t i = window.rank(); i-- > 0;) {
    pads.push_back(sign * window.begin[i]);
    pads.push_back(sign * window.end[i]);
  }
  return pads;
}

}  // namespace

Result<Shape> windowed(const Window& window, const Shape& from, const Dim& channels, bool ceil) {
  if (from.size() != window.rank() + 2) {
    return error("operand 0 of shape " + str(from) + " does not fit " + std::to_string(window.rank()) +
                 " spatial axes");
  }
  Shape to = {from[0], channels};
  for (size_t i = 0; i < window.rank(); ++i) {
    RANNC_ASSIGN(Dim count, positions(from[i + 2], window, i, ceil));
    to.push_back(std::move(count));
  }
  return to;
}

bool aten_pads(const Window& window) {
  for (size_t i = 0; i < window.rank(); ++i) {
    if (2 * window.begin[i] > window.kernel[i]) return false;
  }
  return window.symmetric();
}

Dim windows_once_padded(const Dim& extent, const Window& window, size_t i) {
  const Dim room = extent + Dim(window.begin[i] + window.end[i]), stride = window.strides[i];
  const Dim count = floor_div(room - Dim(window.reach(i)) + stride - Dim(1), stride) + Dim(1);
  const Dim starts = floor_div(room - Dim(1), stride) + Dim(1);
  return min(count, starts);
}

std::vector<int64_t> plain(const Shape& shape, size_t from) {
  std::vector<int64_t> out;
  for (size_t i = from; i < shape.size(); ++i) out.push_back(shape[i].constant());
  return out;
}

std::string dimensional(std::string_view name, size_t rank, std::string_view rest) {
  return "aten::" + std::string(name) + std::to_string(rank) + std::string(rest);
}

Shape padded_shape(const Window& window, Shape shape) {
  for (size_t i = 0; i < window.rank(); ++i) shape[i + 2] = shape[i + 2] + Dim(window.begin[i] + window.end[i]);
  return shape;
}

Shape exact_extents(const Window& window, const Shape& to) {
  Shape exact = to;
  for (size_t i = 0; i < window.rank(); ++i) {
    exact[i + 2] = (to[i + 2] - Dim(1)) * Dim(window.strides[i]) + Dim(window.reach(i));
  }
  return exact;
}

Shape exact_pads(const Window& window, const Shape& from, const Shape& to, int64_t sign) {
  const Shape exact = exact_extents(window, to);
  Shape pads;
  for (size_t i = window.rank(); i-- > 0;) {
    pads.push_back(Dim(sign * window.begin[i]));
    pads.push_back((exact[i + 2] - from[i + 2] - Dim(window.begin[i])) * Dim(sign));
  }
  return pads;
}

aten::Value padded(Calls& calls, const Window& window, aten::Value value, double fill) {
  return calls("aten::constant_pad_nd", {value, in_atens_order(window, 1), aten::Scalar{fill}});
}

aten::Value without_pads(Calls& calls, const Window& window, aten::Value value) {
  return calls("aten::constant_pad_nd", {value, in_atens_order(window, -1), aten::Scalar{0.0}});
}

Window without_pads(Window window) {
  window.begin.assign(window.rank(), 0);
  window.end = window.begin;
  return window;
}

}  // namespace rannc::ir::ops
