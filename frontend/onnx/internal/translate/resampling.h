/// Computes ONNX's Resize along one axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rannc::frontend {

/// Attributes of a node, common to all axes. `nearest` may also be `simple`, as before opset 11: it rounds up if the
/// result is smaller and down if it is larger.
struct Resampling {
  std::string mode;     ///< nearest, linear, cubic
  std::string place;    ///< coordinate_transformation_mode
  std::string nearest;  ///< nearest_mode
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

/// One axis. `scale` is the number of result elements per operand element; `from * scale` need not be an integer.
struct ResampledAxis {
  int64_t from = 0, to = 0;
  double scale = 1;
  double roi_start = 0, roi_end = 1;  ///< only for tf_crop_and_resize
};

/// Coordinates of the result elements in the operand.
std::vector<double> places(const Resampling& rule, const ResampledAxis& axis);
/// Whether each result element lies outside the operand, where the extrapolation value applies.
std::vector<bool> outside(const Resampling& rule, const ResampledAxis& axis);
/// Nearest neighbor of each result element, for mode nearest.
std::vector<int64_t> nearest_neighbours(const Resampling& rule, const ResampledAxis& axis);
/// Weights [to, from] of operand elements for each result element, for modes linear and cubic. Zero for result elements
/// outside the operand.
std::vector<double> weights(const Resampling& rule, const ResampledAxis& axis);

/// LibTorch's nearest-neighbor kernels.
enum class NearestKernel : uint8_t { kNearest, kExact };
/// Whether the kernel picks the same neighbors in both single and double precision, in which coordinates round
/// differently. `by_scale`: the kernel computes coordinates from the scale instead of the sizes.
bool picks_the_same(NearestKernel kernel, bool by_scale, const Resampling& rule, const ResampledAxis& axis);

}  // namespace rannc::frontend
