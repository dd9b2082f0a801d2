// Training on a device whose work is asynchronous: the numbers of the processor, and no missing wait.
#include <gmock/gmock.h>

#include <mutex>
#include <set>

#include "tests/runtime/device/device_training.h"
#include "tests/runtime/support/forwarding_device.h"

namespace rannc::runtime {
namespace {

using rannc::testing::PlanSpec;
using AsynchronousDevice = DeviceTraining;

std::vector<PlanSpec> cuts_of(const DeviceModel& model) {
  return {
      {.micro_batches = {8}},
      {.cuts = {model.cut}, .micro_batches = {3, 3, 2}},
      {.cuts = {model.cut}, .micro_batches = {4, 4}, .early_backward = false, .recompute = true},
      {.cuts = {model.cut}, .micro_batches = {4, 4}, .split_backward = true},
      {.cuts = {model.cut}, .replicas = {2, 1}, .micro_batches = {4, 4}},
      {.cuts = {model.cut}, .replicas = {1, 2}, .micro_batches = {3, 3, 2}},
  };
}

TEST_F(AsynchronousDevice, TrainsWithTheBitsOfTheProcessor) {
  for (const DeviceModel& model : kModels) {
    for (const PlanSpec& spec : cuts_of(model)) {
      const std::string path = bundle(model, spec);
      for (const auto& hardware : {one(), two()}) {
        SCOPED_TRACE(::testing::Message() << model.name << ", " << spec.cuts.size() + 1 << " stages, "
                                          << spec.replicas.size() << " replicated, " << hardware.size() << " devices");
        const auto found = Trainer::open(path, options(hardware)).value(),
                   expected = Trainer::open(path, options({})).value();
        expect_same_steps(*found, *expected, model);
      }
    }
  }
}

TEST_F(AsynchronousDevice, NormalizesOverReplicas) {
  const DeviceModel model = {"joint", rannc::testing::joint_norm_model, {3, 4}, 2};
  const std::string path = bundle(model, {.cuts = {2}, .replicas = {2, 2}, .micro_batches = {4, 4}});
  const auto found = Trainer::open(path, options(two())).value(), expected = Trainer::open(path, options({})).value();
  expect_same_steps(*found, *expected, model);
}

TEST_F(AsynchronousDevice, ClipsAndAccumulates) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.cuts = {4}, .micro_batches = {4, 4}});
  TrainerOptions on_devices = options(two()), on_processor = options({});
  on_devices.clip_norm = on_processor.clip_norm = 0.05;
  const auto found = Trainer::open(path, on_devices).value(), expected = Trainer::open(path, on_processor).value();
  expect_same_steps(*found, *expected, model);
  for (const auto& trainer : {found.get(), expected.get()}) trainer->accumulate(batch_of(model, 1)).value();
  expect_same_steps(*found, *expected, model);
}

// The kernel for optimizer steps differs from LibTorch's in the last bit. No wait is missing.
TEST_F(AsynchronousDevice, UpdatesByAKernel) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.cuts = {4}, .replicas = {2, 1}, .micro_batches = {4, 4}});
  const auto found = Trainer::open(path, options(two())).value(), expected = Trainer::open(path, options({})).value();
  const uint64_t before = rannc::testing::kernel_updates();
  rannc::testing::use_update_kernel(true);
  for (uint64_t step = 0; step < 6; ++step) {
    const double loss = found->step(batch_of(model, step)).value().loss,
                 wanted = expected->step(batch_of(model, step)).value().loss;
    EXPECT_NEAR(loss, wanted, 1e-12 * std::abs(wanted)) << "step " << step;
  }
  rannc::testing::use_update_kernel(false);
  EXPECT_EQ(rannc::testing::kernel_updates() - before, 6 * 3) << "of two stages, one of them on two devices";
  EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
}

TEST_F(AsynchronousDevice, ResumesOnAnotherDevice) {
  const DeviceModel& model = kModels[4];
  const std::string path = bundle(model, {.cuts = {2}, .micro_batches = {4, 4}});
  const auto first = Trainer::open(path, options(one())).value(), whole = Trainer::open(path, options({})).value();
  for (const auto& trainer : {first.get(), whole.get()}) {
    for (uint64_t step = 0; step < 3; ++step) trainer->step(batch_of(model, step)).value();
  }
  first->save(file("checkpoint"), "here").value();
  const auto on_processor = Trainer::open(path, options({})).value(),
             on_devices = Trainer::open(path, options(two())).value();
  for (const auto& trainer : {on_processor.get(), on_devices.get()}) {
    EXPECT_EQ(trainer->load(file("checkpoint")).value(), "here");
  }
  expect_same_steps(*on_devices, *whole, model);
  const auto again = Trainer::open(path, options({})).value();
  again->load(file("checkpoint")).value();
  expect_same_steps(*on_processor, *again, model);
}

TEST_F(AsynchronousDevice, RecordsStartEndAndWaitOfEachAction) {
  struct Recorder final : Observer {
    void finished(const ActionRecord& record) override {
      const std::lock_guard lock(mutex);
      records.push_back(record);
    }
    std::mutex mutex;
    std::vector<ActionRecord> records;
  } recorder;
  const DeviceModel& model = kModels[0];
  TrainerOptions observed = options(two());
  observed.observer = &recorder;
  const auto trainer = Trainer::open(bundle(model, {.cuts = {4}, .micro_batches = {4, 4}}), observed).value();
  trainer->step(batch_of(model, 1)).value();
  size_t actions = 0;
  for (const auto& row : trainer->plan().schedule.rows) actions += row.size();
  ASSERT_EQ(recorder.records.size(), actions);
  for (const ActionRecord& record : recorder.records) {
    EXPECT_LE(record.start_ns, record.end_ns);
    EXPECT_GE(record.waited_ns, 0);
    EXPECT_LE(record.waited_ns, record.end_ns - record.start_ns);
  }
}

// A backend hands out its streams in turn. Two devices with one stream would wait for each other, or record each other.
TEST_F(AsynchronousDevice, SharesNoStreamWithAnother) {
  std::vector<std::unique_ptr<Device>> devices;
  const auto add = [&] {
    devices.push_back(devices_[0]->with_own_streams());
    devices.back()->enter(Stream::kCompute);
  };
  try {
    for (int i = 0; i < 100; ++i) add();
    ADD_FAILURE();
  } catch (const std::exception& failure) {
    EXPECT_THAT(failure.what(), ::testing::HasSubstr("has no stream left"));
  }
  EXPECT_GT(devices.size(), 16U);
  devices.clear();
  EXPECT_NO_THROW(add());
}

/// A device that counts how often it gives memory back.
class Counting final : public rannc::testing::ForwardingDevice {
 public:
  Counting(std::unique_ptr<Device> device, int& count) : ForwardingDevice(std::move(device)), count_(count) {}
  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<Counting>(target().with_own_streams(), count_);
  }
  void give_back_memory() override { ++count_; }

 private:
  int& count_;
};

// What the first step has cached would be missing in the memory of recordings.
TEST_F(AsynchronousDevice, GivesMemoryBackAfterTheFirstStep) {
  const DeviceModel& model = kModels[0];
  int count = 0;
  Counting device(devices_[0]->with_own_streams(), count);
  const auto trainer = Trainer::open(bundle(model, {.micro_batches = {8}}), options({&device})).value();
  EXPECT_EQ(count, 0);
  for (uint64_t step = 0; step < 3; ++step) {
    trainer->step(batch_of(model, step)).value();
    EXPECT_EQ(count, 1) << "step " << step;
  }
}

/// The places where the runtime makes a stream wait.
enum class Wait {
  kForMessage,  ///< the receiver, before it reads a message
  kForValue,    ///< a copy, until the sender has computed the value
  kForMemory,   ///< a copy, until the receiver's earlier work has left its memory
  kForCopy,     ///< the sender, before it frees the value
  kForTerms,    ///< the stream of sums, until terms have come and left
  kForSum,      ///< the compute stream, before it reads a sum
  kNone,
};

/// An event of a stream, and the copy that it ends, if it ends one.
class LabelledEvent final : public Event {
 public:
  LabelledEvent(EventRef event, Stream stream, const Payload* copied_to)
      : event(std::move(event)), stream(stream), copied_to(copied_to) {}
  const EventRef event;
  const Stream stream;
  const Payload* const copied_to;
};

EventRef unlabelled(const EventRef& event) {
  return event == nullptr ? nullptr : static_cast<const LabelledEvent&>(*event).event;
}

/// A device that leaves out all waits of one kind.
class WithoutWaits final : public rannc::testing::ForwardingDevice {
 public:
  WithoutWaits(std::unique_ptr<Device> device, Wait excluded)
      : ForwardingDevice(std::move(device)), excluded_(excluded) {}

  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<WithoutWaits>(target().with_own_streams(), excluded_);
  }
  EventRef record(Stream stream) override {
    return std::make_shared<LabelledEvent>(target().record(stream), stream, nullptr);
  }
  void await(Stream stream, const EventRef& event) override {
    if (event != nullptr && kind_of(stream, event) != excluded_) target().await(stream, unlabelled(event));
  }
  bool is_reached(const EventRef& event) const override { return target().is_reached(unlabelled(event)); }
  Value allocate(const TensorSpec& spec) override { return *received_.insert(target().allocate(spec)).first; }
  EventRef copy(Stream stream, const Value& from, const Value& to, std::span<const EventRef> after) override {
    const EventRef left[] = {excluded_ == Wait::kForValue ? nullptr : unlabelled(after[0]),
                             excluded_ == Wait::kForMemory ? nullptr : unlabelled(after[1])};
    return std::make_shared<LabelledEvent>(target().copy(stream, from, to, left), stream, to.get());
  }

 private:
  std::optional<Wait> kind_of(Stream waits, const EventRef& event) {
    const auto& of = static_cast<const LabelledEvent&>(*event);
    if (of.copied_to == nullptr) {
      return waits == Stream::kCompute && of.stream != waits ? std::optional(Wait::kForSum) : std::nullopt;
    }
    if (waits != Stream::kCompute) return Wait::kForTerms;
    const bool own =
        std::any_of(received_.begin(), received_.end(), [&](const Value& v) { return v.get() == of.copied_to; });
    return own ? Wait::kForMessage : Wait::kForCopy;
  }

  const Wait excluded_;
  std::set<Value> received_;
};

class MissingWaits : public AsynchronousDevice, public ::testing::WithParamInterface<Wait> {
 protected:
  /// Runs steps without some waits. Returns whether the device has noticed it.
  bool is_noticed(Wait excluded) {
    const DeviceModel& model = kModels[0];
    const std::string path = bundle(model, {.cuts = {4}, .replicas = {2, 1}, .micro_batches = {4, 4}});
    rannc::testing::reset_test_device();
    const uint64_t before = rannc::testing::races_found();
    {
      WithoutWaits hardware(devices_[0]->with_own_streams(), excluded);
      const auto trainer = Trainer::open(path, options({&hardware})).value();
      for (int step = 0; step < kSteps; ++step) {
        if (!trainer->step(batch_of(model, 2)).ok()) break;
      }
    }
    rannc::testing::take_race();
    return rannc::testing::races_found() > before;
  }
};

TEST_P(MissingWaits, AreNoticed) { EXPECT_EQ(is_noticed(GetParam()), GetParam() != Wait::kNone); }

std::string name_of(const ::testing::TestParamInfo<Wait>& wait) {
  const char* const names[] = {"ForMessage", "ForValue", "ForMemory", "ForCopy", "ForTerms", "ForSum", "None"};
  return names[static_cast<size_t>(wait.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, MissingWaits,
                         ::testing::Values(Wait::kForMessage, Wait::kForValue, Wait::kForMemory, Wait::kForCopy,
                                           Wait::kForTerms, Wait::kForSum, Wait::kNone),
                         name_of);

}  // namespace
}  // namespace rannc::runtime
