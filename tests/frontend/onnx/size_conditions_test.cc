// If whose condition compares sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/assumptions.h"
#include "tests/frontend/support/samples_apart.h"

namespace rannc::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A pooled axis of `floor((seq - 5)/5) + 1` elements, which is squeezed if `condition` holds, as PyTorch exports
/// `squeeze(-1)`.
std::string squeezed(const std::string& condition, const std::string& rest = "y = Relu (z)") {
  return "agraph (float[batch, 2, seq] x) => (float[n] y) <int64 two = {2}, int64[1] last = {2}, int64 one = {1}, "
         "int64 zero = {0}> {\n p = MaxPool <kernel_shape = [5], strides = [5]> (x)\n sizes = Shape (p)\n"
         "length = Gather (sizes, two)\n samples = Gather (sizes, zero)\n" +
         condition +
         "\n [choice] z = If (c) <then_branch = agraph () => (float[k] t) { t = Squeeze (p, last) },"
         " else_branch = bgraph () => (float[k] e) { e = Identity (p) }>\n" +
         rest + " }";
}

struct Imported {
  std::string type;  ///< of the first output; a message if the model is refused
  std::vector<std::string> assumed;
};

Imported imported(const std::string& graph, const frontend::ImportOptions& options = {}) {
  const auto made = import_graph(graph, 18, options);
  if (!made.ok()) return {made.diagnostic().str(), {}};
  Imported found{ir::str(*made->type(made->outputs()[0]).shape), {}};
  for (const ir::Assumption& each : made->assumptions()) found.assumed.push_back(ir::str(each));
  return found;
}

constexpr const char* kOne = "1 equals floor((seq)/(5))";
constexpr const char* kMore = "2 equals min(2, floor((seq)/(5)))";

TEST(SizeConditions, OfAnOptionalSqueezeAreAssumed) {
  for (const char* const condition :
       {"c = Equal (length, one)", "d = Equal (one, length)\n e = Not (d)\n c = Not (e)",
        "s = Sub (length, one)\n d = Cast <to = 9> (s)\n c = Not (d)", "c = LessOrEqual (length, one)"}) {
    const Imported found = imported(squeezed(condition));
    EXPECT_EQ(found.type, "[batch,2]") << condition;
    EXPECT_EQ(found.assumed.size(), 1u) << condition;
    const auto run = run_onnx(squeezed(condition), 18, {{"x", spread(30)}});
    ASSERT_TRUE(run.ok()) << condition << ": " << run.diagnostic().str();
    EXPECT_EQ(run->numbers[0].size(), 6u);
  }
  EXPECT_THAT(imported(squeezed("c = Equal (length, one)")).assumed, ElementsAre(kOne));
}

TEST(SizeConditions, OfASqueezeWithoutAxesAreAssumed) {
  const Imported free = imported("agraph (float[batch, 1, seq] x) => (float[n] y) { y = Squeeze (x) }");
  EXPECT_EQ(free.type, "[batch,seq]");
  EXPECT_THAT(free.assumed, ElementsAre("2 equals min(2, seq)"));
  const Imported fixed = imported("agraph (float[batch, 1, 3] x) => (float[n] y) { y = Squeeze (x) }");
  EXPECT_EQ(fixed.type, "[batch,3]");
  EXPECT_THAT(fixed.assumed, IsEmpty());
}

TEST(SizeConditions, AreCheckedForTheSizesOfABatch) {
  const auto graph = import_graph(squeezed("c = Equal (length, one)"), 18);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_TRUE(ir::check_assumptions(*graph, {{"seq", 9}}).ok());
  const auto longer = ir::check_assumptions(*graph, {{"seq", 10}});
  ASSERT_FALSE(longer.ok());
  EXPECT_THAT(longer.diagnostic().str(),
              AllOf(HasSubstr("choice"), HasSubstr(kOne), HasSubstr("seq = 10"), HasSubstr("they are 1 and 2")));
}

TEST(SizeConditions, HaveTheOutcomeThatLaterNodesNeed) {
  const std::string pooled = "y = MaxPool <kernel_shape = [2]> (z)";
  for (const char* const condition : {"c = Equal (length, one)", "d = Greater (length, one)\n c = Not (d)"}) {
    const Imported found = imported(squeezed(condition, pooled));
    EXPECT_EQ(found.type, "[batch,2,floor((seq)/(5)) - 1]") << condition;
    EXPECT_EQ(found.assumed.size(), 1u);
  }
  EXPECT_THAT(imported(squeezed("c = Equal (length, one)", pooled)).assumed, ElementsAre(kMore));
}

TEST(SizeConditions, OfTheSameSizesHaveOneOutcome) {
  const std::string again =
      "q = Unsqueeze (z, last)\n more = Shape (p)\n l = Gather (more, two)\n d = Equal (l, one)\n"
      "y = If (d) <then_branch = agraph () => (float[k] u) { u = Squeeze (q, last) },"
      " else_branch = bgraph () => (float[k] v) { v = Identity (q) }>";
  const Imported found = imported(squeezed("c = Equal (length, one)", again));
  EXPECT_EQ(found.type, "[batch,2]");
  EXPECT_THAT(found.assumed, ElementsAre(kOne));
}

TEST(SizeConditions, AreNotAssumedIfBothBranchesFit) {
  const std::string graph =
      "agraph (float[batch, seq] x) => (float[batch, seq] y) <int64 one = {1}, int64 four = {4}> { sizes = Shape (x)\n"
      "length = Gather (sizes, one)\n c = Less (length, four)\n"
      "y = If (c) <then_branch = agraph () => (float[k] t) { t = Relu (x) },"
      " else_branch = bgraph () => (float[k] e) { e = Neg (x) }> }";
  EXPECT_THAT(imported(graph).assumed, IsEmpty());
  const auto run = run_onnx(graph, 18, {{"x", {1, 2, 3, 4, 5}}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  EXPECT_THAT(run->numbers[0], ElementsAre(-1, -2, -3, -4, -5));
}

TEST(SizeConditions, OfOneBranchAreThoseOfItsSizes) {
  const std::string graph =
      "agraph (float[batch, seq] x) => (float[batch, seq] y) <int64 one = {1}, int64 four = {4}, int64[2] to = {-1, 4}>"
      " { sizes = Shape (x)\n length = Gather (sizes, one)\n c = Equal (length, four)\n"
      "y = If (c) <then_branch = agraph () => (float[k] t) { s = Shape (x) r = Reshape (x, to) t = Reshape (r, s) },"
      " else_branch = bgraph () => (float[k] e) { e = Neg (x) }> }";
  EXPECT_THAT(imported(graph).assumed.size(), testing::Le(1u));
}

TEST(SizeConditions, AreDecidedByFixedSizes) {
  for (const auto& [size, type] : {std::pair(5, "[batch,2]"), std::pair(10, "[batch,2,2]")}) {
    const Imported found = imported(squeezed("c = Equal (length, one)"), {.sizes = {{"seq", ir::Dim(size)}}});
    EXPECT_EQ(found.type, type);
    EXPECT_THAT(found.assumed, IsEmpty());
  }
}

TEST(SizeConditions, OfSamplesAreNeverAssumed) {
  const Imported found = imported(squeezed("c = Equal (samples, one)"));
  EXPECT_THAT(found.type, AllOf(HasSubstr("choice"), HasSubstr("branches have different types")));
}

TEST(SizeConditions, ThatNameNoSizeAskForOne) {
  const Imported found = imported(squeezed("a = Equal (length, one)\n b = Equal (length, two)\n c = Or (a, b)"));
  EXPECT_THAT(found.type, AllOf(HasSubstr("choice"), HasSubstr("branches have different types"),
                                HasSubstr("sizes decide which branch runs: fix them with --size seq=N")));
}

// A branch of data may not run, so what it needs of the sizes may not hold.
TEST(SizeConditions, OfABranchOfDataNameTheInputThatDecides) {
  const std::string graph =
      "agraph (float[batch, 2, seq] x, int64 rate) => (float[n] y) <int64[1] last = {2}, int64 high = {16000}> {\n"
      "c = Equal (rate, high)\n"
      "y = If (c) <then_branch = agraph () => (float[k] t) { p = MaxPool <kernel_shape = [5], strides = [5]> (x)\n"
      " t = Squeeze (p, last) }, else_branch = bgraph () => (float[k] e) { q = MaxPool <kernel_shape = [3], strides = "
      "[3]> (x)\n e = Squeeze (q, last) }> }";
  const auto found = read_graph(graph, 18);
  ASSERT_TRUE(found.ok()) << found.diagnostic().str();
  EXPECT_EQ(found->graph.assumptions().size(), 2u);
  ASSERT_EQ(found->notes.remarks.size(), 1u);
  EXPECT_THAT(found->notes.remarks[0].message, HasSubstr("--input-value rate=VALUE keeps one branch"));
  EXPECT_THAT(imported(graph, {.input_values = {{"rate", 16000}}}).assumed, ElementsAre(kOne));
}

// Files of Paddle and of some converters do not name sizes. A layer cannot run with states of other samples.
TEST(SizeConditions, OfStatesAreCertain) {
  const std::string layer = "y, h = GRU <hidden_size = 2> (xt, w, r, , , st) }";
  const std::string head =
      "agraph (float[batch, 4, 3] x, float[m, 1, 2] s, float[1, 6, 3] w, float[1, 6, 2] r, bool c) => (float[k] y) {\n"
      "xt = Transpose <perm = [1, 0, 2]> (x)\n st = Transpose <perm = [1, 0, 2]> (s)\n";
  EXPECT_EQ(imported(head + layer).type, "[4,1,batch,2]");
  EXPECT_EQ(
      imported(head + "y = If (c) <then_branch = agraph () => (float[k] t) { t, h = GRU <hidden_size = 2> (xt, w, r, "
                      ", , st) }, else_branch = bgraph () => (float[k] e) { o, i = GRU <hidden_size = 2> (xt, w, "
                      "r, , , st)\n e = Neg (o) }> }")
          .type,
      "[4,1,batch,2]");
}

}  // namespace
}  // namespace rannc::test
