// Temporary copies of oneDNN's and LibTorch's convolution kernels, by kind of kernel.
#include "ir/ops/convolution_scratch.h"

#include <algorithm>

namespace rannc::ir::ops {

namespace {

constexpr int64_t kBlock = 16;     // floats of a vector: contiguous channels of a block
constexpr int64_t kHalfBlock = 8;  // of kernels for shorter vectors
constexpr int64_t kAlign = 128;    // bytes that oneDNN adds to a scratchpad for alignment

constexpr int64_t rounded(int64_t count, int64_t block) { return (count + block - 1) / block * block; }
/// Channels padded to the columns of small matrix products. oneDNN chooses the number of columns with the least
/// padding.
constexpr int64_t product_columns(int64_t channels) {
  if (channels <= kBlock) return kBlock;
  return std::min({rounded(channels, 4 * kBlock), rounded(channels, 3 * kBlock), rounded(channels, 2 * kBlock)});
}

/// The kernels of one convolution, with the bytes of contiguous operands and results.
class Kernels {
 public:
  explicit Kernels(const ConvSizes& sizes)
      : s_(sizes),
        in_(sizes.in / sizes.groups),
        out_(sizes.out / sizes.groups),
        x_(sizes.x_bytes()),
        y_(sizes.y_bytes()),
        weight_(sizes.weight_bytes()) {}

  ConvPeaks peaks() const {
    if (!s_.one_dnn) return s_.groups > 1 ? by_group() : unfolded();
    if (s_.channels_last) return channels_last();
    if (s_.groups == 1) return {blocked_output(), blocked_input_gradient(), blocked_weight_gradient()};
    if (in_ == 1 && out_ == 1) return depthwise();
    return grouped();
  }

 private:
  int64_t x_blocked(int64_t block) const {
    return s_.samples * rounded(s_.in, block) * s_.in_places * s_.element_bytes;
  }
  int64_t y_blocked(int64_t block) const {
    return s_.samples * rounded(s_.out, block) * s_.out_places * s_.element_bytes;
  }
  int64_t weights(int64_t in, int64_t out) const { return in * out * s_.taps * s_.element_bytes; }
  int64_t packed_weight() const { return weights(rounded(s_.in, kBlock), rounded(s_.out, kBlock)); }
  /// The images of one sample of one group, unfolded.
  int64_t columns() const { return in_ * s_.taps * s_.out_places * s_.element_bytes; }
  bool pointwise() const { return s_.taps == 1; }
  /// Whether oneDNN has no special depthwise kernel for the filter: it is wide or covers the whole image.
  bool outgrown() const { return s_.wide || s_.in_places < s_.taps || (s_.strided && s_.in_places == s_.taps); }

  // --- oneDNN, contiguous, without groups

  // Fewer channels than a block are read without reordering, except by pointwise kernels.
  bool reads_x_as_it_lies() const { return s_.in < kBlock && !pointwise(); }

  // A strided pointwise kernel first gathers the positions of a sample that it reads.
  int64_t gathered() const {
    if (!pointwise() || !s_.strided) return 0;
    return rounded(s_.in, kBlock) * s_.out_places * s_.element_bytes + kAlign;
  }

  int64_t blocked_output() const {
    const int64_t made = y_blocked(kBlock);
    const int64_t read = reads_x_as_it_lies() ? weights(s_.in, rounded(s_.out, kBlock))
                                              : x_blocked(kBlock) + packed_weight() + gathered();
    return made + std::max(read, y_);
  }

  // With strides it uses small matrix products, channels last.
  int64_t blocked_input_gradient() const {
    if (s_.strided) return strided_input_gradient(s_.out * strided_columns());
    return x_blocked(kBlock) + std::max(y_blocked(kBlock) + packed_weight(), x_);
  }

  // Columns of its products. It uses 48 of them only for pointwise kernels that they fit.
  int64_t strided_columns() const {
    if (s_.in <= kBlock || (pointwise() && s_.in % (3 * kBlock) == 0)) return rounded(s_.in, kBlock);
    return std::min(rounded(s_.in, 4 * kBlock), rounded(s_.in, 2 * kBlock));
  }

  // Rows that strides do not divide are computed in buffers of their own.
  int64_t strided_scratch() const { return kProductScratch + (s_.uneven ? kUnevenScratch : 0); }

  // The finished gradient is copied twice: out of the kernel's layout, and into the contiguous one.
  int64_t strided_input_gradient(int64_t channels) const {
    const int64_t reads = (s_.out > 1 ? y_ : 0) + weights(channels, 1) + strided_scratch();
    return x_ + std::max(reads, s_.in > 1 ? 2 * x_ : x_);
  }

  int64_t blocked_weight_gradient() const {
    if (pointwise() || s_.in >= kBlock)
      return packed_weight() + std::max(x_blocked(kBlock) + y_blocked(kBlock) + gathered(), weight_);
    if (s_.in <= kImageChannels) return weights(s_.in, rounded(s_.out, kBlock)) + std::max(y_blocked(kBlock), weight_);
    if (s_.dilated) return unfolded_weight_gradient();
    const int64_t packed = weights(rounded(s_.in, kHalfBlock), rounded(s_.out, kHalfBlock));
    return packed + std::max(x_blocked(kHalfBlock) + y_blocked(kHalfBlock), weight_);
  }

  // --- oneDNN's products of unfolded images, which read contiguous operands

  int64_t unfolded_weight_gradient() const {
    constexpr int64_t kPartialSums = 4;
    return weight_ + std::max(columns() + kPartialSums * weight_ + 2 * kAlign, weight_);
  }

  // --- oneDNN, contiguous, with groups

  ConvPeaks depthwise() const {
    const int64_t packed = rounded(s_.groups, kBlock) * s_.taps * s_.element_bytes;
    const int64_t x = x_blocked(kBlock), y = y_blocked(kBlock), read = x + y + packed;
    return {std::max(read, y + y_), std::max(read, x + x_),
            outgrown() ? unfolded_weight_gradient() : packed + std::max(x + y, weight_)};
  }

  ConvPeaks grouped() const {
    constexpr int64_t kLeast = 4, kProducts = 32;
    if (in_ % kLeast != 0 || out_ % kLeast != 0) {
      const int64_t scratch = columns() + kAlign;
      const int64_t input =
          s_.strided && in_ > kLeast ? strided_input_gradient(s_.out * in_) : x_ + std::max(scratch, x_);
      return {y_ + std::max(scratch, y_), input, unfolded_weight_gradient()};
    }
    const int64_t read = x_ + y_ + weight_;
    const bool whole_blocks = in_ % kBlock == 0 && out_ % kBlock == 0;
    const bool products = s_.strided && in_ >= kProducts;
    return {std::max(read, 2 * y_), products ? strided_input_gradient(s_.out * in_) : std::max(read, 2 * x_),
            whole_blocks ? weight_ + std::max(x_ + y_, weight_) : unfolded_weight_gradient()};
  }

  // --- oneDNN, channels last: only weights are copied

  ConvPeaks channels_last() const {
    int64_t output = weights(in_, product_columns(s_.out)), input = weights(s_.out, product_columns(s_.in));
    int64_t gradient = weights(reads_x_as_it_lies() ? s_.in : rounded(s_.in, kBlock), rounded(s_.out, kBlock));
    int64_t scratch = kProductScratch;
    if (s_.groups > 1) {
      const bool apart = in_ == 1 && out_ == 1;
      const int64_t padded = s_.groups * weights(rounded(in_, kBlock), rounded(out_, kBlock));
      const int64_t packed = apart                           ? rounded(s_.groups, kBlock) * s_.taps * s_.element_bytes
                             : in_ % 4 == 0 && out_ % 4 == 0 ? weight_
                                                             : padded;
      output = input = packed;
      gradient = apart && !outgrown() ? packed : padded;
      scratch = 0;
    }
    // The weight is first reordered to channels last, and its gradient is reordered back.
    const int64_t reordered = !pointwise() && in_ > 1 ? weight_ : 0;
    return {y_ + reordered + output + (s_.strided && s_.transposed ? scratch : scratch / kForwardShare),
            x_ + reordered + input + (s_.strided ? scratch : scratch / kForwardShare),
            reordered + gradient + 2 * weight_};
  }

  // --- LibTorch's own kernels

  // A pointwise kernel reads the image itself as columns.
  ConvPeaks unfolded() const {
    const bool as_it_lies = pointwise() && !s_.strided;
    const int64_t images = s_.transposed ? 1 : s_.samples;
    int64_t scratch = as_it_lies ? 0 : images * columns();
    if (s_.channels_last && !pointwise()) scratch += weight_;
    return {y_ + scratch, x_ + (s_.transposed ? scratch : 0), weight_ + scratch};
  }

  // Computes each group separately from copies of its part and joins the results.
  ConvPeaks by_group() const {
    const int64_t parts = x_ / s_.groups + y_ / s_.groups;
    return {2 * y_ + (pointwise() && !s_.strided ? 0 : columns()), x_ + std::max(parts, x_ + 2 * weight_),
            weight_ + std::max(parts, weight_)};
  }

  static constexpr int64_t kImageChannels = 3;       // maximum number of channels of an image
  static constexpr int64_t kProductScratch = 36888;  // bytes, of strided products with few channels
  static constexpr int64_t kUnevenScratch = 20480;   // bytes, in addition
  static constexpr int64_t kForwardShare = 4;        // other products need less by about this factor

  const ConvSizes& s_;
  const int64_t in_, out_;  // channels of a group
  const int64_t x_, y_, weight_;
};

}  // namespace

ConvPeaks conv_peaks(const ConvSizes& sizes) { return Kernels(sizes).peaks(); }

}  // namespace rannc::ir::ops
