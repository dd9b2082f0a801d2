// The explicit engine against the autograd engine on random models, cuts, micro-batches, recompute and splits.
#include <gtest/gtest.h>

#include <random>

#include "ir/graph/rewriter.h"
#include "ir/plan/stage_graph.h"
#include "runtime/engine/engine.h"
#include "tests/codegen/random_program.h"
#include "tests/runtime/support/local_run.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::testing {
namespace {

constexpr double kTolerance = 1e-10;  // of doubles, relative to the largest element of a tensor

/// Models of one case. The suite runs the first case, tier full all of them.
constexpr uint64_t kModels = 100;

std::vector<int64_t> sizes_of(const ir::ValueType& type, int64_t batch) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *type.shape) sizes.push_back(*dim.evaluate({{"batch", batch}}));
  return sizes;
}

void give_weights(ir::Graph& graph) {
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    const at::Tensor made = at::randn(sizes_of(graph.type(value), 1), at::kDouble) * 0.4;
    const auto* first = static_cast<const std::byte*>(made.const_data_ptr());
    graph.set_data(value, ir::TensorData::in_memory({first, first + made.nbytes()}));
  }
}

std::map<std::string, at::Tensor> batch_for(const ir::Graph& graph, int64_t samples) {
  std::map<std::string, at::Tensor> batch;
  for (const ValueId input : graph.inputs()) {
    const std::vector<int64_t> sizes = sizes_of(graph.type(input), samples);
    const bool integers = graph.type(input).dtype == ir::DType::kI64;
    batch[std::string(graph.value(input).name)] =
        integers ? at::randint(0, 4, sizes, at::kLong) : at::randn(sizes, at::kDouble);
  }
  return batch;
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
    std::mt19937_64 random(seed);
    at::manual_seed(seed);
    ir::Graph graph = ir::testing::random_program(seed, 4 + seed % 24);
    ir::remove_dead(graph);
    give_weights(graph);
    const PlanSpec spec = random_spec(random, graph.task_count());
    int64_t samples = 0;
    for (const uint32_t size : spec.micro_batches) samples += size;
    const auto batch = batch_for(graph, samples);
    const std::vector<double> denominators(graph.losses().size(), 1.0);
    const ir::Plan plan = cut(std::move(graph), spec);
    RunOptions options{.step = 3, .seed = seed};
    options.engine = "autograd";
    const Numbers expected = run_locally(plan, batch, denominators, options);
    options.engine = "explicit";
    expect_equal(run_locally(plan, batch, denominators, options), expected);
  }
}

TEST(ExplicitEngine, ABundleWithoutFunctionsIsRefused) {
  runtime::Bundle bundle;
  bundle.path = "old.rannc";
  bundle.plan = build_plan(skip_and_tie(ir::DType::kF32), {});
  bundle.plan.functions.clear();
  const auto loaded = runtime::find_engine("explicit").value()->load(bundle, StageId(0), runtime::Origins::kForgotten);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.diagnostic().str(),
            "old.rannc: error: the bundle has no stage functions, which the explicit engine runs: compile the model "
            "again, or use another engine");
}

}  // namespace
}  // namespace rannc::testing
