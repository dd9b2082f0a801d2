// Ones and zeros that stand for no weight are told from weights that have not been trained yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Literals of a model whose nodes, in order, say that they were made from these calls, as torch.onnx.export writes
/// them with dynamo=True.
std::set<std::string> literals(const std::string& body, const std::vector<std::string>& calls) {
  const std::string graph =
      "agraph (float[batch, 2, 3] x) => (float[batch, 2, 3] y) <float[2] one = {1, 1}, float[2] zero = {0, 0}, "
      "float[2] some = {1, 2}, float[2] w = {1, 1}, float[2, 1] column = {1, 1}> { " +
      body + " }";
  const auto imported = read_onnx_bytes(test::traced_model(graph, 18, calls), "test.onnx");
  EXPECT_TRUE(imported.ok()) << imported.diagnostic().str();
  return imported.ok() ? imported->notes.stored.literals : std::set<std::string>();
}

const std::string kNone = "aten.instance_norm.default](args = (%x, None, None, None, None, True, 0.1, 1e-05, False)";
const std::string kWeighted = "aten.instance_norm.default](args = (%x, %w, %b, None, None, True, 0.1, 1e-05, False)";

TEST(Unweighted, CallsWithoutWeightsHaveLiterals) {
  const std::string body = "y = InstanceNormalization (x, one, zero)";
  EXPECT_THAT(literals(body, {kNone}), ElementsAre("one", "zero"));
  EXPECT_THAT(literals(body, {kWeighted}), IsEmpty());
  EXPECT_THAT(literals(body, {}), IsEmpty());
  EXPECT_THAT(literals(body, {"aten.relu.default](args = (%x, None, None)"}), IsEmpty());
}

TEST(Unweighted, OnlyOnesAndZerosAre) {
  EXPECT_THAT(literals("y = InstanceNormalization (x, some, zero)", {kNone}), ElementsAre("zero"));
  EXPECT_THAT(literals("y = InstanceNormalization (x, one, zero)",
                       {"aten.instance_norm.default](args = (%x, %w, None, None, None, True, 0.1, 1e-05, False)"}),
              ElementsAre("zero"));
}

TEST(Unweighted, WhatAWeightWasMergedWithStaysAWeight) {
  EXPECT_THAT(literals("a = InstanceNormalization (x, one, zero)\n y = InstanceNormalization (a, one, some)",
                       {kNone, kWeighted}),
              ElementsAre("zero"));
}

// Of groups before opset 21 the scale is a product.
TEST(Unweighted, GroupsHaveTheirsInTheThirdPlace) {
  EXPECT_THAT(literals("y = Mul (x, column)", {"aten.group_norm.default](args = (%x, 2, None, None, 1e-05, False)"}),
              ElementsAre("column"));
  EXPECT_THAT(literals("y = Mul (x, column)", {"aten.group_norm.default](args = (%x, 2, %w, %b, 1e-05, False)"}),
              IsEmpty());
}

}  // namespace
}  // namespace rannc::frontend
