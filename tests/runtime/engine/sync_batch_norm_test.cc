// Replicas that normalise together give the numbers of one process that has the samples of all.
#include "runtime/engine/internal/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ir/verify.h"
#include "runtime/engine/tensor.h"
#include "runtime/transport/transport_local.h"
#include "tests/runtime/support/local_run.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/runtime/transport/forwarding_transport.h"
#include "tests/runtime/transport/joined_ends.h"

namespace rannc::testing {
namespace {

using Batch = std::map<std::string, at::Tensor>;
using Sizes = std::vector<uint32_t>;

// Of doubles. What reaches the first layer sums to nearly nothing, since the second takes means away.
constexpr double kTolerance = 1e-11;
constexpr int64_t kSamples = 11;

/// Samples of different size and spread, so that parts of them have other moments than all.
Batch batch_of(at::ScalarType type) {
  at::manual_seed(3);
  const at::Tensor spread = at::linspace(0.25, 2, kSamples, at::kDouble).view({-1, 1, 1});
  return {{"x", (at::randn({kSamples, 3, 4}, at::kDouble) * spread + spread).to(type)},
          {"target", at::randn({kSamples, 3, 4}, at::kDouble).to(type)}};
}

at::ScalarType scalar(ir::DType dtype) {
  return dtype == ir::DType::kF64 ? at::kDouble : dtype == ir::DType::kF32 ? at::kFloat : at::kBFloat16;
}

Numbers run(ir::Graph (*model)(ir::DType), const PlanSpec& spec, RunOptions options = {},
            ir::DType dtype = ir::DType::kF64) {
  options.commit = options.training;
  const Batch batch = batch_of(scalar(dtype));
  const ir::Plan plan = build_plan(model(dtype), spec);
  EXPECT_TRUE(ir::verify(plan).empty()) << ir::verify(plan)[0].str();
  return run_locally(plan, batch, {static_cast<double>(batch.at("target").numel())}, options);
}

double difference(const at::Tensor& found, const at::Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  const at::Tensor wide = expected.to(at::kDouble);
  return ((found.to(at::kDouble) - wide).abs().max() / wide.abs().max().clamp_min(1e-30)).item<double>();
}

/// The largest relative difference of all that a step makes.
double difference(const Numbers& found, const Numbers& expected) {
  double worst = std::abs(found.loss - expected.loss) / std::abs(expected.loss);
  const auto look = [&](const auto& own, const auto& others) {
    EXPECT_EQ(own.size(), others.size());
    for (const auto& [name, tensor] : others) worst = std::max(worst, difference(own.at(name), tensor));
  };
  EXPECT_GE(expected.gradients.size(), 2U);
  look(found.outputs, expected.outputs);
  look(found.gradients, expected.gradients);
  look(found.buffers, expected.buffers);
  return worst;
}

void expect_same_bits(const Numbers& found, const Numbers& expected) {
  EXPECT_EQ(found.loss, expected.loss);
  for (const auto& [name, tensor] : expected.outputs) EXPECT_TRUE(found.outputs.at(name).equal(tensor)) << name;
  for (const auto& [name, tensor] : expected.gradients) EXPECT_TRUE(found.gradients.at(name).equal(tensor)) << name;
  for (const auto& [name, tensor] : expected.buffers) EXPECT_TRUE(found.buffers.at(name).equal(tensor)) << name;
}

const std::vector<Sizes> kMicroBatches = {{11}, {4, 4, 3}};

/// Uneven shares of both numbers of micro-batches; one stage, or one for each normalisation.
std::vector<PlanSpec> replicated(const Sizes& micro_batches) {
  return {{.replicas = {2}, .micro_batches = micro_batches},
          {.replicas = {3}, .micro_batches = micro_batches},
          {.cuts = {2}, .replicas = {2, 1}, .micro_batches = micro_batches},
          {.cuts = {1}, .replicas = {3, 2}, .micro_batches = micro_batches, .early_backward = false},
          {.cuts = {2}, .replicas = {1, 3}, .micro_batches = micro_batches, .split_backward = true}};
}

TEST(SyncBatchNorm, EqualsOneProcessOverTheSameMicroBatches) {
  for (const Sizes& sizes : kMicroBatches) {
    const Numbers expected = run(norm_model, {.micro_batches = sizes});
    for (const PlanSpec& spec : replicated(sizes)) {
      SCOPED_TRACE(::testing::PrintToString(spec.replicas) + ::testing::PrintToString(sizes));
      EXPECT_LT(difference(run(joint_norm_model, spec), expected), kTolerance);
      // What the comparison rests on: each replica by itself is far off.
      EXPECT_GT(difference(run(norm_model, spec), expected), 1e-2);
    }
  }
}

/// What is not made of small differences.
Numbers of_second_layer(Numbers numbers) {
  numbers.gradients.erase("scale0");
  numbers.gradients.erase("bias0");
  return numbers;
}

// As near to double precision as one process of that type is.
TEST(SyncBatchNorm, IsAsGoodAsOneProcessInNarrowTypes) {
  const PlanSpec whole = {.micro_batches = {11}}, parts = {.cuts = {2}, .replicas = {3, 2}, .micro_batches = {11}};
  const Numbers exact = of_second_layer(run(norm_model, whole));
  for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kBF16}) {
    const auto error = [&](ir::Graph (*model)(ir::DType), const PlanSpec& spec) {
      return difference(of_second_layer(run(model, spec, {}, dtype)), exact);
    };
    const double usual = error(norm_model, whole);
    EXPECT_LT(error(joint_norm_model, parts), 4 * usual) << str(dtype);
    EXPECT_GT(error(norm_model, parts), 8 * usual) << str(dtype);
  }
}

// A replica of one sample with one element a channel has no variance of its own.
TEST(SyncBatchNorm, OneElementAChannelIsEnough) {
  Batch batch = batch_of(at::kDouble);
  for (auto& [name, tensor] : batch) tensor = tensor.narrow(0, 0, 3);
  const auto step = [&](ir::Graph graph, const PlanSpec& spec) {
    return run_locally(build_plan(std::move(graph), spec), batch, {9}, {.commit = true});
  };
  const PlanSpec whole = {.micro_batches = {3}}, parts = {.replicas = {3}, .micro_batches = {3}};
  EXPECT_LT(difference(step(joint_norm_model(ir::DType::kF64), parts), step(norm_model(ir::DType::kF64), whole)),
            kTolerance);
}

TEST(SyncBatchNorm, RecomputationDoesNotChangeABit) {
  for (const Sizes& sizes : kMicroBatches) {
    for (PlanSpec spec : replicated(sizes)) {
      const Numbers kept = run(joint_norm_model, spec, {}, ir::DType::kF32);
      spec.recompute = true;
      expect_same_bits(run(joint_norm_model, spec, {}, ir::DType::kF32), kept);
    }
  }
}

TEST(SyncBatchNorm, TransportsGiveTheSameBits) {
  for (PlanSpec spec : replicated({4, 4, 3})) {
    for (const bool recompute : {false, true}) {
      spec.recompute = recompute;
      const uint32_t devices = std::accumulate(spec.replicas.begin(), spec.replicas.end(), 0U);
      Ends ends = gloo_ends(devices);
      expect_same_bits(run(joint_norm_model, spec, {.transports = ends}, ir::DType::kF32),
                       run(joint_norm_model, spec, {}, ir::DType::kF32));
      leave(ends);
    }
  }
}

TEST(SyncBatchNorm, StepsFollowEachOther) {
  const PlanSpec spec = {.cuts = {2}, .replicas = {3, 2}, .micro_batches = {4, 4, 3}};
  const PlanSpec whole = {.micro_batches = {4, 4, 3}};
  EXPECT_LT(difference(run(joint_norm_model, spec, {.steps = 3}), run(norm_model, whole, {.steps = 3})), kTolerance);
}

TEST(SyncBatchNorm, OneReplicaIsPlainBatchNormalisation) {
  for (const PlanSpec& spec :
       std::vector<PlanSpec>{{.micro_batches = {4, 4, 3}}, {.cuts = {2}, .micro_batches = {11}, .recompute = true}}) {
    expect_same_bits(run(joint_norm_model, spec, {}, ir::DType::kF32), run(norm_model, spec, {}, ir::DType::kF32));
  }
}

TEST(SyncBatchNorm, EvaluationReadsRunningStatistics) {
  const PlanSpec spec = {.replicas = {3}, .micro_batches = {4, 4, 3}};
  const RunOptions evaluate = {.training = false};
  expect_same_bits(run(joint_norm_model, spec, evaluate), run(norm_model, spec, evaluate));
}

/// Ends the run of a device in its first sums.
class FailingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Result<runtime::Values> all_reduce(const runtime::CollectiveKey& key, std::span<const DeviceId> members,
                                     runtime::Values values) override {
    if (key.part == fails_at) return error("the cable was cut");
    return ForwardingTransport::all_reduce(key, members, std::move(values));
  }

  uint32_t fails_at = 0;
};

// Parts 0 and 1 are sums of the forward pass, 2 is one of the backward pass.
TEST(SyncBatchNorm, WhatFailsInAPassEndsAllAndSaysWhere) {
  for (const uint32_t part : {0U, 1U, 2U}) {
    SCOPED_TRACE(part);
    Ends ends = runtime::make_local_transports(2, std::chrono::seconds(60));
    auto failing = std::make_unique<FailingTransport>(std::move(ends[1]));
    failing->fails_at = part;
    ends[1] = std::move(failing);
    std::string said;
    try {
      run(joint_norm_model, {.replicas = {2}, .micro_batches = {11}}, {.transports = ends});
    } catch (const Error& failure) {
      said = failure.what();
    }
    EXPECT_THAT(said, ::testing::HasSubstr("the cable was cut"));
    EXPECT_THAT(said, ::testing::HasSubstr(part < 2 ? "forward (F0.0) failed" : "backward (B0.0) failed"));
    EXPECT_THAT(said, ::testing::HasSubstr("device 1, stage 0, micro-batch 0"));
  }
}

/// Of two replicas this is the first; the other one is in normalisation 7.
class OtherElsewhere final : public runtime::ReplicaSums {
 public:
  uint32_t replicas() const override { return 2; }
  uint32_t replica() const override { return 0; }
  Result<runtime::Value> sum(runtime::Value own) override {
    at::Tensor total = runtime::to_tensor(own).clone();
    (total.dim() == 2 ? total[1] : total)[0] += 7;
    return runtime::to_value(total);
  }
};

// As where a branch that depends on data keeps a gradient away from one replica: sums of other things are never used.
TEST(SyncBatchNorm, ReplicasInDifferentNormalisationsAreAnError) {
  const at::Tensor numbers = at::ones({3}, at::kDouble);
  for (const size_t index : {7U, 2U}) {
    runtime::SyncBatchNorm norms;
    OtherElsewhere others;
    norms.begin_pass(&others);
    if (index == 7) {
      norms.moments(index, {numbers, numbers, 4});
      norms.sum(index, numbers);
      EXPECT_FALSE(norms.failure());
      continue;
    }
    EXPECT_THROW(norms.moments(index, {numbers, numbers, 4}), std::runtime_error);
    EXPECT_THAT(norms.failure().value().message, ::testing::HasSubstr("this one number 2"));
    norms.begin_pass(&others);
    EXPECT_FALSE(norms.failure());
    EXPECT_THROW(norms.sum(index, numbers), std::runtime_error);
    EXPECT_TRUE(norms.failure());
  }
}

}  // namespace
}  // namespace rannc::testing
