// How a step uses an asynchronous device: when the host waits, and which action is named when the device fails.
#include <gmock/gmock.h>

#include "tests/runtime/device/device_training.h"
#include "tests/runtime/support/forwarding_device.h"
#include "tests/support/test_device/guard.h"

namespace rannc::runtime {
namespace {

using rannc::testing::PlanSpec;
using ::testing::HasSubstr;

Batch batch() { return batch_of(kModels[0], 5); }

class DeviceWork : public DeviceTraining {
 protected:
  std::unique_ptr<Trainer> open(const PlanSpec& spec, Device& hardware, double clip_norm = 0) {
    TrainerOptions clipped = options({&hardware});
    clipped.clip_norm = clip_norm;
    return Trainer::open(bundle(kModels[0], spec), clipped).value();
  }

  /// In a step like many before it.
  uint64_t waits(const PlanSpec& spec, double clip_norm = 0) {
    const auto trainer = open(spec, device(), clip_norm);
    for (int step = 0; step < 3; ++step) trainer->step(batch()).value();
    const uint64_t before = rannc::testing::host_waits();
    trainer->step(batch()).value();
    return rannc::testing::host_waits() - before;
  }

  Device& device() const { return *devices_[0]; }
};

TEST_F(DeviceWork, NeedsNoHostWithinAStep) {
  for (const std::vector<uint32_t>& cuts : {std::vector<uint32_t>{}, {4}}) {
    const uint64_t few = waits({.cuts = cuts, .micro_batches = {4, 4}});
    EXPECT_EQ(few, cuts.empty() ? 2U : 16U)
        << "two per stream, at the end of the step: of computations, messages, sums, their copies";
    EXPECT_EQ(waits({.cuts = cuts, .micro_batches = {2, 2, 2, 2}}), few) << cuts.size();
  }
}

TEST_F(DeviceWork, ClipsWithOneWaitPerStageAndTheEndsOfTwoJobs) {
  const PlanSpec spec = {.micro_batches = {8}};
  EXPECT_EQ(waits(spec, 0.05), waits(spec) + 1 + 2);
}

TEST_F(DeviceWork, HasStreamsOfHighPriorityForMessages) {
  const auto own = device().with_own_streams();
  const auto priority = [&](Stream stream) {
    const auto scope = own->enter(stream);
    return rannc::testing::priority_of(rannc::testing::test_device_guard().getStream(c10::Device(own->address())));
  };
  EXPECT_EQ(priority(Stream::kCompute), 0);
  EXPECT_LT(priority(Stream::kCopies), 0);
  EXPECT_LT(priority(static_cast<Stream>(7)), 0);
}

TEST_F(DeviceWork, IsMarkedInItsOrder) {
  device().mark(0);
  EXPECT_EQ(device().marked(), 0U);
  for (const uint64_t number : {1, 2, 1500}) {
    device().mark(number);
    device().synchronize();
    EXPECT_EQ(device().marked(), number);
  }
  device().mark(0);
  EXPECT_EQ(device().marked(), 0U);
}

/// A device that fails in the work of one action, which a later call reports, as do all calls after it.
class FailingDevice final : public rannc::testing::ForwardingDevice {
 public:
  /// `noticed_by`: the action whose end is the first to report it.
  FailingDevice(std::unique_ptr<Device> device, uint64_t failing, uint64_t noticed_by)
      : ForwardingDevice(std::move(device)), failing_(failing), noticed_by_(noticed_by) {}

  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<FailingDevice>(target().with_own_streams(), failing_, noticed_by_);
  }
  void mark(uint64_t number) override {
    failed_ = failed_ || number == failing_ + 1;
    noticed_ = noticed_ || (failed_ && number > noticed_by_);
    check();
    if (!failed_) done_ = number;
  }
  uint64_t marked() const override { return done_; }
  EventRef record(Stream stream) override {
    check();
    return target().record(stream);
  }
  bool is_reached(const EventRef& event) const override {
    check();
    return target().is_reached(event);
  }
  void await(Stream stream, const EventRef& event) override {
    check();
    target().await(stream, event);
  }
  void synchronize() override {
    noticed_ = failed_;
    check();
    target().synchronize();
  }

 private:
  void check() const {
    if (noticed_) throw std::runtime_error("an illegal memory access was encountered\nException raised from here");
  }

  const uint64_t failing_, noticed_by_;
  uint64_t done_ = 0;
  bool failed_ = false, noticed_ = false;
};

TEST_F(DeviceWork, NamesTheActionThatFailed) {
  const PlanSpec spec = {.micro_batches = {4, 4}};
  const std::vector<ir::Action> row = open(spec, device())->plan().schedule.rows[0];
  for (size_t failing = 0; failing < row.size(); ++failing) {
    for (const size_t noticed_by : {failing, failing + 2, row.size()}) {
      FailingDevice hardware(device().with_own_streams(), failing, noticed_by);
      const Result<StepResult> step = open(spec, hardware)->step(batch());
      ASSERT_FALSE(step.ok());
      const std::string message = step.diagnostic().message;
      EXPECT_THAT(message, HasSubstr("(" + to_string(row[failing]) + ") failed: step 0, device 0, stage 0"));
      EXPECT_THAT(message, HasSubstr("an illegal memory access"));
      EXPECT_EQ(message.find("Exception raised"), std::string::npos) << message;
    }
  }
}

// Sends that nothing waited for fail at the end of the step.
TEST_F(DeviceWork, NamesTheActionWhoseValueWasNotSent) {
  class Unreachable final : public rannc::testing::ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    std::unique_ptr<Device> with_own_streams() const override {
      return std::make_unique<Unreachable>(target().with_own_streams());
    }
    EventRef copy(Stream, const Value&, const Value&, std::span<const EventRef>) override {
      throw std::runtime_error("an illegal memory access was encountered\nException raised from here");
    }
  };
  Unreachable hardware(device().with_own_streams());
  const Result<StepResult> step = open({.cuts = {4}, .micro_batches = {4, 4}}, hardware)->step(batch());
  ASSERT_FALSE(step.ok());
  const std::string message = step.diagnostic().message;
  EXPECT_THAT(message, HasSubstr("failed: step 0, device "));
  EXPECT_THAT(message, HasSubstr("an illegal memory access"));
  EXPECT_EQ(message.find("Exception raised"), std::string::npos) << message;
}

/// A device that works, under an operator that does not.
TEST_F(DeviceWork, NamesTheCallThatFailed) {
  class Refusing final : public rannc::testing::ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    std::unique_ptr<Device> with_own_streams() const override {
      return std::make_unique<Refusing>(target().with_own_streams());
    }
    void mark(uint64_t number) override {
      if (number == 3) throw std::runtime_error("no kernel for this shape");
      target().mark(number);
    }
    uint64_t marked() const override { return 0; }  // as if it were far behind
  };
  const PlanSpec spec = {.micro_batches = {4, 4}};
  Refusing hardware(device().with_own_streams());
  const auto trainer = open(spec, hardware);
  const Result<StepResult> step = trainer->step(batch());
  ASSERT_FALSE(step.ok());
  EXPECT_THAT(step.diagnostic().message, HasSubstr("(" + to_string(trainer->plan().schedule.rows[0][2]) + ") failed"));
}

}  // namespace
}  // namespace rannc::runtime
