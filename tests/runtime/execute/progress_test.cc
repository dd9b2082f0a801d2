// What is known of a worker's work, and how long it makes no progress.
#include "runtime/execute/progress.h"

#include <gtest/gtest.h>

#include <thread>

namespace rannc::runtime {
namespace {

using std::chrono::milliseconds;
using Lane = Progress::Lane;

constexpr milliseconds kLittle{20};

/// Looks until the work has made no progress for a little.
StallClock::Stall await_stall(StallClock& clock, const Progress& progress, Lane lane = Lane::kSteps) {
  for (;;) {
    const auto stall = clock.look(progress, lane);
    if (stall && stall->idle >= kLittle) return *stall;
    std::this_thread::yield();
  }
}

TEST(Progress, NamesWork) {
  EXPECT_EQ(describe({.what = "opening the bundle"}), "opening the bundle");
  EXPECT_EQ(describe({.what = "reading the samples", .step = 3}), "reading the samples of step 3");
  ir::Action action = ir::compute_action(ir::ActionKind::kForward, StageId(1), 2);
  EXPECT_EQ(describe({.step = 3, .action = action}),
            "forward (" + to_string(action) + ") of step 3, stage 1, micro-batch 2");
  action = ir::stage_action(ir::ActionKind::kStep, StageId(1));
  EXPECT_EQ(describe({.step = 3, .action = action}), "optimizer step (" + to_string(action) + ") of step 3, stage 1");
}

TEST(Progress, WorkThatGoesOnIsNotIdle) {
  Progress progress;
  StallClock clock;
  EXPECT_FALSE(clock.look(progress)) << "nothing has begun";
  progress.begin(Lane::kSteps, {.what = "the first part"});
  EXPECT_EQ(await_stall(clock, progress).activity.what, "the first part");
  progress.begin(Lane::kSteps, {.what = "the second part"});
  const auto stall = clock.look(progress);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->activity.what, "the second part");
  EXPECT_EQ(stall->idle, milliseconds(0));
}

TEST(Progress, AWaitForAnotherWorkerDoesNotCount) {
  Progress progress;
  StallClock clock;
  progress.begin(Lane::kSteps, {.what = "a receive"});
  await_stall(clock, progress);
  {
    const Progress::Waiting waiting(&progress);
    { const Progress::Waiting inner(&progress); }
    EXPECT_FALSE(clock.look(progress));
  }
  const auto stall = clock.look(progress);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->idle, milliseconds(0)) << "the end of a wait is progress";
}

TEST(Progress, ACheckpointIsWatchedWhileTheStepsWait) {
  Progress progress;
  StallClock clock;
  progress.begin(Lane::kCheckpoint, {.what = "writing", .limits = kFileLimits});
  progress.begin(Lane::kSteps, {.what = "a step"});
  const Progress::Waiting waiting(&progress);
  EXPECT_FALSE(clock.look(progress));
  EXPECT_EQ(await_stall(clock, progress, Lane::kCheckpoint).activity.what, "writing");
  progress.rest(Lane::kCheckpoint);
  EXPECT_FALSE(clock.look(progress, Lane::kCheckpoint));
}

TEST(Progress, AHangIsDeclaredOnce) {
  Progress progress;
  EXPECT_EQ(progress.hung(), "");
  progress.declare_hung("worker 1 hangs");
  EXPECT_EQ(progress.hung(), "worker 1 hangs");
}

}  // namespace
}  // namespace rannc::runtime
