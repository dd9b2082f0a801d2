// What is taken apart and put together again in order is what it was; slices that are a whole are one split.
#include "passes/simplify/join_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/verify.h"
#include "tests/passes/torch/fused_case.h"

namespace rannc::passes {
namespace {

using test::short_graph;
using ::testing::ElementsAre;

const std::string kLeaves = "input x [batch,4] samples 0\n", kWeight = "parameter w [6,4]\n";

/// Operators that are left, once what nobody reads is gone. The numbers are the same, bit for bit.
std::vector<std::string> left(const std::string& lines, const std::string& pass = "join-pieces") {
  ir::Graph graph = short_graph(kLeaves + lines);
  const auto before = test::numbers_of(graph, 3);
  EXPECT_TRUE(before.ok());
  EXPECT_EQ(test::run_passes(graph, {pass, "remove-dead"}), "");
  const auto after = test::numbers_of(graph, 3);
  EXPECT_TRUE(after.ok());
  EXPECT_EQ(test::difference(*before, *after), 0);
  return test::operators(graph);
}

const std::string kUse = "y = linear(x, r)\noutputs y\n";

TEST(JoinPieces, CancelsReorderingsThatCancel) {
  EXPECT_THAT(left(kWeight +
                   "a = slice(w) {axes=[0], starts=[0], ends=[2]}\nb = slice(w) {axes=[0], starts=[2], ends=[6]}\n"
                   "r = concat(a, b) {axis=0}\n" +
                   kUse),
              ElementsAre("linear"));
  // As exporter and frontend do it: into one order and back, with an axis in front meanwhile.
  EXPECT_THAT(left(kWeight +
                   "a = slice(w) {axes=[0], starts=[0], ends=[2]}\nb = slice(w) {axes=[-2], starts=[-4], ends=[9]}\n"
                   "c = concat(b, a) {axis=0}\nd = unsqueeze(c) {axes=[0]}\ne,f = split(d) {axis=1, sizes=[4,2]}\n"
                   "g = concat(f, e) {axis=1}\nr = reshape(g) {shape=[6,4]}\n" +
                   kUse),
              ElementsAre("reshape", "reshape", "linear"));
}

TEST(JoinPieces, FollowsTheSamplesAlong) {
  EXPECT_THAT(left("a,b = split(x) {axis=1, sizes=[1,3]}\nr = concat(a, b) {axis=1}\nz = tanh(r)\noutputs z\n"),
              ElementsAre("tanh"));
}

TEST(JoinPieces, LeavesOtherOrdersAlone) {
  const std::string halves =
      "a = slice(w) {axes=[0], starts=[0], ends=[3]}\nb = slice(w) {axes=[0], starts=[3], ends=[6]}\n";
  const std::vector<std::string> others = {
      halves + "r = concat(b, a) {axis=0}\n",                                // swapped
      halves + "s = concat(a, a) {axis=0}\nr = mul(s, w)\n",                 // one half twice
      halves + "c = concat(a, b) {axis=1}\nr = reshape(c) {shape=[6,4]}\n",  // along another axis
      "a = slice(w) {axes=[0], starts=[0], ends=[3]}\nb = slice(w) {axes=[0], starts=[3], ends=[5]}\n"
      "c = slice(w) {axes=[0], starts=[0], ends=[1]}\nr = concat(a, b, c) {axis=0}\n",  // not all of it
      "a = slice(w) {axes=[0], starts=[0], ends=[6], steps=[2]}\n"
      "b = slice(w) {axes=[0], starts=[1], ends=[6], steps=[2]}\nr = concat(a, b) {axis=0}\n",  // by steps of two
      "v = tanh(w)\na = slice(w) {axes=[0], starts=[0], ends=[3]}\nb = slice(v) {axes=[0], starts=[3], ends=[6]}\n"
      "r = concat(a, b) {axis=0}\n",  // of two values
  };
  for (const std::string& lines : others) {
    const std::vector<std::string> found = left(kWeight + lines + kUse);
    EXPECT_THAT(found, ::testing::Contains("concat")) << lines;
  }
}

TEST(JoinPieces, KeepsWhatIsAskedForByName) {
  EXPECT_THAT(
      left(kWeight + "a = slice(w) {axes=[0], starts=[0], ends=[2]}\nb = slice(w) {axes=[0], starts=[2], ends=[6]}\n"
                     "r = concat(a, b) {axis=0}\noutputs r\n"),
      ElementsAre("slice", "slice", "concat"));
}

TEST(MergeSlices, MakesOneSplitOfSlicesThatAreAWhole) {
  const std::string halves =
      "a = slice(x) {axes=[-1], starts=[2], ends=[9]}\nb = slice(x) {axes=[1], starts=[0], ends=[-2]}\n";
  EXPECT_THAT(left(halves + "c = neg(a)\ny = concat(c, b) {axis=1}\noutputs y\n", "merge-slices"),
              ElementsAre("split", "neg", "concat"));
  EXPECT_THAT(left(halves + "y = tanh(b)\noutputs a y\n", "merge-slices"), ElementsAre("split", "tanh"))
      << "names stay";
  // Of a value on two axes, and beside another reader.
  EXPECT_THAT(
      left("p = unsqueeze(x) {axes=[1]}\nw2 = concat(p, p) {axis=1}\na = slice(w2) {axes=[1], starts=[0], ends=[1]}\n"
           "b = slice(w2) {axes=[1], starts=[1], ends=[2]}\nc = slice(w2) {axes=[2], starts=[0], ends=[1]}\n"
           "d = slice(w2) {axes=[2], starts=[1], ends=[4]}\ne = mul(a, b)\nf = tanh(w2)\noutputs c d e f\n",
           "merge-slices"),
      ElementsAre("unsqueeze", "concat", "split", "split", "mul", "tanh"));
}

TEST(MergeSlices, LeavesOtherSlicesAlone) {
  for (const char* parts :
       {"starts=[0], ends=[2]}|starts=[1], ends=[4]}", "starts=[0], ends=[2]}|starts=[3], ends=[4]}",
        "starts=[1], ends=[2]}|starts=[2], ends=[4]}", "starts=[0], ends=[3]}|starts=[2], ends=[4]}",
        "starts=[0], ends=[4], steps=[2]}|starts=[1], ends=[4], steps=[2]}"}) {
    const std::string text = parts, first = text.substr(0, text.find('|')), second = text.substr(text.find('|') + 1);
    EXPECT_THAT(left("a = slice(x) {axes=[1], " + first + "\nb = slice(x) {axes=[1], " + second + "\noutputs a b\n",
                     "merge-slices"),
                ElementsAre("slice", "slice"))
        << parts;
  }
  EXPECT_THAT(left("a = slice(x) {axes=[1], starts=[0], ends=[4]}\nc = tanh(a)\noutputs c\n", "merge-slices"),
              ElementsAre("slice", "tanh"));
}

}  // namespace
}  // namespace rannc::passes
