// ONNX's own cases of single operators, computed and differentiated: how many give ONNX's numbers.
#include "tests/frontend/support/scoreboard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "tests/frontend/support/node_cases.h"

namespace rannc::test {
namespace {

// Shares of the cases that are ours.
constexpr double kGoalOfExported = 0.98;
constexpr double kGoalOfAll = 0.90, kReachedOfAll = 0.97;

using Counts = std::map<std::string, size_t>;

void print(const std::string& title, const Counts& counts) {
  size_t sum = 0;
  for (const auto& [what, count] : counts) sum += count;
  std::cout << title << ": " << sum << "\n";
  for (const auto& [what, count] : counts) std::cout << "  " << count << "  " << what << "\n";
}

/// The beginning of a reason.
std::string head(const std::string& why) {
  constexpr size_t kMost = 100;
  return why.substr(0, std::min(why.find('\n'), kMost));
}

/// The operators of `pytorch_operators.txt`.
std::set<std::string> exported_operators() {
  std::ifstream file(std::string(RANNC_SOURCE_DIR) + "/tests/frontend/onnx/pytorch_operators.txt");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') names.insert(line);
  }
  return names;
}

class Scoreboard : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const auto& folder : node_case_folders(RANNC_ONNX_NODE_TESTS)) rows_.push_back(run_case(folder));
  }
  void SetUp() override {
    if (rows_.empty()) GTEST_SKIP() << "no conformance cases beside this ONNX";
  }

  struct Share {
    size_t passed = 0, ours = 0;
    double value() const { return ours == 0 ? 0 : static_cast<double>(passed) / static_cast<double>(ours); }
    std::string str() const { return fmt::format("{} of {} ({:.1f} %)", passed, ours, 100 * value()); }
  };
  template <class Of>
  static Share share(Of&& of) {
    Share found;
    for (const Row& row : rows_) {
      if (row.outcome == Outcome::kOutside || !of(row)) continue;
      ++found.ours;
      found.passed += row.outcome == Outcome::kPassed;
    }
    return found;
  }

  static std::vector<Row> rows_;
};

std::vector<Row> Scoreboard::rows_;

TEST_F(Scoreboard, Summary) {
  Counts outcomes, outside, refused, gradients, bound;
  for (const Row& row : rows_) {
    ++outcomes[std::string(str(row.outcome))];
    ++gradients[std::string(str(row.gradient))];
    if (row.outcome == Outcome::kOutside) ++outside[row.why];
    if (row.outcome == Outcome::kRefused || row.outcome == Outcome::kNotComputed)
      ++refused[row.op + ": " + head(row.why)];
    for (const std::string& operand : row.bound) ++bound[operand];
    if (!std::getenv("RANNC_SHOW_REFUSED")) continue;
    if (row.outcome != Outcome::kPassed) std::cout << row.name << ": " << str(row.outcome) << ": " << row.why << "\n";
    if (!row.gradient_why.empty())
      std::cout << row.name << ": gradient " << str(row.gradient) << ": " << row.gradient_why << "\n";
  }
  print("cases", outcomes);
  print("outside", outside);
  print("refused or not computed", refused);
  print("gradients", gradients);
  print("operands given as constants", bound);
  EXPECT_GT(outcomes["passed"], 0U);
}

TEST_F(Scoreboard, NoNumberIsWrong) {
  for (const Row& row : rows_) {
    if (row.outcome == Outcome::kWrong) ADD_FAILURE() << row.name << ": " << row.why;
  }
}

TEST_F(Scoreboard, GradientsAreThoseOfTheTape) {
  constexpr size_t kReached = 1150;
  size_t equal = 0;
  for (const Row& row : rows_) {
    equal += row.gradient == GradientOutcome::kAsTheTape || row.gradient == GradientOutcome::kByVjp;
    if (row.gradient == GradientOutcome::kWrong || row.gradient == GradientOutcome::kCannotBeMade) {
      ADD_FAILURE() << row.name << ": " << row.gradient_why;
    }
  }
  EXPECT_GE(equal, kReached);
}

TEST_F(Scoreboard, OperatorsThatPyTorchExports) {
  const std::set<std::string> exported = exported_operators();
  const Share found = share([&](const Row& row) { return exported.contains(row.op); });
  std::cout << "of operators that PyTorch exports " << found.str() << ", the goal is " << 100 * kGoalOfExported
            << " %\n";
  EXPECT_GE(found.value(), kGoalOfExported);
}

TEST_F(Scoreboard, AllThatAreOurs) {
  const Share found = share([](const Row&) { return true; });
  std::cout << "of all " << found.str() << ", the goal is " << 100 * kGoalOfAll << " %\n";
  EXPECT_GE(found.value(), kReachedOfAll);
}

// What is fed is no constant: a sum of integer vectors runs on data.
TEST_F(Scoreboard, DataIsFed) {
  const std::map<std::string, std::vector<std::string>> expected = {
      {"test_add_uint8", {}},
      {"test_gather_0", {}},
      {"test_clip_expanded", {}},
      {"test_reshape_reordered_all_dims", {"Reshape.shape"}},
      {"test_center_crop_pad_crop_expanded", {"CenterCropPad.shape"}},
  };
  size_t found = 0;
  for (const Row& row : rows_) {
    const auto one = expected.find(row.name);
    if (one == expected.end()) continue;
    ++found;
    EXPECT_EQ(row.bound, one->second) << row.name;
  }
  EXPECT_EQ(found, expected.size());
}

}  // namespace
}  // namespace rannc::test
