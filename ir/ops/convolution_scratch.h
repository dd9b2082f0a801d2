/// Temporary memory of convolution kernels. Private to ir/ops.
#pragma once

#include <cstdint>

namespace rannc::ir::ops {

/// A convolution from x [samples, in, positions…] to y [samples, out, positions…]. A transposed one goes from y to x.
struct ConvSizes {
  int64_t samples = 1, in = 1, out = 1, groups = 1;
  int64_t in_places = 1, out_places = 1;  ///< elements of a channel
  int64_t taps = 1;                       ///< elements of the filter per channel
  int64_t element_bytes = 4;
  bool strided = false, dilated = false;
  bool uneven = false;         ///< the stride of the last axis does not divide its extent
  bool wide = false;           ///< the last two axes of the filter have more than 3 elements
  bool channels_last = false;  ///< memory format
  bool one_dnn = false;        ///< LibTorch calls oneDNN
  bool transposed = false;

  int64_t x_bytes() const { return samples * in * in_places * element_bytes; }
  int64_t y_bytes() const { return samples * out * out_places * element_bytes; }
  int64_t weight_bytes() const { return in * (out / groups) * taps * element_bytes; }
};

/// Peak bytes of the three computations, including copies of their operands and including their results.
struct ConvPeaks {
  int64_t output = 0;           ///< y from x and the weight
  int64_t input_gradient = 0;   ///< the gradient of x from that of y and the weight
  int64_t weight_gradient = 0;  ///< the gradient of the weight from x and the gradient of y
};

ConvPeaks conv_peaks(const ConvSizes& sizes);

}  // namespace rannc::ir::ops
