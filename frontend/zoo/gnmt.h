/// Google's neural machine translation model.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// An encoder and a decoder of LSTM layers with one normalised additive attention between the decoder's first layer
/// and the others, which all see its context; the encoder's first layer reads both ways; residuals from the third layer
/// on. With 8 + 8 layers of 1024 and 36548 tokens it has the 291 M parameters of GNMT-16 in DAPPLE's Table 1; the paper
/// does not say its vocabulary or attention, so this variant is chosen by that count.
/// Layers are ONNX LSTM nodes over whole sequences, as in training with the reference translation as input.
/// Inputs `source`, `target`: i64[batch, sequence]. Output `logits`: f32[batch, sequence, vocabulary].
struct GnmtConfig {
  int64_t layers = 8;  ///< of the encoder, and of the decoder; two or more
  int64_t width = 1024;
  int64_t sequence = 50;
  int64_t vocabulary = 36548;
};

/// A diagnostic where the sizes do not fit together.
Result<void> write_gnmt(OnnxWriter& writer, const GnmtConfig& config);

}  // namespace rannc::frontend::zoo
