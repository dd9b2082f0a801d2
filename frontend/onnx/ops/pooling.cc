/// Translates ONNX pooling.
#include <algorithm>
#include <array>
#include <limits>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "frontend/onnx/internal/translate/window.h"

namespace rannc::frontend {

namespace {

bool ceils(const Node& node) { return node.integer("ceil_mode", 0) != 0; }

ir::Attributes geometry(const Window& window, bool ceil) {
  return {
      {"kernel", list(window.kernel)}, {"strides", list(window.strides)}, {"pads", list(window.pads)}, {"ceil", ceil}};
}

bool is_dilated(const Window& window) { return window.dilations != std::vector<int64_t>(window.kernel.size(), 1); }

/// Whether LibTorch's pooling supports these pads: equal on both sides and at most half the kernel.
bool pads_itself(const Window& window) {
  const size_t n = window.kernel.size();
  for (size_t i = 0; i < n; ++i) {
    if (window.pads[i] != window.pads[i + n] || 2 * window.pads[i] > window.kernel[i]) return false;
  }
  return true;
}

Window without_pads(Window window) {
  window.pads.assign(window.pads.size(), 0);
  return window;
}

/// Returns the number of windows along each axis. With `ceil` the last one may end, but not start, beyond the pads.
ir::Shape counts(const ir::Shape& from, const Window& window, bool ceil) {
  ir::Shape all;
  const size_t n = window.kernel.size();
  for (size_t i = 0; i < n; ++i) {
    const ir::Dim extent = from[i + 2] + ir::Dim(window.pads[i]), stride = window.strides[i];
    const ir::Dim reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const ir::Dim room = extent + ir::Dim(window.pads[i + n]) - reach;
    const ir::Dim whole = floor_div(room, stride) + ir::Dim(1);
    const ir::Dim up = stride - ir::Dim(1);
    all.push_back(ceil ? min(floor_div(room + up, stride) + ir::Dim(1), floor_div(extent + up, stride)) : whole);
  }
  return all;
}

/// Pads `x`, or slices its end, so that exactly `windows` windows fit.
ValueId fitted(Node& node, ValueId x, const Window& window, const ir::Shape& windows, double value) {
  const ir::Shape from = *node.shape(x);
  const size_t n = window.kernel.size();
  ir::Shape pads(2 * from.size(), ir::Dim(0));
  for (size_t i = 0; i < n; ++i) {
    const ir::Dim reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    pads[i + 2] = window.pads[i];
    pads[i + 4 + n] = (windows[i] - ir::Dim(1)) * ir::Dim(window.strides[i]) + reach - from[i + 2] - pads[i + 2];
  }
  if (pads == ir::Shape(pads.size(), ir::Dim(0))) return x;
  return node.emit("pad", {x}, {{"pads", pads}, {"value", value}});
}

/// Returns the number of elements of a window. Fails and returns 1 if there are too many.
int64_t elements(Node& node, const Window& window) {
  constexpr int64_t kMost = 1 << 20;
  int64_t count = 1;
  for (const int64_t k : window.kernel) {
    if (k <= kMost / count) {
      count *= k;
      continue;
    }
    node.fail(node.op() + ": a window may have at most " + std::to_string(kMost) + " elements");
    return 1;
  }
  return count;
}

/// Means over all full windows, without pads. Dilated windows become a depthwise convolution.
ValueId means(Node& node, ValueId x, const Window& window) {
  if (!is_dilated(window)) {
    ir::Attributes attributes = geometry(window, false);
    attributes.set("count_include_pad", true);
    return node.emit("avg_pool", {x}, std::move(attributes));
  }
  const ir::Shape from = *node.shape(x);
  ir::Shape apart = {from[0] * from[1], ir::Dim(1)}, together = {from[0], from[1]};
  apart.insert(apart.end(), from.begin() + 2, from.end());
  std::vector<int64_t> shape = {1, 1};
  shape.insert(shape.end(), window.kernel.begin(), window.kernel.end());
  const int64_t taps = elements(node, window);
  if (!node.good()) return {};
  const std::vector<double> shares(static_cast<size_t>(taps), 1.0 / static_cast<double>(taps));
  const ValueId made = node.emit(
      "conv", {node.emit("reshape", {x}, {{"shape", apart}}), node.table("shares", node.dtype(x), shape, shares)},
      {{"strides", list(window.strides)}, {"dilations", list(window.dilations)}, {"pads", list(window.pads)}});
  if (!node.good()) return {};
  const ir::Shape to = *node.shape(made);
  together.insert(together.end(), to.begin() + 2, to.end());
  return node.emit("reshape", {made}, {{"shape", together}});
}

/// Means over windows in which pads count as zeros.
ValueId means_with_zeros(Node& node, ValueId x, const Window& window, const ir::Shape& windows) {
  return means(node, fitted(node, x, window, windows, 0), without_pads(window));
}

// --- maxima and their positions

ValueId number(Node& node, const ir::Dim& value, ir::DType dtype = ir::DType::kI64) {
  return node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", value}, {"dtype", dtype}});
}

/// Converts positions in a plane of these extents to coordinates, in the order of the axes.
std::vector<ValueId> coordinates(Node& node, ValueId places, const ir::Shape& extents) {
  std::vector<ValueId> all(extents.size());
  for (size_t i = extents.size(); i-- > 1;) {
    const ValueId extent = number(node, extents[i]);
    all[i] = node.emit("mod", {places, extent});
    places = node.emit("div", {places, extent}, {{"rounding", std::string("floor")}});
  }
  all[0] = places;
  return all;
}

ValueId times_plus(Node& node, ValueId x, const ir::Dim& factor, const ir::Dim& shift) {
  if (!(factor == ir::Dim(1))) x = node.emit("mul", {x, number(node, factor)});
  return shift == ir::Dim(0) ? x : node.emit("add", {x, number(node, shift)});
}

/// Converts positions in planes of extents `padded` to positions in planes of `extents`, which begin at `begin`. With
/// `columns_lead` the first axis varies fastest.
ValueId renumbered(Node& node, ValueId places, const ir::Shape& padded, const ir::Shape& extents,
                   const std::vector<int64_t>& begin, bool columns_lead) {
  const std::vector<ValueId> at = coordinates(node, places, padded);
  ValueId sum;
  ir::Dim step = 1;
  for (size_t k = 0; k < at.size() && node.good(); ++k) {
    const size_t i = columns_lead ? k : at.size() - 1 - k;
    const ValueId term = times_plus(node, at[i], step, ir::Dim(-begin[i]) * step);
    sum = sum.valid() ? node.emit("add", {sum, term}) : term;
    step = step * extents[i];
  }
  return sum;
}

/// Converts positions in a plane to positions in the tensor, relative to the first sample of the micro-batch.
ValueId numbered_through(Node& node, ValueId places, const ir::Shape& from) {
  const ir::Dim planes = from[0] * from[1];
  const ir::Dim plane = element_count(ir::Shape(from.begin() + 2, from.end()));
  ir::Shape to = {from[0], from[1]};
  to.resize(from.size(), ir::Dim(1));
  const ValueId count = node.emit(
      "range", {}, {{"start", ir::Dim(0)}, {"limit", planes}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
  const ValueId first = times_plus(node, node.emit("reshape", {count}, {{"shape", to}}), plane, 0);
  return node.emit("add", {places, first});
}

/// The least number of a type, which a pad never exceeds.
double least_of(ir::DType dtype) {
  if (ir::is_float(dtype)) return -std::numeric_limits<double>::infinity();
  return dtype == ir::DType::kU8 ? 0 : -std::ldexp(1.0, static_cast<int>(8 * ir::byte_size(dtype)) - 1);
}

/// LibTorch returns positions in each plane. If this function pads x beforehand, they are positions in padded planes.
void max_pool_with_places(Node& node, ValueId x, const Window& window) {
  const ir::Shape from = *node.shape(x);
  const ir::Shape extents(from.begin() + 2, from.end());
  std::vector<int64_t> begin(window.kernel.size(), 0);
  ValueId padded = x;
  Window pooled = window;
  if (!pads_itself(window)) {
    std::copy_n(window.pads.begin(), begin.size(), begin.begin());
    pooled = without_pads(window);
    padded = fitted(node, x, window, counts(from, window, ceils(node)), least_of(node.dtype(x)));
  }
  ir::Attributes attributes = geometry(pooled, ceils(node) && padded == x);
  attributes.set("dilations", list(window.dilations));
  const std::vector<ValueId> made = node.result_with_auxiliary("max_pool", std::array{padded}, attributes, 1);
  if (!node.good()) return;
  ValueId places = made[0];
  const bool columns_lead = node.integer("storage_order", 0) != 0;
  if (!(padded == x) || columns_lead) {
    const ir::Shape seen = *node.shape(padded);
    places = renumbered(node, places, ir::Shape(seen.begin() + 2, seen.end()), extents, begin, columns_lead);
  }
  const ValueId all = numbered_through(node, places, from);
  if (node.good()) node.result_at(1, all);
}

void max_pool(Node& node) {
  const ValueId x = node.in(0);
  const auto window = (node.wants(1) ? read_window : read_free_window)(node, x, node.integers("kernel_shape"));
  if (!window) return;
  if (node.wants(1)) return max_pool_with_places(node, x, *window);
  ir::Attributes attributes = geometry(*window, ceils(node));
  attributes.set("dilations", list(window->dilations));
  const ValueId given = padded(node, x, *window, least_of(node.dtype(x)));
  node.result("max_pool", {given}, std::move(attributes));
}

/// Positions refer to the result tensor that the windows imply, without `output_shape`; sample and channel in them are
/// redundant. As in ONNX's reference, a larger `output_shape` adds zeros at the ends.
void max_unpool(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const shape = node.shape(x);
  if (!shape) return;
  const auto window = read_geometry(node, shape->size(), node.integers("kernel_shape"));
  if (!window) return;
  const ir::Shape from = *shape;
  const size_t n = window->kernel.size();
  ir::Shape sizes;
  for (size_t i = 0; i < n; ++i) {
    const ir::Dim reach = window->kernel[i] - window->pads[i] - window->pads[i + n];
    sizes.push_back((from[i + 2] - ir::Dim(1)) * ir::Dim(window->strides[i]) + reach);
    if (!sizes.back().is_constant() || sizes.back().constant() > 0) continue;
    return node.fail("MaxUnpool: axis " + std::to_string(i + 2) + " of " + ir::str(from) + " would have the extent " +
                     sizes.back().str());
  }
  const ValueId plane = number(node, ir::element_count(sizes), node.dtype(node.in(1)));
  const ValueId places = node.emit("mod", {node.in(1), plane});
  const ValueId made = node.emit("max_unpool", {x, places}, {{"sizes", sizes}});
  if (!node.has(2)) return node.result_at(0, made);
  const auto requested = node.contents(node.in(2));
  if (!requested || requested->size() != n + 2)
    return node.fail("MaxUnpool needs an output_shape that follows from sizes");
  ir::Shape pads(2 * (n + 2), ir::Dim(0));
  for (size_t i = 0; i < n; ++i) pads[n + 4 + i] = (*requested)[i + 2] - sizes[i];
  node.result("pad", {made}, {{"pads", pads}, {"value", 0.0}});
}

// --- means

/// Divides means with zeros by the share of elements that count in each window.
void average_by_shares(Node& node) {
  const auto window = read_free_window(node, node.in(0), node.integers("kernel_shape"));
  if (!window) return;
  const ValueId x = padded(node, node.in(0), *window, 0);
  if (!node.good()) return;
  const bool with_pads = node.integer("count_include_pad", 0) != 0, counts_x = with_pads || x == node.in(0);
  const ir::Shape from = *node.shape(x);
  const ir::Shape windows = counts(from, *window, ceils(node));
  const ValueId sums = means_with_zeros(node, x, *window, windows);
  ir::Shape counted = {ir::Dim(1), ir::Dim(1)};
  for (size_t i = 0; i < window->kernel.size(); ++i) {
    const int64_t pads = with_pads ? window->pads[i] + window->pads[i + window->kernel.size()] : 0;
    const ir::Shape& unpadded = counts_x ? from : *node.shape(node.in(0));
    counted.push_back(unpadded[i + 2] + ir::Dim(pads));
  }
  ValueId ones = node.emit("full", {}, {{"shape", counted}, {"value", 1.0}, {"dtype", node.dtype(x)}});
  if (!counts_x && node.good()) ones = padded(node, ones, *window, 0);
  const ValueId shares =
      node.good() ? means_with_zeros(node, ones, with_pads ? without_pads(*window) : *window, windows) : ValueId();
  node.result("div", {sums, shares});
}

void average_pool(Node& node) {
  const auto window = read_free_window(node, node.in(0), node.integers("kernel_shape"));
  if (!window) return;
  const bool with_pads = node.integer("count_include_pad", 0) != 0;
  const bool counts_pads = with_pads || (window->free_pads.empty() && pads_itself(*window));
  if (is_dilated(*window) || !counts_pads) return node.round_once(average_by_shares);
  const ValueId x = padded(node, node.in(0), *window, 0);
  ir::Attributes attributes = geometry(*window, ceils(node));
  attributes.set("count_include_pad", with_pads);
  node.result("avg_pool", {x}, std::move(attributes));
}

/// Elementwise power and root for a p-norm.
ValueId powered(Node& node, ValueId x, int64_t p) {
  if (p == 1) return node.emit("abs", {x});
  if (p == 2) return node.emit("mul", {x, x});
  return node.emit("pow", {node.emit("abs", {x}), node.scalar(static_cast<double>(p), node.dtype(x))});
}
void rooted(Node& node, ValueId x, int64_t p) {
  if (p == 1) return node.result_at(0, x);
  if (p == 2) return node.result("sqrt", {x});
  node.result("pow", {x, node.scalar(1.0 / static_cast<double>(p), node.dtype(x))});
}

/// Returns the p of a norm. Fails and returns 0 unless it is positive.
int64_t norm_of(Node& node) {
  const int64_t p = node.integer("p", 2);
  if (p < 1) node.fail(node.op() + ": p must be positive, found " + std::to_string(p));
  return p < 1 ? 0 : p;
}

void lp_pool(Node& node) {
  const ValueId x = node.in(0);
  const auto window = read_free_window(node, x, node.integers("kernel_shape"));
  const int64_t p = norm_of(node);
  if (!window || p == 0) return;
  const ValueId powers = padded(node, powered(node, x, p), *window, 0);
  if (!node.good()) return;
  const ir::Shape windows = counts(*node.shape(powers), *window, ceils(node));
  const int64_t taps = elements(node, *window);
  const ValueId mean = means_with_zeros(node, powers, *window, windows);
  const ValueId sum = node.emit("mul", {mean, node.scalar(static_cast<double>(taps), node.dtype(x))});
  if (node.good()) rooted(node, sum, p);
}

/// Returns all axes after the first two. Fails and returns an empty list if there are none.
ir::Shape spatial_axes(Node& node, ValueId x) {
  const ir::Shape* const from = node.shape(x);
  if (!from) return {};
  if (from->size() < 3) node.fail(node.op() + " needs spatial dimensions");
  ir::Shape axes;
  for (size_t axis = 2; axis < from->size(); ++axis) axes.emplace_back(static_cast<int64_t>(axis));
  return axes;
}

/// Reduces all spatial dimensions and keeps them with extent 1.
void global(Node& node, std::string_view reduction) {
  const ValueId x = node.in(0);
  const ir::Shape axes = spatial_axes(node, x);
  if (node.good()) node.result(reduction, {x}, {{"axes", axes}, {"keepdim", true}});
}
void global_average_pool(Node& node) { global(node, "mean"); }
void global_max_pool(Node& node) { global(node, "amax"); }

void global_lp_pool(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape axes = spatial_axes(node, x);
  const int64_t p = norm_of(node);
  if (!node.good()) return;
  const ValueId sum = node.emit("sum", {powered(node, x, p)}, {{"axes", axes}, {"keepdim", true}});
  if (node.good()) rooted(node, sum, p);
}

/// Divides x by a power of the mean square over neighboring channels, which an average pool computes.
void lrn(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const shape = node.shape(x);
  if (!shape) return;
  const int64_t size = node.integer("size", 0);
  if (shape->size() < 2 || size < 1) return node.fail("LRN needs channels and a positive size");
  const ir::Shape from = *shape;
  const ir::Dim rest = element_count(ir::Shape(from.begin() + 2, from.end()));
  const auto scalar = [&](const char* name, double otherwise) {
    return node.scalar(node.number(name, otherwise), node.dtype(x));
  };
  const ValueId square =
      node.emit("reshape", {node.emit("mul", {x, x})}, {{"shape", ir::Shape{from[0], ir::Dim(1), from[1], rest}}});
  const Window near{{size, 1}, {1, 1}, {1, 1}, {(size - 1) / 2, 0, size / 2, 0}};
  ir::Attributes attributes = geometry(near, false);
  attributes.set("count_include_pad", true);
  const ValueId mean = node.emit("reshape", {node.emit("avg_pool", {square}, attributes)}, {{"shape", from}});
  const ValueId scaled = node.emit("mul", {mean, scalar("alpha", 1e-4)});
  const ValueId base = node.emit("add", {scaled, scalar("bias", 1.0)});
  node.result("div", {x, node.emit("pow", {base, scalar("beta", 0.75)})});
}

}  // namespace

std::span<const Translator> pooling_translators() {
  static constexpr Translator kTable[] = {
      {"AveragePool", 7, 27, average_pool},
      {"GlobalAveragePool", 7, 27, global_average_pool},
      {"GlobalLpPool", 7, 27, rounded_once<global_lp_pool>},
      {"GlobalMaxPool", 7, 27, global_max_pool},
      {"LRN", 7, 27, rounded_once<lrn>},
      {"LpPool", 7, 27, rounded_once<lp_pool>},
      {"MaxPool", 7, 27, max_pool},
      {"MaxUnpool", 9, 27, max_unpool},
  };
  return kTable;
}

}  // namespace rannc::frontend
