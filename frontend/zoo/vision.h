/// Layers of convolutional models. Each layer opens a scope with its name for its weights. Images are [batch, C, H, W].
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/zoo/onnx_writer.h"

namespace rannc::frontend::zoo {

struct Convolution {
  int64_t in = 0, out = 0;                 ///< channels
  std::array<int64_t, 2> kernel = {1, 1};  ///< height, width; odd, with borders padded by half of it
  std::array<int64_t, 2> stride = {1, 1};
  bool bias = false;
};

/// A square kernel with one stride, without bias.
Convolution square(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1);
/// Convolution of `x`, with weights initialized with He's deviation over the fan-in.
std::string convolve(OnnxWriter& writer, std::string_view name, const std::string& x, const Convolution& config);
/// Batch normalization by batch statistics. Scale and offset are trained; running statistics are not.
std::string batch_norm(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t channels);
/// Pooling layer. `kind` is `MaxPool` or `AveragePool`, where padded cells do not count for the average.
std::string pool(OnnxWriter& writer, std::string_view kind, const std::string& x, int64_t kernel, int64_t stride,
                 int64_t padding);
/// The average of every channel: [batch, C].
std::string channel_means(OnnxWriter& writer, const std::string& x, int64_t channels);
/// The input `image`: f32[batch, 3, size, size].
std::string image_input(OnnxWriter& writer, int64_t size);

}  // namespace rannc::frontend::zoo
