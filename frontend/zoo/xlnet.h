/// XLNet as it is fine-tuned for question answering, one of DAPPLE's benchmarks.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// The content stream of XLNet: relative positions in both directions, segments compared by pairs, normalization after
/// each sublayer and exact GELU. The second stream, of queries, exists only in pre-training; DAPPLE trains on
/// SQuAD 2.0. With 36 layers of 1024 it has 524 M parameters. DAPPLE's Table 1 says 500 M; its profile counts 52 "MB"
/// for a layer of 52 MiB. Inputs `input_ids`, `token_type_ids`, `attention_mask` (1: token, 0: padding): i64[batch,
/// sequence]. Outputs `start`, `end`: f32[batch, sequence], scores of an answer's ends.
struct XlnetConfig {
  int64_t layers = 36;
  int64_t width = 1024;
  int64_t heads = 0;  ///< 0: one per 64 of the width
  int64_t sequence = 512;
  int64_t vocabulary = 32000;
};

/// Returns a diagnostic if the sizes are inconsistent.
Result<void> write_xlnet(OnnxWriter& writer, const XlnetConfig& config);

}  // namespace rannc::frontend::zoo
