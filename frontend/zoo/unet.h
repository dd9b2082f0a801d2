/// The symmetric U-Net of torchgpipe's experiments.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// torchgpipe section 4.2.2: five levels down and up, `blocks` convolutions (B) at each, `channels` after the first
/// (C), doubled at every level. A convolution is 3x3 without bias, then instance normalisation without trained numbers
/// and leaky ReLU; upsampling repeats pixels; skips are concatenated. Without dropout. Input `image`: f32[batch, 3,
/// image, image]. Output `mask`: f32[batch, 1, image, image].
struct UNetConfig {
  int64_t blocks = 5;
  int64_t channels = 64;  ///< even: the last level has half of it
  int64_t image = 192;    ///< a multiple of 32
};

/// A diagnostic where the sizes do not fit together.
Result<void> write_unet(OnnxWriter& writer, const UNetConfig& config);

}  // namespace rannc::frontend::zoo
