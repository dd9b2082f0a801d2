#include "tests/passes/torch/fused_forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace rannc::test {

namespace {

constexpr double kSame = 1e-12, kSameGradient = 1e-11;  // of doubles

/// A leaf that no result needs is none any more.
Numbers with_dead_leaves(Numbers found, const Numbers& expected) {
  for (const auto& [name, numbers] : expected)
    if (name.starts_with("d ")) found.try_emplace(name, std::vector<double>(numbers.size()));
  return found;
}

}  // namespace

void expect_same(const ir::Graph& found, const ir::Graph& expected) {
  for (const int64_t samples : {2, 5}) {
    const auto a = numbers_of(expected, samples), b = numbers_of(found, samples);
    ASSERT_TRUE(a.ok()) << a.diagnostic().str();
    ASSERT_TRUE(b.ok()) << b.diagnostic().str();
    const Numbers all = with_dead_leaves(*b, *a);
    EXPECT_LE(difference(*a, all, "y"), kSame);
    EXPECT_LE(difference(*a, all), kSameGradient);
  }
}

void expect_becomes(const std::string& text, const Names& passes, const Names& expected) {
  SCOPED_TRACE(text);
  const ir::Graph before = short_graph(text);
  ir::Graph after = before.clone();
  ASSERT_EQ(run_passes(after, passes), "");
  EXPECT_EQ(operators(after), expected);
  expect_same(after, before);
  ASSERT_EQ(run_passes(after, passes), "");
  EXPECT_EQ(operators(after), expected) << "the second time";
}

void expect_stays(const std::string& text, const std::string& pass) {
  SCOPED_TRACE(text);
  const ir::Graph before = short_graph(text);
  ir::Graph after = before.clone();
  ASSERT_EQ(run_passes(after, {pass}), "");
  EXPECT_EQ(operators(after), operators(before));
  ASSERT_EQ(run_passes(after, standard_order()), "");
  expect_same(after, before);
}

Names products(const std::vector<Names>& parts) {
  Names all = {""};
  for (const Names& part : parts) {
    Names longer;
    for (const std::string& begin : all)
      for (const std::string& end : part) longer.push_back(begin + end);
    all = std::move(longer);
  }
  return all;
}

Names turned(const std::string& name, const std::string& op, const std::string& a, const std::string& b) {
  return {fmt::format("{} = {}({}, {})\n", name, op, a, b), fmt::format("{} = {}({}, {})\n", name, op, b, a)};
}

Names joined(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace rannc::test
