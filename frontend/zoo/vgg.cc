// Writes VGG-19.
#include "frontend/zoo/vgg.h"

#include "frontend/zoo/layers.h"
#include "frontend/zoo/vision.h"

namespace rannc::frontend::zoo {

namespace {

struct Group {
  int64_t convolutions;
  int64_t factor;  // channels, in units of the first group's
};
constexpr Group kGroups[] = {{2, 1}, {2, 2}, {4, 4}, {4, 8}, {4, 8}};

std::string group(OnnxWriter& writer, std::string x, const Group& config, int64_t in, int64_t out) {
  for (int64_t i = 0; i < config.convolutions; ++i) {
    Convolution convolution = square(i == 0 ? in : out, out, 3);
    convolution.bias = true;
    x = writer.node("Relu", {convolve(writer, "conv." + std::to_string(i), x, convolution)});
  }
  return pool(writer, "MaxPool", x, 2, 2, 0);
}

}  // namespace

Result<void> write_vgg(OnnxWriter& writer, const VggConfig& config) {
  if (config.classes < 1 || config.base < 1 || config.hidden < 1) return error("a VGG needs positive sizes");
  if (config.image < 32 || config.image % 32 != 0) {
    return error("the image size " + std::to_string(config.image) + " is not a multiple of 32");
  }
  std::string x = image_input(writer, config.image);
  int64_t channels = 3;
  for (size_t i = 0; i < std::size(kGroups); ++i) {
    const auto scope = writer.scope("group." + std::to_string(i));
    const int64_t out = config.base * kGroups[i].factor;
    x = group(writer, x, kGroups[i], channels, out);
    channels = out;
  }
  const int64_t features = channels * (config.image / 32) * (config.image / 32);
  x = writer.node("Reshape", {x, writer.integers("features", {0, features})});
  x = writer.node("Relu", {linear(writer, "dense.0", x, features, config.hidden, 0.01F)});
  x = writer.node("Relu", {linear(writer, "dense.1", x, config.hidden, config.hidden, 0.01F)});
  const std::string logits = linear(writer, "classifier", x, config.hidden, config.classes, 0.01F);
  writer.float_output(logits, "logits", {std::string("batch"), config.classes});
  return {};
}

}  // namespace rannc::frontend::zoo
