// Temporary copies of oneDNN's and LibTorch's convolution kernels, by kind of kernel.
#include "ir/op/rules/convolution_scratch.h"

#include <algorithm>

#include "ir/op/kernel_scratch.h"

namespace rannc::ir::ops {

namespace {

constexpr int64_t kAlign = 128;  // bytes that oneDNN adds to a buffer of a scratchpad for alignment
constexpr int64_t kPage = 4096;  // bytes to which small matrix products align their buffers
constexpr int64_t kImageChannels = 3;

constexpr int64_t rounded(int64_t count, int64_t block) { return (count + block - 1) / block * block; }

/// The kernels of one convolution, with the bytes of operands and results.
class Kernels {
 public:
  explicit Kernels(const ConvSizes& sizes)
      : s_(sizes),
        wide_(sizes.instructions >= InstructionSet::kAvx512),
        products_(sizes.instructions >= InstructionSet::kAvx2),
        block_(wide_ ? 16 : 8),
        in_(sizes.in / sizes.groups),
        out_(sizes.out / sizes.groups),
        taps_(sizes.taps()),
        x_(sizes.x_bytes()),
        y_(sizes.y_bytes()),
        weight_(sizes.weight_bytes()) {}

  ConvPeaks peaks() const {
    if (!s_.one_dnn) return s_.groups > 1 ? by_group() : unfolded();
    // Single positions lie alike in both formats; then the weight decides.
    if (s_.channels_last && (s_.in_places() > 1 || s_.weight_last))
      return {output_channels_last(), input_channels_last(), weight_channels_last()};
    if (is_depthwise() && (products_ || s_.groups % block_ == 0)) return depthwise();
    if (s_.groups > 1) return wide_ ? wide_groups() : grouped();
    return {output(), input_gradient(), weight_gradient()};
  }

 private:
  int64_t bytes(int64_t elements) const { return elements * s_.element_bytes; }
  int64_t padded(int64_t channels) const { return rounded(channels, block_); }
  int64_t x_blocked(int64_t block) const { return bytes(s_.samples * rounded(s_.in, block) * s_.in_places()); }
  int64_t y_blocked(int64_t block) const { return bytes(s_.samples * rounded(s_.out, block) * s_.out_places()); }
  int64_t weights(int64_t in, int64_t out) const { return bytes(in * out * taps_); }
  int64_t packed_weight() const { return weights(padded(s_.in), padded(s_.out)); }
  bool pointwise() const { return taps_ == 1; }
  bool fits_blocks(int64_t in, int64_t out) const { return in % block_ == 0 && out % block_ == 0; }

  // --- which kernel oneDNN has

  bool is_depthwise() const { return s_.groups > 1 && in_ == 1 && out_ == 1 && s_.axes.size() <= 2; }
  // It computes some neighbours at once, of which the first must not lie in the pad.
  bool has_depthwise_output_kernel() const {
    const int64_t at_once = wide_ ? 6 : products_ ? 4 : 3;
    return s_.columns().begin <= std::min(at_once, s_.columns().out) && !is_outside();
  }

  // Pointwise kernels read whole blocks of channels at every stride-th position, which must divide the extents.
  bool has_pointwise_kernel() const {
    if (!pointwise() || s_.groups > 1) return false;
    if (wide_ || !s_.strided()) return whole();
    return s_.instructions >= InstructionSet::kAvx && whole();
  }
  bool whole() const {
    return std::all_of(s_.axes.begin(), s_.axes.end(), [](const ConvAxis& axis) { return axis.whole(); });
  }

  // Kernels for shorter vectors compute up to 3 neighbours at once, of which the first must not lie in the pad.
  bool has_output_kernel(int64_t in, int64_t out) const {
    if (wide_) return true;
    constexpr int64_t kAtOnce = 3, kWide = 7;
    const ConvAxis &columns = s_.columns(), &rows = s_.rows();
    if (s_.instructions == InstructionSet::kSse41) {
      if (s_.axes.size() > 2 || out % block_ != 0 || (in != kImageChannels && in % block_ != 0)) return false;
    }
    if (columns.filter > kWide && (columns.begin > 0 || rows.begin > 0) && s_.strided()) return false;
    return columns.begin <= std::min(kAtOnce, columns.out) && !is_outside();
  }
  // Whether some window lies in the pad as a whole.
  bool is_outside() const {
    return std::any_of(s_.axes.begin(), s_.axes.end(),
                       [](const ConvAxis& axis) { return axis.reach() <= axis.begin || axis.reach() <= axis.end(); });
  }
  // The same of the gradient, in which windows lie the other way round.
  bool has_input_kernel() const {
    if (wide_) return true;
    if (s_.strided() && s_.dilated()) return false;
    constexpr int64_t kAtOnce = 7;
    const ConvAxis& columns = s_.columns();
    const int64_t before = columns.reach() - 1 - columns.begin, after = columns.reach() - 1 - columns.end();
    return products_ && std::max(before, after) <= std::min(kAtOnce, columns.in) && !is_outside();
  }
  // Groups of no more channels than a block use other kernels.
  bool has_strided_products() const {
    return products_ && s_.strided() && !s_.dilated() && (s_.groups == 1 || out_ > block_);
  }
  bool has_weight_kernel() const {
    if (s_.dilated() && (!wide_ || s_.strided())) return false;
    if (wide_) return true;
    constexpr int64_t kWidest = 13;
    const bool fits =
        std::all_of(s_.axes.begin(), s_.axes.end() - 1, [](const ConvAxis& axis) { return axis.filter <= axis.in; });
    const bool pads_depth = s_.axes.size() > 2 && (s_.axes[0].begin > 0 || s_.axes[0].end() > 0);
    return products_ && fits && !pads_depth && s_.columns().filter <= kWidest && !is_outside();
  }
  bool has_depthwise_weight_kernel() const {
    constexpr int64_t kWidest = 3;
    const ConvAxis &columns = s_.columns(), &rows = s_.rows();
    const auto in_reach = [](const ConvAxis& axis) {
      return axis.begin <= axis.filter / 2 && axis.end() <= axis.filter / 2;
    };
    const auto in_step = [&](int64_t pad) { return pad <= 1 || pad % rows.stride == 0; };
    const int64_t skipped = (rows.stride - rows.begin % rows.stride) % rows.stride;
    return !s_.dilated() && columns.filter <= kWidest && columns.stride <= columns.filter && in_reach(columns) &&
           in_reach(rows) && rows.in >= rows.filter + skipped && in_step(rows.begin) && in_step(rows.end());
  }

  // --- oneDNN, contiguous, without groups

  // Fewer channels than a block are read without reordering, except by pointwise kernels.
  bool reads_x_as_it_lies() const { return in_ < block_ && (wide_ ? !pointwise() : !has_pointwise_kernel()); }

  // A strided pointwise kernel first gathers the positions of a sample that it reads.
  int64_t gathered() const {
    if (!has_pointwise_kernel() || !s_.strided()) return 0;
    return bytes(padded(s_.in) * s_.out_places()) + kAlign;
  }

  int64_t output() const {
    if (!has_output_kernel(s_.in, s_.out)) return unfolded_output();
    const int64_t read =
        reads_x_as_it_lies() ? weights(s_.in, padded(s_.out)) : x_blocked(block_) + packed_weight() + gathered();
    return y_blocked(block_) + std::max(read, y_);
  }

  // With strides it uses small matrix products, channels last.
  int64_t input_gradient() const {
    if (has_strided_products()) return strided_input_gradient(s_.out * strided_columns(s_.in));
    if (!has_input_kernel() && !has_pointwise_input_kernel()) return unfolded_input_gradient();
    return x_blocked(block_) + std::max(y_blocked(block_) + packed_weight() + (products_ ? 0 : gathered()), x_);
  }
  bool has_pointwise_input_kernel() const { return s_.instructions >= InstructionSet::kAvx && has_pointwise_kernel(); }

  // Columns of its products. With 512-bit vectors it uses 48 of them only for pointwise kernels that they fit.
  int64_t strided_columns(int64_t channels) const {
    if (!wide_) return product_columns(channels);
    if (channels <= block_ || (pointwise() && channels % (3 * block_) == 0)) return padded(channels);
    return std::min(rounded(channels, 4 * block_), rounded(channels, 2 * block_));
  }

  // Channels padded to the columns of small matrix products. oneDNN chooses the number of columns with the least
  // padding.
  int64_t product_columns(int64_t channels) const {
    if (channels <= block_) return block_;
    const int64_t most = std::min(rounded(channels, 4 * block_), rounded(channels, 3 * block_));
    return wide_ || channels <= 2 * block_ ? std::min(most, rounded(channels, 2 * block_)) : most;
  }

  // Products read a batch of pairs of operands, in pages.
  static constexpr int64_t kProductScratch = 2 * kPage + 24;

  // Strided products read a padded copy of a sample of y, and mark the finished parts. Rows that strides do not divide
  // are computed in buffers of their own.
  int64_t strided_scratch() const {
    int64_t copied = rounded(s_.out, block_);
    for (const ConvAxis& axis : s_.axes) {
      const auto beyond = [&](int64_t pad) { return std::max<int64_t>(0, axis.reach() - 1 - pad) / axis.stride; };
      copied *= axis.out + beyond(axis.begin) + beyond(axis.end());
    }
    const ConvAxis& columns = s_.columns();
    const int64_t row = rounded(columns.in, columns.stride) * s_.in;
    const int64_t uneven = columns.in % columns.stride != 0 ? bytes(rounded(row, kPage)) + kPage : 0;
    return kProductScratch + 3 * kPage + bytes(rounded(copied, kPage)) + uneven;
  }

  // The finished gradient is copied twice: out of the kernel's layout, and into the contiguous one.
  int64_t strided_input_gradient(int64_t channels) const {
    const int64_t reads = (s_.out > 1 ? y_ : 0) + weights(channels, 1) + strided_scratch();
    return x_ + std::max(reads, s_.in > 1 ? 2 * x_ : x_);
  }

  int64_t weight_gradient() const {
    if (!has_weight_kernel()) return unfolded_weight_gradient();
    if (!wide_ && s_.in == kImageChannels && !has_pointwise_kernel())
      return weights(s_.in, padded(s_.out)) + std::max(y_blocked(block_), weight_);
    if (wide_ && s_.in < block_ && !pointwise()) return few_channels_weight_gradient();
    return packed_weight() + std::max(x_blocked(block_) + y_blocked(block_) + gathered(), weight_);
  }

  // Of kernels for 512-bit vectors: images as they lie, others by a kernel for shorter vectors.
  int64_t few_channels_weight_gradient() const {
    constexpr int64_t kHalfBlock = 8;
    if (s_.in <= kImageChannels) return weights(s_.in, padded(s_.out)) + std::max(y_blocked(block_), weight_);
    if (s_.dilated()) return unfolded_weight_gradient();
    const int64_t packed = weights(rounded(s_.in, kHalfBlock), rounded(s_.out, kHalfBlock));
    return packed + std::max(x_blocked(kHalfBlock) + y_blocked(kHalfBlock), weight_);
  }

  // --- oneDNN's products of unfolded images, which read contiguous operands

  /// The images of one sample of one group, unfolded. Pointwise kernels read the images themselves.
  int64_t columns() const { return pointwise() && !s_.strided() ? 0 : bytes(in_ * taps_ * s_.out_places()); }
  int64_t columns_buffer() const { return columns() > 0 ? columns() + kAlign : 0; }

  // Unfolds blocks that fit into a core's cache. Those of single channels are smaller than y.
  int64_t unfolded_output() const {
    return y_ + std::max(is_depthwise() ? 0 : std::min(columns_buffer(), kAssumedCoreCache), y_);
  }
  int64_t unfolded_input_gradient() const { return x_ + std::max(columns_buffer(), x_); }
  int64_t unfolded_weight_gradient() const { return weight_ + std::max(sums() + columns_buffer(), weight_); }
  /// The sum over threads of the weight's gradient, for which oneDNN takes its bytes for its elements.
  int64_t sums() const { return 4 * weight_ + kAlign; }

  // --- oneDNN, contiguous, with groups

  ConvPeaks depthwise() const {
    const int64_t packed = bytes(padded(s_.groups) * taps_);
    const int64_t x = x_blocked(block_), y = y_blocked(block_), read = x + y + packed;
    return {has_depthwise_output_kernel() ? std::max(read, y + y_) : unfolded_output(),
            s_.dilated() ? unfolded_input_gradient() : std::max(read, x + x_),
            has_depthwise_weight_kernel() ? packed + std::max(x + y, weight_) : unfolded_weight_gradient()};
  }

  // Kernels for 512-bit vectors have blocks of 4, 8 and 16 channels; gradients of weights of 8 and 16. Strided products
  // read more channels than a block of shorter vectors.
  ConvPeaks wide_groups() const {
    constexpr int64_t kLeast = 4, kHalfBlock = 8;
    const bool products = s_.strided() && !s_.dilated() && out_ > kHalfBlock;
    if (in_ % kLeast != 0 || out_ % kLeast != 0) {
      return {unfolded_output(), products ? strided_input_gradient(s_.out * in_) : unfolded_input_gradient(),
              unfolded_weight_gradient()};
    }
    const int64_t read = x_ + y_ + weight_;
    const bool fits = in_ % kHalfBlock == 0 && out_ % kHalfBlock == 0;
    return {std::max(read, 2 * y_), products ? strided_input_gradient(s_.out * in_) : std::max(read, 2 * x_),
            fits ? weight_ + std::max(x_ + y_, weight_) : unfolded_weight_gradient()};
  }

  ConvPeaks grouped() const {
    const int64_t read = x_ + y_ + weight_;
    const bool fits = fits_blocks(in_, out_);
    int64_t input = fits && has_input_kernel() ? std::max(read, 2 * x_) : unfolded_input_gradient();
    if (has_strided_products()) input = strided_input_gradient(s_.out * strided_columns(in_));
    return {fits && has_output_kernel(in_, out_) ? std::max(read, 2 * y_) : unfolded_output(), input,
            fits && has_weight_kernel() ? weight_ + std::max(x_ + y_, weight_) : unfolded_weight_gradient()};
  }

  // --- oneDNN, channels last: only weights are copied

  // A weight that is stored otherwise is first reordered to channels last, and its gradient is reordered back.
  int64_t reordered() const { return !pointwise() && in_ > 1 && !s_.weight_last ? weight_ : 0; }
  int64_t depthwise_weight() const { return bytes(padded(s_.groups) * taps_); }
  int64_t group_weights(int64_t in, int64_t out) const { return s_.groups * weights(in, out); }

  int64_t output_channels_last() const {
    const int64_t made = y_ + reordered();
    if (is_depthwise() && (products_ || has_depthwise_output_kernel())) return made + depthwise_weight();
    if (wide_ && s_.groups > 1) return made + wide_group_weight();
    if (products_) {
      const int64_t scratch = s_.strided() && s_.transposed ? strided_scratch() : kProductScratch;
      return made + group_weights(in_, product_columns(out_)) + scratch;
    }
    const bool flat = in_ < block_;
    if ((flat && s_.groups > 1) || !has_output_kernel(in_, out_)) {
      // Undilated images are unfolded row by row.
      const int64_t row = columns() > 0 ? bytes(in_ * taps_ * s_.columns().out) + kAlign : 0;
      return made + weight_ + image() + kAlign + (s_.dilated() ? columns_buffer() : row);
    }
    return made + group_weights(reads_x_as_it_lies() ? in_ : padded(in_), padded(out_)) + gathered();
  }

  int64_t input_channels_last() const {
    const int64_t made = x_ + reordered();
    if (is_depthwise() && !s_.dilated()) return made + depthwise_weight();
    if (wide_ && s_.groups > 1) return made + wide_group_weight();
    if (has_strided_products()) return made + group_weights(out_, strided_columns(in_)) + strided_scratch();
    if (products_ && !s_.strided() && !is_depthwise())
      return made + group_weights(out_, product_columns(in_)) + kProductScratch + kAlign;
    if (has_input_kernel()) return made + group_weights(padded(out_), padded(in_));
    if (has_pointwise_input_kernel()) return made + packed_weight() + gathered();
    return made + weight_ + columns_buffer() + (s_.groups > 1 ? image() + kAlign : 0);
  }

  int64_t weight_channels_last() const {
    if (is_depthwise() && has_depthwise_weight_kernel()) return depthwise_weight() + 2 * weight_;
    if (!has_weight_kernel()) return reordered() + weight_ + sums() + columns_buffer() + image() + kAlign;
    const bool flat = wide_ ? reads_x_as_it_lies() : s_.in == kImageChannels;
    const int64_t gradient = group_weights(flat && s_.groups == 1 ? in_ : padded(in_), padded(out_));
    return reordered() + gradient + std::max(2 * weight_, gathered());
  }

  /// The images of one sample of one group, transposed.
  int64_t image() const { return bytes(in_ * s_.in_places()); }
  int64_t wide_group_weight() const {
    return in_ % 4 == 0 && out_ % 4 == 0 ? weight_ : group_weights(padded(in_), padded(out_));
  }

  // --- LibTorch's own kernels

  // A pointwise kernel reads the image itself as columns.
  ConvPeaks unfolded() const {
    const int64_t images = s_.transposed ? 1 : s_.samples;
    const int64_t copied = s_.channels_last && !s_.weight_last && !pointwise() ? weight_ : 0;
    const int64_t scratch = images * columns() + copied;
    return {y_ + scratch, x_ + (s_.transposed || s_.dilated() ? scratch : copied), weight_ + scratch};
  }

  // Computes each group separately from copies of its part and joins the results.
  ConvPeaks by_group() const {
    const int64_t parts = x_ / s_.groups + y_ / s_.groups;
    return {2 * y_ + columns(), x_ + std::max(parts, x_ + 2 * weight_), weight_ + std::max(parts, weight_)};
  }

  const ConvSizes& s_;
  const bool wide_;         // 512-bit vectors
  const bool products_;     // kernels of small matrix products, and gradients of blocks
  const int64_t block_;     // contiguous channels
  const int64_t in_, out_;  // channels of a group
  const int64_t taps_, x_, y_, weight_;
};

}  // namespace

ConvPeaks conv_peaks(const ConvSizes& sizes) { return Kernels(sizes).peaks(); }

}  // namespace rannc::ir::ops
