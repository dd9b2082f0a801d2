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

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;
using ::testing::UnorderedElementsAre;

// Gradients of the graph `skip_and_tie`, in bytes.
constexpr uint64_t kWeight = 6 * 6 * 4, kBias = 6 * 4;
constexpr uint64_t kWeights = 3, kBiases = 4;

/// Notes the bytes of each sum of gradients, and its bucket.
class NotingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Result<std::unique_ptr<runtime::PendingSum>> begin_all_reduce(const runtime::CollectiveKey& key,
                                                                std::span<const DeviceId> members,
                                                                runtime::Values values) override {
    if (key.kind == runtime::CollectiveKey::Kind::kAllReduce) {
      summed.push_back(0);
      parts.push_back(key.part);
      for (const runtime::Value& value : values) summed.back() += value->bytes();
    }
    return ForwardingTransport::begin_all_reduce(key, members, std::move(values));
  }

  std::vector<uint64_t> summed;
  std::vector<uint32_t> parts;
};

struct Outcome {
  Numbers numbers;
  std::vector<uint64_t> summed;
  std::vector<uint32_t> parts;
};

/// `summed` is that of the last device.
Outcome run(uint64_t bucket_bytes, PlanSpec spec = {.replicas = {2}}, bool overlaps = true) {
  const uint32_t devices = std::accumulate(spec.replicas.begin(), spec.replicas.end(), 0U);
  std::vector<std::unique_ptr<runtime::Transport>> ends =
      runtime::make_local_transports(devices, std::chrono::seconds(60));
  auto noting = std::make_unique<NotingTransport>(std::move(ends.back()));
  const NotingTransport& noted = *noting;
  ends.back() = std::move(noting);
  at::manual_seed(1);
  const std::map<std::string, at::Tensor> batch = {{"x", at::randn({7, 6})}, {"target", at::randn({7, 6})}};
  spec.micro_batches = {4, 3};
  spec.bucket_bytes = bucket_bytes;
  Outcome outcome;
  outcome.numbers = run_locally(build_plan(skip_and_tie(ir::DType::kF32), spec), batch, {42},
                                {.overlaps_sums = overlaps, .transports = ends});
  outcome.summed = noted.summed;
  outcome.parts = noted.parts;
  return outcome;
}

void expect_same_gradients(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.numbers.gradients.size(), b.numbers.gradients.size());
  for (const auto& [name, gradient] : a.numbers.gradients)
    EXPECT_TRUE(at::equal(gradient, b.numbers.gradients.at(name))) << name;
}

// Buckets are in the order of the backward pass, which is that of the sums. None is larger than two weights.
TEST(GradientSums, OfSmallGradientsShareACall) {
  const Outcome apart = run(0), together = run(1 << 20), late = run(0, {.replicas = {2}}, false);
  EXPECT_EQ(apart.summed.size(), kWeights + kBiases);
  EXPECT_THAT(together.summed, Each(Le(2 * kWeight)));
  EXPECT_EQ(std::accumulate(together.summed.begin(), together.summed.end(), uint64_t{0}),
            kWeights * kWeight + kBiases * kBias);
  EXPECT_LT(together.summed.size(), apart.summed.size());
  EXPECT_THAT(apart.parts, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(late.summed, apart.summed);
  expect_same_gradients(apart, together);
  expect_same_gradients(apart, late);
}

TEST(GradientSums, OfBucketsObeyTheLimit) {
  EXPECT_THAT(run(kWeight).summed, Each(Le(kWeight)));
  EXPECT_THAT(run(kWeight + kBias).summed, Contains(kWeight + kBias));
}

// A parameter of both stages has a sum of its own, over all devices.
TEST(GradientSums, LeaveOutSharedParameters) {
  const PlanSpec spec = {.cuts = {4}, .replicas = {1, 2}};
  const Outcome apart = run(0, spec), together = run(1 << 20, spec);
  EXPECT_THAT(apart.summed, UnorderedElementsAre(kBias, kWeight, kBias));
  EXPECT_THAT(together.summed, ElementsAre(kWeight + 2 * kBias));
  expect_same_gradients(apart, together);
}

}  // namespace
}  // namespace rannc::testing
