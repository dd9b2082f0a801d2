// Tasks that do not depend on samples: priced once per step, however many micro-batches it has.
#include <gtest/gtest.h>

#include "ir/verify.h"
#include "partition/cost/analytic.h"
#include "partition/model/plan_model.h"
#include "tests/support/planning.h"
#include "tests/support/short_graph.h"
#include "tests/support/small_plan.h"

namespace rannc::partition {
namespace {

// Task 0 runs at loading, tasks 1 and 4 once per step.
constexpr char kModel[] = R"(input x [batch,64] samples 0
parameter v [64,64]
parameter w [64,64]
constant half [] 0.5
quarter = mul(half, half)
v2 = mul(v, v)
a = linear(x, v2)
b = mul(a, quarter)
w2 = mul(w, w)
c = linear(b, w2)
outputs c
)";
constexpr uint32_t kSamples = 8;

ir::Graph model() { return test::short_graph(kModel, "f32"); }

PlanOptions options_of(uint32_t devices, uint64_t micro_batches) {
  PlanOptions options;
  options.cluster = preset_cluster("rannc-1x8").value().first(devices);
  options.costs = analytic_costs();
  options.mini_batch = kSamples;
  options.micro_batches = {micro_batches};
  options.optimizer.name = "adam";
  options.constraints.stages = devices;
  return options;
}

PlannedModel planned(const ir::Graph& graph, const PlanOptions& options) {
  auto outcome = plan_model(graph, testing::atoms_of(graph), test::with_passes(graph, options)).value();
  PlannedModel model = std::get<PlannedModel>(std::move(outcome));
  EXPECT_TRUE(ir::verify(model.plan).empty());
  return model;
}

/// Cost of a task for one sample, or for any number of samples of a once-per-step task.
TaskCost cost_of(const ir::Graph& graph, uint32_t task, uint64_t samples) {
  const auto roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  const TaskFacts facts = task_facts(graph, TaskId(task), roles, samples, {}).value();
  return analytic_costs()->price(facts, samples, preset_cluster("rannc-1x8")->kinds.front()).value();
}

int64_t up(double ns) { return static_cast<int64_t>(std::ceil(ns)); }

TEST(OncePerStep, IsNoPartOfAMicroBatch) {
  const ir::Graph graph = model();
  for (const uint64_t micro_batches : {1, 2, 8}) {
    SCOPED_TRACE(micro_batches);
    const PlannedModel found = planned(graph, options_of(1, micro_batches));
    const uint64_t samples = kSamples / micro_batches;
    double forward = 0, backward = 0;
    for (const uint32_t task : {2, 3, 5}) {
      forward += cost_of(graph, task, samples).forward_ns;
      backward += cost_of(graph, task, samples).backward_ns();
    }
    ASSERT_EQ(found.plan.stage_times.size(), 1u);
    const ir::StageTime& time = found.plan.stage_times[0];
    EXPECT_EQ(time.forward_ns, up(forward));
    EXPECT_EQ(time.backward_ns, up(backward));
    const TaskCost once = cost_of(graph, 1, samples);
    ASSERT_EQ(found.plan.begin_ns.size(), 1u);
    EXPECT_EQ(found.plan.begin_ns[0], up(2 * once.forward_ns));
    const ir::FinishTime& finish = found.plan.finish_times[0];
    EXPECT_EQ(finish.gradients_ns, up(2 * once.backward_ns()));
    EXPECT_EQ(found.plan.step_ns, static_cast<int64_t>(micro_batches) * (time.forward_ns + time.backward_ns) +
                                      found.plan.begin_ns[0] + finish.gradients_ns + finish.optimizer_ns);
    EXPECT_NEAR(found.stages.step_ns, static_cast<double>(found.plan.step_ns), 2.0 * micro_batches + 3);
    EXPECT_LE(found.stages.lower_bound, found.stages.step_ns);
  }
}

TEST(OncePerStep, ResultsAreHeldLikeBuffers) {
  const PlannedModel found = planned(model(), options_of(1, 4));
  double held = 0;
  for (const double bytes : found.problem.buffer_bytes) held += bytes;
  for (const SharedHolding& shared : found.problem.shared) {
    held += shared.kind == SharedHolding::Kind::kBuffer ? shared.bytes : 0;
  }
  constexpr double kWeight = 64 * 64 * 4;
  EXPECT_EQ(held, 2 * kWeight + 2 * kWeight + 4 + 4) << "v2, w2, gradients of both factors, half and quarter";
}

TEST(OncePerStep, CountsInTheStageThatReadsIt) {
  const ir::Graph graph = model();
  const PlannedModel found = planned(graph, options_of(2, 4));
  ASSERT_EQ(found.plan.begin_ns.size(), 2u);
  const int64_t once = up(cost_of(graph, 1, 1).forward_ns);
  EXPECT_EQ(found.plan.begin_ns, (std::vector<int64_t>{once, once}));
  EXPECT_NEAR(found.stages.step_ns / static_cast<double>(found.plan.step_ns), 1, 1e-3);
}

TEST(OncePerStep, IsPricedForInference) {
  const ir::Graph graph = model();
  PlanOptions options = options_of(1, 4);
  options.training = false;
  const PlannedModel found = planned(graph, options);
  EXPECT_TRUE(found.plan.finish_times.empty());
  ASSERT_EQ(found.plan.begin_ns.size(), 1u);
  EXPECT_EQ(found.plan.step_ns, 4 * found.plan.stage_times[0].forward_ns + found.plan.begin_ns[0]);
}

TEST(OncePerStep, PlansWithoutSuchTasksHaveNoTimeOfABeginning) {
  const ir::Graph graph =
      test::short_graph("input x [batch,64] samples 0\nparameter v [64,64]\na = linear(x, v)\noutputs a\n", "f32");
  EXPECT_TRUE(planned(graph, options_of(1, 2)).plan.begin_ns.empty());
}

/// The gradient of a result of P is a weight gradient, as it is added up.
TEST(OncePerStep, ItsResultsAreWeightsOfTheirReaders) {
  const ir::Graph graph = model();
  const auto roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  EXPECT_EQ(roles[graph.find("v2").index()], ir::GradientRole::kWeight);
  EXPECT_EQ(roles[graph.find("quarter").index()], ir::GradientRole::kNone);
  EXPECT_EQ(roles[graph.find("a").index()], ir::GradientRole::kSample);
  EXPECT_EQ(cost_of(graph, 2, 1).input_gradient_ns, 0);
  EXPECT_GT(cost_of(graph, 2, 1).weight_gradient_ns, 0);
  EXPECT_GT(cost_of(graph, 5, 1).input_gradient_ns, 0);
  EXPECT_GT(cost_of(graph, 5, 1).weight_gradient_ns, 0);
}

}  // namespace
}  // namespace rannc::partition
