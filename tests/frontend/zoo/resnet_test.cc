// ResNet with a width factor: torchvision's sizes and RaNNC's, and that the frontend reads it.
#include "frontend/zoo/resnet.h"

#include "tests/frontend/zoo/support.h"

namespace rannc::frontend::zoo {
namespace {

uint64_t parameters(int64_t depth, int64_t width) {
  ResNetConfig config;
  config.depth = depth;
  config.width = width;
  return test::parameters_of(test::model(config, write_resnet));
}

TEST(ZooResNet, PublishedCounts) {
  EXPECT_EQ(parameters(50, 1), 25'557'032U);
  EXPECT_EQ(parameters(101, 1), 44'549'160U);
  EXPECT_EQ(parameters(152, 1), 60'192'808U);  // 60 million in RaNNC section IV-B
}

TEST(ZooResNet, RanncWidthFactor) { EXPECT_EQ((parameters(152, 8) + 50'000'000) / 100'000'000, 37U); }

TEST(ZooResNet, FrontendReadsIt) {
  ResNetConfig config;
  config.base = 2;
  config.image = 32;
  config.classes = 3;
  test::expect_readable(test::model(config, write_resnet));
}

TEST(ZooResNet, RefusesSizesThatDoNotFit) {
  ResNetConfig config;
  config.depth = 34;
  test::expect_refused(test::model(config, write_resnet), "depth 34");
  config = {};
  config.image = 100;
  test::expect_refused(test::model(config, write_resnet), "image size 100");
  config = {};
  config.width = 0;
  test::expect_refused(test::model(config, write_resnet), "positive");
}

}  // namespace
}  // namespace rannc::frontend::zoo
