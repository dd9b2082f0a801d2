// Every form that a fusion knows becomes the one operator, and stays the same function.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/op/op.h"
#include "tests/passes/torch/fused_forms.h"

namespace rannc::test {
namespace {

const std::string kActivation = fmt::format(
    "input x [batch,3,4] samples 0\nconstant root [] {:.17g}\nconstant inverse [] {:.17g}\nconstant half [] 0.5\n"
    "constant one [] 1\nconstant two [] 2\nconstant three i64 [] 3\nconstant cubic [] 0.044715\nconstant factor [] "
    "{:.17g}\n",
    std::sqrt(2.0), std::sqrt(0.5), std::sqrt(2 / M_PI));

/// x * 0.5 * (1 + s), as exporters write it.
Names weighted() {
  const Names raised = turned("r", "add", "s", "one");
  return joined(joined(products({raised, turned("w", "mul", "r", "x"), turned("y", "mul", "w", "half")}),
                       products({raised, turned("w", "mul", "x", "half"), turned("y", "mul", "r", "w")})),
                joined(joined(products({raised, turned("w", "mul", "half", "r"), turned("y", "mul", "x", "w")}),
                              products({raised, {"w = div(x, two)\n"}, turned("y", "mul", "r", "w")})),
                       products({turned("t", "mul", "s", "half"), turned("r", "add", "t", "half"),
                                 turned("y", "mul", "r", "x")})));
}

TEST(FusedGelu, ByErf) {
  const Names shares = products({joined({"e = div(x, root)\n"}, turned("e", "mul", "x", "inverse")), {"s = erf(e)\n"}});
  for (const std::string& text : products({{kActivation}, shares, weighted(), {"outputs y\n"}}))
    expect_becomes(text, {"fuse-gelu"}, {"gelu"});
}

TEST(FusedGelu, ByTanh) {
  const Names squares = joined({"q = pow(x, two)\n"}, {"q = mul(x, x)\n"});
  const Names cubes = joined({"c = pow(x, three)\n"}, products({squares, turned("c", "mul", "q", "x")}));
  const Names bent_cubes = joined(products({cubes, turned("k", "mul", "c", "cubic")}),
                                  products({squares, turned("l", "mul", "x", "cubic"), turned("k", "mul", "l", "q")}));
  const Names sums = products({bent_cubes, turned("a", "add", "x", "k"), turned("b", "mul", "a", "factor")});
  const Names raised = products({squares, turned("k", "mul", "q", "cubic"), turned("a", "add", "k", "one")});
  const Names factors = joined(products({raised, turned("f", "mul", "x", "factor"), turned("b", "mul", "f", "a")}),
                               products({raised, turned("f", "mul", "x", "a"), turned("b", "mul", "f", "factor")}));
  const Names shares = products({joined(sums, factors), {"s = tanh(b)\n"}});
  const Names ends = weighted();
  for (size_t i = 0; i < shares.size(); ++i)
    expect_becomes(kActivation + shares[i] + ends[i % ends.size()] + "outputs y\n", {"fuse-gelu"}, {"gelu"});
}

TEST(FusedSilu, InBothOrders) {
  for (const std::string& text :
       products({{kActivation + "s = sigmoid(x)\n"}, turned("y", "mul", "s", "x"), {"outputs y\n"}}))
    expect_becomes(text, {"fuse-silu"}, {"silu"});
}

// --- norms

const std::string kNorm =
    "input x [batch,3,4] samples 0\nparameter w [4]\nparameter b [4]\nconstant eps [] 1e-5\nconstant one [] 1\n"
    "constant two [] 2\nconstant half [] 0.5\nconstant minus [] -0.5\n";

/// n = c / sqrt(v + eps)
Names over_root() {
  const Names raised = turned("a", "add", "v", "eps");
  const Names inverses = {"i = rsqrt(a)\n", "r = sqrt(a)\ni = reciprocal(r)\n", "r = sqrt(a)\ni = div(one, r)\n",
                          "i = pow(a, minus)\n"};
  return joined(products({raised, inverses, turned("n", "mul", "c", "i")}),
                products({raised, {"r = sqrt(a)\n", "r = pow(a, half)\n"}, {"n = div(c, r)\n"}}));
}

const Names kWeights = {"y = identity(n)\noutputs y\n", "y = mul(n, w)\noutputs y\n", "y = mul(w, n)\noutputs y\n",
                        "s = mul(n, w)\ny = add(s, b)\noutputs y\n", "s = mul(w, n)\ny = add(b, s)\noutputs y\n"};

TEST(FusedLayerNorm, InEveryForm) {
  const Names variances = products({{"m = mean(x) {axes=[-1], keepdim=true}\nc = sub(x, m)\n"},
                                    {"q = pow(c, two)\n", "q = mul(c, c)\n"},
                                    {"v = mean(q) {axes=[2], keepdim=true}\n"}});
  for (const std::string& text : products({{kNorm}, variances, over_root(), kWeights}))
    expect_becomes(text, {"fuse-views", "fuse-layer-norm"},
                   text.find("identity") == std::string::npos ? Names{"layer_norm"} : Names{"layer_norm", "identity"});
}

TEST(FusedLayerNorm, OverTwoAxes) {
  expect_becomes(
      "input x [batch,3,4] samples 0\nparameter w [3,4]\nconstant eps [1,1] 1e-5\nm = mean(x) {axes=[1,2], "
      "keepdim=true}\nc = sub(x, m)\nq = mul(c, c)\nv = mean(q) {axes=[-1,-2], keepdim=true}\na = add(v, eps)\nr = "
      "rsqrt(a)\nn = mul(c, r)\ny = mul(n, w)\noutputs y\n",
      {"fuse-layer-norm"}, {"layer_norm"});
}

TEST(FusedRmsNorm, InEveryForm) {
  const Names squares = products(
      {{"c = identity(x)\n"}, {"q = pow(c, two)\n", "q = mul(c, c)\n"}, {"v = mean(q) {axes=[-1], keepdim=true}\n"}});
  for (const std::string& text : products({{kNorm}, squares, over_root(), {kWeights[0], kWeights[1], kWeights[2]}}))
    expect_becomes(text, {"fuse-views", "fuse-rms-norm"},
                   text.find("y = identity") == std::string::npos ? Names{"rms_norm"} : Names{"rms_norm", "identity"});
}

// --- softmax

TEST(FusedSoftmax, InEveryForm) {
  for (const std::string axis : {"-1", "2", "1"}) {
    const std::string axes = fmt::format("{{axes=[{}], keepdim=true}}\n", axis);
    const Names shifts = {"m = amax(x) " + axes, "a = amax(x) " + axes + "m = stop_gradient(a)\n"};
    const Names sums = {"h = sub(x, m)\ne = exp(h)\ns = sum(e) " + axes};
    const Names shares = joined({"y = div(e, s)\n"},
                                products({{"i = reciprocal(s)\n", "i = div(one, s)\n"}, turned("y", "mul", "e", "i")}));
    const std::string begin = "input x [batch,3,4] samples 0\nconstant one [] 1\n";
    for (const std::string& text : products({{begin}, shifts, sums, shares, {"outputs y\n"}}))
      expect_becomes(text, {"fuse-softmax"}, {"softmax"});
    for (const std::string& text : products({{begin}, shifts, sums, {"l = log(s)\ny = sub(h, l)\noutputs y\n"}}))
      expect_becomes(text, {"fuse-softmax"}, {"log_softmax"});
  }
}

// --- linear

TEST(FusedLinear, InEveryForm) {
  const Names products_of = {"parameter w [4,5]\np = matmul(x, w)\n",
                             "parameter w [5,4]\nt = permute(w) {dims=[1,0]}\np = matmul(x, t)\n"};
  const Names ends = {"y = add(p, b)\noutputs y\n", "y = add(b, p)\noutputs y\n", "y = identity(p)\noutputs y\n"};
  for (const std::string input : {"[batch,4] samples 0", "[batch,3,4] samples 0", "[3,batch,4] samples 1"}) {
    for (const std::string& text : products({{"input x " + input + "\nparameter b [5]\n"}, products_of, ends}))
      expect_becomes(text, {"fuse-linear"},
                     text.find("identity") == std::string::npos ? Names{"linear"} : Names{"linear", "identity"});
  }
}

// --- views

TEST(FusedViews, ThatChangeNothingGo) {
  expect_becomes(
      "input x [batch,3,4] samples 0\na = reshape(x) {shape=[batch,12]}\nb = reshape(a) {shape=[batch,4,3]}\nc = "
      "permute(b) {dims=[0,2,1]}\nd = permute(c) {dims=[0,-1,-2]}\ne = cast(d) {dtype=!f64}\nf = expand(e) "
      "{shape=[batch,4,3]}\ny = relu(f)\noutputs y\n",
      {"fuse-views"}, {"reshape", "relu"});
  expect_becomes(
      "input x [batch,3,4] samples 0\na = permute(x) {dims=[1,2,0]}\ny = permute(a) {dims=[2,0,1]}\noutputs y\n",
      {"fuse-views"}, {"identity"});
  expect_becomes(
      "input x [batch,3,4,2] samples 0\na = permute(x) {dims=[0,2,1,3]}\nb = permute(a) {dims=[0,3,1,2]}\ny = relu(b)\n"
      "outputs y\n",
      {"fuse-views"}, {"permute", "relu"});
}

// --- attention

struct Attention {
  std::string name, body;
  Names added = {};  ///< tasks before the attention
};

std::string attention(const std::string& keys, const std::string& rest) {
  return "input q [batch,2,3,4] samples 0\ninput v [batch,2,5,4] samples 0\nconstant c [] 0.25\nconstant d [] 3\n"
         "constant low [] -inf\nconstant least [] -1.7e308\n" +
         keys + rest + "y = matmul(w, v)\noutputs y\n";
}

const std::string kKeys = "input k [batch,2,5,4] samples 0\nt = permute(k) {dims=[0,1,3,2]}\n";

/// The names but for permutations, and for what gives an output its name.
Names without_permutations(Names names) {
  std::erase(names, "permute");
  std::erase(names, "identity");
  return names;
}

void expect_attention(const Attention& written, const std::string& keys) {
  SCOPED_TRACE(written.name);
  const std::string text = attention(keys, written.body);
  const ir::Graph before = short_graph(text);
  ir::Graph after = before.clone();
  ASSERT_EQ(run_passes(after, {"fuse-attention"}), "");
  Names expected = written.added;
  expected.push_back("attention");
  EXPECT_EQ(without_permutations(operators(after)), expected) << text;
  expect_same(after, before);
}

const std::string kScores = "s = matmul(q, t)\n";
const std::string kWhole = "w = softmax(m)\n", kSafe = "w = softmax(m) {axis=-1, hidden_rows=\"zero\"}\n";
const std::string kSeen = "constant seen bool [3,5] 1 0 0 0 0  0 1 0 1 0  1 1 1 1 1\n";
const std::string kUnseen = "constant seen bool [3,5] 0 1 1 1 1  1 0 1 0 1  0 0 0 0 0\n";

TEST(FusedAttention, ByScale) {
  expect_attention({"plain", "m = matmul(q, t)\n" + kWhole}, kKeys);
  expect_attention({"on products", kScores + "m = mul(c, s)\n" + kWhole}, kKeys);
  expect_attention({"products over", kScores + "m = div(s, d)\n" + kWhole}, kKeys);
  expect_attention({"on queries", "a = mul(q, c)\nm = matmul(a, t)\n" + kWhole}, kKeys);
  expect_attention({"queries over", "a = div(q, d)\nm = matmul(a, t)\n" + kWhole}, kKeys);
  expect_attention({"on queries and keys", "a = mul(q, c)\nb = mul(t, c)\nm = matmul(a, b)\n" + kWhole}, kKeys);
  expect_attention({"on queries and keys before they turn", "a = mul(q, c)\nm = matmul(a, t)\n" + kWhole},
                   "input k [batch,2,5,4] samples 0\nb = div(k, d)\nt = permute(b) {dims=[0,1,3,2]}\n");
  expect_attention({"negative", "constant minus [] -0.7\n" + kScores + "m = mul(minus, s)\n" + kWhole}, kKeys);
  expect_attention({"nothing", "constant nothing [] 0\n" + kScores + "m = mul(nothing, s)\n" + kWhole}, kKeys);
}

TEST(FusedAttention, ByMask) {
  const std::string scaled = kScores + "r = mul(s, c)\n";
  const std::string added = "constant no [] 0\nf = where(n, no, low)\n";
  for (const std::string shape : {"[3,5]", "[1,5]", "[1,1,3,5]", "[1,2,3,5]", "[1,1,1,5]"}) {
    const std::string mask = fmt::format("input n bool {}\n", shape) + added + scaled;
    expect_attention({"added", mask + "m = add(r, f)\n" + kSafe, {"where"}}, kKeys);
    expect_attention({"added first", mask + "m = add(f, r)\n" + kSafe, {"where"}}, kKeys);
  }
  const std::string own = "input n bool [batch,1,1,5] samples 0\n", bools = "input n bool [batch,1,3,5] samples 0\n";
  expect_attention({"of each sample", own + added + scaled + "m = add(r, f)\n" + kSafe, {"where"}}, kKeys);
  expect_attention({"filled",
                    "n = full() {shape=[3,5], value=0x1p-1, dtype=!f64}\n" + scaled + "m = add(r, n)\n" + kWhole,
                    {"full"}},
                   kKeys);
  expect_attention({"small", "constant n [1,5] 0 -1 -2 -3 -4\n" + scaled + "m = add(r, n)\n" + kWhole}, kKeys);
  expect_attention({"seen", kSeen + scaled + "m = where(seen, r, low)\n" + kWhole}, kKeys);
  expect_attention({"seen, finite", kSeen + scaled + "m = where(seen, r, least)\n" + kWhole}, kKeys);
  expect_attention({"hidden", kUnseen + scaled + "m = where(seen, low, r)\n" + kWhole, {"logical_not"}}, kKeys);
  expect_attention({"seen by input", bools + scaled + "m = where(n, r, low)\n" + kSafe}, kKeys);
  expect_attention({"hidden by input", bools + scaled + "m = where(n, low, r)\n" + kSafe, {"logical_not"}}, kKeys);
}

// Of a row that finite numbers hide, weights are equal. LibTorch's kernel keeps the logarithm of their sum alone, which
// such numbers swallow: results would be the same, gradients through that row would not.
TEST(FusedAttention, NotWhereFiniteNumbersMayHideRows) {
  const std::string rest = "constant no [] 0\nn = where(seen, no, least)\n" + kScores + "m = add(s, n)\n" + kSafe;
  for (const std::string seen :
       {"constant seen bool [3,5] 0 0 0 0 0  1 1 1 1 1  1 1 1 1 1\n", "input seen bool [batch,1,3,5] samples 0\n",
        "input x [batch,1,1,5] samples 0\nseen = lt(x, c)\n",
        "input a bool [batch,1,1,5] samples 0\ninput b bool [batch,1,1,5] samples 0\nseen = logical_or(a, b)\n"}) {
    ir::Graph graph = short_graph(attention(kKeys, seen + rest));
    const Names before = operators(graph);
    ASSERT_EQ(run_passes(graph, {"fuse-attention"}), "");
    EXPECT_EQ(operators(graph), before) << seen;
  }
}

// Unless they follow from one input of whole numbers, which is checked before each step.
TEST(FusedAttention, ByMasksThatAreChecked) {
  const std::string input =
      "input n bool [batch,1,1,5] samples 0\nconstant first bool [1,1,1,5] 1 0 0 0 0\nseen = logical_or(n, first)\n"
      "constant all bool [1,1,3,5] 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\nconstant no [] 0\nconstant one [] 1\n";
  const std::string scaled = kScores + "r = mul(s, c)\n", choice = "f = where(a, no, least)\nm = add(r, f)\n";
  struct Mask {
    std::string text;
    Names added;
    std::string checked = "rows";
  };
  const Mask masks[] = {
      {"a = identity(seen)\n" + scaled + choice + kWhole, {"logical_or"}},
      {"a = logical_and(all, seen)\n" + scaled + choice + kWhole, {"logical_or"}},
      {"p = range() {limit=3, dtype=!i64}\nu = reshape(p) {shape=[1,1,3,1]}\nconstant from i64 [] 0\n"
       "from_first = ge(u, from)\nb = logical_and(from_first, all)\na = logical_and(b, seen)\n" +
           scaled + choice + kWhole,
       {"logical_or"}},
      {"a = logical_not(seen)\nf = where(a, least, no)\n" + scaled + "m = add(f, r)\n" + kSafe,
       {"logical_or", "logical_not", "logical_not"}},
      {"e = expand(seen) {shape=[batch,1,3,5]}\n" + scaled + "m = where(e, r, least)\n" + kWhole, {"logical_or"}},
      {"a = logical_not(seen)\n" + scaled + "m = where(a, least, r)\n" + kWhole,
       {"logical_or", "logical_not", "logical_not"}},
      {"g = cast(seen) {dtype=!f64}\nh = sub(one, g)\nf = mul(h, least)\n" + scaled + "m = add(r, f)\n" + kWhole,
       {"logical_or"}},
      {"i = cast(seen) {dtype=!i64}\ng = cast(i) {dtype=!f64}\nh = sub(one, g)\nf = mul(least, h)\n" + scaled +
           "m = add(r, f)\n" + kWhole,
       {"logical_or", "cast", "cast"},
       "rows_of_ones"},
  };
  for (const Mask& mask : masks) {
    SCOPED_TRACE(mask.text);
    const ir::Graph before = short_graph(attention(kKeys, input + mask.text));
    ir::Graph after = before.clone();
    ASSERT_EQ(run_passes(after, {"fuse-attention", "remove-dead"}), "");
    Names expected = mask.added;
    expected.push_back("attention");
    EXPECT_EQ(without_permutations(operators(after)), expected);
    for (const TaskId task : after.tasks()) {
      if (after.op(task).name == "core.attention") EXPECT_EQ(after.attributes(task).text("checked", ""), mask.checked);
    }
    expect_same(after, before);
  }
}

// Rows that see nothing, forward and backward.
TEST(FusedAttention, OfRowsThatSeeNothing) {
  const std::string scaled = kScores + "r = mul(s, c)\n";
  expect_attention(
      {"bool", "constant n bool [3,5] 0 0 0 0 0  0 1 0 1 0  1 1 1 1 1\n" + scaled + "m = where(n, r, low)\n" + kSafe},
      kKeys);
  expect_attention({"float", "constant n [3,5] -inf -inf -inf -inf -inf  0 -inf 0 1 0  1 1 1 1 1\n" + scaled +
                                 "m = add(r, n)\n" + kSafe},
                   kKeys);
}

TEST(FusedAttention, ByKeys) {
  const std::string rest = "s = matmul(q, t)\nm = mul(s, c)\n" + kWhole;
  expect_attention({"from the back", rest}, "input k [batch,2,5,4] samples 0\nt = permute(k) {dims=[-4,1,-1,-2]}\n");
  expect_attention({"places first", rest}, "input k [batch,5,2,4] samples 0\nt = permute(k) {dims=[0,2,3,1]}\n");
  expect_attention({"heads last", rest}, "input k [batch,4,5,2] samples 0\nt = permute(k) {dims=[0,3,1,2]}\n");
  expect_attention({"stacked", rest, {"reshape", "reshape"}},
                   "input l [batch,2,5,4] samples 0\nk = reshape(l) {shape=[2*batch,5,4]}\nu = permute(k) "
                   "{dims=[0,2,1]}\nt = reshape(u) {shape=[batch,2,4,5]}\n");
}

TEST(FusedAttention, OfQueriesByPlaces) {
  const std::string text =
      "input x [batch,3,2,4] samples 0\nconstant c [] 0.25\nq = permute(x) {dims=[0,2,1,3]}\nt = permute(x) "
      "{dims=[0,2,3,1]}\nv = permute(x) {dims=[0,2,1,3]}\ns = matmul(q, t)\nm = mul(s, c)\nw = softmax(m)\no = "
      "matmul(w, v)\nb = permute(o) {dims=[0,2,1,3]}\ny = reshape(b) {shape=[batch,3,8]}\noutputs y\n";
  const ir::Graph before = short_graph(text);
  ir::Graph after = before.clone();
  ASSERT_EQ(run_passes(after, standard_order()), "");
  EXPECT_EQ(without_permutations(operators(after)), (Names{"attention", "reshape"}));
  expect_same(after, before);
}

TEST(FusedAttention, WithSamplesAtTheSecondAxis) {
  const std::string text =
      "input q [2,batch,3,4] samples 1\ninput k [2,batch,5,4] samples 1\ninput v [2,batch,5,4] samples 1\nt = "
      "permute(k) "
      "{dims=[0,1,3,2]}\nm = matmul(q, t)\nw = softmax(m)\ny = matmul(w, v)\noutputs y\n";
  const ir::Graph before = short_graph(text);
  ir::Graph after = before.clone();
  ASSERT_EQ(run_passes(after, {"fuse-attention"}), "");
  EXPECT_EQ(without_permutations(operators(after)), (Names{"attention"}));
  expect_same(after, before);
}

}  // namespace
}  // namespace rannc::test
