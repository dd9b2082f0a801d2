// What staleness would buy for the stages of a plan.
#include "partition/model/compare_asynchronous.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "frontend/zoo/bert.h"
#include "tests/partition/model/planned_models.h"

namespace rannc::test {
namespace {

using partition::PipelineChoice;
using partition::PlannedModel;
using partition::PlanOptions;
using testing::ElementsAre;

constexpr uint32_t kMicroBatches = 8;

PlannedModel plan_of_two_stages(uint32_t replicas, bool untied, bool sharded = false) {
  frontend::zoo::BertConfig config;
  config.layers = 4;
  config.width = 64;
  config.vocabulary = 1000;
  config.untied = untied;
  const Prepared prepared = test::prepared(model(config, frontend::zoo::write_bert),
                                           "cross_entropy(output=logits)+cross_entropy(output=next_sentence)");
  PlanOptions options = options_for("flat:" + std::to_string(2 * replicas), 16);
  options.planner = "auto";
  options.micro_batches = {kMicroBatches};
  options.schedule = "1f1b";
  options.search.schedules = {"1f1b"};
  options.constraints.stages = 2;
  options.constraints.replicas = {replicas, replicas};
  if (sharded) options.shard_optimizer = partition::ShardOptimizer::kAlways;
  return planned(prepared, options);
}

std::vector<PipelineChoice> compared(const PlannedModel& found, uint32_t replicas) {
  return partition::compare_asynchronous(found.plan,
                                         partition::preset_cluster("flat:" + std::to_string(2 * replicas)).value())
      .value();
}

/// Passes of a mini-batch and the sums of the slowest stage, which no pipeline hides.
double least(const PlannedModel& found) {
  double most = 0;
  for (const partition::PlannedStage& stage : found.stages.stages) {
    most = std::max(most, kMicroBatches * (stage.forward_ns + stage.backward_ns) + stage.all_reduce_ns);
  }
  return most;
}

TEST(CompareAsynchronous, NeverDrainsAndHoldsMoreWeights) {
  for (const uint32_t replicas : {1, 2}) {
    for (const bool sharded : {false, true}) {
      SCOPED_TRACE(testing::Message() << replicas << " replicas" << (sharded ? ", sharded" : ""));
      const PlannedModel found = plan_of_two_stages(replicas, true, sharded);
      const std::vector<PipelineChoice> choices = compared(found, replicas);
      ASSERT_EQ(choices.size(), 3U);
      const PipelineChoice &own = choices[0], &stashing = choices[1], &buffered = choices[2];
      EXPECT_EQ(own.mini_batch_ns, static_cast<double>(found.plan.step_ns));
      EXPECT_EQ(stashing.name, "PipeDream");
      EXPECT_THAT(stashing.weight_versions, ElementsAre(2, 1));
      EXPECT_EQ(stashing.updates, kMicroBatches);
      EXPECT_EQ(buffered.name, "PipeDream-2BW");
      EXPECT_THAT(buffered.weight_versions, ElementsAre(2, 2));
      EXPECT_EQ(buffered.updates, 1U);
      EXPECT_GT(buffered.peak_bytes, own.peak_bytes);
      EXPECT_LT(buffered.mini_batch_ns, own.mini_batch_ns) << "no bubble";
      EXPECT_GE(buffered.mini_batch_ns, least(found) * (1 - 1e-3));
      EXPECT_GT(stashing.mini_batch_ns, buffered.mini_batch_ns) << "an update per micro-batch";
    }
  }
}

TEST(CompareAsynchronous, RefusesTiedParameters) {
  const PlannedModel found = plan_of_two_stages(1, false);
  const auto choices = partition::compare_asynchronous(found.plan, partition::preset_cluster("flat:2").value());
  ASSERT_FALSE(choices.ok());
  EXPECT_THAT(choices.diagnostic().message, testing::HasSubstr("'embeddings.word.weight' is read by several stages"));
}

}  // namespace
}  // namespace rannc::test
