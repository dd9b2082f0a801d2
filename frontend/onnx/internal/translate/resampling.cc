#include "frontend/onnx/internal/translate/resampling.h"

#include <algorithm>
#include <cmath>

namespace rannc::frontend {

namespace {

/// The length of the result before rounding, which ONNX's reference uses to compute coordinates.
double length(const ResampledAxis& axis) { return axis.scale * static_cast<double>(axis.from); }

/// In single precision, as ONNX Runtime computes it: in double precision, another neighbour may be nearest.
double cropped_place(const ResampledAxis& axis, int64_t i) {
  const auto y = static_cast<float>(i), last = static_cast<float>(axis.from - 1);
  const auto made = static_cast<float>(length(axis));
  const auto start = static_cast<float>(axis.roi_start), end = static_cast<float>(axis.roi_end);
  if (made == 1) return 0.5f * (start + end) * last;
  return start * last + y * (end - start) * last / (made - 1);
}

double place(const Resampling& rule, const ResampledAxis& axis, int64_t i) {
  const auto y = static_cast<double>(i);
  const double last = static_cast<double>(axis.from) - 1, made = length(axis);
  if (rule.place == "align_corners") return made == 1 ? 0 : y * last / (made - 1);
  if (rule.place == "asymmetric") return y / axis.scale;
  if (rule.place == "tf_half_pixel_for_nn") return (y + 0.5) / axis.scale;
  if (rule.place == "tf_crop_and_resize") return cropped_place(axis, i);
  if (rule.place == "pytorch_half_pixel" && axis.to == 1) return 0;
  const double half_pixel = (y + 0.5) / axis.scale - 0.5;
  if (rule.place != "half_pixel_symmetric") return half_pixel;
  return static_cast<double>(axis.from) / 2 * (1 - static_cast<double>(axis.to) / made) + half_pixel;
}

double round(const std::string& how, double x, bool smaller) {
  if (how == "floor" || (how == "simple" && !smaller)) return std::floor(x);
  if (how == "ceil" || how == "simple") return std::ceil(x);
  const double down = std::floor(x), rest = x - down;
  return down + (rest > 0.5 || (rest == 0.5 && how == "round_prefer_ceil") ? 1 : 0);
}

int64_t clamped(double x, int64_t extent) {
  return static_cast<int64_t>(std::clamp(x, 0.0, static_cast<double>(extent - 1)));
}

double filter(const Resampling& rule, double x) {
  x = std::abs(x);
  if (rule.mode == "linear") return std::max(0.0, 1 - x);
  const double a = rule.cubic_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Scales weights to a sum of 1.
void normalise(std::vector<double>& taps) {
  double sum = 0;
  for (const double tap : taps) sum += tap;
  if (sum == 0) return;
  for (double& tap : taps) tap /= sum;
}

/// Nearest neighbor as computed by the kernel for elements of type T. It converts a double to float for floorf.
template <class T>
int64_t kernel_neighbour(NearestKernel kernel, bool by_scale, const ResampledAxis& axis, int64_t i) {
  const T scale = by_scale ? static_cast<T>(1.0 / axis.scale) : static_cast<T>(axis.from) / static_cast<T>(axis.to);
  const T x = kernel == NearestKernel::kNearest
                  ? scale * static_cast<T>(i)
                  : std::max<T>(0, scale * (static_cast<T>(i) + T(0.5)) - T(0.5)) + T(0.5);
  return std::min(static_cast<int64_t>(std::floor(static_cast<float>(x))), axis.from - 1);
}

}  // namespace

std::vector<double> places(const Resampling& rule, const ResampledAxis& axis) {
  std::vector<double> all;
  for (int64_t i = 0; i < axis.to; ++i) all.push_back(place(rule, axis, i));
  return all;
}

std::vector<bool> outside(const Resampling& rule, const ResampledAxis& axis) {
  std::vector<bool> all;
  const bool extrapolates = rule.place == "tf_crop_and_resize";
  for (const double x : places(rule, axis)) {
    all.push_back(extrapolates && (x < 0 || x > static_cast<double>(axis.from - 1)));
  }
  return all;
}

std::vector<int64_t> nearest_neighbours(const Resampling& rule, const ResampledAxis& axis) {
  std::vector<int64_t> all;
  for (const double x : places(rule, axis)) {
    all.push_back(clamped(round(rule.nearest, x, axis.scale < 1), axis.from));
  }
  return all;
}

std::vector<double> weights(const Resampling& rule, const ResampledAxis& axis) {
  std::vector<double> all(static_cast<size_t>(axis.to * axis.from), 0.0);
  const std::vector<double> x = places(rule, axis);
  const std::vector<bool> excluded = outside(rule, axis);
  const double shrink = rule.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double before = std::floor((rule.mode == "linear" ? -1 : -2) / shrink) + 1;
  const auto count = static_cast<size_t>(2 - 2 * before);
  for (size_t i = 0; i < x.size(); ++i) {
    if (excluded[i]) continue;
    const double first = std::floor(x[i]) + before;
    std::vector<double> taps(count);
    for (size_t k = 0; k < count; ++k) taps[k] = filter(rule, (first + static_cast<double>(k) - x[i]) * shrink);
    if (rule.antialias) normalise(taps);
    for (size_t k = 0; k < count && rule.exclude_outside; ++k) {
      const double at = first + static_cast<double>(k);
      if (at < 0 || at >= static_cast<double>(axis.from)) taps[k] = 0;
    }
    if (rule.exclude_outside) normalise(taps);
    double* const row = all.data() + i * static_cast<size_t>(axis.from);
    for (size_t k = 0; k < count; ++k) row[clamped(first + static_cast<double>(k), axis.from)] += taps[k];
  }
  return all;
}

bool picks_the_same(NearestKernel kernel, bool by_scale, const Resampling& rule, const ResampledAxis& axis) {
  const std::vector<int64_t> wanted = nearest_neighbours(rule, axis);
  const std::vector<bool> excluded = outside(rule, axis);
  for (int64_t i = 0; i < axis.to; ++i) {
    const auto at = static_cast<size_t>(i);
    if (excluded[at] || wanted[at] != kernel_neighbour<float>(kernel, by_scale, axis, i) ||
        wanted[at] != kernel_neighbour<double>(kernel, by_scale, axis, i)) {
      return false;
    }
  }
  return true;
}

}  // namespace rannc::frontend
