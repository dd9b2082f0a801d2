// What is normalised together, what trains, what is counted, and what stretches.
#include <cmath>

#include "tests/frontend/onnx/opset_cases.h"

namespace rannc::test {

namespace {

const Numbers kFour = {{"x", {1, 2, 3, 4}}};

std::vector<OpsetCase> softmax_cases() {
  const double all = std::exp(1) + std::exp(2) + std::exp(3) + std::exp(4), two = 1 + std::exp(1);
  std::vector<double> of_all, of_rows, log_of_all, log_of_rows;
  for (int i = 1; i <= 4; ++i) {
    of_all.push_back(std::exp(i) / all);
    log_of_all.push_back(i - std::log(all));
    of_rows.push_back(std::exp((i - 1) % 2) / two);
    log_of_rows.push_back((i - 1) % 2 - std::log(two));
  }
  const std::string head = "agraph (float[1, 2, 2] x) => (float[1, 2, 2] y) ";
  // From axis 1 on as if these were one axis, until 13 made it one axis, the last.
  return {
      {"Softmax", 7, head + "{ y = Softmax (x) }", kFour, of_all},
      {"Softmax", 11, head + "{ y = Softmax <axis = -2> (x) }", kFour, of_all},
      {"Softmax", 12, head + "{ y = Softmax <axis = 2> (x) }", kFour, of_rows},
      {"Softmax", 13, head + "{ y = Softmax (x) }", kFour, of_rows},
      {"LogSoftmax", 11, head + "{ y = LogSoftmax (x) }", kFour, log_of_all},
      {"LogSoftmax", 13, head + "{ y = LogSoftmax (x) }", kFour, log_of_rows},
  };
}

std::vector<OpsetCase> reduction_cases() {
  const std::string rows = "agraph (float[2, 2] x) => (float[2] y) ";
  const std::string operand = "agraph (float[2, 2] x) => (float[2] y) <int64[1] a = {-1}> ";
  std::vector<OpsetCase> cases = {
      {"ReduceSum", 7, rows + "{ y = ReduceSum <axes = [1], keepdims = 0> (x) }", kFour, {3, 7}},
      {"ReduceSum", 11, rows + "{ y = ReduceSum <axes = [-1], keepdims = 0> (x) }", kFour, {3, 7}},
      {"ReduceSum", 13, operand + "{ y = ReduceSum <keepdims = 0> (x, a) }", kFour, {3, 7}},
      {"ReduceSum", 13, "agraph (float[2, 2] x) => (float[1, 1] y) { y = ReduceSum (x) }", kFour, {10}},
      {"ReduceSum",
       13,
       "agraph (float[2, 2] x) => (float[2, 2] y) { y = ReduceSum <noop_with_empty_axes = 1> (x) }",
       kFour,
       {1, 2, 3, 4}},
      {"ReduceMax",
       20,
       "agraph (bool[2, 2] x) => (bool[2] y) <int64[1] a = {1}> { y = ReduceMax <keepdims = 0> (x, a) }",
       {{"x", {0, 1, 0, 0}}},
       {1, 0}},
      {"ReduceMin",
       20,
       "agraph (bool[2, 2] x) => (bool[2] y) <int64[1] a = {1}> { y = ReduceMin <keepdims = 0> (x, a) }",
       {{"x", {0, 1, 1, 1}}},
       {0, 1}},
      // Of none.
      {"ReduceMax",
       20,
       "agraph (float[2, 0] x) => (float[2] y) <int64[1] a = {1}> { y = ReduceMax <keepdims = 0> (x, a) }",
       {{"x", {}}},
       {-HUGE_VAL, -HUGE_VAL}},
      {"ReduceMin",
       20,
       "agraph (int32[2, 0] x) => (int32[2, 1] y) <int64[1] a = {1}> { y = ReduceMin (x, a) }",
       {{"x", {}}},
       {2147483647, 2147483647}},
      {"ReduceMax", 20, "agraph (uint8[0] x) => (uint8 y) { y = ReduceMax <keepdims = 0> (x) }", {{"x", {}}}, {0}},
      {"ReduceMin", 20, "agraph (bool[0] x) => (bool y) { y = ReduceMin <keepdims = 0> (x) }", {{"x", {}}}, {1}},
      // Of elements as they are, though there is nothing to sum over.
      {"ReduceSumSquare",
       18,
       "agraph (float[2, 2] x) => (float[2, 2] y) { y = ReduceSumSquare <noop_with_empty_axes = 1> (x) }",
       kFour,
       {1, 4, 9, 16}},
  };
  const std::vector<std::pair<std::string, std::vector<double>>> eighteen = {
      {"ReduceMax", {2, 4}},
      {"ReduceMin", {1, 3}},
      {"ReduceMean", {1.5, 3.5}},
      {"ReduceProd", {2, 12}},
      {"ReduceL1", {3, 7}},
      {"ReduceL2", {std::sqrt(5.0), 5}},
      {"ReduceSumSquare", {5, 25}},
      {"ReduceLogSum", {std::log(3), std::log(7)}},
      {"ReduceLogSumExp", {std::log(std::exp(1) + std::exp(2)), std::log(std::exp(3) + std::exp(4))}}};
  for (const auto& [op, expected] : eighteen) {
    cases.push_back({op, 7, rows + "{ y = " + op + " <axes = [1], keepdims = 0> (x) }", kFour, expected});
    for (const int opset : {11, 12, 17}) {
      cases.push_back({op, opset, rows + "{ y = " + op + " <axes = [-1], keepdims = 0> (x) }", kFour, expected});
    }
    cases.push_back({op, 18, operand + "{ y = " + op + " <keepdims = 0> (x, a) }", kFour, expected});
  }
  return cases;
}

std::vector<OpsetCase> normalisation_cases() {
  const std::string channels = "<float[2] s = {2, 1}, float[2] b = {0, 1}, float[2] m = {1, 2}, float[2] v = {4, 9}> ";
  const std::string head = "agraph (float[2, 2] x) => (float[2, 2] y) " + channels;
  const std::string fitted = "{ y = BatchNormalization <epsilon = 0.0> (x, s, b, m, v) }";
  const Numbers x = {{"x", {1, 2, 3, 6}}};
  const std::vector<double> by_running = {0, 1, 2, 1 + 4.0 / 3}, by_batch = {-2, 0, 2, 2};
  // Two groups of two channels; each channel of each sample has one element.
  const Numbers groups = {{"x", {1, 3, 2, 6}}};
  const std::string per_channel =
      "agraph (float[1, 4, 1] x) => (float[1, 4, 1] y) <float[4] s = {1, 2, 3, 4}, float[4] b = {0, 0, 1, 1}> "
      "{ y = GroupNormalization <num_groups = 2, epsilon = 0.0> (x, s, b) }";
  const std::string per_group =
      "agraph (float[1, 4, 1] x) => (float[1, 4, 1] y) <float[2] s = {2, 3}, float[2] b = {0, 1}> "
      "{ y = GroupNormalization <num_groups = 2, epsilon = 0.0> (x, s, b) }";
  return {
      {"BatchNormalization", 7, head + fitted, x, by_running},
      {"BatchNormalization", 9, head + fitted, x, by_running},
      {"BatchNormalization", 15, head + fitted, x, by_running},
      // Trains where the statistics are asked for; since 14 where it is told to.
      {"BatchNormalization", 7,
       head + "{ y, mean, var, saved_mean, saved_var = BatchNormalization <epsilon = 0.0> (x, s, b, m, v) }", x,
       by_batch},
      {"BatchNormalization", 14, head + fitted, x, by_running},
      {"BatchNormalization", 14,
       head + "{ y, mean, var = BatchNormalization <epsilon = 0.0, training_mode = 1> (x, s, b, m, v) }", x, by_batch},
      {"BatchNormalization",
       14,
       "agraph (float[2, 2] x) => (float[2] mean) " + channels +
           "{ y, mean, var = BatchNormalization <training_mode = 1, momentum = 0.5> (x, s, b, m, v) }",
       x,
       {1.5, 3}},
      // The variance of all elements, not an estimate from them.
      {"BatchNormalization",
       15,
       "agraph (float[2, 2] x) => (float[2] var) " + channels +
           "{ y, mean, var = BatchNormalization <training_mode = 1, momentum = 0.5> (x, s, b, m, v) }",
       x,
       {2.5, 6.5}},
      {"GroupNormalization", 18, per_group, groups, {-2, 2, -2, 4}},
      {"GroupNormalization", 21, per_channel, groups, {-1, 2, -2, 5}},
      {"MeanVarianceNormalization",
       9,
       "agraph (float[2, 2, 1, 1] x) => (float[2, 2, 1, 1] y) { y = MeanVarianceNormalization (x) }",
       x,
       {-1, -1, 1, 1}},
      {"MeanVarianceNormalization",
       13,
       "agraph (float[2, 2, 1, 1] x) => (float[2, 2, 1, 1] y) { y = MeanVarianceNormalization (x) }",
       x,
       {-1, -1, 1, 1}},
      {"LayerNormalization",
       17,
       "agraph (float[1, 2] x) => (float[1, 2] y) <float[2] s = {2, 3}> { y = LayerNormalization <epsilon = 0.0> (x, "
       "s) }",
       {{"x", {1, 5}}},
       {-2, 3}},
      {"RMSNormalization",
       23,
       "agraph (float[1, 2] x) => (float[1, 2] y) <float[2] s = {1, 2}> { y = RMSNormalization <epsilon = 0.0> (x, s) "
       "}",
       {{"x", {1, 7}}},
       {0.2, 2.8}},
  };
}

std::vector<OpsetCase> window_cases() {
  const Numbers five = {{"x", {1, 2, 3, 4, 5}}};
  const auto pool = [](const std::string& op, int size, const std::string& attributes) {
    return "agraph (float[1, 1, 5] x) => (float[1, 1, " + std::to_string(size) + "] y) { y = " + op + " <" +
           attributes + "> (x) }";
  };
  return {
      {"AveragePool", 7, pool("AveragePool", 2, "kernel_shape = [2], strides = [2]"), five, {1.5, 3.5}},
      {"AveragePool",
       7,
       pool("AveragePool", 3, "kernel_shape = [3], strides = [2], pads = [1, 1]"),
       five,
       {1.5, 3, 4.5}},
      {"AveragePool",
       7,
       pool("AveragePool", 3, "kernel_shape = [3], strides = [2], pads = [1, 1], count_include_pad = 1"),
       five,
       {1, 3, 3}},
      // What the last window lacks is not counted.
      {"AveragePool",
       10,
       pool("AveragePool", 3, "kernel_shape = [2], strides = [2], ceil_mode = 1"),
       five,
       {1.5, 3.5, 5}},
      {"AveragePool",
       19,
       pool("AveragePool", 3, "kernel_shape = [2], strides = [2], ceil_mode = 1, count_include_pad = 1"),
       five,
       {1.5, 3.5, 5}},
      {"AveragePool",
       22,
       pool("AveragePool", 2, "kernel_shape = [3], strides = [3], pads = [1, 1], ceil_mode = 1"),
       five,
       {1.5, 4}},
      {"MaxPool", 7, pool("MaxPool", 2, "kernel_shape = [2], strides = [2]"), five, {2, 4}},
      {"MaxPool", 10, pool("MaxPool", 3, "kernel_shape = [2], strides = [2], ceil_mode = 1"), five, {2, 4, 5}},
      {"MaxPool", 10, pool("MaxPool", 3, "kernel_shape = [2], dilations = [2]"), five, {3, 4, 5}},
      // No window begins in what is padded after the last element.
      {"MaxPool",
       22,
       pool("MaxPool", 2, "kernel_shape = [3], strides = [3], pads = [1, 1], ceil_mode = 1"),
       five,
       {2, 5}},
  };
}

std::vector<OpsetCase> elementwise_cases() {
  const std::string two = "agraph (float[2, 2] x) => (float[2, 2] y) ";
  const std::string row = two + "<float[2] r = {2, 3}> ";
  return {
      {"Clip", 7, two + "{ y = Clip <min = 2.0, max = 3.0> (x) }", kFour, {2, 2, 3, 3}},
      {"Clip", 11, two + "<float a = {2}, float b = {3}> { y = Clip (x, a, b) }", kFour, {2, 2, 3, 3}},
      {"Clip", 11, two + "<float b = {3}> { y = Clip (x, , b) }", kFour, {1, 2, 3, 3}},
      {"Clip", 12, "agraph (int32[4] x) => (int32[4] y) <int32 a = {2}> { y = Clip (x, a) }", kFour, {2, 2, 3, 4}},
      // What was for inference alone trains where it is told to.
      // The upper bound wins.
      {"Clip", 13, two + "<float a = {3}, float b = {2}> { y = Clip (x, a, b) }", kFour, {2, 2, 2, 2}},
      // The sign of the divisor, or of the dividend.
      {"Mod", 10, "agraph (int64[4] x) => (int64[4] y) <int64 z = {-3}> { y = Mod (x, z) }", kFour, {-2, -1, 0, -2}},
      {"Mod",
       13,
       "agraph (float[4] x) => (float[4] y) <float z = {-3}> { y = Mod <fmod = 1> (x, z) }",
       kFour,
       {1, 2, 0, 1}},
      {"Dropout", 7, two + "{ y = Dropout <ratio = 0.9> (x) }", kFour, {1, 2, 3, 4}},
      {"Dropout", 10, "agraph (float[2, 2] x) => (bool[2, 2] m) { y, m = Dropout (x) }", kFour, {1, 1, 1, 1}},
      {"Dropout", 12, two + "<float p = {0.9}> { y = Dropout (x, p) }", kFour, {1, 2, 3, 4}},
      {"Dropout", 12, two + "<float p = {0.9}, bool t = {0}> { y, m = Dropout (x, p, t) }", kFour, {1, 2, 3, 4}},
      {"Dropout",
       13,
       "agraph (float[2, 2] x) => (bool[2, 2] m) <float p = {0}, bool t = {1}> { y, m = Dropout (x, p, t) }",
       kFour,
       {1, 1, 1, 1}},
      {"Max",
       7,
       "agraph (float[4] x) => (float[4] y) <float[4] z = {2, 2, 2, 9}> { y = Max (x, z) }",
       kFour,
       {2, 2, 3, 9}},
      {"Max", 8, row + "{ y = Max (x, r) }", kFour, {2, 3, 3, 4}},
      {"Min", 8, row + "{ y = Min (x, r) }", kFour, {1, 2, 2, 3}},
      {"Sum", 8, row + "{ y = Sum (x, r, x) }", kFour, {4, 7, 8, 11}},
      {"Mean", 8, row + "{ y = Mean (x, r) }", kFour, {1.5, 2.5, 2.5, 3.5}},
      {"Max", 12, "agraph (int64[4] x) => (int64[4] y) <int64 z = {2}> { y = Max (x, z) }", kFour, {2, 2, 3, 4}},
      {"PRelu",
       9,
       "agraph (float[2, 2] x) => (float[2, 2] y) <float[2, 1] s = {2, 3}> { y = PRelu (x, s) }",
       {{"x", {-1, 1, -1, 2}}},
       {-2, 1, -3, 2}},
      {"Gemm", 7, row + "{ y = Gemm (x, x, r) }", kFour, {9, 13, 17, 25}},
      {"Gemm", 11, two + "{ y = Gemm (x, x) }", kFour, {7, 10, 15, 22}},
      {"Equal", 7, "agraph (int64[4] x) => (bool[4] y) <int64 z = {2}> { y = Equal (x, z) }", kFour, {0, 1, 0, 0}},
      {"Equal", 11, "agraph (float[4] x) => (bool[4] y) <float z = {2}> { y = Equal (x, z) }", kFour, {0, 1, 0, 0}},
      {"Greater",
       7,
       "agraph (float[4] x) => (bool[4] y) <float[1] z = {2}> { y = Greater (x, z) }",
       kFour,
       {0, 0, 1, 1}},
      {"Greater", 9, "agraph (int32[4] x) => (bool[4] y) <int32 z = {2}> { y = Greater (x, z) }", kFour, {0, 0, 1, 1}},
      // The exponent may have a type of its own.
      {"Pow", 7, two + "<float z = {2}> { y = Pow (x, z) }", kFour, {1, 4, 9, 16}},
      {"Pow", 12, two + "<int64 z = {2}> { y = Pow (x, z) }", kFour, {1, 4, 9, 16}},
      {"Pow", 15, "agraph (int64[4] x) => (int64[4] y) <float z = {2}> { y = Pow (x, z) }", kFour, {1, 4, 9, 16}},
      // Towards zero.
      {"Cast",
       7,
       "agraph (float[4] x) => (int32[4] y) { y = Cast <to = 6> (x) }",
       {{"x", {-1.7, -0.2, 0.9, 2.5}}},
       {-1, 0, 0, 2}},
      {"Cast",
       13,
       "agraph (float[4] x) => (bool[4] y) { y = Cast <to = 9> (x) }",
       {{"x", {-0.5, 0, 0.5, 2}}},
       {1, 0, 1, 1}},
      {"Cast",
       19,
       "agraph (float[4] x) => (bfloat16[4] y) { y = Cast <saturate = 1, to = 16> (x) }",
       {{"x", {1, 257, -258.9, 0}}},
       {1, 256, -258, 0}},
      {"IsInf",
       10,
       "agraph (float[3] x) => (bool[3] y) { y = IsInf <detect_negative = 0> (x) }",
       {{"x", {HUGE_VAL, -HUGE_VAL, 1}}},
       {1, 0, 0}},
      {"HardSwish",
       14,
       "agraph (float[3] x) => (float[3] y) { y = HardSwish (x) }",
       {{"x", {-4, 2, 5}}},
       {0, 5.0 / 3, 5}},
      {"Gelu",
       20,
       "agraph (float[2] x) => (float[2] y) { y = Gelu (x) }",
       {{"x", {-1, 2}}},
       {-0.5 * std::erfc(std::sqrt(0.5)), 2 - std::erfc(std::sqrt(2.0))}},
      // Numbers drawn, which the run takes for one half.
      {"RandomUniform",
       7,
       "agraph () => (float[2] y) { y = RandomUniform <shape = [2], low = 1.0, high = 4.0> () }",
       {},
       {2.5, 2.5}},
      {"RandomUniform", 22, "agraph () => (float[2] y) { y = RandomUniform <shape = [2]> () }", {}, {0.5, 0.5}},
      {"RandomNormal",
       7,
       "agraph () => (float[2] y) { y = RandomNormal <shape = [2], mean = 1.0, scale = 4.0> () }",
       {},
       {3, 3}},
      {"RandomNormal",
       22,
       "agraph () => (double[2] y) { y = RandomNormal <shape = [2], dtype = 11> () }",
       {},
       {0.5, 0.5}},
      {"RandomUniformLike", 7, two + "{ y = RandomUniformLike <low = -1.0> (x) }", kFour, {0, 0, 0, 0}},
      {"RandomUniformLike", 22, two + "{ y = RandomUniformLike (x) }", kFour, {0.5, 0.5, 0.5, 0.5}},
      {"RandomNormalLike", 7, two + "{ y = RandomNormalLike (x) }", kFour, {0.5, 0.5, 0.5, 0.5}},
      {"RandomNormalLike", 22, two + "{ y = RandomNormalLike <scale = 2.0> (x) }", kFour, {1, 1, 1, 1}},
      {"Multinomial",
       7,
       "agraph (float[2, 3] x) => (int32[2, 2] y) { y = Multinomial <sample_size = 2> (x) }",
       {{"x", {1, 1, 1, 3, 0, 0}}},
       {1, 1, 0, 0}},
      {"Multinomial",
       22,
       "agraph (float16[2, 3] x) => (int64[2, 1] y) { y = Multinomial <dtype = 7> (x) }",
       {{"x", {0, 0, 3, 1, 1, 1}}},
       {2, 1}},
      {"Swish",
       24,
       "agraph (float[2] x) => (float[2] y) { y = Swish <alpha = 2.0> (x) }",
       {{"x", {-1, 2}}},
       {-1 / (1 + std::exp(2)), 2 / (1 + std::exp(-4))}},
  };
}

}  // namespace

std::vector<OpsetCase> layer_cases() {
  std::vector<OpsetCase> cases = softmax_cases();
  for (auto* more : {reduction_cases, normalisation_cases, window_cases, elementwise_cases}) {
    for (OpsetCase& c : more()) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace rannc::test
