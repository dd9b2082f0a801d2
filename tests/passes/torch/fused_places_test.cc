// Parts by constant places, biases of convolutions, permutations that meet: forms, and what is nearly one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/passes/torch/fused_forms.h"

namespace rannc::test {
namespace {

// --- selects

TEST(FusedSelects, AlongEveryAxis) {
  const std::string begin =
      "input x [batch,3,4] samples 0\nconstant first i64 [] 0\nconstant last i64 [] -1\nconstant "
      "row i32 [1] 2\n";
  const Names places = {"first", "last"};
  for (const std::string axis : {"1", "2", "-1", "-2"})
    for (const std::string& place : places)
      expect_becomes(begin + fmt::format("y = gather(x, {}) {{axis={}}}\noutputs y\n", place, axis), {"fuse-selects"},
                     {"slice", "squeeze"});
  expect_becomes(begin + "y = gather(x, row) {axis=1}\noutputs y\n", {"fuse-selects"}, {"slice"});
}

// As both exporters write queries, keys and values of one product.
TEST(FusedSelects, OfOneStack) {
  const std::string text =
      "input x [batch,5,24] samples 0\nconstant q i64 [] 0\nconstant k i64 [] 1\nconstant v i64 [] 2\na = reshape(x) "
      "{shape=[batch,5,3,2,4]}\nb = permute(a) {dims=[2,0,3,1,4]}\nc = gather(b, q) {axis=0}\nd = gather(b, k) "
      "{axis=0}\ne = gather(b, v) {axis=0}\nf = mul(c, d)\ny = add(f, e)\noutputs y\n";
  expect_becomes(text, {"fuse-selects"},
                 {"reshape", "permute", "slice", "squeeze", "slice", "squeeze", "slice", "squeeze", "mul", "add"});
}

TEST(FusedSelectsNearMisses, StayTheSameFunction) {
  const std::string begin =
      "input x [batch,3,4] samples 0\nparameter w [3,4]\nconstant two i64 [2] 0 2\nconstant square "
      "i64 [1,1] 1\nconstant first i64 [] 0\ninput at i64 []\n";
  for (const std::string line : {"y = gather(x, two) {axis=1}\n", "y = gather(x, square) {axis=1}\n",
                                 "y = gather(x, at) {axis=1}\n", "y = gather(w, first) {axis=0}\n"})
    expect_stays(begin + line + "outputs y\n", "fuse-selects");
  expect_stays("input x i64 [batch,3] samples 0\nconstant first i64 [] 0\ny = gather(x, first) {axis=1}\noutputs y\n",
               "fuse-selects");
}

// --- biases

const std::string kConvolution = "input x [batch,3,5,5] samples 0\nparameter w [4,3,3,3]\nparameter v [3,4,3,3]\n";

TEST(FusedConvolution, WithABiasOfEveryForm) {
  struct Form {
    std::string text;
    bool is_row;
  };
  const std::vector<Form> biases = {
      {"parameter b [4,1,1]\nc = identity(x)\n", false},
      {"parameter b [1,4,1,1]\n", false},
      {"parameter p [4]\nb = reshape(p) {shape=[1,4,1,1]}\n", true},
      {"parameter p [4]\nb = unsqueeze(p) {axes=[1,2]}\n", true},
      {"parameter p [4]\nq = unsqueeze(p) {axes=[0,2]}\nb = unsqueeze(q) {axes=[3]}\n", true},
      {"parameter p [2,2]\nb = reshape(p) {shape=[4,1,1]}\n", false}};
  for (const std::string conv : {"conv(x, w)", "conv(x, w) {strides=[2,2], pads=[1,1,1,1]}", "conv_transpose(x, v)"})
    for (const Form& form : biases)
      for (const std::string& end : turned("y", "add", "z", "b")) {
        Names expected = {conv.substr(0, conv.find('('))};
        if (!form.is_row) expected.insert(expected.begin(), "reshape");
        expect_becomes(kConvolution + form.text + "z = " + conv + "\n" + end + "outputs y\n",
                       {"fuse-conv-bias", "remove-dead"}, expected);
      }
}

TEST(FusedConvolution, OfOneAxisAndOfThree) {
  expect_becomes(
      "input x [batch,3,5] samples 0\nparameter w [4,3,3]\nparameter b [4,1]\nz = conv(x, w)\ny = add(z, "
      "b)\noutputs y\n",
      {"fuse-conv-bias"}, {"reshape", "conv"});
  expect_becomes(
      "input x [batch,2,3,3,3] samples 0\nparameter w [4,1,2,2,2]\nparameter b [4,1,1,1]\nz = conv(x, w) "
      "{groups=2}\ny = add(b, z)\noutputs y\n",
      {"fuse-conv-bias"}, {"reshape", "conv"});
}

TEST(FusedConvolutionNearMisses, StayTheSameFunction) {
  const std::string end = "z = conv(x, w)\ny = add(z, b)\noutputs y\n";
  const std::vector<std::string> misses = {
      kConvolution + "parameter b [3]\n" + end,      // along the last axis
      kConvolution + "parameter b [1,1,1]\n" + end,  // one for all channels
      kConvolution + "parameter b []\n" + end,
      kConvolution + "parameter b [3,1]\n" + end,                 // along another axis
      kConvolution + "parameter b [4,3,3]\n" + end,               // by place
      kConvolution + "parameter p [4,1,1]\nb = tanh(p)\n" + end,  // computed
      kConvolution + "input b [batch,4,1,1] samples 0\n" + end,   // of each sample
      kConvolution +
          "parameter p [4]\nb = reshape(p) {shape=[2,1,2,1]}\nz = conv(x, w)\na = reshape(z) "
          "{shape=[batch,2,2,3,3]}\nc = reshape(b) {shape=[2,2,1,1]}\ny = add(a, c)\noutputs y\n",
      kConvolution + "parameter a [4]\nparameter b [4,1,1]\nz = conv(x, w, a)\ny = add(z, b)\noutputs y\n",  // has one
      kConvolution + "parameter b [4,1,1]\nz = conv(x, w)\ny = add(z, b)\nu = exp(z)\noutputs y u\n",  // two readers
      kConvolution + "parameter b [4,1,1]\nz = conv(x, w)\ny = add(z, b)\noutputs y z\n",
      kConvolution + "parameter b [4,1,1]\nz = conv(x, w)\ny = sub(z, b)\noutputs y\n",
      "input x [batch,4,4,4] samples 0\nparameter w [4,4,1,1]\nparameter b [4,1]\nz = conv(x, w)\ny = add(z, "
      "b)\noutputs "
      "y\n",
  };
  for (const std::string& text : misses) expect_stays(text, "fuse-conv-bias");
}

// --- permutes

const std::string kImage =
    "input x [batch,3,4,2] samples 0\ninput z [batch,3,4,2] samples 0\nconstant half [] "
    "0.5\nparameter g [1]\nparameter scale [3]\n";
const std::string kThere = "a = permute(x) {dims=[0,2,3,1]}\n", kBack = "y = permute(f) {dims=[0,3,1,2]}\noutputs y\n";

TEST(FusedPermutes, AroundElementwiseTasksCancel) {
  struct Chain {
    std::string text;
    Names left;
  };
  const std::vector<Chain> chains = {
      {"f = gelu(a)\n", {"gelu"}},
      {"f = cast(a) {dtype=!f64}\n", {"cast"}},
      {"b = mul(a, half)\nf = tanh(b)\n", {"mul", "tanh"}},
      {"b = sub(half, a)\nc = relu(b)\nf = mul(c, g)\n", {"sub", "relu", "mul"}},
      {"b = permute(z) {dims=[0,2,3,1]}\nf = add(a, b)\n", {"add"}},
      {"b = permute(z) {dims=[0,-2,-1,1]}\nc = gelu(b)\nf = sub(a, c)\n", {"gelu", "sub"}},
      {"b = sigmoid(a)\nc = permute(z) {dims=[0,2,3,1]}\nd = mul(c, b)\nf = exp(d)\n", {"sigmoid", "mul", "exp"}},
      {"f = mul(a, a)\n", {"mul"}},
  };
  for (const Chain& chain : chains)
    expect_becomes(kImage + kThere + chain.text + kBack, {"fuse-permutes"}, joined(chain.left, {"identity"}));
  expect_becomes(kImage + kThere + "f = gelu(a)\nu = permute(f) {dims=[0,3,1,2]}\ny = relu(u)\noutputs y\n",
                 {"fuse-permutes"}, {"gelu", "relu"});
}

TEST(FusedPermutes, OfOtherOrdersBecomeOne) {
  expect_becomes(kImage + kThere + "f = gelu(a)\ny = permute(f) {dims=[0,1,3,2]}\noutputs y\n", {"fuse-permutes"},
                 {"gelu", "permute"});
  // Two become one even where none comes next.
  expect_becomes(kImage + kThere + "b = permute(z) {dims=[0,2,3,1]}\ny = add(a, b)\noutputs y\n", {"fuse-permutes"},
                 {"add", "permute"});
}

TEST(FusedPermutesNearMisses, StayTheSameFunction) {
  const std::vector<std::string> misses = {
      kImage + kThere + "y = gelu(a)\noutputs y\n",                           // no other one comes
      kImage + kThere + "f = gelu(a)\nu = exp(f)\n" + kBack + "outputs u\n",  // two readers
      kImage + kThere + "f = gelu(a)\n" + kBack + "outputs f\n",
      kImage + kThere + "u = exp(a)\nf = gelu(a)\n" + kBack + "outputs u\n",  // the first has two readers
      kImage + kThere + "f = mul(a, scale)\n" + kBack,                        // by the axis that is last between
      kImage + kThere + "f = softmax(a) {axis=-1}\n" + kBack,                 // along an axis
      kImage + kThere + "f = sum(a) {axes=[-1], keepdim=true}\n" + kBack,
      kImage + kThere + "b = permute(z) {dims=[0,3,2,1]}\nc = reshape(b) {shape=[batch,4,2,3]}\nf = add(a, c)\n" +
          kBack,
      "input x [batch,3,3,3] samples 0\ninput z [batch,3,3,3] samples 0\na = permute(x) {dims=[0,2,3,1]}\nb = "
      "permute(z) "
      "{dims=[0,3,1,2]}\nf = add(a, b)\n" +
          kBack,  // in another order
  };
  for (const std::string& text : misses) expect_stays(text, "fuse-permutes");
}

}  // namespace
}  // namespace rannc::test
