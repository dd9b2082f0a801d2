// Replicas sum gradients in buckets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "runtime/transport/transport_local.h"
#include "tests/runtime/support/local_run.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/runtime/transport/forwarding_transport.h"

namespace rannc::testing {
namespace {

using ::testing::Each;
using ::testing::Le;
using ::testing::UnorderedElementsAre;

// Gradients of the graph `skip_and_tie`, in bytes.
constexpr uint64_t kWeight = 6 * 6 * 4, kBias = 6 * 4;
constexpr uint64_t kWeights = 3, kBiases = 4;

/// Notes the bytes of each sum of gradients.
class NotingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Result<runtime::Values> all_reduce(const runtime::CollectiveKey& key, std::span<const DeviceId> members,
                                     runtime::Values values) override {
    if (key.kind == runtime::CollectiveKey::Kind::kAllReduce) {
      summed.push_back(0);
      for (const runtime::Value& value : values) summed.back() += value->bytes();
    }
    return ForwardingTransport::all_reduce(key, members, std::move(values));
  }

  std::vector<uint64_t> summed;
};

struct Outcome {
  Numbers numbers;
  std::vector<uint64_t> summed;
};

/// `summed` is that of the last device.
Outcome run(uint64_t bucket_bytes, PlanSpec spec = {.replicas = {2}}) {
  const uint32_t devices = std::accumulate(spec.replicas.begin(), spec.replicas.end(), 0U);
  std::vector<std::unique_ptr<runtime::Transport>> ends =
      runtime::make_local_transports(devices, std::chrono::seconds(60));
  auto noting = std::make_unique<NotingTransport>(std::move(ends.back()));
  const NotingTransport& noted = *noting;
  ends.back() = std::move(noting);
  at::manual_seed(1);
  const std::map<std::string, at::Tensor> batch = {{"x", at::randn({7, 6})}, {"target", at::randn({7, 6})}};
  spec.micro_batches = {4, 3};
  Outcome outcome;
  outcome.numbers = run_locally(build_plan(skip_and_tie(ir::DType::kF32), spec), batch, {42},
                                {.bucket_bytes = bucket_bytes, .transports = ends});
  outcome.summed = noted.summed;
  return outcome;
}

void expect_same_gradients(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.numbers.gradients.size(), b.numbers.gradients.size());
  for (const auto& [name, gradient] : a.numbers.gradients)
    EXPECT_TRUE(at::equal(gradient, b.numbers.gradients.at(name))) << name;
}

// Weights fill a bucket each, because none is larger. All biases fit into one more.
TEST(GradientSums, OfSmallGradientsTakeOneCall) {
  const Outcome apart = run(0), together = run(1 << 20);
  EXPECT_EQ(apart.summed.size(), kWeights + kBiases);
  EXPECT_EQ(together.summed.size(), kWeights + 1);
  EXPECT_THAT(together.summed, Each(Le(kWeight)));
  const auto bytes = [](const Outcome& of) { return std::accumulate(of.summed.begin(), of.summed.end(), uint64_t{0}); };
  EXPECT_EQ(bytes(apart), kWeights * kWeight + kBiases * kBias);
  EXPECT_EQ(bytes(together), bytes(apart));
  expect_same_gradients(apart, together);
}

TEST(GradientSums, OfBucketsObeyTheLimit) {
  EXPECT_THAT(run(2 * kBias).summed, UnorderedElementsAre(kWeight, kWeight, kWeight, 2 * kBias, 2 * kBias));
}

// A parameter of both stages has a sum of its own, over all devices.
TEST(GradientSums, LeaveOutSharedParameters) {
  const PlanSpec spec = {.cuts = {4}, .replicas = {1, 2}};
  const Outcome apart = run(0, spec), together = run(1 << 20, spec);
  EXPECT_THAT(apart.summed, UnorderedElementsAre(kBias, kWeight, kBias));
  EXPECT_THAT(together.summed, UnorderedElementsAre(2 * kBias, kWeight));
  expect_same_gradients(apart, together);
}

}  // namespace
}  // namespace rannc::testing
