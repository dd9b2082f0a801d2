// What an operator means depends on the opset: each change has its numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/frontend/onnx/opset_cases.h"
#include "tests/frontend/support/older_models.h"

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

class OpsetCases : public ::testing::TestWithParam<OpsetCase> {};

TEST_P(OpsetCases, HaveTheirNumbers) {
  const OpsetCase& c = GetParam();
  const auto run = run_onnx(c.graph, c.opset, c.inputs);
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  constexpr double kSix = 1e-6;  // numbers of f32 below 10, written with at least six digits
  EXPECT_THAT(run->numbers[0], Pointwise(testing::DoubleNear(kSix), c.expected));
}

std::string name_of(const ::testing::TestParamInfo<OpsetCase>& info) {
  return info.param.op + std::to_string(info.param.opset) + "_" + std::to_string(info.index);
}

/// Changes without a case, `Abs 13` each, of `opset_decisions.txt`.
std::set<std::string> decided_otherwise() {
  std::ifstream file(std::string(RANNC_SOURCE_DIR) + "/tests/frontend/onnx/opset_decisions.txt");
  std::set<std::string> found;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') found.insert(line.substr(0, line.find(':')));
  }
  return found;
}

bool has_case(const std::string& op, int first) {
  int next = INT32_MAX;
  for (const VersionsOfOperator& each : operator_versions()) {
    for (const int opset : each.opsets) {
      if (each.op == op && opset > first) next = std::min(next, opset);
    }
  }
  const std::vector<OpsetCase> cases = all_cases();
  return std::any_of(cases.begin(), cases.end(),
                     [&](const OpsetCase& c) { return c.op == op && c.opset >= first && c.opset < next; });
}

TEST(OpsetChanges, AreDecidedOneByOne) {
  const std::set<std::string> decided = decided_otherwise();
  std::set<std::string> changed;
  for (const auto& [op, opset] : changed_versions()) {
    const std::string change = op + " " + std::to_string(opset);
    changed.insert(change);
    EXPECT_NE(has_case(op, opset), decided.contains(change))
        << change << ": either a case with numbers, or a line of opset_decisions.txt";
  }
  for (const std::string& line : decided) EXPECT_TRUE(changed.contains(line)) << line << " is no change";
}

INSTANTIATE_TEST_SUITE_P(All, OpsetCases, ::testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace rannc::test
