// What an operator means depends on the opset: each change has its numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/frontend/opset_cases.h"

namespace rannc::test {

void PrintTo(const OpsetCase& c, std::ostream* out) { *out << c.op << " " << c.opset << ": " << c.graph; }

namespace {

using testing::DoubleNear;
using testing::Pointwise;

std::vector<OpsetCase> all_cases() {
  std::vector<OpsetCase> cases = shape_cases();
  for (OpsetCase& c : layer_cases()) cases.push_back(std::move(c));
  return cases;
}

class OpsetChanges : public ::testing::TestWithParam<OpsetCase> {};

TEST_P(OpsetChanges, HaveTheirNumbers) {
  const OpsetCase& c = GetParam();
  const auto run = run_onnx(c.graph, c.opset, c.inputs);
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  constexpr double kSix = 1e-6;  // numbers of f32 below 10, written with at least six digits
  EXPECT_THAT(run->numbers[0], Pointwise(testing::DoubleNear(kSix), c.expected));
}

std::string name_of(const ::testing::TestParamInfo<OpsetCase>& info) {
  return info.param.op + std::to_string(info.param.opset) + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(All, OpsetChanges, ::testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace rannc::test
