// Messages overlap computation, and recompute overlaps the arriving gradient: measured over slow links, and simulated.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "codegen/bundle_writer.h"
#include "ir/schedule/lower_schedule.h"
#include "partition/schedule/simulate.h"
#include "runtime/execute/trace.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transports.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/runtime/transport/joined_ends.h"
#include "tests/runtime/transport/slow_link.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using rannc::testing::Blocking;

/// A computation or a message, in any unit of time.
struct Event {
  ir::Action action;
  DeviceId device;
  double start = 0, end = 0;
};

/// What happened in a step.
struct Timeline {
  std::vector<Event> computed;
  std::vector<Event> sent;  ///< SA and SG at their senders, until they have arrived
};

bool overlap(const Event& a, const Event& b) { return a.start < b.end && b.start < a.end; }

/// Whether a device computes while one of its own messages is on the way, and while one to it is.
bool computes_during_sends(const Timeline& t, DeviceId device) {
  return std::any_of(t.sent.begin(), t.sent.end(), [&](const Event& message) {
    return message.device == device && std::any_of(t.computed.begin(), t.computed.end(), [&](const Event& computation) {
             return computation.device == device && overlap(computation, message);
           });
  });
}
bool computes_during_receives(const Timeline& t, DeviceId device) {
  return std::any_of(t.sent.begin(), t.sent.end(), [&](const Event& message) {
    return message.action.peer == device &&
           std::any_of(t.computed.begin(), t.computed.end(), [&](const Event& computation) {
             return computation.device == device && overlap(computation, message);
           });
  });
}

/// Number of recomputations that begin before the last gradient for their micro-batch has arrived.
int early_recomputes(const Timeline& t) {
  return static_cast<int>(std::count_if(t.computed.begin(), t.computed.end(), [&](const Event& recompute) {
    return recompute.action.kind == ir::ActionKind::kRecompute &&
           std::any_of(t.sent.begin(), t.sent.end(), [&](const Event& gradient) {
             return gradient.action.kind == ir::ActionKind::kSendGradient && gradient.action.peer == recompute.device &&
                    gradient.action.micro_batch == recompute.action.micro_batch && recompute.start < gradient.end;
           });
  }));
}

/// GPipe of two stages with recompute. Two values cross the cut, one of them a skip.
ir::Plan plan_of_two_stages() {
  return rannc::testing::build_plan(
      rannc::testing::skip_and_tie(ir::DType::kF64),
      {.cuts = {4}, .micro_batches = {2, 2, 2, 2}, .early_backward = false, .recompute = true});
}

constexpr std::chrono::microseconds kPerByte{200};  // 20 ms for a message of 96 bytes

/// The second step over slow links. `losses`: of both steps, by device.
Timeline measured(const ir::Plan& plan, Blocking blocking, bool overlaps_recompute = true,
                  std::array<std::vector<double>, 2>* losses = nullptr) {
  const fs::path folder = fs::temp_directory_path() / ("rannc-overlap-" + std::to_string(::getpid()));
  fs::remove_all(folder);
  codegen::write_bundle(plan, {}, folder.string()).value();
  Rendezvous common;
  common.workers = static_cast<uint32_t>(plan.devices.size());
  auto joined = rannc::testing::join_each(
      common, [](const Rendezvous& where) { return find_transport("shm")->join(where, cpu()); });
  rannc::testing::SlowLinks links(kPerByte);
  TraceRecorder recorder(1);
  rannc::testing::on_each(common.workers, [&](uint32_t rank) {
    auto slow = std::make_unique<rannc::testing::SlowTransport>(std::move(joined.ends[rank]), links, blocking);
    TrainerOptions options;
    options.observer = &recorder;
    options.overlaps_recompute = overlaps_recompute;
    const auto trainer = Trainer::open_worker(folder.string(), options, std::move(slow)).value();
    const Batch batch = {{"x", to_value(at::ones({8, 6}, at::kDouble))},
                         {"target", to_value(at::zeros({8, 6}, at::kDouble))}};
    for (int step = 0; step < 2; ++step) {
      const double loss = trainer->step(batch).value().loss;
      if (losses != nullptr) (*losses)[rank].push_back(loss);
    }
  });
  fs::remove_all(folder);
  Timeline timeline;
  for (const ActionRecord& record : recorder.records()) {
    if (record.step != 1 || !ir::is_compute(record.action.kind)) continue;
    // An action first waits for its messages.
    timeline.computed.push_back({record.action, record.device, static_cast<double>(record.start_ns + record.waited_ns),
                                 static_cast<double>(record.end_ns)});
  }
  for (const auto& message : links.messages()) {
    if (message.key.step != 1) continue;
    ir::Action action;
    action.kind = message.key.direction == Direction::kActivation ? ir::ActionKind::kSendActivation
                                                                  : ir::ActionKind::kSendGradient;
    action.micro_batch = message.key.micro_batch;
    action.peer = message.to;
    timeline.sent.push_back(
        {action, message.from, static_cast<double>(message.start_ns), static_cast<double>(message.end_ns)});
  }
  return timeline;
}

/// The same plan on links on which a message takes much longer than a computation.
Timeline simulated(const ir::Plan& plan, bool overlaps) {
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  const partition::ScheduleCosts costs = partition::uniform_costs(shape, {1, 1, 1, 1}, /*latency=*/20);
  const auto simulation =
      partition::simulate(shape, plan.schedule, costs, {.contention = true, .overlap = overlaps}).value();
  Timeline timeline;
  for (size_t device = 0; device < plan.schedule.rows.size(); ++device) {
    for (size_t i = 0; i < plan.schedule.rows[device].size(); ++i) {
      const ir::Action& action = plan.schedule.rows[device][i];
      const partition::Span& span = simulation.spans[device][i];
      const Event event{action, DeviceId::from(device), span.start, span.end};
      if (ir::is_compute(action.kind)) timeline.computed.push_back(event);
      if (ir::is_send(action.kind)) timeline.sent.push_back(event);
    }
  }
  return timeline;
}

/// Recomputations of the plan. Its last micro-batch needs none.
int recomputes(const ir::Plan& plan) {
  int count = 0;
  for (const auto& row : plan.schedule.rows) {
    count += static_cast<int>(std::count_if(
        row.begin(), row.end(), [](const ir::Action& action) { return action.kind == ir::ActionKind::kRecompute; }));
  }
  return count;
}

void expect_all_overlaps(const Timeline& timeline, const ir::Plan& plan) {
  for (const DeviceId device : {DeviceId(0), DeviceId(1)}) {
    EXPECT_TRUE(computes_during_sends(timeline, device)) << device.index();
    EXPECT_TRUE(computes_during_receives(timeline, device)) << device.index();
  }
  EXPECT_GT(early_recomputes(timeline), 0);
  EXPECT_GT(recomputes(plan), 0);
}

TEST(Overlap, OfMessagesAndRecomputeOnTheTrace) {
  const ir::Plan plan = plan_of_two_stages();
  expect_all_overlaps(measured(plan, Blocking::kNothing), plan);
}

TEST(Overlap, OfMessagesAndRecomputeInTheSimulation) {
  const ir::Plan plan = plan_of_two_stages();
  expect_all_overlaps(simulated(plan, true), plan);
}

/// Moves recomputations behind the receives of their gradients.
void delay_recomputes(ir::Plan& plan) {
  for (auto& row : plan.schedule.rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      const bool receives = row[i + 1].kind == ir::ActionKind::kReceiveGradient;
      if (row[i].kind == ir::ActionKind::kRecompute && receives && row[i + 1].micro_batch == row[i].micro_batch)
        std::swap(row[i], row[i + 1]);
    }
  }
}

// The checks above fail where calls block.
TEST(Overlap, IsMissingWhereCallsBlock) {
  ir::Plan plan = plan_of_two_stages();
  const Timeline sends = measured(plan, Blocking::kSends);
  for (const DeviceId device : {DeviceId(0), DeviceId(1)}) {
    EXPECT_FALSE(computes_during_sends(sends, device)) << device.index();
    EXPECT_FALSE(computes_during_sends(simulated(plan, false), device)) << device.index();
  }
  delay_recomputes(plan);
  EXPECT_EQ(early_recomputes(measured(plan, Blocking::kReceives)), 0);
}

// The numbers are the same. The work moves into the backward pass.
TEST(Overlap, OfRecomputeCanBeSwitchedOff) {
  const ir::Plan plan = plan_of_two_stages();
  std::array<std::vector<double>, 2> usual, late;
  const auto count = [](const Timeline& timeline) {
    return std::count_if(timeline.computed.begin(), timeline.computed.end(),
                         [](const Event& event) { return event.action.kind == ir::ActionKind::kRecompute; });
  };
  EXPECT_EQ(count(measured(plan, Blocking::kNothing, true, &usual)), recomputes(plan));
  EXPECT_EQ(count(measured(plan, Blocking::kNothing, false, &late)), 0);
  EXPECT_EQ(late, usual);
}

}  // namespace
}  // namespace rannc::runtime
