// BERT: the sizes of RaNNC's and DAPPLE's papers, and that the frontend reads it.
#include "frontend/zoo/bert.h"

#include "tests/frontend/zoo/support.h"

namespace rannc::frontend::zoo {
namespace {

BertConfig sized(int64_t layers, int64_t width) {
  BertConfig config;
  config.layers = layers;
  config.width = width;
  return config;
}

// Weights of L encoder layers of width H, the embeddings and both heads, counted by hand.
uint64_t by_hand(uint64_t layers, uint64_t width) {
  const uint64_t vocabulary = 30522, sequence = 512, types = 2;
  const uint64_t embeddings = (vocabulary + sequence + types) * width + 2 * width;
  const uint64_t layer = 4 * (width * width + width) + (8 * width * width + 5 * width) + 4 * width;
  const uint64_t masked = width * width + width + 2 * width + vocabulary;
  const uint64_t next = width * width + width + 2 * width + 2;
  return embeddings + layers * layer + masked + next;
}

TEST(ZooBert, CountsByHand) {
  for (const auto& [layers, width] : {std::pair{24, 1024}, {256, 2048}, {96, 1536}}) {
    EXPECT_EQ(test::parameters_of(test::model(sized(layers, width), write_bert)), by_hand(layers, width));
  }
}

// RaNNC section IV-A, DAPPLE table 1. The papers cut 12.96 and round 336 and 637.
TEST(ZooBert, PapersFigures) {
  EXPECT_NEAR(static_cast<double>(test::parameters_of(test::model(sized(24, 1024), write_bert))) / 1e6, 340, 5);
  EXPECT_NEAR(static_cast<double>(test::parameters_of(test::model(sized(48, 1024), write_bert))) / 1e6, 640, 5);
  EXPECT_EQ(test::parameters_of(test::model(sized(256, 2048), write_bert)) / 100'000'000, 129U);
}

TEST(ZooBert, FrontendReadsIt) {
  BertConfig config = sized(2, 16);
  config.heads = 2;
  config.sequence = 8;
  config.vocabulary = 11;
  test::expect_readable(test::model(config, write_bert));
}

TEST(ZooBert, WrittenOutItHasTheSameWeights) {
  BertConfig config = sized(2, 64);
  const uint64_t fused = test::parameters_of(test::model(config, write_bert));
  config.unfused = true;
  config.dropout = 0.1F;
  EXPECT_EQ(test::parameters_of(test::model(config, write_bert)), fused);
  config.heads = 2;
  config.sequence = 8;
  config.vocabulary = 11;
  test::expect_readable(test::model(config, write_bert));
}

TEST(ZooBert, UntiedHasAProjectionMore) {
  BertConfig config = sized(2, 64);
  const uint64_t tied = test::parameters_of(test::model(config, write_bert));
  config.untied = true;
  EXPECT_EQ(test::parameters_of(test::model(config, write_bert)), tied + 30522 * 64);
  config.heads = 2;
  config.sequence = 8;
  config.vocabulary = 11;
  test::expect_readable(test::model(config, write_bert));
}

TEST(ZooBert, RefusesSizesThatDoNotFit) {
  BertConfig all = sized(1, 64);
  all.dropout = 1;
  test::expect_refused(test::model(all, write_bert), "dropout ratio");
  test::expect_refused(test::model(sized(0, 64), write_bert), "at least one layer");
  BertConfig uneven = sized(1, 64);
  uneven.heads = 5;
  test::expect_refused(test::model(uneven, write_bert), "5 heads");
}

}  // namespace
}  // namespace rannc::frontend::zoo
