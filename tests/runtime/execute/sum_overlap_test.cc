// Sums of gradients run while the last backward pass goes on: over slow links, with programs that sleep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "ir/op/op.h"
#include "ir/schedule/lower_schedule.h"
#include "ir/text/text.h"
#include "tests/runtime/execute/fake_pipeline.h"
#include "tests/runtime/transport/slow_link.h"

namespace rannc::testing {
namespace {

using ir::ActionKind;
using runtime::At;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Milliseconds = std::chrono::milliseconds;

// A forward pass, the gradients of a bucket, and those of inputs.
constexpr Milliseconds kForward{30}, kBucket{40}, kInput{10};
constexpr uint32_t kBuckets = 4;
constexpr Milliseconds kBackward = kInput + kBucket * kBuckets;
/// Devices send this for the sum of one number over two replicas.
constexpr int64_t kSumBytes = 8;
/// Clocks and sleeps are not exact, and threads of other processes run too.
constexpr double kTolerance = 1.1;

/// A chain of `kBuckets` tasks per stage. Each reads a parameter of its own.
ir::Graph tower(uint32_t stages) {
  ir::Graph graph;
  graph.set_batch_symbol("batch");
  const ir::ValueType samples = {
      .dtype = ir::DType::kF64, .shape = ir::Shape{ir::Dim::symbol("batch")}, .batch = {.axis = 0}};
  const ir::ValueType scalar = {.dtype = ir::DType::kF64, .shape = ir::Shape{}};
  ValueId last = graph.add_value(ir::ValueKind::kInput, "x", samples);
  graph.add_input(last);
  const ir::OpInfo& op = graph.foreign_op("test_task");
  for (uint32_t task = 0; task < stages * kBuckets; ++task) {
    const std::string number = std::to_string(task);
    const ValueId weight = graph.add_value(ir::ValueKind::kParameter, "w" + number, scalar);
    last = graph.add(op, {last, weight}, {}, "a" + number);
    graph.set_type(last, samples);
  }
  graph.set_type(last, scalar);
  graph.add_loss({.numerator = last});
  return graph;
}

/// One stage on two devices, a bucket per parameter.
ir::Plan replicated(std::vector<uint32_t> micro_batches, bool split_backward = false) {
  return build_plan(tower(1), {.replicas = {2},
                               .micro_batches = std::move(micro_batches),
                               .split_backward = split_backward,
                               .bucket_bytes = 0});
}

/// The plan with other rows, which are lowered.
ir::Plan with_rows(ir::Plan plan, const char* rows) {
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  plan.schedule = ir::lower_schedule(shape, ir::parse_schedule(rows, shape).value()).value();
  return plan;
}

/// Two stages, both on two devices.
ir::Plan two_stages_on_each(const char* rows) {
  ir::Plan plan =
      build_plan(tower(2), {.cuts = {kBuckets}, .replicas = {2, 2}, .micro_batches = {2}, .bucket_bytes = 0});
  plan.devices.resize(2);
  plan.predictions.resize(2);
  plan.stages[1].devices = plan.stages[0].devices;
  return with_rows(std::move(plan), rows);
}

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

/// Runs a step of a plan. Sums take `sum` each, one after the other.
class Step {
 public:
  explicit Step(ir::Plan plan, Milliseconds sum = Milliseconds(kSumBytes), bool overlaps = true,
                uint32_t marks = UINT32_MAX)
      : links_(std::chrono::nanoseconds(sum) / kSumBytes),
        run_(std::move(plan), {.trap = [this](const char* call, const At& at) { return called(call, at); },
                               .completes = [](const At&, uint32_t) { std::this_thread::sleep_for(kBucket); },
                               .marks = marks,
                               .wrap =
                                   [this](std::unique_ptr<runtime::Transport> end) {
                                     return std::make_unique<SlowTransport>(std::move(end), links_, Blocking::kNothing);
                                   }}) {
    run_.input.overlaps_sums = overlaps;
    run_.input.update = [](StageId, runtime::Program&) { return Result<void>(); };
    run_.go();
    for (const auto& outcome : run_.outcomes) EXPECT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  }

  std::vector<runtime::ActionRecord> of(ActionKind kind, size_t device = 0, StageId stage = StageId(0)) const {
    std::vector<runtime::ActionRecord> found;
    for (const runtime::ActionRecord& record : run_.records(device)) {
      if (record.action.kind == kind && record.action.stage == stage) found.push_back(record);
    }
    return found;
  }
  /// From the first action to the last, ms.
  double duration() const {
    int64_t first = INT64_MAX, last = 0;
    for (size_t device = 0; device < 2; ++device) {
      for (const runtime::ActionRecord& record : run_.records(device)) {
        first = std::min(first, record.start_ns);
        last = std::max(last, record.end_ns);
      }
    }
    return ms(last - first);
  }
  /// Buckets of the sums of a device, in the order in which they began.
  std::vector<uint32_t> buckets(DeviceId device) const {
    std::vector<uint32_t> found;
    for (const SumOnTheWay& sum : links_.sums()) {
      if (sum.device == device) found.push_back(sum.key.part);
    }
    return found;
  }
  /// Calls that received marks.
  std::vector<std::string> marked() const {
    const std::lock_guard lock(mutex_);
    return marked_;
  }
  Pipelined& run() { return run_; }

 private:
  Result<void> called(const char* call, const At& at) {
    if (at.marks != nullptr) {
      const std::lock_guard lock(mutex_);
      marked_.push_back(call + std::to_string(at.stage.index()) + "." + std::to_string(at.micro_batch));
    }
    if (call[0] == 'F') std::this_thread::sleep_for(kForward);
    if (call[0] == 'I') std::this_thread::sleep_for(kInput);
    return {};
  }

  SlowLinks links_;
  mutable std::mutex mutex_;
  std::vector<std::string> marked_;
  Pipelined run_;
};

/// Sums that are shorter than what they run beside, as long, and longer.
constexpr Milliseconds kSums[] = {Milliseconds(16), Milliseconds(40), Milliseconds(80)};

class SumOverlap : public ::testing::TestWithParam<size_t> {
 protected:
  static std::vector<uint32_t> micro_batches() { return std::vector<uint32_t>(GetParam(), 2); }
  static double compute() { return ms(std::chrono::nanoseconds((kForward + kBackward) * GetParam()).count()); }
};

TEST_P(SumOverlap, HidesSumsBehindTheLastBackwardPass) {
  for (const Milliseconds sum : kSums) {
    SCOPED_TRACE(::testing::Message() << "sums of " << sum.count() << " ms");
    const Step step(replicated(micro_batches()), sum);
    const auto backward = static_cast<double>(kBackward.count()), sums = static_cast<double>((sum * kBuckets).count());
    const auto last = static_cast<double>(std::max(sum, kBucket + kInput).count());
    EXPECT_LE(step.duration(), kTolerance * (compute() - backward + std::max(backward, sums) + last));
    // The bound would not hold without overlap.
    const Step late(replicated(micro_batches()), sum, false);
    EXPECT_GE(late.duration(), compute() + sums);
    EXPECT_LT(step.duration(), late.duration() - std::min(sums, backward) / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, SumOverlap, ::testing::Values(1, 3));

TEST(SumOverlap, IsOnTheTrace) {
  for (const bool split : {false, true}) {
    const Step step(replicated({2, 2}, split), Milliseconds(16));
    const ActionKind kind = split ? ActionKind::kWeightGradient : ActionKind::kBackward;
    for (size_t device = 0; device < 2; ++device) {
      const runtime::ActionRecord last = step.of(kind, device).back();
      const auto sums = step.of(ActionKind::kAllReduce, device);
      ASSERT_EQ(sums.size(), kBuckets);
      for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
        EXPECT_EQ(sums[bucket].action.micro_batch, bucket);
        EXPECT_GT(sums[bucket].start_ns, last.start_ns);
        EXPECT_LE(sums[bucket].start_ns, last.end_ns);
        EXPECT_GE(sums[bucket].waited_ns, 0);
        EXPECT_LE(sums[bucket].waited_ns, sums[bucket].end_ns - sums[bucket].start_ns);
        if (bucket + 1 == kBuckets) continue;
        EXPECT_LT(sums[bucket].end_ns, last.end_ns);
        EXPECT_EQ(sums[bucket].waited_ns, 0);
      }
      EXPECT_GT(sums.back().waited_ns, 0);
    }
    const Step late(replicated({2, 2}, split), Milliseconds(16), false);
    for (const runtime::ActionRecord& sum : late.of(ActionKind::kAllReduce)) {
      EXPECT_GE(sum.start_ns, late.of(kind).back().end_ns);
      EXPECT_GT(sum.waited_ns, 0);
      EXPECT_LE(sum.waited_ns, sum.end_ns - sum.start_ns);
    }
  }
}

// Weight gradients may come after all input gradients.
TEST(SumOverlap, IsOfTheLastPassThatAddsGradients) {
  const Step apart(
      with_rows(replicated({2, 2}, true), "0: F0.0 F0.1 I0.0 I0.1 W0.1 W0.0\n1: F0.0 F0.1 I0.0 I0.1 W0.1 W0.0\n"));
  EXPECT_THAT(apart.marked(), ElementsAre("W0.0", "W0.0"));
  EXPECT_THAT(Step(replicated({2, 2})).marked(), ::testing::UnorderedElementsAre("I0.1", "I0.1", "W0.1", "W0.1"))
      << "a fake's B is I and W";
  EXPECT_THAT(Step(replicated({2, 2}), Milliseconds(8), false).marked(), IsEmpty());
}

// A row may begin sums in another order than that in which gradients become final.
TEST(SumOverlap, BeginsSumsInTheOrderOfTheRow) {
  EXPECT_THAT(Step(replicated({2})).buckets(DeviceId(0)), ElementsAre(0, 1, 2, 3));
  ir::Plan plan = replicated({2});
  for (auto& row : plan.schedule.rows) {
    const auto first =
        std::find_if(row.begin(), row.end(), [](const auto& each) { return ir::is_reduction(each.kind); });
    std::swap(first[0], first[1]);
  }
  Step step(std::move(plan));
  EXPECT_THAT(step.buckets(DeviceId(0)), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(step.buckets(DeviceId(1)), ElementsAre(1, 0, 2, 3));
  const auto sums = step.of(ActionKind::kAllReduce);
  EXPECT_LE(sums[0].start_ns, sums[1].start_ns);
  EXPECT_LT(sums[1].start_ns, step.of(ActionKind::kBackward).back().end_ns) << "both are final in the middle of B";
}

// The first replica has no sample in the last micro-batch, so its gradients are final before those of the second.
TEST(SumOverlap, BeginsAllSumsOfAReplicaWithoutSamples) {
  Step step(replicated({2, 1}), Milliseconds(16));
  const runtime::ActionRecord last = step.of(ActionKind::kBackward, 1).back();
  for (const runtime::ActionRecord& sum : step.of(ActionKind::kAllReduce, 1)) {
    EXPECT_GT(sum.start_ns, last.start_ns);
    EXPECT_LE(sum.start_ns, last.end_ns);
  }
  const auto early = step.of(ActionKind::kAllReduce, 0);
  ASSERT_EQ(early.size(), kBuckets);
  for (const runtime::ActionRecord& sum : early) {
    EXPECT_LT(sum.start_ns, last.start_ns + std::chrono::nanoseconds(kBucket).count());
    EXPECT_GT(sum.waited_ns, 0);
    EXPECT_LE(sum.waited_ns, sum.end_ns - sum.start_ns);
  }
  EXPECT_LT(early.front().end_ns, last.end_ns);
  // Seed 1 per sample.
  for (const char* name : {"w0", "w1", "w2", "w3"}) {
    EXPECT_EQ(step.run().gradient(0, 0, name), 3) << name;
    EXPECT_EQ(step.run().gradient(1, 0, name), 3) << name;
  }
}

// The sums of one stage run while the device computes the gradients of another.
TEST(SumOverlap, IsOfOtherStagesOfTheDevice) {
  constexpr Milliseconds kSum{48};
  const Step step(two_stages_on_each("0: F0.0 F1.0 B1.0 B0.0\n1: F0.0 F1.0 B1.0 B0.0\n"), kSum);
  for (size_t device = 0; device < 2; ++device) {
    const runtime::ActionRecord other = step.of(ActionKind::kBackward, device).back();
    const runtime::ActionRecord behind = step.of(ActionKind::kAllReduce, device, StageId(1)).back();
    EXPECT_LT(behind.start_ns, other.start_ns);
    EXPECT_GT(behind.end_ns, other.start_ns);
    EXPECT_LT(behind.end_ns, other.end_ns);
    EXPECT_EQ(behind.waited_ns, 0);
  }
  const auto compute = static_cast<double>((2 * (kForward + kBackward)).count());
  EXPECT_LE(step.duration(), kTolerance * (compute + static_cast<double>(2 * kSum.count())));
}

// Gradients that the end of a step completes have no mark.
TEST(SumOverlap, OfBucketsWithoutMarksBeginsWhereTheRowHasThem) {
  const Step step(two_stages_on_each("0: F0.0 F1.0 B1.0 B0.0\n1: F0.0 F1.0 B1.0 B0.0\n"), Milliseconds(16), true, 2);
  const runtime::ActionRecord first = step.of(ActionKind::kBackward, 0, StageId(1)).back(),
                              last = step.of(ActionKind::kBackward, 0, StageId(0)).back();
  const auto sums = step.of(ActionKind::kAllReduce, 0, StageId(1)), behind = step.of(ActionKind::kAllReduce);
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    EXPECT_EQ(sums[bucket].start_ns > first.end_ns, bucket >= 2) << bucket;
    EXPECT_EQ(behind[bucket].start_ns > last.end_ns, bucket >= 2) << bucket;
    EXPECT_EQ(sums[bucket].waited_ns, 0) << bucket;
    EXPECT_LT(sums[bucket].end_ns, last.end_ns) << bucket;
  }
}

/// A sum of one bucket fails, when it begins or when it is awaited.
class FailingTransport final : public ForwardingTransport {
 public:
  FailingTransport(std::unique_ptr<runtime::Transport> inner, bool at_begin)
      : ForwardingTransport(std::move(inner)), at_begin_(at_begin) {}
  Result<std::unique_ptr<runtime::PendingSum>> begin_all_reduce(const runtime::CollectiveKey& key,
                                                                std::span<const DeviceId> members,
                                                                runtime::Values values) override {
    RANNC_ASSIGN(auto sum, inner().begin_all_reduce(key, members, std::move(values)));
    if (device() != DeviceId(1) || key.part != 1) return sum;
    if (at_begin_) return error("the cable is out");
    return std::unique_ptr<runtime::PendingSum>(std::make_unique<Failing>());
  }

 private:
  class Failing final : public runtime::PendingSum {
   public:
    Result<runtime::Values> wait() override { return error("the cable is out"); }
    int64_t finished_ns() const override { return 0; }
  };
  const bool at_begin_;
};

TEST(SumOverlap, ErrorsOfBegunSumsNameThem) {
  for (const bool at_begin : {false, true}) {
    for (const bool overlaps : {false, true}) {
      SCOPED_TRACE(::testing::Message() << (at_begin ? "begin" : "wait") << (overlaps ? ", early" : ", late"));
      Pipelined run(replicated({2, 2}), {.wrap = [&](std::unique_ptr<runtime::Transport> end) {
                      return std::make_unique<FailingTransport>(std::move(end), at_begin);
                    }});
      run.input.overlaps_sums = overlaps;
      run.input.update = [](StageId, runtime::Program&) { return Result<void>(); };
      run.go();
      ASSERT_FALSE(run.outcomes[1].ok());
      const Diagnostic& found = run.outcomes[1].diagnostic();
      EXPECT_THAT(found.message, HasSubstr("all-reduce (AR0.1) failed: step 0, device 1, stage 0"));
      EXPECT_THAT(found.message, HasSubstr("the cable is out"));
      ASSERT_FALSE(found.notes.empty());
      EXPECT_THAT(found.notes[0].message, HasSubstr(">>AR0.1<<"));
    }
  }
}

}  // namespace
}  // namespace rannc::testing
