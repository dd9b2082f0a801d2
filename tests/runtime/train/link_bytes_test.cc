// A step sends over each link the bytes of the plan, and skips go straight to their readers, under every schedule.
#include "ir/plan/link_bytes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "codegen/bundle_writer.h"
#include "ir/schedule/lower_schedule.h"
#include "ir/text/text.h"
#include "partition/schedule/make_schedule.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transports.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/runtime/transport/joined_ends.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using rannc::testing::PlanSpec;
using Sent = std::map<ir::Link, uint64_t>;

constexpr uint64_t kSteps = 2;
constexpr uint64_t kValue = uint64_t{8} * 6 * sizeof(double);  // every value of the model, over a mini-batch

/// relu -> tanh -> gelu -> add, a stage each. The add also reads what the relu made.
ir::Plan plan_of(const PlanSpec& spec) {
  return rannc::testing::build_plan(rannc::testing::skip_and_tie(ir::DType::kF64), spec);
}

/// The devices of the four stages.
std::vector<uint32_t> placement(partition::StageLayout layout) {
  switch (layout) {
    case partition::StageLayout::kV:
      return {0, 1, 1, 0};
    case partition::StageLayout::kLoop:
    case partition::StageLayout::kAny:
      return {0, 1, 0, 1};
    case partition::StageLayout::kOnePerRank:
      break;
  }
  return {0, 1, 2, 3};
}

ir::Plan scheduled(const partition::ScheduleFamily& family) {
  ir::Plan plan = plan_of({.cuts = {2, 4, 6}, .micro_batches = {2, 2, 2, 2}});
  const std::vector<uint32_t> devices = placement(family.layout);
  for (size_t stage = 0; stage < devices.size(); ++stage) plan.stages[stage].devices = {DeviceId(devices[stage])};
  plan.devices.resize(*std::max_element(devices.begin(), devices.end()) + 1);
  plan.predictions.resize(plan.devices.size());
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  partition::ScheduleSpec spec{.name = std::string(family.name), .warmup = {3, 3, 3, 1}, .k = 2};
  spec.times = {.forward = {1, 1, 1, 1}, .backward = {2, 2, 2, 2}, .hop = {0.5, 0.5, 0.5}};
  if (family.needs == partition::ScheduleFamily::Needs::kPattern) {
    const ir::Schedule rows = partition::make_schedule(shape, {.name = "interleaved"}).value();
    spec.pattern = partition::pattern_of(rows, shape).value();
  }
  if (family.needs == partition::ScheduleFamily::Needs::kTable)
    spec.table = ir::print_compute_rows(partition::make_schedule(shape, {.name = "interleaved"}).value());
  plan.schedule = ir::lower_schedule(shape, partition::make_schedule(shape, spec).value()).value();
  return plan;
}

class LinkBytes : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-links-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Writes the bundle.
  std::string written(const ir::Plan& plan) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(plan, {}, path).value();
    return path;
  }

  /// Bytes of the messages of some steps.
  static Sent sent(const std::string& path, const ir::Plan& plan, const TransportKind& kind) {
    if (!kind.between_processes()) return trained(*Trainer::open(path, {}).value());
    Rendezvous common;
    common.workers = static_cast<uint32_t>(plan.devices.size());
    auto joined = rannc::testing::join_each(common, [&](const auto& where) { return kind.join(where, cpu()); });
    std::vector<Sent> of_workers(common.workers);
    rannc::testing::on_each(common.workers, [&](uint32_t rank) {
      of_workers[rank] = trained(*Trainer::open_worker(path, {}, std::move(joined.ends[rank])).value());
    });
    Sent all;
    for (Sent& own : of_workers) all.merge(own);
    return all;
  }

 private:
  static Sent trained(Trainer& trainer) {
    const Batch batch = {{"x", to_value(at::ones({8, 6}, at::kDouble))},
                         {"target", to_value(at::zeros({8, 6}, at::kDouble))}};
    for (uint64_t step = 0; step < kSteps; ++step) trainer.step(batch).value();
    Sent sent;
    for (const auto& [link, bytes] : trainer.sent_bytes()) {
      if (bytes.messages > 0) sent[link] = bytes.messages;
    }
    return sent;
  }

  fs::path folder_;
  int bundles_ = 0;
};

Sent times(Sent bytes, uint64_t factor) {
  for (auto& [link, count] : bytes) count *= factor;
  return bytes;
}

ir::Link link(uint32_t from, uint32_t to) { return {DeviceId(from), DeviceId(to)}; }

TEST_F(LinkBytes, AreThoseOfThePlanUnderEverySchedule) {
  for (const partition::ScheduleFamily& family : partition::schedule_families()) {
    SCOPED_TRACE(family.name);
    const ir::Plan plan = scheduled(family);
    const std::string path = written(plan);
    const Sent planned = ir::link_bytes(plan);
    for (const char* transport : {"local", "shm"}) {
      SCOPED_TRACE(transport);
      EXPECT_EQ(sent(path, plan, *find_transport(transport)), times(planned, kSteps));
    }
    if (plan.devices.size() < 4) continue;
    // The skip crosses one link. No stage between passes it on.
    const Sent direct = {{link(0, 1), kValue}, {link(1, 2), kValue}, {link(2, 3), kValue}, {link(0, 3), kValue},
                         {link(1, 0), kValue}, {link(2, 1), kValue}, {link(3, 2), kValue}, {link(3, 0), kValue}};
    EXPECT_EQ(planned, direct);
  }
}

// The skip from relu to add stays on its device.
TEST_F(LinkBytes, OfStagesThatShareADevice) {
  const Sent expected = {{link(0, 1), 2 * kValue}, {link(1, 0), 2 * kValue}};
  EXPECT_EQ(ir::link_bytes(scheduled(*partition::find_schedule("zb-v"))), expected);
}

TEST_F(LinkBytes, OfReplicasOverEveryTransportBetweenProcesses) {
  const ir::Plan plan = plan_of({.cuts = {4, 6}, .replicas = {2, 1, 2}, .micro_batches = {3, 3, 2}, .recompute = true});
  const std::string path = written(plan);
  const Sent planned = ir::link_bytes(plan);
  for (const TransportKind& kind : transports()) {
    if (!kind.needs_nccl) EXPECT_EQ(sent(path, plan, kind), times(planned, kSteps)) << kind.name;
  }
  // Two of three samples are the second replica's, of two one.
  EXPECT_EQ(planned.at(link(1, 2)), (2 + 2 + 1) * 6 * sizeof(double));
  EXPECT_EQ(planned.at(link(0, 2)), (1 + 1 + 1) * 6 * sizeof(double));
  EXPECT_FALSE(planned.contains(link(0, 1)));
}

}  // namespace
}  // namespace rannc::runtime
