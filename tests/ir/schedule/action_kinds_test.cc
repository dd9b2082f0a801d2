/// The table of action kinds is complete and tells kinds apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <regex>
#include <set>

#include "ir/base/replacement.h"
#include "ir/schedule/schedule.h"

namespace rannc::ir {
namespace {

using testing::ElementsAre;

std::vector<std::string_view> letters_of(bool (*accepts)(ActionKind)) {
  std::vector<std::string_view> found;
  for (const ActionTraits& row : kActionTraits) {
    if (accepts(row.kind)) found.push_back(row.letters);
  }
  return found;
}

/// Stage 0 on d0 and d1, stage 1 on d2; they share a parameter.
PipelineShape shape() {
  PipelineShape shape = chain_shape(2, 2);
  shape.devices = 3;
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[1].devices = {DeviceId(2)};
  shape.shared.push_back({{StageId(0), StageId(1)}, 8});
  return shape;
}

/// An action of the kind on d0 or d2.
std::pair<uint32_t, Action> example(const PipelineShape& shape, ActionKind kind) {
  switch (traits(kind).scope) {
    case ActionScope::kMicroBatch:
      return {0, compute_action(kind, StageId(0), 1)};
    case ActionScope::kActivation:
    case ActionScope::kGradient:
      return is_at_producer(kind) ? std::pair(0u, transfer_action(shape, kind, 0, 1, DeviceId(2)))
                                  : std::pair(2u, transfer_action(shape, kind, 0, 1, DeviceId(0)));
    case ActionScope::kStage:
      return {0, stage_action(kind, StageId(0))};
    case ActionScope::kGroup:
      break;
  }
  return {0, reduce_shared_action(shape, 0, DeviceId(0))};
}

TEST(ActionKinds, EachHasARowWithNamesOfItsOwn) {
  std::set<std::string_view> letters, words;
  for (int k = 0; k < kActionKinds; ++k) {
    const auto kind = static_cast<ActionKind>(k);
    const ActionTraits& row = traits(kind);
    EXPECT_EQ(row.kind, kind) << "row " << k;
    EXPECT_TRUE(!row.letters.empty() && letters.insert(row.letters).second) << "row " << k << ": " << row.letters;
    EXPECT_TRUE(!row.words.empty() && words.insert(row.words).second) << "row " << k << ": " << row.words;
    EXPECT_EQ(kind_with(row.letters), kind);
    EXPECT_EQ(is_compute(kind), row.passes.size() > 0) << row.letters;
    EXPECT_EQ(is_compute(kind), row.memory.peak != ProgramKind::kEnd) << row.letters;
    EXPECT_GT(row.needs.size(), 0u) << row.letters;
  }
  EXPECT_EQ(kind_with("X"), std::nullopt);
  EXPECT_EQ(kind_with(""), std::nullopt);
}

TEST(ActionKinds, TextRoundTripsEach) {
  const PipelineShape s = shape();
  for (const ActionTraits& row : kActionTraits) {
    const auto [device, action] = example(s, row.kind);
    const std::string text = "d" + std::to_string(device) + ": " + to_string(action);
    const auto schedule = parse_schedule(text, s);
    ASSERT_TRUE(schedule.ok()) << text;
    EXPECT_THAT(schedule->rows[device], ElementsAre(action)) << text;
    EXPECT_EQ(schedule->lowered, !is_compute(row.kind)) << text;
  }
}

TEST(ActionKinds, AnErrorOfTheTextNamesAll) {
  const auto schedule = parse_schedule("d0: X0.0", shape());
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.diagnostic().message,
            "`X0.0` is no action; expected F, B, I, W or R with stage.micro-batch, SA, SG, RA or RG with "
            "route.micro-batch and peer, AR, S, SC, U, AG or RS with a number");
}

TEST(ActionKinds, TheManualNamesAll) {
  const std::string page = read_file(RANNC_SOURCE_DIR "/ir/text-format.md").value();
  for (const ActionTraits& row : kActionTraits) {
    const std::regex example("\\| (`[^`]*`, )*`" + std::string(row.letters) + "[0-9]");
    EXPECT_TRUE(std::regex_search(page, example)) << row.letters << " is missing in the table of actions";
  }
}

TEST(ActionKinds, ClassesAndScopesPartitionThem) {
  EXPECT_THAT(letters_of(is_compute), ElementsAre("F", "B", "I", "W", "R"));
  EXPECT_THAT(letters_of(is_send), ElementsAre("SA", "SG"));
  EXPECT_THAT(letters_of(is_receive), ElementsAre("RA", "RG"));
  EXPECT_THAT(letters_of(is_reduction), ElementsAre("AR", "RS", "SC"));
  EXPECT_THAT(letters_of(is_gather), ElementsAre("AG"));
  EXPECT_THAT(letters_of(is_update), ElementsAre("S", "U"));
  EXPECT_THAT(letters_of(is_of_stage), ElementsAre("AR", "S", "SC", "U", "AG"));
  EXPECT_THAT(letters_of(is_of_group), ElementsAre("RS"));
  EXPECT_THAT(letters_of(is_activation), ElementsAre("SA", "RA"));
}

TEST(ActionKinds, ComputationsArePasses) {
  EXPECT_THAT(letters_of(is_forward), ElementsAre("F"));
  EXPECT_THAT(letters_of(computes_input_gradient), ElementsAre("B", "I"));
  EXPECT_THAT(letters_of(adds_weight_gradient), ElementsAre("B", "W"));
  EXPECT_EQ(first_pass(ActionKind::kBackward), Pass::kInputGradient);
}

TEST(ActionKinds, MessagesHaveTwoEnds) {
  for (const ActionTraits& row : kActionTraits) {
    if (!is_message(row.kind)) continue;
    const ActionKind other = counterpart(row.kind);
    EXPECT_EQ(counterpart(other), row.kind) << row.letters;
    EXPECT_EQ(is_send(other), is_receive(row.kind)) << row.letters;
    EXPECT_EQ(is_activation(other), is_activation(row.kind)) << row.letters;
    EXPECT_NE(is_at_producer(other), is_at_producer(row.kind)) << row.letters;
  }
}

TEST(ActionKinds, OfWholeStagesDependOnReplicasAndShares) {
  const auto required = [](size_t replicas, bool sharded) {
    StageShape stage;
    stage.devices.resize(replicas);
    stage.sharded = sharded;
    std::vector<std::string_view> found;
    for (const ActionTraits& row : kActionTraits) {
      if (is_of_stage(row.kind) && has_action(stage, row.kind)) found.push_back(row.letters);
    }
    return found;
  };
  EXPECT_THAT(required(1, false), ElementsAre("S"));
  EXPECT_THAT(required(2, false), ElementsAre("AR", "S"));
  EXPECT_THAT(required(2, true), ElementsAre("SC", "U", "AG"));
}

}  // namespace
}  // namespace rannc::ir
