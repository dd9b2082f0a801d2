// GNMT: DAPPLE's size, and that the frontend reads it.
#include "frontend/zoo/gnmt.h"

#include "tests/frontend/zoo/support.h"

namespace rannc::frontend::zoo {
namespace {

TEST(ZooGnmt, DappleTable) {
  const uint64_t parameters = test::parameters_of(test::model(GnmtConfig(), write_gnmt));
  EXPECT_EQ((parameters + 500'000) / 1'000'000, 291U);
}

TEST(ZooGnmt, FrontendReadsIt) {
  GnmtConfig config;
  config.layers = 3;
  config.width = 4;
  config.sequence = 3;
  config.vocabulary = 7;
  test::expect_readable(test::model(config, write_gnmt));
}

TEST(ZooGnmt, RefusesSizesThatDoNotFit) {
  GnmtConfig config;
  config.layers = 1;
  test::expect_refused(test::model(config, write_gnmt), "two layers");
}

}  // namespace
}  // namespace rannc::frontend::zoo
