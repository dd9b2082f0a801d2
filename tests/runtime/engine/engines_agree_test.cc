// The explicit engine against LibTorch's autograd on random models, cuts, micro-batches, recompute and splits.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "ir/graph/rewriter.h"
#include "ir/plan/stage_graph.h"
#include "ir/text/text.h"
#include "passes/training/cut_functions.h"
#include "passes/training/selective_recompute.h"
#include "runtime/engine/engine.h"
#include "tests/codegen/random_program.h"
#include "tests/runtime/support/local_run.h"
#include "tests/runtime/support/numbers_of_models.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/taped_run.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::testing {
namespace {

constexpr double kTolerance = 1e-10;  // of doubles, relative to the largest element of a tensor

/// Models of one case. The suite runs the first case, tier full all of them.
constexpr uint64_t kModels = 100;

void give_weights(ir::Graph& graph) {
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    const at::Tensor made = at::randn(sizes_of(graph.type(value), 1), at::kDouble) * 0.4;
    const auto* first = static_cast<const std::byte*>(made.const_data_ptr());
    graph.set_data(value, ir::TensorData::in_memory({first, first + made.nbytes()}));
  }
}

int64_t samples_of(const PlanSpec& spec) {
  return std::accumulate(spec.micro_batches.begin(), spec.micro_batches.end(), int64_t{0});
}

PlanSpec random_spec(std::mt19937_64& random, uint32_t tasks) {
  PlanSpec spec;
  const size_t stages = 1 + random() % 3;
  for (size_t i = 1; i < stages; ++i) spec.cuts.push_back(static_cast<uint32_t>(tasks * i / stages));
  spec.micro_batches.assign(1 + random() % 3, 3);
  spec.micro_batches.back() -= random() % 2;
  spec.early_backward = random() % 2 == 0;
  spec.recompute = random() % 3 == 0;
  spec.split_backward = random() % 2 == 0;
  return spec;
}

/// A model with weights and a mini-batch, and how it is cut.
struct RandomModel {
  ir::Graph graph;
  PlanSpec spec;
  std::map<std::string, at::Tensor> batch;
  std::vector<double> denominators;
};

RandomModel random_model(uint64_t seed) {
  std::mt19937_64 random(seed);
  at::manual_seed(seed);
  RandomModel model{
      .graph = ir::testing::random_program(seed, 4 + seed % 24), .spec = {}, .batch = {}, .denominators = {}};
  ir::remove_dead(model.graph);
  give_weights(model.graph);
  model.spec = random_spec(random, model.graph.task_count());
  model.batch = batch_for(model.graph, samples_of(model.spec));
  model.denominators.assign(model.graph.losses().size(), 1.0);
  return model;
}

/// Cuts the model as specified, or not at all if a stage would only have tasks that each of its readers repeats.
ir::Plan cut(ir::Graph graph, PlanSpec spec) {
  ir::Plan plan = build_plan(graph.clone(), spec);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (!ir::stage_outputs(plan, StageId::from(s)).empty()) continue;
    spec.cuts.clear();
    return build_plan(std::move(graph), spec);
  }
  return plan;
}

double off(const at::Tensor& found, const at::Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  return ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-3)).item<double>();
}

void expect_equal(const Numbers& found, const Numbers& expected) {
  EXPECT_NEAR(found.loss, expected.loss, kTolerance * std::max(1.0, std::abs(expected.loss)));
  ASSERT_EQ(found.outputs.size(), expected.outputs.size());
  for (const auto& [name, tensor] : expected.outputs)
    EXPECT_LT(off(found.outputs.at(name), tensor), kTolerance) << name;
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, tensor] : expected.gradients) {
    EXPECT_LT(off(found.gradients.at(name), tensor), kTolerance) << "gradient of " << name;
  }
}

class EnginesAgree : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Random, EnginesAgree, ::testing::Range<uint64_t>(0, 20));

TEST_P(EnginesAgree, OnRandomModels) {
  const uint64_t first = 1 + GetParam() * kModels;
  for (uint64_t seed = first; seed < first + kModels && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomModel model = random_model(seed);
    const ir::Plan plan = cut(std::move(model.graph), model.spec);
    const RunOptions options{.step = 3, .seed = seed, .engine = "explicit"};
    expect_equal(run_locally(plan, model.batch, model.denominators, options),
                 run_taped(plan, model.batch, model.denominators, options));
  }
}

/// Random costs, so that the hull has many points.
passes::RecomputeCosts random_costs(const ir::Joint& joint, std::mt19937_64& random) {
  passes::RecomputeCosts costs;
  for (uint32_t i = 0; i < joint.graph.value_count(); ++i) {
    costs.bytes.push_back(static_cast<int64_t>(random() % 100));
    costs.random_ns.push_back(static_cast<int64_t>(random() % 100));
  }
  for (uint32_t i = 0; i < joint.graph.task_count(); ++i) {
    costs.forward_ns.push_back(static_cast<int64_t>(random() % 100));
  }
  return costs;
}

/// Runs a model at each point of the hull of its stages. Returns the number of points.
size_t expect_bits_at_every_point(const ir::Graph& graph, PlanSpec spec, const std::map<std::string, at::Tensor>& batch,
                                  const std::vector<double>& denominators, const RunOptions& options) {
  spec.recompute = false;
  const Numbers expected = run_locally(cut(graph.clone(), spec), batch, denominators, options);
  spec.recompute = true;
  ir::Plan plan = cut(graph.clone(), spec);
  size_t points = 1;
  for (size_t at = 0; at < points; ++at) {
    SCOPED_TRACE(::testing::Message() << "point " << at);
    std::mt19937_64 random(options.seed);
    const auto done = passes::cut_functions(plan, [&](StageId, const ir::Joint& joint) {
      const auto hull = passes::SelectiveRecompute(joint, random_costs(joint, random)).hull();
      points = std::max(points, hull.size());
      return hull[std::min(at, hull.size() - 1)].kept;
    });
    EXPECT_TRUE(done.ok()) << done.diagnostic().str();
    expect_same_bits(run_locally(plan, batch, denominators, options), expected);
  }
  return points;
}

TEST_P(EnginesAgree, WithAndWithoutSelectiveRecompute) {
  constexpr uint64_t kSelective = 25;
  const uint64_t first = 1 + GetParam() * kSelective;
  size_t points = 0;
  for (uint64_t seed = first; seed < first + kSelective && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const RandomModel model = random_model(seed);
    points += expect_bits_at_every_point(model.graph, model.spec, model.batch, model.denominators,
                                         {.step = 3, .seed = seed, .engine = "explicit"});
  }
  EXPECT_GE(points, 2 * kSelective);
}

/// Points of the hulls of a model under several costs, each of which gives the bits of a run without recompute.
size_t exact_points(ir::Graph (*model)(ir::DType), std::vector<uint32_t> cuts) {
  const ir::Graph graph = model(ir::DType::kF64);
  const PlanSpec spec{.cuts = std::move(cuts), .micro_batches = {3, 2}};
  size_t points = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    points += expect_bits_at_every_point(graph, spec, batch_for(graph, 5), {60.0},
                                         {.seed = seed, .steps = 2, .engine = "explicit", .commit = true});
  }
  return points;
}

TEST(ExplicitEngine, SelectiveRecomputeAddsRunningStatisticsOnce) {
  EXPECT_GE(exact_points(norm_model, {}), 8U);
  EXPECT_GE(exact_points(norm_model, {2}), 5U);
  EXPECT_GE(exact_points(joint_norm_model, {}), 4U);
}

TEST(ExplicitEngine, SelectiveRecomputeKeepsMasksOrGeneratesThemAgain) {
  EXPECT_GE(exact_points(dropout_model, {}), 8U);
  EXPECT_GE(exact_points(noise_model, {2}), 8U);
}

/// Convolutions and normalizations with biases. `second`: further attributes of the second convolution.
std::string images(const std::string& second) {
  return R"(rannc.graph 1
batch batch
input %x: f64[batch,2,6,6] samples 0
input %target: f64[batch,4,3,3] samples 0
parameter %w0: f64[4,2,3,3]
parameter %b0: f64[4]
parameter %s0: f64[4]
parameter %t0: f64[4]
parameter %w1: f64[4,4,1,1]
parameter %b1: f64[4]
parameter %s1: f64[3]
parameter %t1: f64[3]
#0 %a: f64[batch,4,6,6] samples 0 = core.conv(%x, %w0, %b0) {pads = [1,1,1,1]}
#1 %b: f64[batch,4,6,6] samples 0 = core.group_norm(%a, %s0, %t0) {groups = 2}
#2 %c: f64[batch,4,3,3] samples 0 = core.conv(%b, %w1, %b1) {strides = [2,2])" +
         second + R"(}
#3 %d: f64[batch,4,3,3] samples 0 = core.layer_norm(%c, %s1, %t1)
#4 %l: f64[] partial = core.mse_sum(%d, %target)
inputs [%x, %target]
outputs [%d]
loss %l weight 0x1p+0
)";
}

TEST(ExplicitEngine, MergedKernelsGiveTheGradientsOfTheTape) {
  at::manual_seed(3);
  for (const char* second : {"", ", algorithm = \"linear\", channels_last = true", ", channels_last = true"}) {
    for (const bool split : {false, true}) {
      SCOPED_TRACE(::testing::Message() << second << (split ? " split" : ""));
      ir::Graph graph = ir::parse_graph(images(second), "images.rir").value();
      give_weights(graph);
      const auto batch = batch_for(graph, 5);
      const ir::Plan plan =
          build_plan(std::move(graph), {.cuts = {2}, .micro_batches = {3, 2}, .split_backward = split});
      expect_equal(run_locally(plan, batch, {1.0}, {.engine = "explicit"}), run_taped(plan, batch, {1.0}));
    }
  }
}

TEST(ExplicitEngine, ABundleWithoutFunctionsIsRefused) {
  runtime::Bundle bundle;
  bundle.path = "old.rannc";
  bundle.plan = build_plan(skip_and_tie(ir::DType::kF32), {});
  bundle.plan.functions.clear();
  const auto loaded =
      runtime::find_engine("explicit").value()->load(bundle, StageId(0), runtime::Origins::kForgotten, runtime::cpu());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.diagnostic().str(),
            "old.rannc: error: the bundle has no stage functions, which the explicit engine runs: compile the model "
            "again, or use another engine");
}

}  // namespace
}  // namespace rannc::testing
