// What is nearly a form that a fusion knows stays what it is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/passes/torch/fused_case.h"

namespace rannc::test {
namespace {

struct NearMiss {
  std::string name, op, text;
  std::string dtype = "f64";
  bool fuses = false;  ///< a twin that does, so that the miss is about what it says
  bool causal = false;
};

void PrintTo(const NearMiss& miss, std::ostream* to) { *to << miss.name; }

std::string fusion_of(std::string op) {
  std::replace(op.begin(), op.end(), '_', '-');
  return "fuse-" + (op == "log-softmax" ? "softmax" : op);
}

bool has_causal_task(const ir::Graph& graph) {
  bool found = false;
  for (const TaskId task : graph.tasks()) found = found || graph.attributes(task).has("causal");
  return found;
}

class NearMissTest : public ::testing::TestWithParam<NearMiss> {};

TEST_P(NearMissTest, StaysTheSameFunction) {
  const NearMiss& miss = GetParam();
  const ir::Graph before = short_graph(miss.text, miss.dtype);
  const auto count = [&](const ir::Graph& graph) {
    const auto names = operators(graph);
    return std::count(names.begin(), names.end(), miss.op);
  };
  for (const auto& passes : {std::vector<std::string>{fusion_of(miss.op)}, standard_order()}) {
    ir::Graph after = before.clone();
    ASSERT_EQ(run_passes(after, passes), "");
    if (miss.dtype == "f64" || passes.size() == 1) {
      EXPECT_EQ(count(after) - count(before), miss.fuses ? 1 : 0);
      EXPECT_EQ(has_causal_task(after), miss.causal);
    }
    const double limit = miss.dtype == "f64" ? 1e-11 : miss.dtype == "f32" ? 1e-5 : 0.05;
    for (const int64_t samples : {1, 4}) {
      const auto a = numbers_of(before, samples), b = numbers_of(after, samples);
      ASSERT_TRUE(a.ok()) << a.diagnostic().str();
      ASSERT_TRUE(b.ok()) << b.diagnostic().str();
      EXPECT_LE(difference(*a, *b), limit);
    }
  }
}

// --- activations

std::string tanh_gelu(const std::string& cubic, const std::string& half = "0.5", const std::string& one = "1") {
  return fmt::format(
      "input x [batch,3,4] samples 0\nconstant cubic [] {}\nconstant factor [] 0.79788456080286536\nconstant half [] "
      "{}\n"
      "constant one [] {}\nconstant three [] 3\nc = pow(x, three)\nk = mul(c, cubic)\na = add(x, k)\nb = mul(a, "
      "factor)\n"
      "s = tanh(b)\nr = add(s, one)\nw = mul(x, half)\ny = mul(w, r)\noutputs y\n",
      cubic, half, one);
}

std::string erf_gelu(const std::string& between, const std::string& outputs = "y",
                     const std::string& x = "[batch,4] samples 0", const std::string& half = "half [] 0.5") {
  return fmt::format(
      "input x {}\nconstant root [] 1.4142135623730951\nconstant {}\nconstant one [] 1\ne = div(x, root)\n{}s = "
      "erf(e)\n"
      "r = add(s, one)\nw = mul(x, r)\ny = mul(w, half)\noutputs {}\n",
      x, half, between, outputs);
}

std::vector<NearMiss> activations() {
  return {
      {"Gelu", "gelu", tanh_gelu("0.044715"), "f64", true},
      {"GeluRoundedToFloat32", "gelu", tanh_gelu("0.044714998453855515"), "f32", true},
      {"GeluOfANumberBeside", "gelu", tanh_gelu("0.0447149")},
      {"GeluOfAnotherCube", "gelu", tanh_gelu("0.0447151"), "f32"},
      {"GeluOfAnotherHalf", "gelu", tanh_gelu("0.044715", "0.4999")},
      {"GeluOfAnotherOne", "gelu", tanh_gelu("0.044715", "0.5", "1.0001")},
      {"GeluF16", "gelu", tanh_gelu("0.044715"), "f16", true},
      {"GeluF16OfTheNextOne", "gelu", tanh_gelu("0.044715", "0.5", "0.99951171875"), "f16"},
      {"GeluBf16OfTheNextOne", "gelu", tanh_gelu("0.044715", "0.5", "0.99609375"), "bf16"},
      {"GeluF16OfTheNextHalf", "gelu", tanh_gelu("0.044715", "0.499755859375"), "f16"},
      {"GeluWithASecondReader", "gelu", erf_gelu("z = sin(e)\n", "y z")},
      {"GeluWhoseShareIsAnOutput", "gelu", erf_gelu("", "y s")},
      {"GeluOfAnotherX", "gelu",
       "input x [batch,4] samples 0\ninput z [batch,4] samples 0\nconstant root [] 1.4142135623730951\nconstant half "
       "[] "
       "0.5\nconstant one [] 1\ne = div(z, root)\ns = erf(e)\nr = add(s, one)\nw = mul(x, r)\ny = mul(w, "
       "half)\noutputs y\n"},
      {"GeluWithAHalfThatStretches", "gelu",
       erf_gelu("", "y", "[batch,4] samples 0", "half [3,1,4] 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5")},
      {"GeluWithAHalfOfMoreAxes", "gelu", erf_gelu("", "y", "[batch,4] samples 0", "half [1,1,1] 0.5")},
      {"GeluWithAHalfOfOneElement", "gelu", erf_gelu("", "y", "[batch,4] samples 0", "half [1] 0.5"), "f64", true},
      {"SiluOfAnotherX", "silu",
       "input x [batch,4] samples 0\ninput z [batch,4] samples 0\ns = sigmoid(z)\ny = mul(s, x)\noutputs y\n"},
      {"SiluWhoseShareIsAnOutput", "silu", "input x [batch,4] samples 0\ns = sigmoid(x)\ny = mul(s, x)\noutputs y s\n"},
      {"SiluTwiceOfOneShare", "silu",
       "input x [batch,4] samples 0\ns = sigmoid(x)\ny = mul(s, x)\nz = mul(s, x)\noutputs y z\n"},
      {"SiluSquared", "silu", "input x [batch,4] samples 0\ns = sigmoid(x)\ny = mul(s, s)\noutputs y\n"},
  };
}

// In float64 a number of float32 is another one, unless it is taken for what is meant.
TEST(FusionNearMisses, NumbersRoundedToFloat32) {
  ir::Graph graph = short_graph(tanh_gelu("0.044714998453855515"));
  ASSERT_EQ(run_passes(graph, {"cse", "fuse-gelu"}), "");
  EXPECT_EQ(operators(graph).size(), 8U);
  ASSERT_EQ(run_passes(graph, {"snap-constants", "fuse-gelu"}), "");
  EXPECT_EQ(operators(graph), (std::vector<std::string>{"gelu"}));
}

// --- norms

struct Norm {
  std::string x = "[batch,3,4] samples 0", mean = "{axes=[-1], keepdim=true}", squares = "{axes=[-1], keepdim=true}";
  std::string root = "a = add(v, eps)\nr = sqrt(a)\n", end = "n = div(c, r)\ny = mul(n, w)\n", w = "w [4]",
              outputs = "y";
};

std::string written(const Norm& norm) {
  return fmt::format(
      "input x {}\nparameter {}\nconstant eps [] 1e-5\nconstant two [] 2\nconstant three [] 3\nm = mean(x) {}\nc = "
      "sub(x, m)\n"
      "q = pow(c, two)\nv = mean(q) {}\n{}{}outputs {}\n",
      norm.x, norm.w, norm.mean, norm.squares, norm.root, norm.end, norm.outputs);
}

std::vector<NearMiss> norms() {
  const std::string first = "{axes=[1], keepdim=true}";
  return {
      {"LayerNorm", "layer_norm", written({}), "f64", true},
      {"EpsilonBesideTheRoot", "layer_norm", written({.root = "a = sqrt(v)\nr = add(a, eps)\n"})},
      {"NoEpsilon", "layer_norm", written({.root = "r = sqrt(v)\n"})},
      {"EpsilonThatIsLearned", "layer_norm", written({.root = "a = add(v, w)\nr = sqrt(a)\n"})},
      {"MeanOfAnotherAxis", "layer_norm", written({.mean = first})},
      {"SquaresOverAnotherAxis", "layer_norm", written({.squares = first})},
      {"AxesThatAreNotLast", "layer_norm", written({.mean = first, .squares = first})},
      {"AxesThatAreNotInARow", "layer_norm",
       written({.x = "[batch,3,2,4] samples 0",
                .mean = "{axes=[1,3], keepdim=true}",
                .squares = "{axes=[1,3], keepdim=true}"})},
      {"AxesThatGoDropped", "layer_norm", written({.x = "[4,4]", .squares = "{axes=[-1], keepdim=false}"})},
      {"MeanWhoseAxisIsDropped", "layer_norm", written({.x = "[4,4]", .mean = "{axes=[-1], keepdim=false}"})},
      {"ScaleOfOneElement", "layer_norm",
       written({.end = "n = div(c, r)\ny = mul(n, w)\nz = neg(n)\n", .w = "w [1]", .outputs = "y z"}), "f64", true},
      {"ScaleByPlace", "layer_norm",
       written({.end = "n = div(c, r)\ny = mul(n, w)\nz = neg(n)\n", .w = "w [3,4]", .outputs = "y z"}), "f64", true},
      {"VarianceWithASecondReader", "layer_norm",
       written({.end = "n = div(c, r)\ny = mul(n, w)\nz = neg(v)\n", .outputs = "y z"})},
      {"VarianceThatIsAnOutput", "layer_norm", written({.outputs = "y v"})},
      {"ACubeForASquare", "layer_norm",
       "input x [batch,4] samples 0\nconstant eps [] 9\nconstant three [] 3\nm = mean(x) {axes=[-1], keepdim=true}\nc "
       "= sub(x, m)\n"
       "q = pow(c, three)\nv = mean(q) {axes=[-1], keepdim=true}\na = add(v, eps)\nr = rsqrt(a)\ny = mul(c, "
       "r)\noutputs y\n"},
      {"RmsOfAnotherNumerator", "rms_norm",
       "input x [batch,4] samples 0\ninput z [batch,4] samples 0\nconstant eps [] 1e-5\nq = mul(x, x)\nv = mean(q) "
       "{axes=[-1], "
       "keepdim=true}\na = add(v, eps)\nr = rsqrt(a)\ny = mul(z, r)\noutputs y\n"},
      {"RmsOfAProduct", "rms_norm",
       "input x [batch,4] samples 0\ninput z [batch,4] samples 0\nconstant eps [] 9\nq = mul(x, z)\nv = mean(q) "
       "{axes=[-1], "
       "keepdim=true}\na = add(v, eps)\nr = rsqrt(a)\ny = mul(x, r)\noutputs y\n"},
      {"RmsOverAnotherAxis", "rms_norm",
       "input x [batch,3,4] samples 0\nconstant eps [] 1e-5\nq = mul(x, x)\nv = mean(q) {axes=[1], keepdim=true}\na = "
       "add(v, eps)\nr = rsqrt(a)\ny = mul(x, r)\noutputs y\n"},
      {"RmsOfNormsThatAreSquared", "rms_norm",
       "parameter x [4]\nconstant eps [] 1e-5\nq = mul(x, x)\nv = mean(q) {axes=[0], keepdim=true}\na = add(v, eps)\nr "
       "= "
       "rsqrt(a)\nn = mul(x, r)\ny = mul(n, n)\noutputs y\n",
       "f64", true},
      {"LayerNormsThatAreDoubled", "layer_norm",
       "parameter x [4]\nparameter w [4]\nconstant eps [] 1e-5\nm = mean(x) {axes=[0], keepdim=true}\nc = sub(x, m)\nq "
       "= mul(c, c)\nv = mean(q) "
       "{axes=[0], keepdim=true}\na = add(v, eps)\nr = rsqrt(a)\nn = mul(c, r)\ns = mul(n, w)\ny = add(s, s)\noutputs "
       "y\n",
       "f64", true},
      {"LayerNormPlusWhatItIsMadeOf", "layer_norm",
       "parameter x [4]\nparameter w [4]\nconstant eps [] 1e-5\nm = mean(x) {axes=[0], keepdim=true}\nc = sub(x, m)\nq "
       "= mul(c, c)\nv = mean(q) "
       "{axes=[0], keepdim=true}\na = add(v, eps)\nr = rsqrt(a)\nn = mul(c, r)\ns = mul(n, w)\ny = add(s, c)\noutputs "
       "y\n"},
  };
}

// --- softmax, linear

std::string shares(const std::string& most, const std::string& sum, const std::string& outputs = "y") {
  return fmt::format(
      "input x [batch,4,4] samples 0\nm = amax(x) {}\nh = sub(x, m)\ne = exp(h)\ns = sum(e) {}\ny = div(e, s)\noutputs "
      "{}\n",
      most, sum, outputs);
}

std::vector<NearMiss> products_and_shares() {
  const std::string last = "{axes=[-1], keepdim=true}", other = "{axes=[1], keepdim=true}";
  return {
      {"Softmax", "softmax", shares(last, last), "f64", true},
      {"SoftmaxOverAnotherAxis", "softmax", shares(last, other)},
      {"SoftmaxOverTwoAxes", "softmax", shares("{axes=[1,2], keepdim=true}", "{axes=[1,2], keepdim=true}")},
      {"SoftmaxWhoseAxisIsDropped", "softmax",
       "input x [4,4]\nm = amax(x) {axes=[1], keepdim=true}\nh = sub(x, m)\ne = exp(h)\ns = sum(e) {axes=[1], "
       "keepdim=false}\ny = div(e, s)\n"
       "outputs y\n"},
      {"SoftmaxWhoseSumIsAnOutput", "softmax", shares(last, last, "y s")},
      {"SoftmaxWithoutAMaximum", "softmax",
       "input x [batch,4] samples 0\ne = exp(x)\ns = sum(e) {axes=[-1], keepdim=true}\ny = div(e, s)\noutputs y\n"},
      {"LogSoftmaxOfWhatIsNotShifted", "log_softmax",
       "input x [batch,4] samples 0\nm = amax(x) {axes=[-1], keepdim=true}\nh = sub(x, m)\ne = exp(h)\ns = sum(e) "
       "{axes=[-1], "
       "keepdim=true}\nl = log(s)\ny = sub(x, l)\noutputs y\n"},
      {"LinearOverWhatIsNoParameter", "linear",
       "input x [batch,4] samples 0\ninput w [4,5]\ny = matmul(x, w)\noutputs y\n"},
      {"LinearOverAChangedParameter", "linear",
       "input x [batch,4] samples 0\nparameter w [4,5]\nu = tanh(w)\ny = matmul(x, u)\noutputs y\n"},
      {"LinearOverAStack", "linear",
       "input x [batch,3,4] samples 0\nparameter w [1,4,5]\ny = matmul(x, w)\noutputs y\n"},
      {"LinearOfAVector", "linear", "parameter x [4]\nparameter w [4,5]\ny = matmul(x, w)\noutputs y\n"},
      {"LinearByTheLeft", "linear", "input x [batch,4,3] samples 0\nparameter w [4,4]\ny = matmul(w, x)\noutputs y\n"},
      {"LinearOfTheMatrixItself", "linear",
       "parameter w [4,4]\nt = permute(w) {dims=[1,0]}\ny = matmul(t, t)\noutputs y\n"},
  };
}

/// A bias that is none: the product becomes linear, and the sum stays.
TEST(FusionNearMisses, BiasesThatAreNone) {
  for (const std::string bias : {"parameter b [1]", "parameter b []", "parameter b [batch,5]",
                                 "input b [batch,5] samples 0", "parameter b [3,5]", "parameter b [3,1]"}) {
    if (bias.starts_with("parameter b [batch")) continue;  // no parameter has samples
    const bool by_place = bias.find("[3,") != std::string::npos;
    const std::string text =
        fmt::format("input x {}\nparameter w [4,5]\n{}\np = matmul(x, w)\ny = add(p, b)\noutputs y\n",
                    by_place ? "[batch,3,4] samples 0" : "[batch,4] samples 0", bias);
    const ir::Graph before = short_graph(text);
    ir::Graph after = before.clone();
    ASSERT_EQ(run_passes(after, {"fuse-linear"}), "");
    EXPECT_EQ(operators(after), (std::vector<std::string>{"linear", "add"})) << bias;
    EXPECT_LE(difference(numbers_of(before, 3).value(), numbers_of(after, 3).value()), 1e-12) << bias;
  }
}

// --- attention

struct Attention {
  std::string leaves = "", masked = "m = mul(s, c)\n", softmax = "{axis=-1}", outputs = "y";
  std::string keys = "input k [batch,2,3,4] samples 0\n", turn = "{dims=[0,1,3,2]}",
              v = "input v [batch,2,3,4] samples 0\n";
  std::string q = "input q [batch,2,3,4] samples 0\n";
};

std::string written(const Attention& given) {
  return fmt::format(
      "{}{}{}constant c [] 0.25\nconstant low [] -inf\nconstant small [] -1e4\n{}t = permute(k) {}\ns = matmul(q, "
      "t)\n{}w = "
      "softmax(m) {}\ny = matmul(w, v)\noutputs {}\n",
      given.q, given.keys, given.v, given.leaves, given.turn, given.masked, given.softmax, given.outputs);
}

std::string whole(const std::string& mask) {
  return "input q [batch,2,3,4] samples 0\ninput k [batch,2,3,4] samples 0\ninput v [batch,2,3,4] samples 0\nconstant "
         "n " +
         mask + "\ny = attention(q, k, v, n) {scale=0x1p-1, order=[0,1,2,3]}\noutputs y\n";
}

std::vector<NearMiss> attentions() {
  const std::string safe = "{axis=-1, hidden_rows=\"zero\"}";
  const std::string seen = "constant n bool [3,3] 1 0 0 1 1 0 1 1 1\n",
                    blind = "constant n bool [3,3] 0 0 0 1 1 0 1 1 1\n";
  const std::string pick = "m = where(n, s, low)\n", add = "m = add(s, n)\n",
                    shown = "constant no [] 0\nn = where(b, no, low)\n";
  return {
      {"Attention", "attention", written(Attention{}), "f64", true},
      {"AttentionOverQueries", "attention", written(Attention{.softmax = "{axis=-2}"})},
      {"AttentionOverHeads", "attention", written(Attention{.softmax = "{axis=1}"})},
      {"ScaleOfEachHead", "attention",
       written(Attention{.leaves = "parameter g [2,1,1]\n", .masked = "m = mul(s, g)\n"})},
      {"ScaleThatIsLearned", "attention",
       written(Attention{.leaves = "parameter g []\n", .masked = "m = mul(s, g)\n"})},
      {"ScaleOfMoreAxes", "attention",
       "parameter q [1,2,3,4]\nparameter k [1,2,3,4]\nparameter v [1,2,3,4]\nconstant c [1,1,1,1,1] 0.25\nt = "
       "permute(k) "
       "{dims=[0,1,3,2]}\ns = matmul(q, t)\nm = mul(s, c)\nw = softmax(m)\ny = matmul(w, v)\noutputs y\n"},
      {"WeightsThatAreAnOutput", "attention", written(Attention{.outputs = "y w"})},
      {"ScoresWithASecondReader", "attention",
       written(Attention{.masked = "z = neg(s)\nm = mul(s, c)\n", .outputs = "y z"})},
      {"KeysOfAnotherHead", "attention",
       "parameter q [2,2,3,4]\nparameter k [2,2,3,4]\nparameter v [2,2,3,4]\nt = permute(k) {dims=[-3,0,3,2]}\nm = "
       "matmul(q, t)\n"
       "w = softmax(m)\ny = matmul(w, v)\noutputs y\n",
       "f64", true},
      {"KeysOfOneHeadForAll", "attention", written(Attention{.keys = "input k [batch,1,3,4] samples 0\n"})},
      {"KeysOfOneSampleForAll", "attention", written(Attention{.keys = "input k [1,2,3,4]\n"})},
      {"ValuesOfOneHeadForAll", "attention", written(Attention{.v = "input v [batch,1,3,4] samples 0\n"})},
      {"ValuesOfAnotherWidth", "attention", written(Attention{.v = "input v [batch,2,3,5] samples 0\n"})},
      {"ValuesOfAnotherWidthAndRank", "attention", written(Attention{.v = "parameter v [3,4]\n"})},
      {"MaskThatMayHideRows", "attention", written(Attention{.leaves = "input n [3,3]\n", .masked = add})},
      {"MaskThatIsShown", "attention",
       written(Attention{.leaves = "input b bool [3,3]\n" + shown, .masked = add, .softmax = safe}), "f64", true},
      {"MaskOfNumbersThatNobodyKnows", "attention",
       written(Attention{.leaves = "input n [3,3]\n", .masked = add, .softmax = safe})},
      {"MaskThatTrains", "attention",
       written(Attention{
           .leaves = "input b bool [3,3]\nparameter g [3,3]\nn = where(b, g, low)\n", .masked = add, .softmax = safe})},
      {"MaskThatIsAParameter", "attention",
       written(Attention{.leaves = "parameter n [3,3]\n", .masked = add, .softmax = safe})},
      {"MaskOfThreeAxes", "attention",
       written(Attention{.leaves = "input b bool [2,3,3]\n" + shown, .masked = add, .softmax = safe})},
      {"MaskOfOneAxis", "attention",
       written(Attention{.leaves = "input b bool [3]\n" + shown, .masked = add, .softmax = safe})},
      {"MaskThatStretches", "attention",
       written(Attention{.leaves = "input b bool [batch,2,3,3] samples 0\n" + shown,
                         .masked = add,
                         .softmax = safe,
                         .keys = "parameter k [1,2,3,4]\n",
                         .v = "parameter v [1,2,3,4]\n",
                         .q = "parameter q [1,2,3,4]\n"})},
      {"ARowThatFiniteNumbersHide", "attention",
       written(Attention{.leaves = "constant n [3,3] -1e9 -1e9 -1e9 0 0 0 0 0 0\n", .masked = add})},
      {"ARowThatFiniteNumbersHideButForOne", "attention",
       written(Attention{.leaves = "constant n [3,3] -1e9 0 -1e9 0 0 0 0 0 0\n", .masked = add}), "f64", true},
      {"ScoresAsTheirMask", "attention", written(Attention{.masked = "m = add(s, s)\n", .softmax = safe})},
      {"Seen", "attention", written(Attention{.leaves = seen, .masked = pick}), "f64", true, true},
      {"LaterPlacesHiddenByNumbers", "attention",
       written(Attention{.leaves = "constant n [1,1,3,3] 0 -inf -3e38 0 0 -inf 0 0 0\n", .masked = add}), "f64", true,
       true},
      {"LaterPlacesThatAreHidden", "attention",
       written(Attention{.leaves = "constant n bool [3,3] 0 1 1 0 0 1 0 0 0\n", .masked = "m = where(n, low, s)\n"}),
       "f64", true, true},
      {"OneLaterPlaceThatIsSeen", "attention",
       written(Attention{.leaves = "constant n bool [3,3] 1 0 1 1 1 0 1 1 1\n", .masked = pick}), "f64", true},
      {"OneEarlierPlaceThatIsHidden", "attention",
       written(Attention{.leaves = "constant n bool [3,3] 1 0 0 1 1 0 0 1 1\n", .masked = pick}), "f64", true},
      {"EarlierPlacesThatAreHidden", "attention",
       written(Attention{.leaves = "constant n bool [3,3] 1 1 1 0 1 1 0 0 1\n", .masked = pick}), "f64", true},
      {"LaterPlacesWithABias", "attention",
       written(Attention{.leaves = "constant n [3,3] 0 -inf -inf 0.5 0 -inf 0 0 0\n", .masked = add}), "f64", true},
      {"LaterPlacesThatCountLess", "attention",
       written(Attention{.leaves = "constant n [3,3] 0 -9 -9 0 0 -9 0 0 0\n", .masked = add}), "f64", true},
      {"LaterPlacesOfEachHead", "attention",
       written(Attention{.leaves = "constant n bool [1,2,3,3] 1 0 0 1 1 0 1 1 1 1 0 0 1 1 0 1 1 1\n", .masked = pick}),
       "f64", true},
      {"WholeAttentionOfSeenPlaces", "attention", whole("bool [3,3] 1 0 0 1 1 0 1 1 1"), "f64", false, true},
      {"WholeAttentionOfAddedNumbers", "attention", whole("[1,1,3,3] 0 -inf -inf 0 0 -inf 0 0 0"), "f64", false, true},
      {"WholeAttentionOfHiddenPlaces", "attention", whole("bool [3,3] 0 1 1 0 0 1 0 0 0")},
      {"WholeAttentionOfALaterPlace", "attention", whole("bool [3,3] 1 1 0 1 1 0 1 1 1")},
      {"WholeAttentionOfSmallNumbers", "attention", whole("[3,3] 0 -1e4 -1e4 0 0 -1e4 0 0 0")},
      {"ARowThatSeesNothing", "attention", written(Attention{.leaves = blind, .masked = pick})},
      {"AHiddenRow", "attention",
       written(Attention{.leaves = "constant n bool [3,3] 1 1 1 0 1 0 0 0 0\n", .masked = "m = where(n, low, s)\n"})},
      {"ARowThatSeesNothingServes", "attention", written(Attention{.leaves = blind, .masked = pick, .softmax = safe}),
       "f64", true},
      {"AFillThatIsSmall", "attention", written(Attention{.leaves = seen, .masked = "m = where(n, s, small)\n"})},
      {"AFillThatIsSmallOfHiddenRows", "attention",
       written(Attention{.leaves = seen, .masked = "m = where(n, s, small)\n", .softmax = safe})},
      {"AFillThatIsLearned", "attention",
       written(Attention{.leaves = seen + "parameter g []\n", .masked = "m = where(n, s, g)\n", .softmax = safe})},
      {"AMaskOfAnInput", "attention", written(Attention{.leaves = "input n bool [3,3]\n", .masked = pick})},
      {"ValuesThatAreWeights", "attention",
       "input q [batch,2,3,3] samples 0\nt = permute(q) {dims=[0,1,3,2]}\ns = matmul(q, t)\nw = softmax(s)\ny = "
       "matmul(w, "
       "w)\noutputs y\n"},
      {"ValuesThatAreScores", "attention",
       "input q [batch,2,3,3] samples 0\nt = permute(q) {dims=[0,1,3,2]}\ns = matmul(q, t)\nw = softmax(s)\ny = "
       "matmul(w, "
       "s)\noutputs y\n"},
      {"ValuesThatAreTurnedKeys", "attention",
       "input q [batch,2,3,3] samples 0\ninput k [batch,2,3,3] samples 0\nt = permute(k) {dims=[0,1,3,2]}\ns = "
       "matmul(q, t)\nw = "
       "softmax(s)\ny = matmul(w, t)\noutputs y\n"},
      {"ScaledQueriesThatAreAll", "attention",
       "input x [batch,2,3,4] samples 0\nconstant c [] 0.25\nq = mul(x, c)\nt = permute(q) {dims=[0,1,3,2]}\ns = "
       "matmul(q, "
       "t)\nw = softmax(s)\ny = matmul(w, q)\noutputs y\n",
       "f64", true},
      {"KeysMadeOfScaledQueries", "attention",
       "input x [batch,2,3,4] samples 0\nconstant c [] 0.25\nconstant d [] 0.5\nq = mul(x, c)\nk = mul(q, d)\nt = "
       "permute(k) "
       "{dims=[0,1,3,2]}\ns = matmul(q, t)\nw = softmax(s)\ny = matmul(w, x)\noutputs y\n",
       "f64", true},
      {"QueriesMadeOfTurnedKeys", "attention",
       "input x [batch,2,3,3] samples 0\nconstant c [] 0.25\nt = permute(x) {dims=[0,1,3,2]}\ns = matmul(t, t)\nw = "
       "softmax(s)\ny = "
       "matmul(w, x)\noutputs y\n"},
  };
}

const auto kName = [](const auto& miss) { return miss.param.name; };
INSTANTIATE_TEST_SUITE_P(Activations, NearMissTest, ::testing::ValuesIn(activations()), kName);
INSTANTIATE_TEST_SUITE_P(Norms, NearMissTest, ::testing::ValuesIn(norms()), kName);
INSTANTIATE_TEST_SUITE_P(Products, NearMissTest, ::testing::ValuesIn(products_and_shares()), kName);
INSTANTIATE_TEST_SUITE_P(Attentions, NearMissTest, ::testing::ValuesIn(attentions()), kName);

}  // namespace
}  // namespace rannc::test
