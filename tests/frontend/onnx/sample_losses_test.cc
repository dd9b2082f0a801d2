// Losses that ONNX makes sample by sample keep the samples apart.
#include <gtest/gtest.h>

#include "tests/frontend/support/samples_apart.h"

namespace rannc::test {
namespace {

const std::string kScaled = "{ s = Mul (x, a)\n ";

std::string graph(const std::string& inputs, const std::string& outputs, const std::string& call) {
  return "agraph (" + inputs + ", float a) => (" + outputs + ") " + kScaled + call + " }";
}

TEST(SampleLosses, OfOneLabel) {
  const Numbers numbers = {{"x", spread(15)}, {"l", {0, 2, 4}}, {"a", {2}}};
  const std::string inputs = "float[batch, 5] x, int64[batch] l";
  EXPECT_EQ(fault_of_samples(graph(inputs, "float[batch] y, float[batch, 5] p",
                                   "y, p = SoftmaxCrossEntropyLoss <reduction = \"none\", ignore_index = 2> (s, l)"),
                             13, numbers, 1),
            "");
  EXPECT_EQ(
      fault_of_samples(graph(inputs, "float[batch] y", "y = NegativeLogLikelihoodLoss <reduction = \"none\"> (s, l)"),
                       22, numbers, 1),
      "");
}

TEST(SampleLosses, OfManyLabelsWithWeights) {
  const Numbers numbers = {
      {"x", spread(60)}, {"l", {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}}, {"w", {1, 2, 3, 4, 5}}, {"a", {2}}};
  const std::string inputs = "float[batch, 5, 4] x, int64[batch, 4] l, float[5] w";
  for (const std::string op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    const std::string call = "y = " + op + " <reduction = \"none\", ignore_index = 2> (s, l, w)";
    EXPECT_EQ(fault_of_samples(graph(inputs, "float[batch, 4] y", call), 13, numbers, 1), "") << op;  // w is given
  }
}

}  // namespace
}  // namespace rannc::test
