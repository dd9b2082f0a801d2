// On which part of a step each kind of action is booked, by times that are made up: they begin now, and last for hours.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/random_graph.h"
#include "tests/support/small_plan.h"
#include "tools/measure/memory_gauge.h"
#include "tools/measure/step_profile.h"

namespace rannc::tools {
namespace {

using ir::ActionKind;

// Far longer than anything that this test does itself.
constexpr int64_t kLong = 1'000'000'000'000;

struct Heard final : runtime::Observer {
  int starts = 0, records = 0, clips = 0;
  void started(DeviceId) override { ++starts; }
  void finished(const runtime::ActionRecord&) override { ++records; }
  void clipped(DeviceId, int64_t, int64_t) override { ++clips; }
};

class StepProfiles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { MemoryGauge::install(); }

  explicit StepProfiles(uint32_t stages = 1)
      : plan(testing::small_plan(testing::random_graph({.seed = 3}), {.stages = stages})), profile(plan, heard) {}

  /// A step that follows the warm-up, the first of which is followed, and the part of device 0.
  nlohmann::json parts_of(const std::function<void()>& actions) {
    for (uint64_t i = 0; i < StepProfile::kWarmUp; ++i) profile.begin_step(), profile.end_step();
    profile.begin_step();
    at_ = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
              .count();
    actions();
    profile.end_step();
    const nlohmann::json part = profile.part();
    EXPECT_EQ(part.at("steps"), 1);
    auto parts = part.at("devices").at(0).at("parts");
    double sum = 0;
    for (const auto& [name, ns] : parts.items()) sum += ns.get<double>();
    EXPECT_NEAR(sum, part.at("devices").at(0).at("wall_ns").get<double>(), 1e-9 * kLong) << "nothing is counted twice";
    return parts;
  }

  void act(ActionKind kind, int64_t waited = 0, const std::function<void()>& work = {}) {
    runtime::ActionRecord record;
    record.device = DeviceId(0);
    record.action = ir::compute_action(kind, StageId(0), 0);
    record.start_ns = at_;
    record.end_ns = at_ += kLong;
    record.waited_ns = waited;
    profile.started(record.device);
    if (work) work();
    profile.finished(record);
  }

  /// A sum that ended before the last action did.
  void sum_beside() {
    runtime::ActionRecord record{.device = DeviceId(0), .start_ns = at_ - kLong, .end_ns = at_ - kLong / 2};
    record.action = ir::stage_action(ActionKind::kAllReduce, StageId(0));
    profile.finished(record);
  }

  void clip() {
    profile.started(DeviceId(0));
    profile.clipped(DeviceId(0), at_, at_ + kLong);
    at_ += kLong;
  }

  /// Within what this test does itself.
  static void expect_near(const nlohmann::json& parts, const char* name, double expected) {
    EXPECT_NEAR(parts.value(name, 0.0) / kLong, expected, 0.01) << name << " of " << parts.dump();
  }

  Heard heard;
  ir::Plan plan;
  StepProfile profile;
  int64_t at_ = 0;
};

class ProfilesOfTwoDevices : public StepProfiles {
 protected:
  ProfilesOfTwoDevices() : StepProfiles(2) {}
};

TEST_F(StepProfiles, BookActionsByKind) {
  const auto parts = parts_of([&] {
    act(ActionKind::kForward, kLong / 4);
    act(ActionKind::kRecompute);
    act(ActionKind::kBackward);
    act(ActionKind::kInputGradient);
    act(ActionKind::kWeightGradient);
    sum_beside();
    act(ActionKind::kAllReduce, kLong / 2);
    act(ActionKind::kStep);
    clip();
    clip();
  });
  expect_near(parts, "tape_forward", 1.75);
  expect_near(parts, "tape_backward", 3);
  expect_near(parts, "messages", 0.5);
  expect_near(parts, "waiting", 0.75);
  expect_near(parts, "optimizer", 3);
  expect_near(parts, "products", 0);
  EXPECT_EQ(heard.starts, 9);
  EXPECT_EQ(heard.records, 8);
  EXPECT_EQ(heard.clips, 2);
}

TEST_F(StepProfiles, TellOperatorsFromTheRest) {
  const at::Tensor square = at::randn({300, 300});
  const auto parts = parts_of([&] {
    act(ActionKind::kForward, 0, [&] { at::mm(square, square).neg_(); });
    act(ActionKind::kStep, 0, [&] { at::mm(square, square); });
  });
  EXPECT_GT(parts.at("products"), 0);
  EXPECT_GT(parts.at("operators"), 0);
  EXPECT_GT(parts.at("allocation"), 0);
  EXPECT_GT(parts.at("profiling"), 0);
  const auto device = profile.part().at("devices").at(0);
  EXPECT_EQ(device.at("product_flops"), 2.0 * 300 * 300 * 300) << "products of an optimizer are its own";
  EXPECT_EQ(device.at("allocations"), 2);
  EXPECT_EQ(device.at("allocated_bytes"), 2 * 300 * 300 * 4);
  EXPECT_GT(profile.part().at("without_task_ns"), 0) << "nothing here is a program";
}

// Of several devices one may be done before the others, which clip when all have gone back.
TEST_F(ProfilesOfTwoDevices, WaitFromTheirLastAction) {
  const auto parts = parts_of([&] {
    act(ActionKind::kBackward);
    at_ += kLong;
    clip();
  });
  expect_near(parts, "tape_backward", 1);
  expect_near(parts, "optimizer", 1);
  expect_near(parts, "waiting", 1 - 3);  // to the end of the step, which the clock reaches three such times before
  EXPECT_EQ(plan.devices.size(), 2U);
}

TEST_F(StepProfiles, FollowEverySecondStep) {
  for (int i = 0; i < 7; ++i) {
    profile.begin_step();
    act(ActionKind::kForward);
    profile.end_step();
  }
  EXPECT_EQ(profile.part().at("steps"), 3) << "of five after the warm-up";
  expect_near(profile.part().at("devices").at(0).at("parts"), "tape_forward", 1);
  EXPECT_EQ(heard.records, 7) << "others hear all of them";
}

TEST_F(StepProfiles, SayWhereNothingWasFollowed) {
  EXPECT_EQ(profile.part().at("steps"), 0);
  EXPECT_TRUE(profile.part().at("devices").empty());
}

}  // namespace
}  // namespace rannc::tools
