/// Layers decomposed into primitive operators, as exporters do if the operator set lacks the operator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// `layer_norm` of `layers.h` with the same weights in nine operators: (x - mean) / sqrt(mean of squares + epsilon),
/// scaled and shifted.
std::string layer_norm_written_out(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t width,
                                   float epsilon = 1e-5F);
/// Exact GELU in five operators: x * (1 + erf(x / sqrt 2)) / 2.
std::string gelu_written_out(OnnxWriter& writer, const std::string& x);
/// Softmax over the last axis in five operators: exp(x - max) / sum.
std::string softmax_written_out(OnnxWriter& writer, const std::string& x);
/// Dropout in training mode, scaled by 1 / (1 - ratio). Returns `x` itself if the ratio is 0.
std::string dropout(OnnxWriter& writer, const std::string& x, float ratio);

}  // namespace rannc::frontend::zoo
