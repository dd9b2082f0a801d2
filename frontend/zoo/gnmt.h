/// Google's neural machine translation model.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// An encoder and a decoder of LSTM layers. One normalized additive attention follows the decoder's first layer, and
/// all later decoder layers read its context. The encoder's first layer is bidirectional. Residuals start at the third
/// layer. With 8 + 8 layers of 1024 and 36548 tokens it has the 291 M parameters of GNMT-16 in DAPPLE's Table 1. The
/// paper does not specify vocabulary or attention, so this variant is chosen to match that count.
/// Layers are ONNX LSTM nodes over whole sequences, as in training with the reference translation as input.
/// Inputs `source`, `target`: i64[batch, sequence]. Output `logits`: f32[batch, sequence, vocabulary].
struct GnmtConfig {
  int64_t layers = 8;  ///< in the encoder and in the decoder each, at least 2
  int64_t width = 1024;
  int64_t sequence = 50;
  int64_t vocabulary = 36548;
};

/// Returns a diagnostic if the sizes are inconsistent.
Result<void> write_gnmt(OnnxWriter& writer, const GnmtConfig& config);

}  // namespace rannc::frontend::zoo
