// Cross entropies that a model writes out become the one operator, and stay the same function.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/passes/torch/fused_forms.h"

namespace rannc::test {
namespace {

const Names kPasses = {"fuse-cross-entropy", "remove-dead"};

/// Logits whose classes are on an axis, and labels of them.
struct Place {
  std::string logits, labels, axis, placed, ones;  ///< `placed`: sizes of labels with that axis
};
const std::vector<Place> kPlaces = {{"[batch,4]", "[batch]", "1", "[batch,1]", "[4]"},
                                    {"[batch,4]", "[batch]", "-1", "[batch,1]", "[1,4]"},
                                    {"[batch,3,4]", "[batch,3]", "2", "[batch,3,1]", "[4]"},
                                    {"[batch,4,3]", "[batch,3]", "1", "[batch,1,3]", "[4,1]"},
                                    {"[batch,4,2,3]", "[batch,2,3]", "-3", "[batch,1,2,3]", "[1,4,1,1]"}};

std::string begin(const Place& place, const std::string& dtype = "i64") {
  return fmt::format(
      "input x {} samples 0\ninput t {} {} samples 0\nconstant k {} [] 1\nconstant no [] 0\nconstant one [] "
      "1\nconstant "
      "none {} [] 0\nconstant some {} [] 1\nconstant c {} {} 0 1 2 3\nl = log_softmax(x) {{axis={}}}\n",
      place.logits, dtype, place.labels, dtype, dtype, dtype, dtype, place.ones, place.axis);
}

/// The operators but for numbers, which are constants.
Names without_numbers(Names names) {
  std::erase(names, "full");
  return names;
}

void expect_fused(const std::string& text, const Names& expected) {
  SCOPED_TRACE(text);
  const ir::Graph before = short_graph(text);
  ir::Graph after = before.clone();
  ASSERT_EQ(run_passes(after, kPasses), "");
  EXPECT_EQ(without_numbers(operators(after)), expected);
  expect_same(after, before);
  ASSERT_EQ(run_passes(after, kPasses), "");
  EXPECT_EQ(without_numbers(operators(after)), expected) << "the second time";
}

const Names kFromStart = {"lt", "add", "where"};

// -log_softmax(x).gather(axis, t.unsqueeze(axis)), summed before or after the sign, as both exporters write it.
TEST(FusedCrossEntropy, PickedByPlaces) {
  for (const Place& place : kPlaces) {
    const Names placed = {fmt::format("u = unsqueeze(t) {{axes=[{}]}}\n", place.axis),
                          fmt::format("u = reshape(t) {{shape={}}}\n", place.placed)};
    const std::string gather = fmt::format("g = gather_elements(l, u) {{axis={}}}\n", place.axis);
    const std::string squeeze = fmt::format("q = squeeze(g) {{axes=[{}]}}\n", place.axis);
    const Names turned = {"s = sum(g)\ny = neg(s)\noutputs y\n", "n = neg(g)\ny = sum(n)\noutputs y\n",
                          squeeze + "n = neg(q)\ny = sum(n)\noutputs y\n",
                          squeeze + "s = sum(q) {axes=[0], keepdim=true}\nz = sum(s)\ny = neg(z)\noutputs y\n"};
    for (const std::string& text : products({{begin(place), begin(place, "i32")}, placed, {gather}, turned}))
      expect_fused(text, joined(kFromStart, {"cross_entropy_sum"}));
    for (const std::string& text : products({{begin(place)}, placed, {gather}, {"y = sum(g)\noutputs y\n"}}))
      expect_fused(text, joined(kFromStart, {"cross_entropy_sum", "neg"}));
  }
}

TEST(FusedCrossEntropy, PickedFromWhatIsNegated) {
  expect_fused(begin(kPlaces[0]) +
                   "n = neg(l)\nu = unsqueeze(t) {axes=[1]}\ng = gather_elements(n, u) {axis=1}\ny = "
                   "sum(g)\noutputs y\n",
               joined(kFromStart, {"cross_entropy_sum"}));
}

// The exporter that keeps axes of a sum, and makes a scalar of it afterwards.
TEST(FusedCrossEntropy, OfASumThatKeepsItsAxes) {
  expect_fused(begin(kPlaces[0]) +
                   "u = unsqueeze(t) {axes=[1]}\ng = gather_elements(l, u) {axis=1}\ns = sum(g) "
                   "{axes=[0,1], keepdim=true}\nr = reshape(s) {shape=[]}\ny = neg(r)\noutputs y\n",
               joined(kFromStart, {"cross_entropy_sum"}));
}

TEST(FusedCrossEntropy, OfLabelsThatHaveTheAxis) {
  const std::string text = begin({"[batch,3,4]", "[batch,3,1]", "2", "", "[4]"}) +
                           "g = gather_elements(l, t) {axis=-1}\ns = sum(g)\ny = neg(s)\noutputs y\n";
  expect_fused(text, {"squeeze", "lt", "add", "where", "cross_entropy_sum"});
}

// l[arange, t]: a tuple of a row and its label.
TEST(FusedCrossEntropy, PickedByTuples) {
  const Names rows = {"r = range() {start=0, limit=batch, delta=1, dtype=!i64}\no = unsqueeze(r) {axes=[1]}\n",
                      "r = range() {start=0, limit=batch, delta=1, dtype=!i64}\no = reshape(r) {shape=[batch,1]}\n"};
  for (const std::string& text : products({{begin(kPlaces[0])},
                                           rows,
                                           {"u = unsqueeze(t) {axes=[1]}\np = concat(o, u) {axis=1}\n",
                                            "u = reshape(t) {shape=[batch,1]}\np = concat(o, u) {axis=-1}\n"},
                                           {"g = gather_nd(l, p)\ns = sum(g)\ny = neg(s)\noutputs y\n"}})) {
    const ir::Graph before = short_graph(text);
    ir::Graph after = before.clone();
    ASSERT_EQ(run_passes(after, kPasses), "");
    EXPECT_EQ(without_numbers(operators(after)), joined(kFromStart, {"cross_entropy_sum"}));
    expect_same(after, before);
  }
  expect_fused(
      "parameter x [3,4]\nconstant o i64 [3,1] 0 1 2\nconstant t i64 [3] 1 -1 3\nl = log_softmax(x) {axis=1}\nu = "
      "unsqueeze(t) {axes=[1]}\np = concat(o, u) {axis=1}\ng = gather_nd(l, p)\ns = sum(g)\ny = neg(s)\noutputs y\n",
      joined(kFromStart, {"cross_entropy_sum"}));
}

TEST(FusedCrossEntropyNearMisses, TuplesOfOtherRows) {
  const std::string begin =
      "parameter x [3,4]\nparameter z [3,3]\nconstant o i64 [3,1] 0 1 2\nconstant other i64 [3,1] 0 2 1\nconstant t "
      "i64 "
      "[3] 1 0 2\nu = unsqueeze(t) {axes=[1]}\n";
  const std::string last = begin + "l = log_softmax(x) {axis=1}\n";
  const std::string end = "g = gather_nd(l, p)\ns = sum(g)\ny = neg(s)\noutputs y\n";
  Names misses = {last + "p = concat(other, u) {axis=1}\n" + end, last + "p = concat(u, o) {axis=1}\n" + end,
                  last + "p = concat(o, u) {axis=0}\n" + end,
                  begin + "l = log_softmax(z) {axis=0}\np = concat(o, u) {axis=1}\n" + end};
  // Rows 2, 1, 0; 0, 2, 1; 1, 2, 0.
  for (const char* const range :
       {"start=2, limit=-1, delta=-1", "start=0, limit=-3, delta=-1", "start=-2, limit=1, delta=1"})
    misses.push_back(last + "r = range() {" + range +
                     ", dtype=!i64}\nv = unsqueeze(r) {axes=[1]}\np = concat(v, u) {axis=1}\n" + end);
  for (const std::string& text : misses) expect_stays(text, "fuse-cross-entropy");
}

const std::string kPick =
    "u = unsqueeze(i) {axes=[1]}\ng = gather_elements(l, u) {axis=1}\nq = squeeze(g) {axes=[1]}\nn = neg(q)\n";

// Labels that are ignored are picked at some place that is there, and what is picked there is left out.
TEST(FusedCrossEntropy, OfLabelsThatCount) {
  const Names safe = {"i = where(m, t, none)\n", "i = clamp(t) {min=0}\n", "i = identity(t)\n"};
  const Names shown = {"m = ne(t, k)\n", "e = eq(t, k)\nm = logical_not(e)\n"};
  const Names ends =
      joined({"z = where(m, n, no)\n"}, products({{"f = cast(m) {dtype=!f64}\n"}, turned("z", "mul", "n", "f")}));
  for (const Place& place : {kPlaces[0], kPlaces[3]})
    for (const std::string& text :
         products({{begin(place)}, shown, safe, {kPick}, ends, {"y = sum(z)\noutputs y\n"}})) {
      SCOPED_TRACE(text);
      const ir::Graph before = short_graph(text);
      ir::Graph after = before.clone();
      ASSERT_EQ(run_passes(after, kPasses), "");
      Names found = without_numbers(operators(after));
      EXPECT_EQ(found.back(), "cross_entropy_sum");
      for (const char* gone : {"log_softmax", "gather_elements", "mul", "sum"})
        EXPECT_EQ(std::count(found.begin(), found.end(), gone), 0) << gone;
      expect_same(after, before);
    }
}

TEST(FusedCrossEntropy, OfLabelsThatDoNotCount) {
  expect_fused(begin(kPlaces[0]) + "m = eq(t, k)\ni = where(m, none, t)\n" + kPick +
                   "z = where(m, no, n)\ny = sum(z)\noutputs y\n",
               {"eq", "where", "lt", "add", "where", "where", "cross_entropy_sum"});
}

// F.one_hot, as the one exporter compares with all classes, and the other writes ones and zeros.
TEST(FusedCrossEntropy, WeighedByOnes) {
  for (const Place& place : kPlaces) {
    const std::string placed = fmt::format("u = unsqueeze(t) {{axes=[{}]}}\n", place.axis);
    const Names hot = {"h = cast(e) {dtype=!f64}\n", "a = cast(e) {dtype=!i64}\nh = cast(a) {dtype=!f64}\n",
                       "a = where(e, some, none)\nh = cast(a) {dtype=!f64}\n", "h = where(e, one, no)\n"};
    const Names ends = {"s = sum(w)\ny = neg(s)\noutputs y\n",
                        fmt::format("s = sum(w) {{axes=[{}]}}\nn = neg(s)\ny = sum(n)\noutputs y\n", place.axis)};
    for (const std::string& text :
         products({{begin(place) + placed}, turned("e", "eq", "u", "c"), hot, turned("w", "mul", "h", "l"), ends}))
      expect_fused(text, {"lt", "lt", "where", "where", "cross_entropy_sum"});
  }
}

const std::string kStored = "parameter x [3,4]\nconstant c i64 [4] 0 1 2 3\nl = log_softmax(x) {axis=1}\n";

// As ONNX has it, where LibTorch refuses such labels.
TEST(FusedCrossEntropy, OfLabelsThatCountFromTheEnd) {
  expect_fused(kStored +
                   "constant t i64 [3] -1 0 -4\nu = unsqueeze(t) {axes=[1]}\ng = gather_elements(l, u) {axis=1}\ny = "
                   "sum(g)\noutputs y\n",
               joined(kFromStart, {"cross_entropy_sum", "neg"}));
}

TEST(FusedCrossEntropy, OfLabelsThatNoClassIsEqualTo) {
  expect_fused(kStored +
                   "constant t i64 [3] 4 -1 2\nu = unsqueeze(t) {axes=[1]}\ne = eq(u, c)\nh = cast(e) "
                   "{dtype=!f64}\nw = mul(l, h)\ns = sum(w)\ny = neg(s)\noutputs y\n",
               {"lt", "lt", "where", "where", "cross_entropy_sum"});
}

// --- what is nearly one

const std::string kSum = "s = sum(g)\ny = neg(s)\n";

std::string picked(const std::string& softmax, const std::string& gather, const std::string& end,
                   const std::string& outputs = "y", const std::string& x = "[batch,4,4]",
                   const std::string& t = "[batch,4]") {
  return fmt::format(
      "input x {} samples 0\ninput t i64 {} samples 0\ninput b bool {} samples 0\nconstant k i64 [] 1\nconstant no [] "
      "0\nconstant low [] 1e-3\nconstant c i64 [4] 0 1 2 4\nl = log_softmax(x) {}\n{}{}outputs {}\n",
      x, t, t, softmax, gather, end, outputs);
}

TEST(FusedCrossEntropyNearMisses, StayTheSameFunction) {
  const std::string gather = "u = unsqueeze(t) {axes=[2]}\ng = gather_elements(l, u) {axis=2}\n";
  const std::string last = "{axis=2}";
  expect_fused(picked(last, gather, kSum), joined(kFromStart, {"cross_entropy_sum"}));
  const std::vector<std::string> misses = {
      // Over another axis, or picked along another one.
      picked("{axis=1}", gather, kSum),
      picked(last, "u = unsqueeze(t) {axes=[1]}\ng = gather_elements(l, u) {axis=1}\n", kSum),
      picked(last, "u = unsqueeze(t) {axes=[2]}\ng = gather_elements(l, u) {axis=1}\n", kSum),
      picked(last, "u = unsqueeze(t) {axes=[1]}\ng = gather_elements(l, u) {axis=2}\n", kSum),
      // A label of fewer places, several of one.
      picked(last,
             "o = slice(t) {axes=[1], starts=[0], ends=[2]}\nu = unsqueeze(o) {axes=[2]}\ng = gather_elements(l, u) "
             "{axis=2}\n",
             kSum),
      picked(last, "g = gather_elements(l, t) {axis=2}\n", kSum, "y", "[batch,3,4]", "[batch,3,2]"),
      // Read by others, given out.
      picked(last, gather, kSum + "z = exp(l)\n", "y z"),
      picked(last, gather, kSum + "z = exp(g)\n", "y z"),
      picked(last, gather, kSum, "y l"),
      picked(last, gather, kSum, "y g"),
      // Not summed as a whole, or changed on the way.
      picked(last, gather, "y = sum(g) {axes=[1]}\n"),
      picked(last, gather, "s = sum(g) {axes=[1]}\nq = squeeze(s)\nr = mul(q, q)\ny = sum(r)\n"),
      picked(last, gather, "e = exp(g)\ny = sum(e)\n"),
      picked(last, gather, "y = mean(g) {axes=[1,2]}\n"),
      // A mask that is none.
      picked(last, gather, "q = squeeze(g) {axes=[2]}\nz = where(b, q, low)\ny = sum(z)\n"),
      picked(last, gather, "q = squeeze(g) {axes=[2]}\nf = cast(t) {dtype=!f64}\nz = mul(q, f)\ny = sum(z)\n"),
      picked(last, gather, "r = unsqueeze(b) {axes=[1]}\nz = where(r, g, no)\ny = sum(z)\n"),
      // Not one class after the other.
      picked(last, "u = unsqueeze(t) {axes=[2]}\ne = eq(u, c)\nh = cast(e) {dtype=!f64}\ng = mul(l, h)\n", kSum),
      picked(last,
             "u = unsqueeze(t) {axes=[1]}\nconstant d i64 [4] 0 1 2 3\ne = eq(u, d)\nh = cast(e) {dtype=!f64}\ng = "
             "mul(l, h)\n",
             kSum),
  };
  for (const std::string& text : misses) expect_stays(text, "fuse-cross-entropy");
}

TEST(FusedCrossEntropyNearMisses, OfAMaskInAnotherShapeThanLabels) {
  expect_stays(
      "parameter x [2,3,4]\nconstant t i64 [2,3] 0 1 2 3 0 1\nconstant b bool [3,2,1] 1 0 1 1 1 0\nconstant no "
      "[] 0\nl = log_softmax(x) {axis=2}\nu = unsqueeze(t) {axes=[2]}\ng = gather_elements(l, u) {axis=2}\nr = "
      "reshape(g) {shape=[3,2,1]}\nz = where(b, r, no)\ny = sum(z)\noutputs y\n",
      "fuse-cross-entropy");
}

TEST(FusedCrossEntropyNearMisses, OfAMaskThatStretches) {
  expect_stays(
      "parameter x [3,3,4]\nconstant t i64 [3,3] 0 1 2 3 0 1 2 3 0\nconstant b bool [3,3,1] 1 0 1 1 1 0 0 0 "
      "1\nconstant no "
      "[] 0\nl = log_softmax(x) {axis=2}\nu = unsqueeze(t) {axes=[2]}\ng = gather_elements(l, u) {axis=2}\nq = "
      "squeeze(g) {axes=[2]}\nz = where(b, q, no)\ny = sum(z)\noutputs y\n",
      "fuse-cross-entropy");
}

// As softmax, of what is not logarithms.
TEST(FusedCrossEntropyNearMisses, OfProbabilities) {
  expect_stays(
      "input x [batch,4] samples 0\ninput t i64 [batch] samples 0\nl = softmax(x) {axis=1}\nu = unsqueeze(t) "
      "{axes=[1]}\ng = gather_elements(l, u) {axis=1}\ny = sum(g)\noutputs y\n",
      "fuse-cross-entropy");
}

}  // namespace
}  // namespace rannc::test
