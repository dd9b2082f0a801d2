/// Layers shared by several models of the zoo. Each layer opens a scope with its name for its weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

/// y = x W + b over the last axis, with W [in, out] as exporters write it for operands of rank 3.
std::string projection(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t in, int64_t out,
                       float deviation);
/// y = x W^T + b for x [batch, in], with W [out, in].
std::string linear(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t in, int64_t out,
                   float deviation);
/// Layer normalization over the last axis, of extent `width`, with scale and offset.
std::string layer_norm(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t width,
                       float epsilon = 1e-5F);

}  // namespace rannc::frontend::zoo
