/// Residual networks of bottleneck blocks.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// ResNet-50, -101 or -152 with every filter count multiplied by `width`, as in RaNNC section IV-B after Big Transfer:
/// depth 152 and width 8 have 3.7 billion parameters. The stride is in the 3x3 convolution.
/// Input `image`: f32[batch, 3, image, image]. Output `logits`: f32[batch, classes].
struct ResNetConfig {
  int64_t depth = 50;
  int64_t width = 1;
  int64_t image = 224;  ///< a multiple of 32
  int64_t classes = 1000;
  int64_t base = 64;  ///< channels of the stem before the factor
};

/// Returns a diagnostic for other depths and for inconsistent sizes.
Result<void> write_resnet(OnnxWriter& writer, const ResNetConfig& config);

}  // namespace rannc::frontend::zoo
