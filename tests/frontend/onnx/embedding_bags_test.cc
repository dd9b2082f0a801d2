// Embedding bags as exporters write them: loops over bags, which become one reduction where all are of one length.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/support/samples_apart.h"

namespace rannc::test {
namespace {

using ::testing::HasSubstr;

constexpr int kOpset = 20;
const Numbers kThreeSamples = {
    {"x", {0, 3, 1, 3, 4, 4, 2, 0, 1, 1, 1, 1}}, {"table", spread(15)}, {"w", spread(12, 2)}};

Numbers of(std::initializer_list<const char*> names) {
  Numbers some;
  for (const char* const name : names) some[name] = kThreeSamples.at(name);
  return some;
}

/// Two inputs and what the loops read: offsets of bags of `length`, those with the end behind them, the flat indices.
std::string head(const std::string& more_inputs = "", const std::string& length = "4") {
  return "agraph (int64[batch, 4] x, float[5, 3] table" + more_inputs +
         ") => (float[batch, 3] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] all = {-1}, int64[1] most = "
         "{9223372036854775807}, int64 first = {0}, int64 second = {1}, int64 third = {2}, int64 length = {" +
         length +
         "}, bool go = {1}> { shape = Shape (x)\n count = ReduceProd <keepdims = 0> (shape)\n"
         " range = Range (first, count, length)\n flat = Reshape (x, all)\n size = Shape (flat)\n"
         " offsets = Concat <axis = 0> (range, size)\n";
}

/// A loop that stacks: each trip slices the indices.
std::string stacking(const std::string& reduction, const std::string& scaled = "rows = Identity (found)") {
  return " ends = Slice (offsets, one, most, zero, one)\n n = Shape (ends)\n trips = Squeeze (n)\n"
         " [bags] y = Loop (trips, go) <body = body (int64 i, bool c) => (bool d, float[3] row) {"
         " s = Gather <axis = 0> (offsets, i)\n e = Gather <axis = 0> (ends, i)\n s1 = Unsqueeze (s, zero)\n"
         " e1 = Unsqueeze (e, zero)\n ids = Slice (flat, s1, e1, zero)\n found = Gather <axis = 0> (table, ids)\n " +
         scaled + "\n row = " + reduction + " <keepdims = 0> (rows, zero)\n d = Cast <to = 9> (go) }> }";
}

TEST(EmbeddingBags, ThatAreStackedRunSampleBySample) {
  for (const char* const reduction : {"ReduceSum", "ReduceMean", "ReduceMax"})
    EXPECT_EQ(fault_of_samples(head() + stacking(reduction), kOpset, of({"x", "table"}), 1), "") << reduction;
}

TEST(EmbeddingBags, AreScaledByWeights) {
  const std::string scaled = "w1 = Slice (scales, s1, e1, zero)\n w2 = Unsqueeze (w1, one)\n rows = Mul (found, w2)";
  std::string text = head(", float[batch, 4] w") + " scales = Reshape (w, all)\n" + stacking("ReduceSum", scaled);
  EXPECT_EQ(fault_of_samples(text, kOpset, of({"x", "table", "w"}), 1), "");
}

/// A loop that grows a sequence: each trip slices rows, of which the last bag takes what is left.
std::string growing(const std::string& row) {
  return " rows = Gather (table, flat)\n bags = Size (range)\n some = Less (first, bags)\n none = SequenceEmpty ()\n"
         " [bags] list, last = Loop (, some, none, first) <body = body (int64 t, bool c, seq(float[1, 3]) l, int64 i) "
         "=> "
         "(bool d, seq(float[1, 3]) m, int64 j) { i1 = Reshape (i, all)\n one_more = CastLike (second, i1)\n"
         " i2 = Add (i1, one_more)\n i3 = Add (i1, third)\n s = Slice (offsets, i1, i2)\n e = Slice (offsets, i2, i3)\n"
         " none_in = Equal (s, e)\n made = If (none_in) <then_branch = empty () => (float[1, 3] z) { z = Constant "
         "<value "
         "= float[1, 3] {0, 0, 0}> () }, else_branch = some () => (float[1, 3] r) { " +
         row +
         " }>\n m = SequenceInsert (l, made)\n by_one = CastLike (second, i)\n j = Add (i, by_one)\n d = Less (j, "
         "bags) }>\n"
         " y = ConcatFromSequence <axis = 0> (list) }";
}

const char kMeans[] =
    "bag = Slice (rows, s, e)\n at = Sub (bags, second)\n is_last = Equal (i, at)\n r = If (is_last) <then_branch = a "
    "() => (float[1, 3] u) { sum = ReduceSum (bag, zero)\n left = Sub (size, s)\n any = Greater (left, first)\n u = If "
    "(any) <then_branch = b () => (float[1, 3] v) { by = Cast <to = 1> (left)\n v = Div (sum, by) }, else_branch = b2 "
    "() => (float[1, 3] v2) { v2 = Identity (sum) }> }, else_branch = a2 () => (float[1, 3] u2) { u2 = ReduceMean "
    "(bag, zero) }>";
const char kLargest[] =
    "at = Sub (bags, second)\n is_last = Equal (i, at)\n bag = If (is_last) <then_branch = a () => (float[k, 3] u) { u "
    "= "
    "Slice (rows, s, size) }, else_branch = a2 () => (float[k2, 3] u2) { u2 = Slice (rows, s, e) }>\n r = ReduceMax "
    "(bag, zero)";

TEST(EmbeddingBags, ThatGrowASequenceRunSampleBySample) {
  for (const char* const row : {"bag = Slice (rows, s, e)\n r = ReduceSum (bag, zero)", kMeans, kLargest})
    EXPECT_EQ(fault_of_samples(head() + growing(row), kOpset, of({"x", "table"}), 1), "") << row;
}

/// Exporters order the two states as it happens.
TEST(EmbeddingBags, MayCountBeforeTheyGrow) {
  std::string text = head() + growing("bag = Slice (rows, s, e)\n r = ReduceSum (bag, zero)");
  const std::pair<const char*, const char*> swapped[] = {
      {"list, last = Loop (, some, none, first)", "last, list = Loop (, some, first, none)"},
      {"seq(float[1, 3]) l, int64 i)", "int64 i, seq(float[1, 3]) l)"},
      {"seq(float[1, 3]) m, int64 j)", "int64 j, seq(float[1, 3]) m)"}};
  for (const auto& [first, second] : swapped) {
    ASSERT_NE(text.find(first), std::string::npos) << first;
    text.replace(text.find(first), std::string_view(first).size(), second);
  }
  EXPECT_EQ(fault_of_samples(text, kOpset, of({"x", "table"}), 1), "");
}

std::string refused(const std::string& text) {
  const auto graph = import_graph(text, kOpset);
  return graph.ok() ? "" : graph.diagnostic().str();
}

TEST(EmbeddingBags, OfAnyOtherFormAreRefused) {
  EXPECT_THAT(refused(head("", "3") + stacking("ReduceSum")), HasSubstr("look all rows up"));
  std::string other = head() + stacking("ReduceSum", "rows = Add (found, found)");
  EXPECT_THAT(refused(other), HasSubstr("look all rows up"));
  EXPECT_THAT(refused(head() + stacking("ReduceProd")), HasSubstr("look all rows up"));
  std::string whole = head() + stacking("ReduceSum");
  whole.replace(whole.find("Slice (flat, s1, e1"), 19, "Slice (flat, s1, s1");
  EXPECT_THAT(refused(whole), HasSubstr("look all rows up"));
  std::string counted = head() + growing("bag = Slice (rows, s, e)\n r = ReduceSum (bag, zero)");
  counted.replace(counted.find("ConcatFromSequence <axis = 0> (list)"), 36, "SequenceAt (list, first)");
  EXPECT_THAT(refused(counted), HasSubstr("only ConcatFromSequence on axis 0"));
}

}  // namespace
}  // namespace rannc::test
