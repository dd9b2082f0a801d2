// VGG-19: the published size, and that the frontend reads it.
#include "frontend/zoo/vgg.h"

#include "tests/frontend/zoo/support.h"

namespace rannc::frontend::zoo {
namespace {

TEST(ZooVgg, PublishedCount) {
  const uint64_t parameters = test::parameters_of(test::model(VggConfig(), write_vgg));
  EXPECT_EQ(parameters, 143'667'240U);
  EXPECT_EQ(parameters >> 20, 137U);                  // DAPPLE table 1 counts in 2^20
  EXPECT_EQ(parameters * sizeof(float) >> 20, 548U);  // and gives this size in section 6
}

TEST(ZooVgg, FrontendReadsIt) {
  VggConfig config;
  config.base = 2;
  config.image = 32;
  config.hidden = 8;
  config.classes = 3;
  test::expect_readable(test::model(config, write_vgg));
}

TEST(ZooVgg, RefusesSizesThatDoNotFit) {
  VggConfig config;
  config.image = 30;
  test::expect_refused(test::model(config, write_vgg), "image size 30");
  config = {};
  config.hidden = 0;
  test::expect_refused(test::model(config, write_vgg), "positive");
}

}  // namespace
}  // namespace rannc::frontend::zoo
