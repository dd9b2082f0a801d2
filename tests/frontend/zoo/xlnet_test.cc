// XLNet: the size in DAPPLE's table 1, and that the frontend reads it.
#include "frontend/zoo/xlnet.h"

#include "tests/frontend/zoo/support.h"

namespace rannc::frontend::zoo {
namespace {

XlnetConfig sized(int64_t layers, int64_t width) {
  XlnetConfig config;
  config.layers = layers;
  config.width = width;
  return config;
}

// Five square matrices per layer for attention and eight for the rest, with their vectors.
uint64_t of_layer(uint64_t width) { return 13 * width * width + 14 * width; }

TEST(ZooXlnet, CountsByHand) {
  for (const auto& [layers, width] : {std::pair{36, 1024}, {24, 1024}, {2, 128}}) {
    const auto side = static_cast<uint64_t>(width);
    EXPECT_EQ(test::parameters_of(test::model(sized(layers, width), write_xlnet)),
              32000 * side + static_cast<uint64_t>(layers) * of_layer(side) + 2 * (side + 1));
  }
}

// DAPPLE's table 1 prints 500 M, which is the sum of its profile: 52,000,000 bytes per layer and 131,000,000 of
// embeddings. A layer has 52 MiB; the embeddings have 131 MB.
TEST(ZooXlnet, PapersFigures) {
  constexpr double kMebi = 1 << 20;
  EXPECT_NEAR(4 * static_cast<double>(of_layer(1024)) / kMebi, 52, 0.1);
  EXPECT_NEAR(4 * 32000 * 1024.0 / 1e6, 131, 0.1);
  EXPECT_NEAR((36 * 52.0 + 131) / 4, 500, 1);
  const auto parameters = static_cast<double>(test::parameters_of(test::model(sized(36, 1024), write_xlnet)));
  // Half a unit of a layer's 52 is 0.5 * 36 / 4.
  EXPECT_NEAR((parameters - 32000 * 1024) / kMebi + 32.768, 500, 4.5) << "layers in Mi, embeddings in M";
}

TEST(ZooXlnet, FrontendReadsIt) {
  XlnetConfig config = sized(2, 16);
  config.heads = 2;
  config.sequence = 8;
  config.vocabulary = 11;
  test::expect_readable(test::model(config, write_xlnet));
}

TEST(ZooXlnet, RefusesSizesThatDoNotFit) {
  test::expect_refused(test::model(sized(0, 64), write_xlnet), "at least one layer");
  XlnetConfig uneven = sized(1, 64);
  uneven.heads = 5;
  test::expect_refused(test::model(uneven, write_xlnet), "5 heads");
}

}  // namespace
}  // namespace rannc::frontend::zoo
