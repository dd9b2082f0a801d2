/// What actions wait for, and how samples travel between replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/plan/plan.h"
#include "ir/schedule/dependencies.h"

namespace rannc::ir {
namespace {

/// Stage 0 on d0 and d1, stage 1 on d2, stage 2 on d2 and d3 …: a skip 0→2, an integer route 0→1, a tie of 0 and 2.
PipelineShape shape() {
  PipelineShape shape = chain_shape(3, 2);
  shape.devices = 4;
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[1].devices = {DeviceId(2)};
  shape.stages[2].devices = {DeviceId(2), DeviceId(3)};
  shape.routes.push_back({StageId(0), StageId(2), 1, true});
  shape.routes.push_back({StageId(0), StageId(1), 1, false});
  shape.micro_batches = {3, 1};
  shape.shared.push_back({{StageId(0), StageId(2)}, 1});
  return shape;
}

std::vector<std::string> needs(const PipelineShape& shape, uint32_t device, const Action& action) {
  std::vector<std::string> result;
  for (const DeviceAction& needed : dependencies(shape, DeviceId(device), action)) {
    result.push_back("d" + std::to_string(needed.device.index()) + " " + to_string(needed.action));
  }
  return result;
}

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ScheduleDependencies, OfEveryKindOfAction) {
  const PipelineShape s = shape();
  const auto f = [](uint32_t stage, uint32_t mb) { return compute_action(ActionKind::kForward, StageId(stage), mb); };
  EXPECT_THAT(needs(s, 0, f(0, 0)), IsEmpty());
  // Three samples on two replicas are 1 and 2; routes 0 and 3 end in stage 1.
  EXPECT_THAT(needs(s, 2, f(1, 0)), ElementsAre("d2 RA0.0<d0", "d2 RA0.0<d1", "d2 RA3.0<d0", "d2 RA3.0<d1"));
  // The first replica of stage 2 owns sample 0, which stage 1 made on the same device.
  EXPECT_THAT(needs(s, 2, f(2, 0)), ElementsAre("d2 F1.0", "d2 RA2.0<d0"));
  EXPECT_THAT(needs(s, 3, f(2, 0)), ElementsAre("d3 RA1.0<d2", "d3 RA2.0<d1"));
  // One sample on two replicas: the first has none.
  EXPECT_THAT(needs(s, 2, f(2, 1)), IsEmpty());
  EXPECT_THAT(needs(s, 3, f(2, 1)), ElementsAre("d3 RA1.1<d2", "d3 RA2.1<d1"));

  const auto b = [](ActionKind kind, uint32_t stage) { return compute_action(kind, StageId(stage), 0); };
  EXPECT_THAT(needs(s, 1, b(ActionKind::kBackward, 0)), ElementsAre("d1 F0.0", "d1 RG0.0<d2", "d1 RG2.0<d3"));
  EXPECT_THAT(needs(s, 2, b(ActionKind::kInputGradient, 1)), ElementsAre("d2 F1.0", "d2 I2.0", "d2 RG1.0<d3"));
  EXPECT_THAT(needs(s, 2, b(ActionKind::kWeightGradient, 1)), ElementsAre("d2 I1.0"));
  EXPECT_THAT(needs(s, 2, b(ActionKind::kRecompute, 1)), ElementsAre("d2 F1.0"));

  const auto move = [&](ActionKind kind, uint32_t route, uint32_t peer) {
    return transfer_action(s, kind, route, 0, DeviceId(peer));
  };
  EXPECT_THAT(needs(s, 0, move(ActionKind::kSendActivation, 0, 2)), ElementsAre("d0 F0.0"));
  EXPECT_THAT(needs(s, 2, move(ActionKind::kReceiveActivation, 0, 0)), ElementsAre("d0 SA0.0>d2"));
  EXPECT_THAT(needs(s, 3, move(ActionKind::kSendGradient, 1, 2)), ElementsAre("d3 I2.0"));
  EXPECT_THAT(needs(s, 2, move(ActionKind::kReceiveGradient, 1, 3)), ElementsAre("d3 SG1.0>d2"));

  EXPECT_THAT(needs(s, 1, stage_action(ActionKind::kAllReduce, StageId(0))), ElementsAre("d1 W0.0", "d1 W0.1"));
  EXPECT_THAT(needs(s, 3, reduce_shared_action(s, 0, DeviceId(3))), ElementsAre("d3 W2.0", "d3 W2.1"));
  EXPECT_THAT(needs(s, 3, stage_action(ActionKind::kStep, StageId(2))),
              ElementsAre("d3 AR2", "d3 RS0", "d3 W2.0", "d3 W2.1"));
  EXPECT_THAT(needs(s, 2, stage_action(ActionKind::kStep, StageId(1))), ElementsAre("d2 W1.0", "d2 W1.1"));
}

TEST(ScheduleDependencies, UpdatesOfSharesFollowTheReduceScatter) {
  PipelineShape s = shape();
  s.stages[2].sharded = true;
  EXPECT_THAT(needs(s, 3, stage_action(ActionKind::kReduceScatter, StageId(2))), ElementsAre("d3 W2.0", "d3 W2.1"));
  EXPECT_THAT(needs(s, 3, stage_action(ActionKind::kUpdateShare, StageId(2))),
              ElementsAre("d3 SC2", "d3 RS0", "d3 W2.0", "d3 W2.1"));
  EXPECT_THAT(needs(s, 3, stage_action(ActionKind::kAllGather, StageId(2))), ElementsAre("d3 U2"));
  EXPECT_THAT(Dependencies(s).members(stage_action(ActionKind::kAllGather, StageId(2))),
              ElementsAre(DeviceId(2), DeviceId(3)));
}

TEST(ScheduleDependencies, MembersOfCollectives) {
  const PipelineShape s = shape();
  const Dependencies d(s);
  EXPECT_THAT(d.members(stage_action(ActionKind::kAllReduce, StageId(2))), ElementsAre(DeviceId(2), DeviceId(3)));
  EXPECT_THAT(d.members(reduce_shared_action(s, 0, DeviceId(0))),
              ElementsAre(DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)));
  EXPECT_THAT(d.stages_on(DeviceId(2)), ElementsAre(StageId(1), StageId(2)));
  EXPECT_EQ(d.replica(StageId(2), DeviceId(3)), 1);
  EXPECT_EQ(d.replica(StageId(1), DeviceId(3)), -1);
}

/// Every sample of a micro-batch travels exactly once, whatever the replicas on either side; both ends name the same
/// messages, and no two messages have the same sum of replicas.
TEST(ScheduleDependencies, MessagesPartitionTheSamples) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const auto n = static_cast<uint32_t>(1 + random() % 7), m = static_cast<uint32_t>(1 + random() % 7);
    PipelineShape s = chain_shape(2, 1);
    s.devices = n + m;
    for (uint32_t side = 0; side < 2; ++side) {
      s.stages[side].devices.clear();
      for (uint32_t i = 0; i < (side ? m : n); ++i) s.stages[side].devices.push_back(DeviceId(i + (side ? n : 0)));
    }
    s.micro_batches = {static_cast<uint32_t>(1 + random() % 12)};
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << n << " to " << m << " replicas, "
                                    << s.micro_batches[0]);
    const Dependencies d(s);
    std::vector<int> sent(s.micro_batches[0], 0);
    std::vector<std::tuple<uint32_t, uint32_t, int64_t, int64_t>> outgoing, incoming;
    std::vector<uint32_t> sums;
    for (uint32_t i = 0; i < n; ++i) {
      d.each_outgoing(0, 0, DeviceId(i), [&](const Message& message) {
        EXPECT_EQ(message.peer, DeviceId(n + message.consumer));
        outgoing.emplace_back(message.producer, message.consumer, message.samples.first, message.samples.last);
        sums.push_back(message.producer + message.consumer);
        for (int64_t x = message.samples.first; x < message.samples.last; ++x) ++sent.at(static_cast<size_t>(x));
      });
    }
    for (uint32_t i = 0; i < m; ++i) {
      d.each_incoming(0, 0, DeviceId(n + i), [&](const Message& message) {
        EXPECT_EQ(message.peer, DeviceId(message.producer));
        incoming.emplace_back(message.producer, message.consumer, message.samples.first, message.samples.last);
      });
    }
    EXPECT_THAT(sent, testing::Each(1));
    std::sort(incoming.begin(), incoming.end());
    std::sort(outgoing.begin(), outgoing.end());
    EXPECT_EQ(incoming, outgoing);
    std::sort(sums.begin(), sums.end());
    EXPECT_EQ(std::adjacent_find(sums.begin(), sums.end()), sums.end());
  }
}

/// From its owner among n replicas to its owner among m, for all n, m <= 8, batches <= 64 and micro-batches <= 8: what
/// is split on one side is put together on the other, nothing goes round robin.
TEST(ScheduleDependencies, SamplesGoFromOwnerToOwnerForAllCounts) {
  uint64_t travelled = 0, wrong = 0;
  for (uint32_t n = 1; n <= 8; ++n) {
    for (uint32_t m = 1; m <= 8; ++m) {
      PipelineShape s = chain_shape(2, 1);
      s.devices = n + m;
      s.stages[0].devices.clear();
      s.stages[1].devices.clear();
      for (uint32_t i = 0; i < n + m; ++i) s.stages[i < n ? 0 : 1].devices.push_back(DeviceId(i));
      for (uint32_t batch = 1; batch <= 64; ++batch) {
        for (uint32_t count = 1; count <= std::min(8u, batch); ++count) {
          s.micro_batches = split_mini_batch(batch, count);
          const Dependencies d(s);
          uint64_t sent = 0;
          for (uint32_t micro_batch = 0; micro_batch < count; ++micro_batch) {
            const int64_t size = s.micro_batches[micro_batch];
            for (uint32_t i = 0; i < n; ++i) {
              d.each_outgoing(0, micro_batch, DeviceId(i), [&](const Message& message) {
                for (int64_t x = message.samples.first; x < message.samples.last; ++x) {
                  wrong += sample_owner(size, x, n) != i || sample_owner(size, x, m) != message.consumer;
                  ++sent;
                }
              });
            }
          }
          ASSERT_EQ(sent, batch) << n << " to " << m << " replicas, " << count << " micro-batches";
          travelled += sent;
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0u) << "of " << travelled;
}

TEST(ScheduleDependencies, OwnerOfASampleIsWhoseRangeHoldsIt) {
  for (int64_t samples = 1; samples <= 20; ++samples) {
    for (size_t replicas = 1; replicas <= 9; ++replicas) {
      for (int64_t x = 0; x < samples; ++x) {
        const SampleRange range = replica_samples(samples, sample_owner(samples, x, replicas), replicas);
        EXPECT_TRUE(range.first <= x && x < range.last) << samples << " " << replicas << " " << x;
      }
    }
  }
}

}  // namespace
}  // namespace rannc::ir
