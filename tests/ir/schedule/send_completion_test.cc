// What a device may wait for at each of its actions, as literals.
#include "ir/schedule/send_completion.h"

#include <gtest/gtest.h>

#include "ir/schedule/lower_schedule.h"

namespace rannc::ir {
namespace {

/// `F1.2: d0 lacks 1` for each action that waits until d0 has taken all that was sent but one message.
std::string waits(const PipelineShape& shape, const Schedule& schedule, uint32_t device) {
  const Dependencies dependencies(shape);
  const SendCompletion completion(dependencies, schedule, DeviceId(device));
  std::string text;
  for (size_t i = 0; i < schedule.rows[device].size(); ++i) {
    for (const SendCompletion::Wait& wait : completion.before(i)) {
      text += to_string(schedule.rows[device][i]) + ": d" + std::to_string(wait.peer.index()) + " lacks " +
              std::to_string(wait.left) + "\n";
    }
  }
  return text;
}

// 1F1B over two stages. Stage 0 posts the receive of gradient k behind the activation k + 2 (k + 1 at first), stage 1
// that of activation k + 1 before the gradient k.
TEST(SendCompletion, OneForwardOneBackward) {
  const PipelineShape shape = chain_shape(2, 4);
  const auto rows = parse_schedule("0: F0 F1 B0 F2 B1 F3 B2 B3\n1: F0 B0 F1 B1 F2 B2 F3 B3", shape).value();
  const Schedule schedule = lower_schedule(shape, rows).value();
  EXPECT_EQ(waits(shape, schedule, 0), "B0.0: d1 lacks 0\nB0.1: d1 lacks 0\nB0.2: d1 lacks 0\n");
  EXPECT_EQ(waits(shape, schedule, 1), "F1.1: d0 lacks 0\nF1.2: d0 lacks 0\nF1.3: d0 lacks 0\n");
}

// Stage 0 posts the receive of its first gradient behind a recomputation, which waits for nobody: stage 1 lets go of
// that gradient one computation later.
TEST(SendCompletion, BehindARecomputation) {
  PipelineShape shape = chain_shape(2, 4);
  for (StageShape& stage : shape.stages) stage.recompute = true;
  const auto rows = parse_schedule("0: F0 F1 B0 F2 B1 F3 B2 B3\n1: F0 B0 F1 B1 F2 B2 F3 B3", shape).value();
  const Schedule schedule = lower_schedule(shape, add_recompute(shape, rows)).value();
  EXPECT_EQ(waits(shape, schedule, 1), "B1.1: d0 lacks 0\nF1.2: d0 lacks 0\nF1.3: d0 lacks 0\n");
}

TEST(SendCompletion, AllForwardThenAllBackward) {
  const PipelineShape shape = chain_shape(2, 3);
  const auto rows = parse_schedule("0: F0 F1 F2 B0 B1 B2\n1: F0 F1 F2 B0 B1 B2", shape).value();
  const Schedule schedule = lower_schedule(shape, rows).value();
  EXPECT_EQ(waits(shape, schedule, 0), "B0.0: d1 lacks 0\n") << "it has taken all activations before a gradient comes";
  EXPECT_EQ(waits(shape, schedule, 1), "B1.1: d0 lacks 0\n") << "one receive is posted behind the last activation";
}

}  // namespace
}  // namespace rannc::ir
