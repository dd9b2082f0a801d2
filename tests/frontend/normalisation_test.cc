// Normalisations with a batch symbol, and the core operators that they become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op.h"
#include "tests/frontend/support/samples_apart.h"

namespace rannc::test {
namespace {

using testing::ElementsAre;

std::vector<std::string> ops(const std::string& graph, int opset) {
  const auto imported = import_graph(graph, opset);
  if (!imported.ok()) return {imported.diagnostic().str()};
  std::vector<std::string> names;
  for (const TaskId task : imported->tasks()) names.push_back(imported->op(task).name.substr(5));
  return names;
}

const std::string kImage = "agraph (float[batch, 6, 2, 2] x, float[6] s, float[6] b) => (float[batch, 6, 2, 2] y) ";
const Numbers kNumbers = {{"x", spread(72)}, {"s", spread(6, 2)}, {"b", spread(6, 3)}};

TEST(GroupNormalization, IsOneOperator) {
  const std::string graph = kImage + "{ y = GroupNormalization <num_groups = 3> (x, s, b) }";
  EXPECT_THAT(ops(graph, 21), ElementsAre("group_norm"));
  EXPECT_EQ(fault_of_samples(graph, 21, kNumbers, 2), "");
}

TEST(GroupNormalization, ScaledPerGroupBefore21) {
  const std::string graph =
      "agraph (float[batch, 6, 2, 2] x, float[3] s, float[3] b) => (float[batch, 6, 2, 2] y) "
      "{ y = GroupNormalization <num_groups = 3> (x, s, b) }";
  EXPECT_EQ(fault_of_samples(graph, 18, {{"x", spread(72)}, {"s", spread(3, 2)}, {"b", spread(3, 3)}}, 2), "");
}

TEST(GroupNormalization, GroupsDivideChannels) {
  const auto refused = import_graph(kImage + "{ y = GroupNormalization <num_groups = 4> (x, s, b) }", 21);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().message, testing::HasSubstr("6 channels in 4 groups"));
}

TEST(InstanceNormalization, IsAGroupPerChannel) {
  const std::string graph = kImage + "{ y = InstanceNormalization (x, s, b) }";
  EXPECT_THAT(ops(graph, 17), ElementsAre("group_norm"));
  EXPECT_EQ(fault_of_samples(graph, 7, kNumbers, 2), "");
  EXPECT_EQ(fault_of_samples(graph, 22, kNumbers, 2), "");
}

TEST(LayerNormalization, KeepsSamplesApart) {
  const std::string head = "agraph (float[batch, 4, 6] x, float[6] s, float[6] b) => (float[batch, 4, 6] y";
  const Numbers numbers = {{"x", spread(72)}, {"s", spread(6, 2)}, {"b", spread(6, 3)}};
  EXPECT_THAT(ops(head + ") { y = LayerNormalization (x, s, b) }", 17), ElementsAre("layer_norm"));
  EXPECT_EQ(fault_of_samples(head + ") { y = LayerNormalization (x, s, b) }", 17, numbers, 2), "");
  // Mean and inverse deviation as outputs.
  EXPECT_EQ(fault_of_samples(head + ", float[batch, 4, 1] m, float[batch, 4, 1] r) "
                                    "{ y, m, r = LayerNormalization (x, s, b) }",
                             17, numbers, 2),
            "");
  EXPECT_EQ(fault_of_samples("agraph (float[batch, 4, 6] x, float[4, 6] s) => (float[batch, 4, 6] y, "
                             "float[batch, 1, 1] m) { y, m = LayerNormalization <axis = 1> (x, s) }",
                             17, {{"x", spread(72)}, {"s", spread(24, 2)}}, 1),
            "");
}

TEST(OtherNormalizations, KeepSamplesApart) {
  const std::string head = "agraph (float[batch, 4, 6] x, float[6] s) => (float[batch, 4, 6] y) ";
  const Numbers numbers = {{"x", spread(72)}, {"s", spread(6, 2)}};
  EXPECT_EQ(fault_of_samples(head + "{ y = RMSNormalization (x, s) }", 23, numbers, 1), "");
  const std::string scaled = head + "{ z = Mul (x, s)\n y = ";
  EXPECT_EQ(fault_of_samples(scaled + "LpNormalization <p = 1, axis = 1> (z) }", 7, numbers, 1), "");
  EXPECT_EQ(fault_of_samples(scaled + "LpNormalization <p = 2> (z) }", 22, numbers, 1), "");
  EXPECT_EQ(fault_of_samples(scaled + "MeanVarianceNormalization <axes = [1, 2]> (z) }", 13, numbers, 1), "");
  EXPECT_EQ(fault_of_samples(scaled + "MeanVarianceNormalization <axes = [2]> (z) }", 9, numbers, 1), "");
}

TEST(OtherNormalizations, OfTheBatchAreRefusedByName) {
  const auto refused =
      run_onnx("agraph (float[batch, 4, 6, 2] x) => (float[batch, 4, 6, 2] y) { y = MeanVarianceNormalization (x) }",
               13, {{"x", spread(144)}});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), testing::HasSubstr("MeanVarianceNormalization"));
}

}  // namespace
}  // namespace rannc::test
