/// The symmetric U-Net of torchgpipe's experiments.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// torchgpipe section 4.2.2: five levels down and up with `blocks` convolutions (B) each and `channels` after the first
/// (C), doubled at every level. A convolution is 3x3 without bias, followed by instance normalization without trained
/// parameters and leaky ReLU. Upsampling repeats pixels. Skips are concatenated. There is no dropout.
/// Input `image`: f32[batch, 3, image, image]. Output `mask`: f32[batch, 1, image, image].
struct UNetConfig {
  int64_t blocks = 5;
  int64_t channels = 64;  ///< even, because the last level has half as many
  int64_t image = 192;    ///< a multiple of 32
  /// Each level hands on the skips that pass it, as torchgpipe's models do without portals: skip and level add zero
  /// times an element of each other, so that no stage holds one without the other. Numbers stay the same.
  bool relay_skips = false;
};

/// Returns a diagnostic if the sizes are inconsistent.
Result<void> write_unet(OnnxWriter& writer, const UNetConfig& config);

}  // namespace rannc::frontend::zoo
