// AmoebaNet-D: the sizes of GPipe's table 1 and DAPPLE's, and that the frontend reads it.
#include "frontend/zoo/amoebanet.h"

#include "tests/frontend/zoo/support.h"

namespace rannc::frontend::zoo {
namespace {

AmoebaNetConfig sized(int64_t layers, int64_t filters) {
  AmoebaNetConfig config;
  config.layers = layers;
  config.filters = filters;
  return config;
}

// Millions; (18, 512) is that of DAPPLE's published profile. The papers' figures differ from each other's conventions
// by up to 0.6 %.
struct Row {
  int64_t layers, filters;
  double millions;
};

TEST(ZooAmoebaNet, PapersTables) {
  for (const Row& row : {Row{18, 208, 82}, Row{18, 416, 318}, Row{18, 544, 542}, Row{36, 544, 1050}, Row{36, 512, 933},
                         Row{18, 512, 478.6}}) {
    const uint64_t parameters = test::parameters_of(test::model(sized(row.layers, row.filters), write_amoebanet));
    EXPECT_NEAR(static_cast<double>(parameters) / 1e6 / row.millions, 1, 0.007)
        << "(" << row.layers << ", " << row.filters << ")";
  }
}

TEST(ZooAmoebaNet, FrontendReadsIt) {
  AmoebaNetConfig config = sized(3, 16);
  config.image = 64;
  config.classes = 3;
  test::expect_readable(test::model(config, write_amoebanet));
}

TEST(ZooAmoebaNet, RefusesSizesThatDoNotFit) {
  test::expect_refused(test::model(sized(4, 16), write_amoebanet), "multiple of 3 layers");
  test::expect_refused(test::model(sized(3, 12), write_amoebanet), "multiple of 8 filters");
  AmoebaNetConfig config;
  config.image = 50;
  test::expect_refused(test::model(config, write_amoebanet), "image size 50");
}

}  // namespace
}  // namespace rannc::frontend::zoo
