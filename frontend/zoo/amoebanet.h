/// AmoebaNet-D, the evolved image classifier in the experiments of GPipe, torchgpipe and DAPPLE.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// AmoebaNet-D (L, D): a stem with two reduction cells, then three runs of `layers / 3` normal cells with reduction
/// cells in between. Every cell combines the outputs of the two cells before it. Sizes are GPipe's: (18, 208) has 82 M,
/// (36, 544) 1.05 B parameters. DAPPLE does not name D; the 933 M parameters of its AmoebaNet-36 match (36, 512).
/// Input `image`: f32[batch, 3, image, image]. Output `logits`: f32[batch, classes].
struct AmoebaNetConfig {
  int64_t layers = 18;    ///< L: normal cells, a multiple of 3
  int64_t filters = 256;  ///< D: a multiple of 8
  int64_t image = 224;    ///< a multiple of 32
  int64_t classes = 1000;
};

/// Returns a diagnostic if the sizes are inconsistent.
Result<void> write_amoebanet(OnnxWriter& writer, const AmoebaNetConfig& config);

}  // namespace rannc::frontend::zoo
