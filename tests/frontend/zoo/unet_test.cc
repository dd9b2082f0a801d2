// U-Net: the sizes of torchgpipe's table 2, and that the frontend reads it.
#include "frontend/zoo/unet.h"

#include "tests/frontend/zoo/support.h"

namespace rannc::frontend::zoo {
namespace {

UNetConfig sized(int64_t blocks, int64_t channels) {
  UNetConfig config;
  config.blocks = blocks;
  config.channels = channels;
  return config;
}

// Millions, as far as the paper gives digits.
struct Row {
  int64_t blocks, channels;
  double millions, digit;
};

TEST(ZooUNet, TorchgpipeTable) {
  for (const Row& row : {Row{6, 72, 362.2, 0.1}, Row{11, 128, 2210, 10}, Row{24, 128, 4990, 10}, Row{24, 160, 7800, 10},
                         Row{48, 160, 15820, 10}}) {
    const uint64_t parameters = test::parameters_of(test::model(sized(row.blocks, row.channels), write_unet));
    EXPECT_NEAR(static_cast<double>(parameters) / 1e6, row.millions, row.digit / 2)
        << "(" << row.blocks << ", " << row.channels << ")";
  }
}

TEST(ZooUNet, FrontendReadsIt) {
  for (const int64_t blocks : {1, 2, 3}) {
    UNetConfig config = sized(blocks, 2);
    config.image = 64;
    test::expect_readable(test::model(config, write_unet));
    const uint64_t parameters = test::parameters_of(test::model(config, write_unet));
    config.relay_skips = true;
    test::expect_readable(test::model(config, write_unet));
    EXPECT_EQ(test::parameters_of(test::model(config, write_unet)), parameters);
  }
}

TEST(ZooUNet, RefusesSizesThatDoNotFit) {
  test::expect_refused(test::model(sized(0, 64), write_unet), "one block");
  test::expect_refused(test::model(sized(1, 7), write_unet), "even number");
  UNetConfig config;
  config.image = 80;
  test::expect_refused(test::model(config, write_unet), "image size 80");
}

}  // namespace
}  // namespace rannc::frontend::zoo
