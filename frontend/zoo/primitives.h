/// Layers written out in primitive operators, as exporters write them where the operator set has no such operator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// `layer_norm` of `layers.h` with the same weights, in nine operators: (x - mean) / sqrt(mean of squares + epsilon),
/// scaled and shifted.
std::string layer_norm_written_out(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t width,
                                   float epsilon = 1e-5F);
/// Exact GELU in five operators: x * (1 + erf(x / sqrt 2)) / 2.
std::string gelu_written_out(OnnxWriter& writer, const std::string& x);
/// Over the last axis, in five operators: exp(x - max) / sum.
std::string softmax_written_out(OnnxWriter& writer, const std::string& x);
/// In training mode, scaled by 1 / (1 - ratio); `x` itself where the ratio is 0.
std::string dropout(OnnxWriter& writer, const std::string& x, float ratio);

}  // namespace rannc::frontend::zoo
