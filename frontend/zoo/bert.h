/// BERT for pre-training, enlarged as in the RaNNC paper.
#pragma once

#include <cstdint>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// An encoder with normalization after each sublayer and exact GELU, the masked-language head (its projection is the
/// word embedding) and the next-sentence head. RaNNC section IV-A scales layers and width: 24 x 1024 is BERT-Large,
/// 256 x 2048 has 12.9 billion parameters.
/// Inputs `input_ids`, `token_type_ids`, `attention_mask` (1: token, 0: padding): i64[batch, sequence].
/// Outputs `logits`: f32[batch, sequence, vocabulary], `next_sentence`: f32[batch, 2].
struct BertConfig {
  int64_t layers = 24;
  int64_t width = 1024;
  int64_t heads = 0;  ///< 0: one per 64 of the width
  int64_t sequence = 512;
  int64_t vocabulary = 30522;
  int64_t token_types = 2;
  /// Decompose layer normalization, GELU and softmax into primitive operators, as exports before operator set 17 do:
  /// 54 operators per layer instead of 30.
  bool unfused = false;
  /// Give the masked-language head a projection of its own, as pipelines need it that cannot tie weights of two stages.
  bool untied = false;
  float dropout = 0;  ///< ratio after the embeddings, the attention weights and both sublayers; 0: none
};

/// Returns a diagnostic if the sizes are inconsistent (width not a multiple of heads, zero layers …).
Result<void> write_bert(OnnxWriter& writer, const BertConfig& config);

}  // namespace rannc::frontend::zoo
