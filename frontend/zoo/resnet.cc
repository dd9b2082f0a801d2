// Writes ResNets with a width factor.
#include "frontend/zoo/resnet.h"

#include <array>
#include <optional>

#include "frontend/zoo/layers.h"
#include "frontend/zoo/vision.h"

namespace rannc::frontend::zoo {

namespace {

constexpr int64_t kExpansion = 4;  // output channels of a block per channel of its 3x3 convolution

std::optional<std::array<int64_t, 4>> blocks_of(int64_t depth) {
  if (depth == 50) return {{3, 4, 6, 3}};
  if (depth == 101) return {{3, 4, 23, 3}};
  if (depth == 152) return {{3, 8, 36, 3}};
  return std::nullopt;
}

std::string normalized(OnnxWriter& writer, std::string_view name, const std::string& x, const Convolution& config) {
  const auto scope = writer.scope(name);
  return batch_norm(writer, "norm", convolve(writer, "conv", x, config), config.out);
}

std::string bottleneck(OnnxWriter& writer, const std::string& x, int64_t in, int64_t middle, int64_t stride) {
  const int64_t out = kExpansion * middle;
  std::string y = writer.node("Relu", {normalized(writer, "reduce", x, square(in, middle, 1))});
  y = writer.node("Relu", {normalized(writer, "spread", y, square(middle, middle, 3, stride))});
  y = normalized(writer, "expand", y, square(middle, out, 1));
  const bool same = in == out && stride == 1;
  const std::string skip = same ? x : normalized(writer, "shortcut", x, square(in, out, 1, stride));
  return writer.node("Relu", {writer.node("Add", {y, skip})});
}

}  // namespace

Result<void> write_resnet(OnnxWriter& writer, const ResNetConfig& config) {
  const auto blocks = blocks_of(config.depth);
  if (!blocks) return error("a ResNet of depth " + std::to_string(config.depth) + ": 50, 101 and 152 are known");
  if (config.width < 1 || config.classes < 1 || config.base < 1) return error("a ResNet needs positive sizes");
  if (config.image < 32 || config.image % 32 != 0) {
    return error("the image size " + std::to_string(config.image) + " is not a multiple of 32");
  }
  int64_t channels = config.base * config.width;
  std::string x = normalized(writer, "stem", image_input(writer, config.image), square(3, channels, 7, 2));
  x = pool(writer, "MaxPool", writer.node("Relu", {x}), 3, 2, 1);
  for (size_t stage = 0; stage < blocks->size(); ++stage) {
    const int64_t middle = (config.base * config.width) << stage;
    for (int64_t block = 0; block < (*blocks)[stage]; ++block) {
      const auto scope = writer.scope("stage." + std::to_string(stage) + ".block." + std::to_string(block));
      x = bottleneck(writer, x, channels, middle, stage > 0 && block == 0 ? 2 : 1);
      channels = kExpansion * middle;
    }
  }
  const std::string logits =
      linear(writer, "classifier", channel_means(writer, x, channels), channels, config.classes, 0.01F);
  writer.float_output(logits, "logits", {std::string("batch"), config.classes});
  return {};
}

}  // namespace rannc::frontend::zoo
