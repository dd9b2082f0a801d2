// Normalisations with a batch symbol, and the core operators that they become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "tests/frontend/support/samples_apart.h"

namespace rannc::test {
namespace {

using testing::ElementsAre;

std::vector<std::string> ops(const std::string& graph, int opset) {
  const auto imported = import_graph(graph, opset);
  if (!imported.ok()) return {imported.diagnostic().str()};
  std::vector<std::string> names;
  for (const TaskId task : imported->tasks()) names.push_back(imported->op(task).name.substr(5));
  return names;
}

const std::string kImage = "agraph (float[batch, 6, 2, 2] x, float[6] s, float[6] b) => (float[batch, 6, 2, 2] y) ";
const Numbers kNumbers = {{"x", spread(72)}, {"s", spread(6, 2)}, {"b", spread(6, 3)}};

TEST(GroupNormalization, IsOneOperator) {
  const std::string graph = kImage + "{ y = GroupNormalization <num_groups = 3> (x, s, b) }";
  EXPECT_THAT(ops(graph, 21), ElementsAre("group_norm"));
  EXPECT_EQ(fault_of_samples(graph, 21, kNumbers, 2), "");
}

TEST(GroupNormalization, ScaledPerGroupBefore21) {
  const std::string graph =
      "agraph (float[batch, 6, 2, 2] x, float[3] s, float[3] b) => (float[batch, 6, 2, 2] y) "
      "{ y = GroupNormalization <num_groups = 3> (x, s, b) }";
  EXPECT_EQ(fault_of_samples(graph, 18, {{"x", spread(72)}, {"s", spread(3, 2)}, {"b", spread(3, 3)}}, 2), "");
}

TEST(GroupNormalization, GroupsDivideChannels) {
  const auto refused = import_graph(kImage + "{ y = GroupNormalization <num_groups = 4> (x, s, b) }", 21);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().message, testing::HasSubstr("6 channels in 4 groups"));
}

/// PyTorch's exports before opset 21; `after` scales what the groups have become.
std::string written_out(const std::string& ones, const std::string& after) {
  return "agraph (float[batch, 6, 2, 2] x, float[6, 1, 1] s, float[6, 1, 1] b) => (float[batch, 6, 2, 2] y) <float[3] "
         "o = {" +
         ones +
         "}, float[3] z = {0, 0, 0}, int64[3] rows = {0, 3, -1}> { r = Reshape (x, rows)\n "
         "n = InstanceNormalization (r, o, z)\n back = Shape (x)\n g = Reshape (n, back)\n " +
         after + " }";
}

TEST(GroupNormalization, IsRecognisedWhereItIsWrittenOut) {
  const Numbers numbers = {{"x", spread(72)}, {"s", spread(6, 2)}, {"b", spread(6, 3)}};
  const std::string plain = written_out("1, 1, 1", "m = Mul (g, s)\n y = Add (m, b)");
  const std::string turned = written_out("1, 1, 1", "m = Mul (s, g)\n y = Add (b, m)");
  for (const std::string& graph : {plain, turned}) {
    const auto run = run_onnx(graph, 17, numbers);
    ASSERT_TRUE(run.ok()) << run.diagnostic().str();
    const auto& last = run->graph.attributes(run->graph.producer(run->graph.outputs()[0]));
    EXPECT_EQ(run->graph.op(run->graph.producer(run->graph.outputs()[0])).name, "core.group_norm");
    EXPECT_EQ(last.integer("groups"), 3);
    EXPECT_FALSE(run->graph.find("o").valid()) << "ones that no module has are gone";
    EXPECT_EQ(fault_of_samples(graph, 17, numbers, 2), "");
  }
  // The same numbers as the operator gives.
  const auto whole = run_onnx(
      "agraph (float[batch, 6, 2, 2] x, float[6] s, float[6] b) => (float[batch, 6, 2, 2] y) "
      "{ y = GroupNormalization <num_groups = 3> (x, s, b) }",
      21, numbers);
  ASSERT_TRUE(whole.ok()) << whole.diagnostic().str();
  EXPECT_THAT(run_onnx(plain, 17, numbers)->numbers[0],
              testing::Pointwise(testing::DoubleNear(1e-6), whole->numbers[0]));
}

TEST(GroupNormalization, IsLeftWhereItIsSomethingElse) {
  const Numbers numbers = {{"x", spread(72)}, {"s", spread(6, 2)}, {"b", spread(6, 3)}};
  for (const auto& [ones, after, why] : std::vector<std::array<std::string, 3>>{
           {"1, 2, 1", "m = Mul (g, s)\n y = Add (m, b)", "a scale of its own"},
           {"1, 1, 1", "m = Mul (g, s)\n q = Add (m, g)\n y = Add (q, b)", "the sum is of something else"}}) {
    const auto run = run_onnx(written_out(ones, after), 17, numbers);
    ASSERT_TRUE(run.ok()) << run.diagnostic().str();
    EXPECT_EQ(run->graph.op(run->graph.producer(run->graph.outputs()[0])).name, "core.add") << why;
    EXPECT_EQ(fault_of_samples(written_out(ones, after), 17, numbers, 2), "") << why;
  }
}

TEST(InstanceNormalization, IsAGroupPerChannel) {
  const std::string graph = kImage + "{ y = InstanceNormalization (x, s, b) }";
  EXPECT_THAT(ops(graph, 17), ElementsAre("group_norm"));
  EXPECT_EQ(fault_of_samples(graph, 7, kNumbers, 2), "");
  EXPECT_EQ(fault_of_samples(graph, 22, kNumbers, 2), "");
}

TEST(LayerNormalization, KeepsSamplesApart) {
  const std::string head = "agraph (float[batch, 4, 6] x, float[6] s, float[6] b) => (float[batch, 4, 6] y";
  const Numbers numbers = {{"x", spread(72)}, {"s", spread(6, 2)}, {"b", spread(6, 3)}};
  EXPECT_THAT(ops(head + ") { y = LayerNormalization (x, s, b) }", 17), ElementsAre("layer_norm"));
  EXPECT_EQ(fault_of_samples(head + ") { y = LayerNormalization (x, s, b) }", 17, numbers, 2), "");
  // Mean and inverse deviation as outputs.
  EXPECT_EQ(fault_of_samples(head + ", float[batch, 4, 1] m, float[batch, 4, 1] r) "
                                    "{ y, m, r = LayerNormalization (x, s, b) }",
                             17, numbers, 2),
            "");
  EXPECT_EQ(fault_of_samples("agraph (float[batch, 4, 6] x, float[4, 6] s) => (float[batch, 4, 6] y, "
                             "float[batch, 1, 1] m) { y, m = LayerNormalization <axis = 1> (x, s) }",
                             17, {{"x", spread(72)}, {"s", spread(24, 2)}}, 1),
            "");
}

/// As exporters write a batch normalisation that keeps no running statistics.
std::string of_the_batch(const std::string& mode) {
  return "agraph (float[4, 3, 2] x, float[3] s, float[3] b) => (float[4, 3, 2] y) { "
         "m = ReduceMean <axes = [0, 2], keepdims = 0> (x)\n w = ReduceMean <axes = [0, 2], keepdims = 1> (x)\n "
         "d = Sub (x, w)\n q = Mul (d, d)\n v = ReduceMean <axes = [0, 2], keepdims = 0> (q)\n "
         "y = BatchNormalization " +
         mode + " (x, s, b, m, v) }";
}

TEST(BatchNormalization, ByComputedStatisticsKeepsNone) {
  const auto trained = import_graph(of_the_batch("<training_mode = 1>"), 17);
  ASSERT_TRUE(trained.ok()) << trained.diagnostic().str();
  const TaskId task = trained->producer(trained->outputs()[0]);
  EXPECT_EQ(trained->op(task).name, "core.batch_norm");
  EXPECT_TRUE(std::get<bool>(*trained->attributes(task).find("own_statistics")));
  for (const size_t statistics : {3, 4}) {
    EXPECT_EQ(trained->op(trained->producer(trained->inputs(task)[statistics])).name, "core.full");
  }
}

// LibTorch has no gradient by running statistics.
TEST(BatchNormalization, InEvaluationIsArithmeticWhereStatisticsAreComputed) {
  const auto names = ops(of_the_batch(""), 17);
  EXPECT_EQ(std::count(names.begin(), names.end(), "batch_norm"), 0);
  const Numbers numbers = {{"x", spread(24)}, {"s", spread(3, 2)}, {"b", spread(3, 3)}};
  const auto written = run_onnx(of_the_batch(""), 17, numbers);
  const auto trained = run_onnx(of_the_batch("<training_mode = 1>"), 17, numbers);
  ASSERT_TRUE(written.ok() && trained.ok());
  EXPECT_THAT(written->numbers[0], testing::Pointwise(testing::DoubleNear(1e-6), trained->numbers[0]));
}

TEST(OtherNormalizations, KeepSamplesApart) {
  const std::string head = "agraph (float[batch, 4, 6] x, float[6] s) => (float[batch, 4, 6] y) ";
  const Numbers numbers = {{"x", spread(72)}, {"s", spread(6, 2)}};
  EXPECT_EQ(fault_of_samples(head + "{ y = RMSNormalization (x, s) }", 23, numbers, 1), "");
  const std::string scaled = head + "{ z = Mul (x, s)\n y = ";
  EXPECT_EQ(fault_of_samples(scaled + "LpNormalization <p = 1, axis = 1> (z) }", 7, numbers, 1), "");
  EXPECT_EQ(fault_of_samples(scaled + "LpNormalization <p = 2> (z) }", 22, numbers, 1), "");
  EXPECT_EQ(fault_of_samples(scaled + "MeanVarianceNormalization <axes = [1, 2]> (z) }", 13, numbers, 1), "");
  EXPECT_EQ(fault_of_samples(scaled + "MeanVarianceNormalization <axes = [2]> (z) }", 9, numbers, 1), "");
}

/// The gradient at `w` of the sum of y, each element times a number of its own, where y is made of a sample x = w.
std::vector<double> gradient_at(const std::vector<double>& w, const std::string& call, int opset,
                                const std::string& made = "float[batch, 2] y") {
  const auto run = run_onnx("agraph (float[batch, 2] zero, float[2] w) => (" + made +
                                ") <float[1] s = {0.25}> { x = Add (zero, w)\n y = " + call + " }",
                            opset, {{"zero", {0, 0}}, {"w", w}});
  EXPECT_TRUE(run.ok()) << run.diagnostic().str();
  if (!run.ok()) return {};
  auto found = gradients_of(run->graph, run->inputs);
  EXPECT_TRUE(found.ok()) << found.diagnostic().str();
  if (!found.ok()) return {};
  const ir::StoredTensor& gradient = found->at("w");
  return ir::decode_numbers(gradient.type, gradient.data, 2).value();
}

/// PyTorch exports its norms so.
TEST(Gradients, OfNormsOfZeroAreFinite) {
  EXPECT_THAT(gradient_at({0, 0}, "ReduceL2 <axes = [1]> (x)", 13, "float[batch, 1] y"), ElementsAre(0, 0));
  for (const double each : gradient_at({0, 0}, "LpNormalization <p = 2> (x)", 13)) EXPECT_TRUE(std::isfinite(each));
}

TEST(Norms, OfSixteenBitsDoNotOverflow) {
  const auto run = run_onnx(
      "agraph (float[batch, 2] x) => (float[batch, 1] y) "
      "{ h = Cast <to = 10> (x)\n n = ReduceL2 <axes = [1]> (h)\n y = Cast <to = 1> (n) }",
      13, {{"x", {3000, 4000}}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  EXPECT_THAT(run->numbers[0], ElementsAre(5000));
}

/// As PyTorch's: of what is not positive.
TEST(Gradients, OfPReluAtZeroIsTheSlope) {
  const std::vector<double> w = {0, -1}, plain = gradient_at(w, "Identity (x)", 16);
  EXPECT_THAT(gradient_at(w, "PRelu (x, s)", 16), ElementsAre(plain[0] / 4, plain[1] / 4));
}

TEST(OtherNormalizations, OfTheBatchAreRefusedByName) {
  const auto refused =
      run_onnx("agraph (float[batch, 4, 6, 2] x) => (float[batch, 4, 6, 2] y) { y = MeanVarianceNormalization (x) }",
               13, {{"x", spread(144)}});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), testing::HasSubstr("MeanVarianceNormalization"));
}

}  // namespace
}  // namespace rannc::test
