/// Temporary memory of convolution kernels. Private to ir/op.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/instruction_set.h"

namespace rannc::ir::ops {

/// One spatial axis of a convolution from x to y.
struct ConvAxis {
  int64_t in = 1, out = 1, filter = 1, stride = 1, dilation = 1;
  int64_t begin = 0;  ///< pad before the first element of x

  /// Elements of x from the first to the last that one window covers.
  int64_t reach() const { return dilation * (filter - 1) + 1; }
  /// Pad after the last element of x that the last window needs; negative if it ends before.
  int64_t end() const { return end_of(out); }
  /// The same of the first `count` windows.
  int64_t end_of(int64_t count) const { return (count - 1) * stride + reach() - (in + begin); }
  bool whole() const { return in == out * stride && begin == 0; }
};

/// A convolution from x [samples, in, positions…] to y [samples, out, positions…]. A transposed one goes from y to x.
struct ConvSizes {
  int64_t samples = 1, in = 1, out = 1, groups = 1;
  int64_t element_bytes = 4;
  std::vector<ConvAxis> axes;  ///< at least one
  bool channels_last = false;  ///< memory format of the images
  bool weight_last = false;    ///< the weight is stored channels last
  bool one_dnn = false;        ///< LibTorch calls oneDNN
  bool transposed = false;
  InstructionSet instructions = kDefaultInstructions;

  const ConvAxis& columns() const { return axes.back(); }
  const ConvAxis& rows() const {
    static const ConvAxis kOne;
    return axes.size() > 1 ? axes[axes.size() - 2] : kOne;
  }
  int64_t in_places() const { return product(&ConvAxis::in); }
  int64_t out_places() const { return product(&ConvAxis::out); }
  /// Elements of the filter per channel.
  int64_t taps() const { return product(&ConvAxis::filter); }
  bool strided() const { return product(&ConvAxis::stride) > 1; }
  bool dilated() const { return product(&ConvAxis::dilation) > 1; }

  int64_t x_bytes() const { return samples * in * in_places() * element_bytes; }
  int64_t y_bytes() const { return samples * out * out_places() * element_bytes; }
  int64_t weight_bytes() const { return in * (out / groups) * taps() * element_bytes; }

 private:
  /// Elements of a channel, by the extents that `extent` selects.
  int64_t product(int64_t ConvAxis::*extent) const {
    int64_t all = 1;
    for (const ConvAxis& axis : axes) all *= axis.*extent;
    return all;
  }
};

/// Peak bytes of the three computations, including copies of their operands and including their results.
struct ConvPeaks {
  int64_t output = 0;           ///< y from x and the weight
  int64_t input_gradient = 0;   ///< the gradient of x from that of y and the weight
  int64_t weight_gradient = 0;  ///< the gradient of the weight from x and the gradient of y
};

ConvPeaks conv_peaks(const ConvSizes& sizes);

}  // namespace rannc::ir::ops
