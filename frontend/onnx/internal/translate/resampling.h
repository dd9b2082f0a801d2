/// The arithmetic of ONNX's Resize along one axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rannc::frontend {

/// What the attributes of a node say, for all axes alike. `nearest` may also be `simple`, as before opset 11: upwards
/// where the result is smaller, downwards where it is larger.
struct Resampling {
  std::string mode;     ///< nearest, linear, cubic
  std::string place;    ///< coordinate_transformation_mode
  std::string nearest;  ///< nearest_mode
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

/// One axis: `scale` is the number of elements of the result for one of the operand, which need not make `to` whole.
struct ResampledAxis {
  int64_t from = 0, to = 0;
  double scale = 1;
  double roi_start = 0, roi_end = 1;  ///< of tf_crop_and_resize alone
};

/// Where the elements of the result lie in the operand.
std::vector<double> places(const Resampling& rule, const ResampledAxis& axis);
/// Which of them lie outside of it, where a value of the node's own stands.
std::vector<bool> outside(const Resampling& rule, const ResampledAxis& axis);
/// The neighbour of each, for mode nearest.
std::vector<int64_t> nearest_neighbours(const Resampling& rule, const ResampledAxis& axis);
/// The weights of all elements of the operand for each of the result, [to, from], for modes linear and cubic; of those
/// outside zeros.
std::vector<double> weights(const Resampling& rule, const ResampledAxis& axis);

/// LibTorch's kernels of nearest neighbours.
enum class NearestKernel : uint8_t { kNearest, kExact };
/// Whether the kernel picks the same neighbours, in single and in double precision, whose coordinates round apart;
/// `by_scale`: it is told the scale, not the sizes alone.
bool picks_the_same(NearestKernel kernel, bool by_scale, const Resampling& rule, const ResampledAxis& axis);

}  // namespace rannc::frontend
