/// VGG-19.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// Sixteen 3x3 convolutions in five groups and three dense layers, without normalization or dropout (DAPPLE table 1:
/// 548 MiB, or 137 Mi parameters).
/// Input `image`: f32[batch, 3, image, image]. Output `logits`: f32[batch, classes].
struct VggConfig {
  int64_t image = 224;  ///< a multiple of 32
  int64_t classes = 1000;
  int64_t base = 64;      ///< channels of the first group
  int64_t hidden = 4096;  ///< width of the dense layers
};

/// Returns a diagnostic if the sizes are inconsistent.
Result<void> write_vgg(OnnxWriter& writer, const VggConfig& config);

}  // namespace rannc::frontend::zoo
