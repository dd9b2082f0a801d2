// Writes layers of convolutional models.
#include "frontend/zoo/vision.h"

#include <cmath>

namespace rannc::frontend::zoo {

Convolution square(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {in, out, {kernel, kernel}, {stride, stride}, false};
}

std::string convolve(OnnxWriter& writer, std::string_view name, const std::string& x, const Convolution& config) {
  const auto scope = writer.scope(name);
  const auto [height, width] = config.kernel;
  const float deviation = std::sqrt(2.0F / static_cast<float>(config.in * height * width));
  std::vector<std::string> operands = {
      x, writer.weight("weight", {config.out, config.in, height, width}, normal(deviation))};
  if (config.bias) operands.push_back(writer.weight("bias", {config.out}, constant(0)));
  return writer.node("Conv", operands,
                     {{"kernel_shape", std::vector<int64_t>{height, width}},
                      {"strides", std::vector<int64_t>{config.stride[0], config.stride[1]}},
                      {"pads", std::vector<int64_t>{height / 2, width / 2, height / 2, width / 2}}});
}

std::string batch_norm(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t channels) {
  const auto scope = writer.scope(name);
  const auto count = static_cast<size_t>(channels);
  const std::string weight = writer.weight("weight", {channels}, constant(1));
  const std::string bias = writer.weight("bias", {channels}, constant(0));
  const std::string mean = writer.floats("running_mean", {channels}, std::vector<float>(count, 0.0F));
  const std::string variance = writer.floats("running_var", {channels}, std::vector<float>(count, 1.0F));
  const std::vector<NamedAttribute> training = {{"epsilon", 1e-5F}, {"momentum", 0.9F}, {"training_mode", int64_t{1}}};
  return writer.node_outputs("BatchNormalization", {x, weight, bias, mean, variance}, 3, training)[0];
}

std::string pool(OnnxWriter& writer, std::string_view kind, const std::string& x, int64_t kernel, int64_t stride,
                 int64_t padding) {
  return writer.node(kind, {x},
                     {{"kernel_shape", std::vector<int64_t>(2, kernel)},
                      {"strides", std::vector<int64_t>(2, stride)},
                      {"pads", std::vector<int64_t>(4, padding)}});
}

std::string channel_means(OnnxWriter& writer, const std::string& x, int64_t channels) {
  const auto scope = writer.scope("means");
  const std::string means = writer.node("GlobalAveragePool", {x});
  return writer.node("Reshape", {means, writer.integers("shape", {0, channels})});
}

std::string image_input(OnnxWriter& writer, int64_t size) {
  return writer.float_input("image", {std::string("batch"), int64_t{3}, size, size});
}

}  // namespace rannc::frontend::zoo
