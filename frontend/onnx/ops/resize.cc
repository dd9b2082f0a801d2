/// Translates ONNX operators that resample axes.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "frontend/internal/sizes.h"
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/resampling.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Limits for the elements of a resampled axis and of a resampling matrix.
constexpr int64_t kMostElements = 1 << 20, kMostWeights = 1 << 21;

/// One axis of the operand. Symbolic extents are known only at runtime.
struct Axis {
  ir::Dim from, to;
  double scale = 1;       ///< 0: unknown
  bool by_scale = false;  ///< `scale` is from the node and may differ from to / from
  double roi_start = 0, roi_end = 1;

  bool known() const { return from.is_constant() && to.is_constant() && from.constant() > 0; }
  bool unchanged() const { return from == to && (!by_scale || scale == 1) && roi_start == 0 && roi_end == 1; }
  /// Whether from * scale is exactly `to`, without rounding.
  bool exact() const {
    if (!by_scale) return true;
    return known() ? scale * static_cast<double>(from.constant()) == static_cast<double>(to.constant())
                   : std::rint(scale) == scale;
  }
  /// Requires known extents.
  ResampledAxis numbers() const { return {from.constant(), to.constant(), scale, roi_start, roi_end}; }
};

/// Returns the scaled extent. Rounds numbers in single precision, like ONNX's shape inference.
ir::Dim scaled(const ir::Dim& from, const Fraction& scale) {
  if (!from.is_constant()) return floor_div(from * ir::Dim(scale.above), ir::Dim(scale.below));
  return whole(std::floor(static_cast<float>(from.constant()) * static_cast<float>(scale.value())));
}

/// Reads sizes, scales and regions of the axes from a node.
class AxesReader {
 public:
  AxesReader(Node& node, const ir::Shape& shape) : node_(node), shape_(shape) {
    for (const ir::Dim& extent : shape) axes_.push_back({extent, extent});
  }

  /// Returns an empty list after a failure.
  std::vector<Axis> read() {
    read_numbers_of_axes();
    const auto scales = node_.op() == "Upsample" && node_.opset() < 9 ? std::optional(node_.numbers("scales"))
                        : node_.has(scales_at())                      ? node_.numbers(node_.in(scales_at()))
                                                                      : std::vector<double>();
    if (node_.text("coordinate_transformation_mode", "") == "tf_crop_and_resize") read_regions();
    if (!scales) {
      fail("scales must be constants");
    } else if (!scales->empty()) {
      by_scales(*scales);
    } else {
      by_sizes();
    }
    for (const Axis& axis : axes_) {
      if (axis.unchanged() || !node_.good() || (resampled(axis.from) && resampled(axis.to))) continue;
      fail("an axis of " + axis.from.str() + " elements is resized to " + axis.to.str() + "; both must be 1 to " +
           std::to_string(kMostElements));
    }
    return node_.good() ? axes_ : std::vector<Axis>();
  }

 private:
  static bool resampled(const ir::Dim& extent) {
    return !extent.is_constant() || (extent.constant() > 0 && extent.constant() <= kMostElements);
  }
  size_t scales_at() const { return node_.opset() < 11 ? 1 : 2; }
  void fail(const std::string& what) { node_.fail(node_.op() + ": " + what); }

  void read_numbers_of_axes() {
    const auto rank = static_cast<int64_t>(shape_.size());
    for (const int64_t axis : node_.integers("axes")) numbers_.push_back(static_cast<size_t>(node_.axis(axis, rank)));
    for (size_t i = 0; !node_.has_attribute("axes") && i < shape_.size(); ++i) numbers_.push_back(i);
  }
  bool fits(size_t count, size_t times, const char* what) {
    if (count == times * numbers_.size()) return true;
    fail(std::to_string(count) + " " + what + " for " + std::to_string(numbers_.size()) + " axes");
    return false;
  }

  void by_scales(const std::vector<double>& scales) {
    if (!fits(scales.size(), 1, "scales")) return;
    for (size_t i = 0; i < scales.size() && node_.good(); ++i) {
      constexpr double kMost = 1 << 20;
      if (!(scales[i] * kMost >= 1 && scales[i] <= kMost)) return fail("scales must be between 2^-20 and 2^20");
      Axis& axis = axes_[numbers_[i]];
      const Fraction scale = simplest_fraction(scales[i]);
      axis.scale = scale.value();
      axis.by_scale = true;
      axis.to = scaled(axis.from, scale);
    }
  }

  void by_sizes() {
    const auto sizes = node_.has(3) ? node_.contents(node_.in(3)) : std::nullopt;
    if (!sizes) return fail("scales or sizes must follow from constants and sizes of the inputs");
    if (!fits(sizes->size(), 1, "sizes")) return;
    for (size_t i = 0; i < sizes->size(); ++i) {
      Axis& axis = axes_[numbers_[i]];
      axis.to = (*sizes)[i];
      axis.scale = axis.known() ? ratio(axis) : axis.from == axis.to ? 1 : 0;
    }
    if (const std::string policy = node_.text("keep_aspect_ratio_policy", "stretch"); policy != "stretch") {
      keep_aspect_ratio(policy == "not_larger");
    }
  }
  static double ratio(const Axis& axis) {
    return static_cast<double>(axis.to.constant()) / static_cast<double>(axis.from.constant());
  }

  /// Uses the smallest or largest scale for all axes and derives sizes from it.
  void keep_aspect_ratio(bool least) {
    std::vector<double> scales;
    for (const size_t number : numbers_) {
      if (!axes_[number].known()) return fail("keep_aspect_ratio_policy needs extents that are plain integers");
      scales.push_back(axes_[number].scale);
    }
    if (scales.empty()) return;
    const double scale =
        least ? *std::min_element(scales.begin(), scales.end()) : *std::max_element(scales.begin(), scales.end());
    for (const size_t number : numbers_) {
      Axis& axis = axes_[number];
      axis.scale = scale;
      axis.by_scale = true;
      axis.to = whole(std::floor(scale * static_cast<double>(axis.from.constant()) + 0.5));
    }
  }

  void read_regions() {
    const auto regions = node_.has(1) ? node_.numbers(node_.in(1)) : std::nullopt;
    if (!regions) return fail("tf_crop_and_resize needs a constant roi");
    if (!fits(regions->size(), 2, "numbers of roi")) return;
    constexpr double kMost = 1 << 20;  // extents
    const auto within = [](double number) { return std::abs(number) <= kMost; };
    if (!std::all_of(regions->begin(), regions->end(), within)) return fail("roi must be between -2^20 and 2^20");
    for (size_t i = 0; i < numbers_.size(); ++i) {
      axes_[numbers_[i]].roi_start = (*regions)[i];
      axes_[numbers_[i]].roi_end = (*regions)[i + numbers_.size()];
    }
  }

  Node& node_;
  const ir::Shape& shape_;
  std::vector<Axis> axes_;
  std::vector<size_t> numbers_;  ///< axes that scales, sizes and roi refer to
};

// --- LibTorch's kernels, which resample all axes after the first two at once

bool fits_nearest(NearestKernel kernel, const Resampling& rule, const Axis& axis) {
  if (axis.unchanged()) return true;
  if (axis.known()) return picks_the_same(kernel, axis.by_scale, rule, axis.numbers());
  const bool larger =
      axis.scale >= 1 && std::rint(axis.scale) == axis.scale;  // an integer factor: no position is midway
  const bool half_pixel = rule.place.find("half_pixel") != std::string::npos && rule.place != "tf_half_pixel_for_nn";
  const bool rounds = rule.nearest.starts_with("round");
  const bool exact = (half_pixel && axis.exact() && (rule.nearest == "round_prefer_ceil" || (rounds && larger))) ||
                     (rule.place == "tf_half_pixel_for_nn" && rule.nearest == "floor");
  const bool downwards = rule.nearest == "floor" || (rule.nearest == "simple" && axis.scale >= 1);
  const bool nearest = (rule.place == "asymmetric" && downwards) || (exact && larger);
  return kernel == NearestKernel::kNearest ? nearest : exact || (nearest && larger);
}

bool fits_interpolation(const Resampling& rule, const Axis& axis) {
  if (axis.unchanged() || rule.place == "half_pixel") return true;
  if (rule.place == "pytorch_half_pixel") return !(axis.to == ir::Dim(1));
  return axis.exact() && (rule.place == "half_pixel_symmetric" || (rule.place == "align_corners" && !rule.antialias));
}

/// Returns the mode of core.upsample that matches the node over the last `axes`; empty if there is none.
std::string kernel_mode(const Resampling& rule, std::span<const Axis> axes) {
  const auto all = [&](auto&& fits) { return std::all_of(axes.begin(), axes.end(), fits); };
  if (rule.mode == "nearest") {
    if (all([&](const Axis& axis) { return fits_nearest(NearestKernel::kNearest, rule, axis); })) return "nearest";
    const bool exact = all([&](const Axis& axis) { return fits_nearest(NearestKernel::kExact, rule, axis); });
    return exact ? "nearest_exact" : "";
  }
  if (!all([&](const Axis& axis) { return fits_interpolation(rule, axis); })) return "";
  const bool linear = rule.mode == "linear";
  if (!linear && axes.size() != 2) return "";
  if (!rule.antialias) return linear ? "linear" : rule.cubic_a == -0.75 && !rule.exclude_outside ? "cubic" : "";
  if (axes.size() != 2 || !rule.exclude_outside) return "";
  return linear ? "linear_antialias" : rule.cubic_a == -0.5 ? "cubic_antialias" : "";
}

bool by_kernel(Node& node, ValueId x, const Resampling& rule, const std::vector<Axis>& axes) {
  if (axes.size() < 3 || axes.size() > 5 || !ir::is_float(node.dtype(x))) return false;
  if (!axes[0].unchanged() || !axes[1].unchanged()) return false;
  const std::span<const Axis> spatial = std::span(axes).subspan(2);
  const std::string mode = kernel_mode(rule, spatial);
  if (mode.empty()) return false;
  ir::Shape sizes;
  for (const Axis& axis : spatial) sizes.push_back(axis.to);
  ir::Attributes attributes = {{"mode", mode}, {"sizes", sizes}};
  if (rule.place == "align_corners" && !mode.starts_with("nearest")) attributes.set("align_corners", true);
  constexpr std::string_view kScales[] = {"scale_d", "scale_h", "scale_w"};
  for (size_t i = 0; i < spatial.size(); ++i) {
    if (spatial[i].by_scale) attributes.set(kScales[3 - spatial.size() + i], spatial[i].scale);
  }
  const ir::BatchLayout& batch = node.type(x).batch;
  if (!batch.has_batch() || batch.axis != 1) {
    node.result("upsample", {x}, std::move(attributes));
    return true;
  }
  // The kernel treats the first two axes alike. Samples must be on axis 0.
  ir::Shape turned{1, 0};
  for (size_t i = 2; i < axes.size(); ++i) turned.push_back(static_cast<int64_t>(i));
  const ValueId apart = node.emit("upsample", {node.emit("permute", {x}, {{"dims", turned}})}, std::move(attributes));
  node.result("permute", {apart}, {{"dims", turned}});
  return true;
}

// --- axis by axis: a gather for nearest neighbors, a product with a constant matrix for weighted means

/// Returns flags of an axis that broadcast over the `behind` axes after it.
ValueId flags_over(Node& node, const std::vector<bool>& flags, size_t behind) {
  std::vector<int64_t> shape = {static_cast<int64_t>(flags.size())};
  shape.resize(1 + behind, 1);
  return node.table("inside", ir::DType::kBool, shape, std::vector<int64_t>(flags.begin(), flags.end()));
}

ValueId product_along(Node& node, ValueId x, size_t axis, const Resampling& rule, const ResampledAxis& numbers) {
  const size_t rank = node.shape(x)->size();
  if (numbers.from * numbers.to > kMostWeights) {
    node.fail(node.op() + " from " + std::to_string(numbers.from) + " to " + std::to_string(numbers.to) +
              " elements of axis " + std::to_string(axis) + ": the resampling matrix would have more than " +
              std::to_string(kMostWeights));
    return {};
  }
  if (!node.has_room_for_table(static_cast<uint64_t>(numbers.from * numbers.to))) return {};
  std::vector<double> rows = weights(rule, numbers);
  if (axis + 2 == rank) {
    return node.emit("matmul", {node.table("weights", node.dtype(x), {numbers.to, numbers.from}, rows), x});
  }
  std::vector<double> columns(rows.size());
  const auto from = static_cast<size_t>(numbers.from), to = static_cast<size_t>(numbers.to);
  for (size_t i = 0; i < rows.size(); ++i) columns[i % from * to + i / from] = rows[i];
  rows = {};
  const ValueId matrix = node.table("weights", node.dtype(x), {numbers.from, numbers.to}, columns);
  if (axis + 1 == rank) return node.emit("matmul", {x, matrix});
  ir::Shape swapped;
  for (size_t i = 0; i < rank; ++i) swapped.emplace_back(static_cast<int64_t>(i));
  std::swap(swapped[axis], swapped.back());
  const ValueId made = node.emit("matmul", {node.emit("permute", {x}, {{"dims", swapped}}), matrix});
  return node.emit("permute", {made}, {{"dims", swapped}});
}

/// Whether nearest neighbors are repeated elements. This holds for integer factors, even of symbolic extents.
bool repeats(const Resampling& rule, const Axis& axis) {
  return rule.mode == "nearest" && axis.by_scale && std::rint(axis.scale) == axis.scale &&
         fits_nearest(NearestKernel::kNearest, rule, axis);
}

ValueId repeated(Node& node, ValueId x, size_t axis, const Axis& by) {
  const ir::Shape from = *node.shape(x);
  ir::Shape stretched = from, to = from;
  stretched.insert(stretched.begin() + static_cast<std::ptrdiff_t>(axis) + 1, ir::Dim(whole(by.scale)));
  to[axis] = by.to;
  const ValueId apart = node.emit("unsqueeze", {x}, {{"axes", ir::Shape{static_cast<int64_t>(axis) + 1}}});
  return node.emit("reshape", {node.emit("expand", {apart}, {{"shape", stretched}})}, {{"shape", to}});
}

ValueId resampled(Node& node, ValueId x, size_t axis, const Resampling& rule, const ResampledAxis& numbers) {
  ValueId made;
  if (rule.mode == "nearest") {
    const ValueId at = node.table("places", ir::DType::kI64, {numbers.to}, nearest_neighbours(rule, numbers));
    made = node.emit("gather", {x, at}, {{"axis", ir::Dim(static_cast<int64_t>(axis))}});
  } else {
    made = product_along(node, x, axis, rule, numbers);
  }
  if (!node.good()) return {};
  std::vector<bool> inside = outside(rule, numbers);
  inside.flip();
  if (std::find(inside.begin(), inside.end(), false) == inside.end()) return made;
  const ValueId otherwise = node.scalar(node.number("extrapolation_value", 0.0), node.dtype(x));
  return node.emit("where", {flags_over(node, inside, node.shape(x)->size() - 1 - axis), made, otherwise});
}

ValueId size_as_value(Node& node, const ir::Dim& size) {
  return node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", size}, {"dtype", ir::DType::kI64}});
}

/// Returns factor * x + shift.
ValueId along(Node& node, ValueId x, const ir::Dim& factor, const ir::Dim& shift) {
  return node.emit("add", {node.emit("mul", {x, size_as_value(node, factor)}), size_as_value(node, shift)});
}

/// Returns the ratio of the extents of result and operand.
std::pair<ir::Dim, ir::Dim> ratio_of(const Axis& axis) {
  if (!axis.by_scale) return {axis.to, axis.from};
  const Fraction scale = simplest_fraction(axis.scale);
  return {scale.above, scale.below};
}

/// Returns nearest neighbors along an axis of symbolic extents, computed exactly in integers: the source of element i
/// is (a * i + b) / c. Returns nullopt for other rules.
std::optional<ValueId> neighbours_by_sizes(Node& node, const Resampling& rule, const Axis& axis) {
  const auto& [made, given] = ratio_of(axis);
  const bool half_pixel = rule.place == "half_pixel", shifted = rule.place == "tf_half_pixel_for_nn";
  if (rule.mode != "nearest" || rule.nearest == "simple") return std::nullopt;
  if (!half_pixel && !shifted && rule.place != "asymmetric") return std::nullopt;
  const ir::Dim two = 2;
  ir::Dim a = given, b = 0, c = made;
  if (half_pixel || shifted) {
    a = two * given;
    b = half_pixel ? given - made : given;
    c = two * made;
  }
  const bool upwards = rule.nearest == "ceil" || rule.nearest == "round_prefer_floor";  // x - 1/2, rounded up
  if (rule.nearest.starts_with("round")) {
    b = two * b + (upwards ? ir::Dim(0) - c : c);
    a = two * a;
    c = two * c;
  }
  if (upwards) {
    a = ir::Dim(0) - a;
    b = ir::Dim(0) - b;
  }
  const ValueId numbers = node.emit(
      "range", {}, {{"start", ir::Dim(0)}, {"limit", axis.to}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
  ValueId at =
      node.emit("div", {along(node, numbers, a, b), size_as_value(node, c)}, {{"rounding", std::string("floor")}});
  if (upwards) at = node.emit("neg", {at});
  at = node.emit("maximum", {at, size_as_value(node, 0)});
  return node.emit("minimum", {at, size_as_value(node, axis.from - ir::Dim(1))});
}

void axis_by_axis(Node& node, ValueId x, const Resampling& rule, const std::vector<Axis>& axes) {
  if (rule.mode != "nearest" && !ir::is_float(node.dtype(x))) {
    return node.fail(node.op() + " of " + std::string(ir::str(node.dtype(x))) + " is supported only in mode 'nearest'");
  }
  for (size_t i = 0; i < axes.size() && node.good(); ++i) {
    if (axes[i].unchanged()) continue;
    if (axes[i].known()) {
      x = resampled(node, x, i, rule, axes[i].numbers());
    } else if (repeats(rule, axes[i])) {
      x = repeated(node, x, i, axes[i]);
    } else if (const auto at = neighbours_by_sizes(node, rule, axes[i])) {
      x = node.emit("gather", {x, *at}, {{"axis", ir::Dim(static_cast<int64_t>(i))}});
    } else {
      return node.fail(node.op() + " over axis " + std::to_string(i) + ", from " + axes[i].from.str() + " to " +
                       axes[i].to.str() + ": symbolic extents need a resampling that LibTorch supports," +
                       " which excludes mode '" + rule.mode + "' with coordinates '" + rule.place + "' over " +
                       std::to_string(axes.size()) + " axes");
    }
  }
  if (node.good()) node.result_at(0, x);
}

/// Coordinates are `asymmetric` before opset 11.
Resampling rule_of(const Node& node) {
  const bool old = node.opset() < 11;
  return {.mode = node.text("mode", "nearest"),
          .place = old ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel"),
          .nearest = old ? "simple" : node.text("nearest_mode", "round_prefer_floor"),
          .cubic_a = node.number("cubic_coeff_a", -0.75),
          .exclude_outside = node.integer("exclude_outside", 0) != 0,
          .antialias = node.integer("antialias", 0) != 0};
}

/// Fails and returns false if a text attribute is not among the supported values.
bool allowed(Node& node, const std::string& text, std::initializer_list<std::string_view> known) {
  if (std::find(known.begin(), known.end(), text) != known.end()) return true;
  node.fail(node.op() + ": '" + text + "' is not supported");
  return false;
}

void resize(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const Resampling rule = rule_of(node);
  if (!allowed(node, rule.mode, {"nearest", "linear", "cubic"}) ||
      !allowed(node, rule.place,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                "tf_half_pixel_for_nn", "tf_crop_and_resize"}) ||
      !allowed(node, rule.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"})) {
    return;
  }
  const std::vector<Axis> axes = AxesReader(node, *from).read();
  if (!node.good()) return;
  if (std::all_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.unchanged(); })) {
    return node.result("identity", {x});
  }
  if (!by_kernel(node, x, rule, axes)) axis_by_axis(node, x, rule, axes);
}

}  // namespace

std::span<const Translator> resize_translators() {
  static constexpr Translator kTable[] = {
      {"Resize", 10, 27, resize},
      {"Upsample", 7, 9, resize},
  };
  return kTable;
}

}  // namespace rannc::frontend
