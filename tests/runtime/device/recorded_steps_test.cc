// Steps that are recorded and replayed have the bits of steps that run normally.
#include <gmock/gmock.h>

#include <atomic>

#include "partition/model/finish_plan.h"
#include "tests/runtime/device/device_training.h"
#include "tests/runtime/support/forwarding_device.h"

namespace rannc::runtime {
namespace {

using rannc::testing::PlanSpec;
using Which = ir::RecomputedMicroBatches;

/// Counts replays, and cannot record from some recording on.
class RecordingDevice final : public rannc::testing::ForwardingDevice {
 public:
  struct Counts {
    std::atomic<size_t> recordings = 0, replays = 0;
  };

  explicit RecordingDevice(std::unique_ptr<Device> device, size_t recordings = SIZE_MAX,
                           std::shared_ptr<Counts> counts = std::make_shared<Counts>())
      : ForwardingDevice(std::move(device)), recordings_(recordings), counts_(std::move(counts)) {}

  size_t replays() const { return counts_->replays; }
  size_t recordings() const { return counts_->recordings; }
  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<RecordingDevice>(target().with_own_streams(), recordings_, counts_);
  }
  std::unique_ptr<RecordedWork> capture(const std::function<void()>& work, uint64_t pool) override {
    const bool fails = counts_->recordings++ >= recordings_;
    std::unique_ptr<RecordedWork> recorded = target().capture(
        [&] {
          work();
          if (fails) throw std::runtime_error("a kernel waits for the device");
        },
        pool);
    return std::make_unique<Counted>(std::move(recorded), counts_);
  }

 private:
  class Counted final : public RecordedWork {
   public:
    Counted(std::unique_ptr<RecordedWork> work, std::shared_ptr<Counts> counts)
        : work_(std::move(work)), counts_(std::move(counts)) {}
    void replay() override {
      ++counts_->replays;
      work_->replay();
    }

   private:
    const std::unique_ptr<RecordedWork> work_;
    const std::shared_ptr<Counts> counts_;
  };

  const size_t recordings_;  ///< that succeed
  const std::shared_ptr<Counts> counts_;
};

class RecordedSteps : public DeviceTraining {
 protected:
  std::unique_ptr<RecordingDevice> recording(size_t recordings = SIZE_MAX) const {
    return std::make_unique<RecordingDevice>(devices_[0]->with_own_streams(), recordings);
  }
  /// Steps of a model on a device, all of whose calls are recorded and replayed, and on the processor.
  void expect_replays(const DeviceModel& model, const PlanSpec& spec, ir::DType dtype, at::ScalarType type) {
    SCOPED_TRACE(::testing::Message() << model.name << ", " << spec.cuts.size() + 1 << " stages, "
                                      << spec.micro_batches.size() << " micro-batches");
    const std::string path = bundle(model, spec, dtype);
    const auto hardware = recording();
    const auto found = Trainer::open(path, options({hardware.get()})).value(),
               expected = Trainer::open(path, options({})).value();
    expect_same_steps(*found, *expected, model, type);
    EXPECT_TRUE(found->unrecorded_stages().empty());
    // Forward and backward of each stage and micro-batch, from the step that is recorded on.
    EXPECT_GE(hardware->replays(), (kSteps - 1) * 2 * (spec.cuts.size() + 1) * spec.micro_batches.size());
  }
};

TEST_F(RecordedSteps, ReplayEveryCall) {
  for (const DeviceModel& model : kModels) {
    for (const PlanSpec& spec :
         {PlanSpec{.micro_batches = {8}}, PlanSpec{.cuts = {model.cut}, .micro_batches = {3, 3, 2}},
          PlanSpec{.cuts = {model.cut}, .micro_batches = {4, 4}, .recompute = true},
          PlanSpec{.cuts = {model.cut}, .micro_batches = {4, 4}, .split_backward = true}}) {
      expect_replays(model, spec, ir::DType::kF64, at::kDouble);
    }
  }
}

// As many calls as without statistics, and their update.
TEST_F(RecordedSteps, ReplayTheUpdateOfRunningStatistics) {
  const auto replays = [&](const DeviceModel& model) {
    const auto hardware = recording();
    const auto trainer = Trainer::open(bundle(model, {.micro_batches = {8}}), options({hardware.get()})).value();
    for (uint64_t step = 0; step < kSteps; ++step) trainer->step(batch_of(model, step)).value();
    EXPECT_TRUE(trainer->unrecorded_stages().empty());
    return hardware->replays();
  };
  EXPECT_EQ(replays(kModels[4]), replays(kModels[2]) + kSteps - 1) << kModels[4].name << ", " << kModels[2].name;
}

TEST_F(RecordedSteps, ReplaySixteenBits) {
  for (const DeviceModel& model : {kModels[0], kModels[1], kModels[2]}) {
    for (const PlanSpec& spec :
         {PlanSpec{.micro_batches = {8}}, PlanSpec{.cuts = {model.cut}, .micro_batches = {3, 3, 2}},
          PlanSpec{.cuts = {model.cut}, .micro_batches = {4, 4}, .split_backward = true}}) {
      expect_replays(model, spec, ir::DType::kBF16, at::kBFloat16);
    }
  }
}

TEST_F(RecordedSteps, AreForgottenUnderAnotherSchedule) {
  const partition::Reschedule changes[] = {{2, "gpipe", {}},          {4, "1f1b", Which::kAll},
                                           {4, "1f1b", {}},           {2, "gpipe", Which::kAllButLast},
                                           {1, "1f1b", Which::kAll},  {2, "1f1b", Which::kUnlessBackwardFollows},
                                           {4, "gpipe", Which::kAll}, {2, "gpipe", {}}};
  for (const DeviceModel& model : {kModels[0], kModels[1], kModels[2], kModels[4]}) {
    SCOPED_TRACE(model.name);
    const std::string path = bundle(model, {.cuts = {model.cut}, .micro_batches = {4, 4}});
    const auto hardware = recording();
    const auto found = Trainer::open(path, options({hardware.get()})).value(),
               expected = Trainer::open(path, options({})).value();
    expect_same_steps(*found, *expected, model);
    for (const partition::Reschedule& change : changes) {
      SCOPED_TRACE(::testing::Message() << change.micro_batches << " " << change.schedule);
      for (Trainer* trainer : {found.get(), expected.get()}) {
        trainer->step(batch_of(model, 31)).value();
        trainer->reschedule(partition::reschedule(trainer->plan(), change).value()).value();
      }
      // Sums of the last step, which recordings made, are still read afterwards.
      const auto gradients = found->gradients().value(), wanted = expected->gradients().value();
      for (const auto& [name, gradient] : wanted) {
        EXPECT_TRUE(to_tensor(gradient).any().item<bool>()) << name;
        expect_same(gradients.at(name), gradient, name);
      }
      const size_t before = hardware->replays();
      expect_same_steps(*found, *expected, model);
      EXPECT_GT(hardware->replays(), before);
      if (HasFailure()) return;
    }
  }
}

TEST_F(RecordedSteps, LetOtherStepsRunBetween) {
  for (const DeviceModel& model : {kModels[0], kModels[1], kModels[4]}) {
    SCOPED_TRACE(model.name);
    const std::string path = bundle(model, {.cuts = {model.cut}, .micro_batches = {4, 4}});
    const auto hardware = recording();
    const auto found = Trainer::open(path, options({hardware.get()})).value(),
               expected = Trainer::open(path, options({})).value();
    for (uint64_t round = 0; round < 3; ++round) {
      expect_same_steps(*found, *expected, model);
      for (uint64_t i = 0; i < 2; ++i) {
        const Batch batch = batch_of(model, 20 + 2 * round + i);
        expect_same(found->accumulate(batch).value(), expected->accumulate(batch).value());
      }
    }
    EXPECT_TRUE(found->unrecorded_stages().empty());
  }
}

// A stage whose normalization is summed over replicas, and a weight that a once-per-step task permutes.
TEST_F(RecordedSteps, LeaveOutSumsWithinPasses) {
  const DeviceModel model = {"permuted", rannc::testing::permuted_joint_model, {3, 4}, 4};
  for (const PlanSpec& spec : {PlanSpec{.replicas = {2}, .micro_batches = {8}},
                               PlanSpec{.cuts = {model.cut}, .replicas = {2, 1}, .micro_batches = {4, 4}}}) {
    const std::string path = bundle(model, spec);
    const auto found = Trainer::open(path, options(two())).value(), expected = Trainer::open(path, options({})).value();
    expect_same_steps(*found, *expected, model);
  }
}

TEST_F(RecordedSteps, RunWhatCannotBeRecorded) {
  for (const DeviceModel& model : {kModels[0], kModels[1], kModels[2], kModels[4]}) {
    const std::string path = bundle(model, {.cuts = {model.cut}, .micro_batches = {4, 4}});
    for (size_t recordings = 0; recordings < 10; ++recordings) {
      SCOPED_TRACE(::testing::Message() << model.name << ", " << recordings << " recordings");
      const auto hardware = recording(recordings);
      const auto found = Trainer::open(path, options({hardware.get()})).value(),
                 expected = Trainer::open(path, options({})).value();
      expect_same_steps(*found, *expected, model);
      const auto reasons = found->unrecorded_stages();
      EXPECT_TRUE(std::any_of(reasons.begin(), reasons.end(), [](const auto& each) {
        return each.second.find("a kernel waits for the device") != std::string::npos;
      }));
    }
  }
}

const PlanSpec kReplicas[] = {{.replicas = {2}, .micro_batches = {8}, .bucket_bytes = 0},
                              {.replicas = {2}, .micro_batches = {4, 4}, .bucket_bytes = 0},
                              {.replicas = {2}, .micro_batches = {4, 4}, .recompute = true, .bucket_bytes = 0},
                              {.replicas = {2}, .micro_batches = {4, 4}, .split_backward = true, .bucket_bytes = 0}};

// Sums of gradients begin between the segments of the last backward pass.
TEST_F(RecordedSteps, ReplayTheLastBackwardPassInSegments) {
  for (const DeviceModel& model : kModels) {
    for (const PlanSpec& spec : kReplicas) {
      SCOPED_TRACE(::testing::Message() << model.name << ", " << spec.micro_batches.size() << " micro-batches"
                                        << (spec.split_backward ? ", I and W" : "") << (spec.recompute ? ", R" : ""));
      const std::string path = bundle(model, spec);
      size_t recordings[2] = {}, replays[2] = {};
      for (const bool late : {false, true}) {
        const auto first = recording(), second = recording();
        TrainerOptions made = options({first.get(), second.get()});
        made.overlaps_sums = !late;
        const auto found = Trainer::open(path, made).value(), expected = Trainer::open(path, options({})).value();
        expect_same_steps(*found, *expected, model);
        if (HasFailure()) return;
        EXPECT_TRUE(found->unrecorded_stages().empty());
        recordings[late] = first->recordings() + second->recordings();
        replays[late] = first->replays() + second->replays();
        EXPECT_EQ(replays[late], recordings[late] * (kSteps - 1));
      }
      EXPECT_GE(recordings[false], recordings[true] + 2) << "two segments on each device";
    }
  }
}

TEST_F(RecordedSteps, ReplaySegmentsOfSixteenBits) {
  for (const PlanSpec& spec : kReplicas) {
    const std::string path = bundle(kModels[0], spec, ir::DType::kBF16);
    const auto first = recording(), second = recording();
    const auto found = Trainer::open(path, options({first.get(), second.get()})).value(),
               expected = Trainer::open(path, options({})).value();
    expect_same_steps(*found, *expected, kModels[0], at::kBFloat16);
    EXPECT_TRUE(found->unrecorded_stages().empty());
  }
}

// A pass that has begun cannot be repeated. What the first segment contains has been recorded before, where there are
// several micro-batches.
TEST_F(RecordedSteps, EndWhereALaterSegmentCannotBeRecorded) {
  const DeviceModel& model = kModels[0];
  for (const PlanSpec& spec : {kReplicas[0], kReplicas[1], kReplicas[3]}) {
    const std::string path = bundle(model, spec);
    size_t calls[2] = {};  // recordings of a device without and with segments
    for (const bool early : {false, true}) {
      const auto first = recording(), second = recording();
      TrainerOptions made = options({first.get(), second.get()});
      made.overlaps_sums = early;
      const auto trainer = Trainer::open(path, made).value();
      for (uint64_t step = 0; step < 2; ++step) trainer->step(batch_of(model, step)).value();
      calls[early] = first->recordings();
    }
    ASSERT_GT(calls[true], calls[false]);
    for (size_t recordings = 0; recordings < calls[true]; ++recordings) {
      SCOPED_TRACE(::testing::Message() << spec.micro_batches.size() << " micro-batches, " << recordings
                                        << " recordings");
      const auto first = recording(recordings), second = recording();
      const auto found = Trainer::open(path, options({first.get(), second.get()})).value(),
                 expected = Trainer::open(path, options({})).value();
      if (recordings < calls[false]) {
        expect_same_steps(*found, *expected, model);
        EXPECT_EQ(found->unrecorded_stages().size(), 1U);
        continue;
      }
      found->step(batch_of(model, 7)).value();
      const auto failed = found->step(batch_of(model, 8));
      ASSERT_FALSE(failed.ok());
      EXPECT_THAT(failed.diagnostic().message,
                  ::testing::HasSubstr("a kernel behind the first mark cannot be recorded: use --late-sums"));
      EXPECT_THAT(failed.diagnostic().message, ::testing::HasSubstr(spec.split_backward ? "(W0.1)" : "(B0."));
    }
  }
}

}  // namespace
}  // namespace rannc::runtime
