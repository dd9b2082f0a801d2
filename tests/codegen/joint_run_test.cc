// Joint graphs run to the gradients of LibTorch's tape, each task as often as it must, keeping what their types say.
#include "tests/codegen/joint_run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/training/differentiate.h"
#include "tests/codegen/random_program.h"
#include "tests/codegen/tape_gradients.h"

namespace rannc::test {
namespace {

using ir::Frequency;
using ir::Graph;
using ir::Joint;
using ir::ValueKind;

constexpr double kTolerance = 1e-10;  // of doubles, relative to the largest element of all gradients

/// Tensors of a planning graph's leaves; integers are words of a table of six, or classes of four.
runtime::GraphValues draw(const Graph& graph, int64_t batch) {
  runtime::GraphValues values(graph.value_count());
  for (const ValueId value : graph.values()) {
    if (graph.producer(value).valid()) continue;
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : *graph.type(value).shape) sizes.push_back(*dim.evaluate({{"batch", batch}}));
    const bool number = ir::is_float(graph.type(value).dtype);
    values[value.index()] = number ? at::randn(sizes, at::kDouble) * 0.7 : at::randint(0, 4, sizes, at::kLong);
  }
  return values;
}

/// Samples begin…end of each input and of each draw.
JointRun::MicroBatch part(const Graph& graph, const Joint& joint, const runtime::GraphValues& all, int64_t begin,
                          int64_t end) {
  JointRun::MicroBatch made{runtime::GraphValues(joint.graph.value_count()), {{"batch", end - begin}}};
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ValueKind::kInput && graph.kind(value) != ValueKind::kRandomInput) continue;
    const ValueId copy = joint.graph.find(graph.value(value).name);
    made.inputs[copy.index()] = all[value.index()]->slice(0, begin, end);
  }
  return made;
}

runtime::GraphValues leaves(const Graph& graph, const Joint& joint, const runtime::GraphValues& all) {
  runtime::GraphValues made(joint.graph.value_count());
  for (const ValueId value : graph.values()) {
    if (graph.producer(value).valid() || graph.kind(value) == ValueKind::kInput) continue;
    if (graph.kind(value) == ValueKind::kRandomInput) continue;
    made[joint.graph.find(graph.value(value).name).index()] = all[value.index()]->detach().clone();
  }
  return made;
}

struct Ran {
  JointRun::Step step;
  std::vector<uint64_t> calls;
};

Ran by_tasks(const Graph& graph, const Joint& joint, const runtime::GraphValues& all, const std::vector<double>& seeds,
             const std::vector<int64_t>& cuts, int steps = 1) {
  auto run = JointRun::load(joint, leaves(graph, joint, all));
  EXPECT_TRUE(run.ok()) << run.diagnostic().str();
  std::vector<JointRun::MicroBatch> parts;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) parts.push_back(part(graph, joint, all, cuts[i], cuts[i + 1]));
  Ran ran;
  for (int i = 0; i < steps; ++i) {
    auto step = run->step(parts, seeds);
    EXPECT_TRUE(step.ok()) << step.diagnostic().str();
    ran.step = *std::move(step);
  }
  ran.calls = run->calls();
  return ran;
}

std::map<std::string, at::Tensor> by_parameter(const Joint& joint, const JointRun::Step& step) {
  std::map<std::string, at::Tensor> sums;
  for (size_t i = 0; i < joint.gradients.size(); ++i) {
    at::Tensor& sum = sums[std::string(joint.graph.value(joint.gradients[i].parameter).name)];
    sum = sum.defined() ? sum + step.gradients[i] : step.gradients[i];
  }
  return sums;
}

void expect_equal(const std::map<std::string, at::Tensor>& found, const std::map<std::string, at::Tensor>& expected) {
  double scale = 1e-3;
  for (const auto& [name, gradient] : expected) scale = std::max(scale, gradient.abs().max().item<double>());
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(at::allclose(found.at(name), gradient, 0, kTolerance * scale)) << name;
  }
}

class RandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(RandomPrograms, HaveTheGradientsOfTheTape) {
  constexpr int kEach = 250;
  for (int i = 0; i < kEach; ++i) {
    const uint64_t seed = static_cast<uint64_t>(GetParam() * kEach + i);
    SCOPED_TRACE(seed);
    at::manual_seed(seed);
    const Graph graph = ir::testing::random_program(seed, 4 + seed % 24);
    const auto joint = passes::differentiate(graph);
    ASSERT_TRUE(joint.ok()) << joint.diagnostic().str();
    const auto wrong = ir::verify(*joint, graph);
    ASSERT_TRUE(wrong.empty()) << wrong[0].str();
    const runtime::GraphValues all = draw(graph, 6);
    const std::vector<double> seeds = {0.5, 2.0, 1.25};
    const std::vector<double> used(seeds.begin(), seeds.begin() + static_cast<std::ptrdiff_t>(graph.losses().size()));
    const Taped taped = gradients_by_tape(graph, {{"batch", 6}}, all, used).value();
    const Ran ran = by_tasks(graph, *joint, all, used, {0, 3, 5, 6});
    expect_equal(by_parameter(*joint, ran.step), taped.gradients);
    for (size_t term = 0; term < used.size(); ++term) {
      EXPECT_TRUE(at::allclose(ran.step.numerators[term], taped.numerators[term], 1e-12, 1e-12));
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomPrograms, ::testing::Range(0, 8));

TEST(JointRuns, EachTaskRunsAsOftenAsItMust) {
  const Graph graph = ir::testing::random_program(11, 40);
  const Joint joint = passes::differentiate(graph).value();
  const runtime::GraphValues all = draw(graph, 6);
  const std::vector<double> seeds(graph.losses().size(), 1.0);
  const Ran ran = by_tasks(graph, joint, all, seeds, {0, 3, 5, 6}, 2);
  const std::vector<Frequency> often = ir::execution_frequency(joint.graph);
  size_t once_a_step = 0;
  for (const TaskId task : joint.graph.tasks()) {
    const Frequency each = often[task.index()];
    once_a_step += each == Frequency::kStep;
    const uint64_t expected = each == Frequency::kLoad ? 1 : each == Frequency::kStep ? 2 : 6;
    EXPECT_EQ(ran.calls[task.index()], expected) << task.index() << " " << joint.graph.op(task).name;
  }
  EXPECT_GT(once_a_step, 2U);
}

// Equal micro-batches, so that their sum is known. What is made once a step gets the sum of its gradients, rounded
// once.
TEST(JointRuns, SumGradientsOf16BitsInFloat32) {
  const Graph graph = ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f16[batch,3] samples 0
input %target: f16[batch,3] samples 0
parameter %w: f16[3,3]
parameter %b: f16[3]
#0 %square: f16[3,3] = core.mul(%w, %w)
#1 %linear: f16[batch,3] samples 0 = core.linear(%x, %square)
#2 %y: f16[batch,3] samples 0 = core.add(%linear, %b)
#3 %sum: f16[] partial = core.mse_sum(%y, %target)
inputs [%x, %target]
outputs [%y]
loss %sum weight 0x1p+0
)",
                                      "t.rir")
                          .value();
  const Joint joint = passes::differentiate(graph).value();
  at::manual_seed(3);
  runtime::GraphValues all = draw(graph, 1);
  constexpr int64_t kCount = 24;
  for (const ValueId value : graph.values()) {
    if (!all[value.index()]) continue;
    all[value.index()] = all[value.index()]->to(at::kHalf);
    if (graph.kind(value) == ValueKind::kInput) all[value.index()] = all[value.index()]->expand({kCount, 3});
  }
  std::vector<int64_t> cuts(kCount + 1);
  std::iota(cuts.begin(), cuts.end(), 0);
  const auto one = by_parameter(joint, by_tasks(graph, joint, all, {1.0 / kCount}, {0, 1}).step);
  const auto sums = by_parameter(joint, by_tasks(graph, joint, all, {1.0 / kCount}, cuts).step);
  for (const auto& [name, limit] : {std::pair("b", 1e-6), std::pair("w", 2e-3)}) {
    EXPECT_EQ(sums.at(name).scalar_type(), at::kFloat) << name;
    const at::Tensor expected = one.at(name).to(at::kDouble) * kCount;
    EXPECT_LT(((sums.at(name) - expected).norm() / expected.norm()).item<double>(), limit) << name;
  }
}

TEST(JointRuns, KeepWhatTheirTypesSay) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = ir::testing::random_program(seed, 30);
    const Joint joint = passes::differentiate(graph).value();
    const runtime::GraphValues all = draw(graph, 64);
    const Ran ran = by_tasks(graph, joint, all, std::vector<double>(graph.losses().size(), 1.0), {0, 64});
    const auto expected = kept_bytes(joint, {{"batch", 64}});
    ASSERT_TRUE(expected.ok());
    EXPECT_NEAR(static_cast<double>(ran.step.kept_bytes), static_cast<double>(*expected),
                0.02 * static_cast<double>(*expected));
  }
}

}  // namespace
}  // namespace rannc::test
