// What is made once for all samples gives what was made for each.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/text.h"
#include "tests/passes/torch/fused_case.h"

namespace rannc::test {
namespace {

using Names = std::vector<std::string>;

struct Case {
  std::string name, text;
  Names after = {};  ///< operators; empty: the graph stays as it is
  std::string dtype = "f64";
  bool fuses = false;  ///< into attention, once it is a constant
};

void PrintTo(const Case& test, std::ostream* to) { *to << test.name; }
std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

class HoistUniformTest : public ::testing::TestWithParam<Case> {};

void expect_equal_numbers(const ir::Graph& before, const ir::Graph& after, double limit) {
  for (const int64_t samples : {1, 2, 5}) {
    SCOPED_TRACE(samples);
    const auto a = numbers_of(before, samples), b = numbers_of(after, samples);
    ASSERT_TRUE(a.ok()) << a.diagnostic().str();
    ASSERT_TRUE(b.ok()) << b.diagnostic().str();
    EXPECT_LE(difference(*a, *b), limit);
  }
}

TEST_P(HoistUniformTest, GivesTheSameNumbers) {
  const Case& test = GetParam();
  const ir::Graph before = short_graph(test.text, test.dtype);
  const double limit = test.dtype == "f64" ? 1e-11 : 1e-5;
  ir::Graph after = before.clone();
  ASSERT_EQ(run_passes(after, {"hoist-uniform"}), "");
  if (test.after.empty()) {
    EXPECT_EQ(ir::print(after), ir::print(before));
  } else {
    EXPECT_EQ(operators(after), test.after);
  }
  expect_equal_numbers(before, after, limit);
  ir::Graph again = after.clone();
  ASSERT_EQ(run_passes(again, {"hoist-uniform"}), "");
  EXPECT_EQ(ir::print(again), ir::print(after)) << "the second time";

  ir::Graph fused = before.clone();
  ASSERT_EQ(run_passes(fused, standard_order()), "");
  const Names names = operators(fused);
  EXPECT_EQ(std::count(names.begin(), names.end(), "attention"), test.fuses ? 1 : 0);
  expect_equal_numbers(before, fused, limit);
}

// --- masks, as torch.export writes those of transformers

// Of each sample 0 1 2, and its own number.
const std::string kPlaces = "constant p i64 [1,3] 0 1 2\ne = expand(p) {shape=[batch,1]}\n";
const std::string kOwn =
    "r = range() {start=0, limit=batch, delta=1, dtype=!i64}\nu = unsqueeze(r) {axes=[1,2]}\no = unsqueeze(u) "
    "{axes=[3]}\n";

/// `result`: `table` at [own, 0 1 2], along the axis of rows or of columns.
std::string fetched(const std::string& result, const std::string& table, const std::string& own, bool rows) {
  const std::string sizes = rows ? "1,3,1" : "1,1,3";
  return fmt::format(
      "constant {0}p i64 [1,{1}] 0 1 2\n{0}a = expand({3}) {{shape=[batch,{1}]}}\n{0}b = unsqueeze({0}a) {{axes=[4]}}\n"
      "{0}c = expand({0}p) {{shape=[batch,{1}]}}\n{0}d = unsqueeze({0}c) {{axes=[4]}}\n{0}f = concat({0}b, {0}d) "
      "{{axis=4}}\n{0} = gather_nd({2}, {0}f) {{batch_dims=0}}\n",
      result, sizes, table, own);
}

std::string causal(const std::string& see, const std::string& table = "e") {
  return kPlaces + kOwn + fetched("row", table, "o", true) + fetched("column", "e", "o", false) + see;
}

const std::string kFills = "constant no [] 0\nconstant low [] -3.4028235e38\n";
const std::string kScores =
    "input q [batch,2,3,4] samples 0\ninput k [batch,2,3,4] samples 0\ninput v [batch,2,3,4] samples 0\nconstant h [] "
    "0.5\nt = permute(k) {dims=[0,1,3,2]}\ns = matmul(q, t)\nm = mul(s, h)\n";
const std::string kWeighted = "z = add(m, n)\nw = softmax(z) {axis=-1}\ny = matmul(w, v)\noutputs y\n";
const Names kWritten = {"permute", "matmul", "mul", "add", "softmax", "matmul"};

std::vector<Case> masks() {
  const std::string see = "g = le(column, row)\n", fill = "n = where(g, no, low)\n";
  const std::string heads = "i = expand(n) {shape=[batch,2,3,3]}\n";
  std::string added = kWeighted;
  added.replace(added.find("n)"), 1, "i");
  return {
      {"Causal", causal(see) + kFills + fill + kScores + kWeighted, kWritten, "f64", true},
      {"CausalInFloat32", causal(see) + kFills + fill + kScores + kWeighted, kWritten, "f32", true},
      {"CausalOfEachHead", causal(see) + kFills + fill + heads + kScores + added, kWritten, "f64", true},
      // Its first row sees nothing, and shares alike.
      {"CausalWithAHiddenRow", causal("g = lt(column, row)\n") + kFills + fill + kScores + kWeighted, kWritten},
      {"CausalOfAWindow",
       causal("constant one i64 [] 1\nj = sub(row, column)\nl = le(j, one)\nb = le(column, row)\ng = logical_and(l, "
              "b)\n") +
           kFills + fill + kScores + kWeighted,
       kWritten, "f64", true},
      {"MaskOfData",
       "input x i64 [batch,3] samples 0\n" + kPlaces + kOwn + fetched("seen", "x", "o", false) +
           "g = cast(seen) {dtype=!bool}\n" + kFills + fill + kScores + kWeighted,
       {"range", "unsqueeze", "unsqueeze", "expand", "unsqueeze", "expand", "concat", "gather_nd", "cast", "where",
        "permute", "matmul", "mul", "add", "softmax", "matmul"},
       "f64",
       true},
  };
}
INSTANTIATE_TEST_SUITE_P(Masks, HoistUniformTest, ::testing::ValuesIn(masks()), name_of);

// --- other values that are the same for each sample

const std::string kX = "input x [batch,3] samples 0\n", kC = "constant c [3] 0.5 -1 2\n";
const std::string kSpread = kC + "e = expand(c) {shape=[batch,3]}\n";

std::vector<Case> others() {
  return {
      {"Sum", kX + kSpread + "y = add(x, e)\noutputs y\n", {"add"}},
      {"ReadWhole", kX + kSpread + "s = mul(e, e)\ny = concat(x, s) {axis=1}\noutputs y\n", {"expand", "concat"}},
      {"GivenOut", kX + kSpread + "s = mul(e, e)\ny = add(x, s)\noutputs y s\n", {"expand", "add"}},
      {"Filled",
       kX + "e = full() {shape=[batch,3], value=0x1.8p+0, dtype=!f64}\ns = exp(e)\ny = concat(x, s) {axis=1}\noutputs "
            "y\n",
       {"expand", "concat"}},
      {"SeveralResults",
       kX + kSpread + "a,b = split(e) {axis=1, sizes=[1,2]}\ns = mul(x, a)\ny = concat(s, b) {axis=1}\noutputs y\n",
       {"split", "expand", "mul", "concat"}},
      {"SamplesOnAnotherAxis",
       "input x [3,batch] samples 1\nconstant c [3,1] 0.5 -1 2\ne = expand(c) {shape=[3,batch]}\ns = exp(e)\ny = "
       "mul(x, "
       "s)\noutputs y\n",
       {"mul"}},
      {"TableInARow",
       "input x [batch,1,3] samples 0\nconstant p i64 [1,3] 4 5 6\ne = expand(p) {shape=[batch,3]}\nf = reshape(e) "
       "{shape=[3*batch]}\nconstant three i64 [] 3\nconstant at i64 [1,1,3] 2 0 1\nr = range() {start=0, limit=batch, "
       "delta=1, dtype=!i64}\nu = unsqueeze(r) {axes=[1,2]}\no = mul(u, three)\ni = add(o, at)\ng = gather(f, i) "
       "{axis=0}\nn = cast(g) {dtype=!f64}\ny = mul(x, n)\noutputs y\n",
       {"mul"}},
      {"Rotations",
       "input x [batch,2,3,2] samples 0\nconstant frequencies [1,2,1] 1 0.01\nconstant p i64 [1,1,3] 0 1 2\nf = "
       "expand(frequencies) {shape=[batch,2,1]}\nb = expand(p) {shape=[batch,1,3]}\nd = cast(b) {dtype=!f64}\nm = "
       "matmul(f, d)\nt = permute(m) {dims=[0,2,1]}\nc = cos(t)\nu = unsqueeze(c) {axes=[1]}\ny = mul(x, u)\noutputs "
       "y\n",
       {"mul"}},
      {"OneSampleOfOne",
       kX + "constant c [1,1] 2\ne = expand(c) {shape=[batch,1]}\ns = exp(e)\ny = mul(x, s)\noutputs y\n",
       {"mul"}},
  };
}
INSTANTIATE_TEST_SUITE_P(Others, HoistUniformTest, ::testing::ValuesIn(others()), name_of);

// --- near misses

std::string beside(const std::string& own) {
  return kPlaces + kOwn + own + fetched("row", "e", "i", true) +
         "n = cast(row) {dtype=!f64}\ninput x [batch,1,3,1] samples 0\ny = concat(x, n) {axis=3}\noutputs y\n";
}

std::vector<Case> near_misses() {
  const std::string numbers = "r = range() {start=0, limit=batch, delta=1, dtype=!i64}\n";
  const std::string read = "u = unsqueeze(f) {axes=[1]}\ny = mul(x, u)\noutputs y\n";
  const std::string squares = "e = expand(z) {shape=[batch,3]}\ns = mul(e, e)\ny = concat(x, s) {axis=1}\noutputs y\n";
  return {
      {"NumberComparedWithAThreshold",
       kX + numbers + "constant two i64 [] 2\nt = lt(r, two)\nf = cast(t) {dtype=!f64}\n" + read},
      {"NumberItself", kX + numbers + "f = cast(r) {dtype=!f64}\n" + read},
      {"SquareOfTheNumber", kX + numbers + "t = mul(r, r)\nf = cast(t) {dtype=!f64}\n" + read},
      {"RowOfATableByNumber",
       kX + numbers + "constant table [5,1] 1 2 3 4 5\nf = gather(table, r) {axis=0}\ny = mul(x, f)\noutputs y\n"},
      {"NumberBesideTheOwn", kX + numbers +
                                 "constant p i64 [1,5] 1 2 3 4 5\ne = expand(p) {shape=[batch,5]}\nj = unsqueeze(r) "
                                 "{axes=[1]}\ni = concat(j, "
                                 "j) {axis=1}\nt = gather_nd(e, i) {batch_dims=0}\nf = cast(t) {dtype=!f64}\n" +
                                 read},
      {"PlaceThatFollowsFromTheNumber",
       kX + numbers +
           "constant p i64 [1,3] 1 2 3\ne = expand(p) {shape=[batch,3]}\ng = reshape(e) {shape=[3*batch]}\nconstant "
           "three i64 [] 3\nconstant two i64 [] 2\nconstant one i64 [] 1\nl = lt(r, two)\nm = where(l, one, two)\no = "
           "mul(r, three)\ni = add(o, m)\nt = gather(g, i) {axis=0}\nf = cast(t) {dtype=!f64}\n" +
           read},
      {"AnInputBefore", kX + "input z [1,3]\n" + squares},
      {"AParameterBefore", kX + "parameter z [1,3]\n" + squares},
      {"ABufferBefore", kX + "buffer z [1,3]\n" + squares},
      {"ADrawBefore", kX + "random z [1,3] = bernoulli drop 0x1p-1 key 1\n" + squares},
      {"NumberOfSamplesInArithmetic",
       kX + kC +
           "k = full() {shape=[], value=2*batch, dtype=!i64}\nf = cast(k) {dtype=!f64}\nd = mul(c, f)\ne = expand(d) "
           "{shape=[batch,3]}\ns = exp(e)\ny = concat(x, s) {axis=1}\noutputs y\n"},
      {"NumberOfSamplesInEachPlace",
       kX + "e = full() {shape=[batch,3], value=2*batch, dtype=!i64}\nf = cast(e) {dtype=!f64}\ns = sqrt(f)\ny = "
            "concat(x, s) {axis=1}\noutputs y\n"},
      {"SumOverSamples",
       kX + kSpread + "s = sum(e) {axes=[0], keepdim=true}\nw = add(x, s)\nb = concat(x, e) {axis=1}\noutputs w b\n"},
      {"ExpandedAlready", kX + kSpread + "y = concat(x, e) {axis=1}\noutputs y\n"},
  };
}
INSTANTIATE_TEST_SUITE_P(NearMisses, HoistUniformTest, ::testing::ValuesIn(near_misses()), name_of);

// Each sample would find the same there, but no rule shows it, and beside the last one there is none.
TEST(HoistUniform, LeavesWhatIsFetchedAtAnotherSample) {
  for (const std::string own : {"constant one i64 [] 1\ni = add(o, one)\n", "constant two i64 [] 2\ni = mul(o, two)\n",
                                "constant one i64 [] 1\ni = sub(one, o)\n"}) {
    const ir::Graph before = short_graph(beside(own));
    ir::Graph after = before.clone();
    ASSERT_EQ(run_passes(after, {"hoist-uniform"}), "");
    const Names names = operators(after);
    EXPECT_EQ(std::count(names.begin(), names.end(), "gather_nd"), 1) << own;
  }
  ir::Graph twin = short_graph(beside("i = identity(o)\n"));
  ASSERT_EQ(run_passes(twin, {"hoist-uniform"}), "");
  EXPECT_EQ(operators(twin), (Names{"expand", "concat"}));
}

}  // namespace
}  // namespace rannc::test
