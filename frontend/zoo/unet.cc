// Writes torchgpipe's U-Net.
#include "frontend/zoo/unet.h"

#include "frontend/zoo/vision.h"

namespace rannc::frontend::zoo {

namespace {

constexpr int64_t kLevels = 5;

// Ones and zeros are computed instead of stored, because stored ones would be imported as trained scales.
std::string instance_norm(OnnxWriter& writer, const std::string& x, int64_t channels) {
  const auto scope = writer.scope("norm");
  const std::string shape = writer.integers("shape", {channels});
  const std::string ones = writer.node("ConstantOfShape", {shape}, {{"value", OneNumber{1}}});
  const std::string zeros = writer.node("ConstantOfShape", {shape}, {{"value", OneNumber{0}}});
  return writer.node("InstanceNormalization", {x, ones, zeros}, {{"epsilon", 1e-5F}});
}

std::string block(OnnxWriter& writer, const std::string& x, int64_t in, int64_t out) {
  const std::string y = instance_norm(writer, convolve(writer, "conv", x, square(in, out, 3)), out);
  return writer.node("LeakyRelu", {y}, {{"alpha", 0.01F}});
}

// `count` blocks: in -> middle -> ... -> middle -> out
std::string blocks(OnnxWriter& writer, std::string x, int64_t count, int64_t in, int64_t middle, int64_t out) {
  for (int64_t i = 0; i < count; ++i) {
    const auto scope = writer.scope("block." + std::to_string(i));
    x = block(writer, x, i == 0 ? in : middle, i + 1 == count ? out : middle);
  }
  return x;
}

std::string twice_the_size(OnnxWriter& writer, const std::string& x) {
  const std::string factors = writer.floats("factors", {4}, {1, 1, 2, 2});
  return writer.node("Resize", {x, "", factors},
                     {{"mode", std::string("nearest")},
                      {"coordinate_transformation_mode", std::string("asymmetric")},
                      {"nearest_mode", std::string("floor")}});
}

// `x` as it is, after `other`: plus zero times an element of it.
std::string after(OnnxWriter& writer, const std::string& x, const std::string& other) {
  const std::string first =
      writer.node("Slice", {other, writer.integers("starts", {0, 0, 0}), writer.integers("ends", {1, 1, 1}),
                            writer.integers("axes", {1, 2, 3})});
  return writer.node("Add", {x, writer.node("Mul", {first, writer.floats("zero", {}, {0})})});
}

}  // namespace

Result<void> write_unet(OnnxWriter& writer, const UNetConfig& config) {
  if (config.blocks < 1 || config.channels < 2 || config.channels % 2 != 0) {
    return error("a U-Net needs at least one block and an even number of channels");
  }
  if (config.image < 64 || config.image % 32 != 0) {
    return error("the image size " + std::to_string(config.image) + " is not a multiple of 32 from 64 on");
  }
  std::string x = image_input(writer, config.image);
  std::vector<std::string> skips;
  const auto relay = [&](int64_t passing) {
    for (size_t i = 0; config.relay_skips && i < static_cast<size_t>(passing); ++i) {
      const auto scope = writer.scope("skip." + std::to_string(i));
      skips[i] = after(writer, skips[i], x);
      const auto back = writer.scope("level");
      x = after(writer, x, skips[i]);
    }
  };
  int64_t channels = 3;
  for (int64_t level = 0; level < kLevels; ++level) {
    const auto scope = writer.scope("down." + std::to_string(level));
    const int64_t out = config.channels << level;
    relay(level);
    skips.push_back(blocks(writer, x, config.blocks, channels, out, out));
    x = pool(writer, "MaxPool", skips.back(), 2, 2, 0);
    channels = out;
  }
  {
    const auto scope = writer.scope("bottom");
    relay(kLevels);
    x = blocks(writer, x, config.blocks, channels, 2 * channels, channels);
  }
  for (int64_t level = kLevels - 1; level >= 0; --level) {
    const auto scope = writer.scope("up." + std::to_string(level));
    const int64_t in = config.channels << level;  // of the skip and of the lower level
    relay(level);
    const std::string both =
        writer.node("Concat", {twice_the_size(writer, x), skips[static_cast<size_t>(level)]}, {{"axis", int64_t{1}}});
    x = blocks(writer, both, config.blocks, 2 * in, in / 2, in / 2);
  }
  const std::string mask = convolve(writer, "segment", x, square(config.channels / 2, 1, 1));
  writer.float_output(mask, "mask", {std::string("batch"), int64_t{1}, config.image, config.image});
  return {};
}

}  // namespace rannc::frontend::zoo
