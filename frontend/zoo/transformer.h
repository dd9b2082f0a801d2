/// Transformer models of the zoo.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// A decoder-only language model with pre-normalization, causal attention and GELU, like GPT-2.
/// Input `tokens`: i64[batch, context]. Output `logits`: f32[batch, context, vocabulary].
struct GptConfig {
  int64_t layers = 8;
  int64_t width = 256;
  int64_t heads = 8;
  int64_t context = 128;
  int64_t vocabulary = 256;  ///< 256: bytes
  bool tied = false;         ///< the output projection is the token embedding
};

/// Returns a diagnostic if the sizes are inconsistent (width not a multiple of heads, zero layers …).
Result<void> write_gpt(OnnxWriter& writer, const GptConfig& config);

}  // namespace rannc::frontend::zoo
