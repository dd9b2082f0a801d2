// Steps whose results are read after the next one has begun: the same numbers and errors, and no wait between steps.
#include <gmock/gmock.h>

#include <fstream>
#include <limits>
#include <mutex>
#include <set>

#include "runtime/data/prefetch.h"
#include "tests/runtime/device/device_training.h"
#include "tests/runtime/support/forwarding_device.h"

namespace rannc::runtime {
namespace {

using rannc::testing::PlanSpec;
using ::testing::HasSubstr;

class LateResults : public DeviceTraining {
 protected:
  static Result<void> begin(Trainer& trainer, const Batch& batch) {
    return trainer.begin_step_part({&batch, 1}, Accumulated::kOneBatch);
  }

  /// Steps as `rannc-run` makes them. Returns the results that were read before a failure, which becomes `failure`.
  static std::vector<StepResult> results(Trainer& trainer, const Dataset& data, uint64_t steps,
                                         std::optional<Diagnostic>* failure = nullptr) {
    std::vector<StepResult> found;
    std::optional<Diagnostic> failed;
    const auto end = [&] {
      Result<StepResult> result = trainer.end_step();
      if (result.ok()) found.push_back(*std::move(result));
      if (!result.ok()) failed = result.diagnostic();
      return !failed;
    };
    for (uint64_t step = 0; step < steps && !failed; ++step) {
      const Result<void> begun = begin(trainer, data.batch(step).value());
      if (!begun.ok()) {
        while (trainer.begun_steps() > 0 && end()) {
        }
        if (!failed) failed = begun.diagnostic();
        break;
      }
      while (trainer.begun_steps() > (trainer.runs_ahead() ? 1 : 0) && end()) {
      }
    }
    while (!failed && trainer.begun_steps() > 0) end();
    if (failure != nullptr) *failure = failed;
    EXPECT_TRUE(failure != nullptr || !failed) << failed->message;
    return found;
  }

  std::unique_ptr<Dataset> data(const DeviceModel& model, bool stages = false) const {
    auto source = make_dataset([model](uint64_t step) -> Result<Batch> { return batch_of(model, step); }, "steps");
    if (!stages) return source;
    return prefetched(std::move(source), [this](const Value& value) { return devices_[0]->stage(value); });
  }

  static constexpr uint64_t kMany = 8;
};

TEST_F(LateResults, AreThoseOfTheProcessor) {
  for (const DeviceModel& model : kModels) {
    for (const PlanSpec& spec :
         {PlanSpec{.micro_batches = {8}}, PlanSpec{.cuts = {model.cut}, .micro_batches = {3, 3, 2}},
          PlanSpec{.cuts = {model.cut}, .micro_batches = {4, 4}, .recompute = true},
          PlanSpec{.cuts = {model.cut}, .replicas = {1, 2}, .micro_batches = {4, 4}}}) {
      const std::string path = bundle(model, spec);
      for (const auto& hardware : {one(), two()}) {
        SCOPED_TRACE(::testing::Message()
                     << model.name << ", " << spec.cuts.size() + 1 << " stages, " << hardware.size() << " devices");
        const auto found = Trainer::open(path, options(hardware)).value(),
                   expected = Trainer::open(path, options({})).value();
        const auto late = results(*found, *data(model, hardware.size() == 1), kMany),
                   plain = results(*expected, *data(model), kMany);
        ASSERT_EQ(late.size(), kMany);
        for (size_t step = 0; step < kMany; ++step) expect_same(late[step], plain[step]);
        EXPECT_EQ(found->steps_done(), kMany);
        EXPECT_EQ(found->updates_done(), kMany);
        expect_same_state(*found, *expected, batch_of(model, 3));
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// Between the end of a step and the beginning of the next, and within both.
TEST_F(LateResults, NeedNoWaitBetweenSteps) {
  const DeviceModel& model = kModels[0];
  for (const PlanSpec& spec : {PlanSpec{.micro_batches = {4, 4}}, PlanSpec{.cuts = {4}, .micro_batches = {4, 4}}}) {
    for (const auto& hardware : {one(), two()}) {
      const auto trainer = Trainer::open(bundle(model, spec), options(hardware)).value();
      std::vector<uint64_t> begins, ends;
      for (uint64_t step = 0; step < 6; ++step) {
        const Batch batch = batch_of(model, step);
        const uint64_t before = rannc::testing::host_waits();
        begin(*trainer, batch).value();
        const uint64_t begun = rannc::testing::host_waits();
        EXPECT_EQ(trainer->runs_ahead(), step > 0) << "the first step is not representative";
        if (trainer->begun_steps() == 2 || !trainer->runs_ahead()) trainer->end_step().value();
        begins.push_back(begun - before);
        ends.push_back(rannc::testing::host_waits() - begun);
      }
      trainer->end_step().value();
      const uint64_t devices = trainer->plan().devices.size();
      EXPECT_EQ(begins[2], 0U);
      EXPECT_EQ(begins[5], 0U);
      EXPECT_EQ(ends[2], devices) << "for the event of the step before";
      EXPECT_EQ(ends[5], devices);
    }
  }
}

/// A device that does not wait for events.
class Impatient final : public rannc::testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<Impatient>(target().with_own_streams());
  }
  void synchronize(const EventRef&) override {}
  void synchronize() override { target().synchronize(); }
};

TEST_F(LateResults, AreNotThereBeforeTheirEvent) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.micro_batches = {4, 4}});
  Impatient hardware(devices_[0]->with_own_streams());
  const auto trainer = Trainer::open(path, options({&hardware})).value();
  std::optional<Diagnostic> failure;
  const auto found = results(*trainer, *data(model), kMany, &failure);
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(failure->message,
              ::testing::ContainsRegex("step 1: the loss is -?nan"));  // the test device's unwritten bytes
  EXPECT_EQ(found.size(), 1U);
}

// Copies of samples must outlive the step that reads them, though the caller has dropped the samples.
TEST_F(LateResults, KeepStagedSamplesUntilTheStepHasEnded) {
  const DeviceModel& model = kModels[0];
  const auto trainer = Trainer::open(bundle(model, {.micro_batches = {8}}), options(one())).value();
  const auto staged = [&](uint64_t step) {
    Batch batch = batch_of(model, step);
    for (auto& [name, value] : batch) value = devices_[0]->stage(value);
    return batch;
  };
  begin(*trainer, staged(0)).value();
  trainer->end_step().value();
  devices_[0]->drop_staged();
  const uint64_t none = devices_[0]->live_bytes();
  for (uint64_t step = 1; step < kMany; ++step) {
    begin(*trainer, staged(step)).value();
    if (trainer->begun_steps() == 2) trainer->end_step().value();
    devices_[0]->drop_staged();  // of the steps that have ended
    EXPECT_EQ(rannc::testing::pending_race(), std::nullopt) << step;
  }
  trainer->end_step().value();
  EXPECT_LE(devices_[0]->live_bytes(), none + (uint64_t{4} << 20)) << "copies are freed";
}

TEST_F(LateResults, FreeStagedSamplesOfStepsThatHaveEnded) {
  const DeviceModel& model = kModels[0];
  const auto trainer = Trainer::open(bundle(model, {.micro_batches = {8}}), options(one())).value();
  std::vector<uint64_t> live;
  for (uint64_t step = 0; step < kMany; ++step) {
    Batch batch = batch_of(model, step);
    for (auto& [name, value] : batch) value = devices_[0]->stage(value);
    begin(*trainer, batch).value();
    batch.clear();
    if (trainer->begun_steps() == 2 || !trainer->runs_ahead()) trainer->end_step().value();
    live.push_back(devices_[0]->live_bytes());
  }
  EXPECT_EQ(live[kMany - 1], live[kMany - 3]);  // replayed steps
  trainer->end_step().value();
}

Batch with_nan(const DeviceModel& model, uint64_t step) {
  Batch batch = batch_of(model, step);
  at::Tensor x = to_tensor(batch.at("x")).clone();
  x.view(-1)[0] = std::numeric_limits<double>::quiet_NaN();
  batch["x"] = to_value(x);
  return batch;
}

TEST_F(LateResults, EndAtTheStepThatIsNotFinite) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.cuts = {4}, .micro_batches = {4, 4}});
  for (const uint64_t bad : {uint64_t{0}, uint64_t{1}, uint64_t{3}, kMany - 1}) {
    const auto source = make_dataset(
        [&](uint64_t step) -> Result<Batch> { return step == bad ? with_nan(model, step) : batch_of(model, step); },
        "steps");
    const auto found = Trainer::open(path, options(two())).value(), expected = Trainer::open(path, options({})).value();
    std::optional<Diagnostic> failure, wanted;
    const auto late = results(*found, *source, kMany, &failure), plain = results(*expected, *source, kMany, &wanted);
    ASSERT_TRUE(failure && wanted);
    EXPECT_EQ(failure->message, wanted->message);
    EXPECT_THAT(failure->message, HasSubstr("step " + std::to_string(bad) + ": the loss is nan"));
    ASSERT_EQ(late.size(), plain.size());
    for (size_t step = 0; step < late.size(); ++step) expect_same(late[step], plain[step]);
    EXPECT_EQ(found->steps_done(), bad);
    EXPECT_EQ(found->step(batch_of(model, 0)).diagnostic().message, failure->message);
  }
}

TEST_F(LateResults, OfAStepThatIsNotFiniteEnterNoCheckpoint) {
  const DeviceModel& model = kModels[0];
  const auto trainer = Trainer::open(bundle(model, {.micro_batches = {8}}), options(one())).value();
  begin(*trainer, batch_of(model, 0)).value();
  trainer->end_step().value();
  begin(*trainer, with_nan(model, 1)).value();
  ASSERT_TRUE(trainer->runs_ahead());
  const Result<void> saved = trainer->save(file("checkpoint"));
  ASSERT_FALSE(saved.ok());
  EXPECT_THAT(saved.diagnostic().message, HasSubstr("step 1: the loss is nan"));
  EXPECT_FALSE(std::filesystem::exists(file("checkpoint")));
  EXPECT_FALSE(trainer->end_step().ok());
}

// Whatever reads or changes what a step leaves waits for it.
TEST_F(LateResults, AreAwaitedByOtherFunctions) {
  const DeviceModel& model = kModels[4];
  const std::string path = bundle(model, {.cuts = {2}, .micro_batches = {4, 4}});
  const auto found = Trainer::open(path, options(two())).value(), expected = Trainer::open(path, options({})).value();
  std::vector<double> losses, wanted;
  const auto both = [&](uint64_t step) {
    begin(*found, batch_of(model, step)).value();
    wanted.push_back(expected->step(batch_of(model, step)).value().loss);
  };
  const auto end = [&] {
    while (found->begun_steps() > 0) losses.push_back(found->end_step().value().loss);
  };
  both(0), end();
  both(1), both(2);
  expect_same_state(*found, *expected, batch_of(model, 9));
  end(), both(3);
  for (Trainer* trainer : {found.get(), expected.get()}) trainer->set_learning_rate(0.5);
  both(4);
  for (Trainer* trainer : {found.get(), expected.get()}) trainer->save(file("checkpoint"), "here").value();
  end(), both(5);
  for (Trainer* trainer : {found.get(), expected.get()}) trainer->load(file("checkpoint")).value();
  end(), both(6), both(7);
  losses.push_back(found->end_step().value().loss);
  EXPECT_EQ(found->step(batch_of(model, 8)).value().loss, expected->step(batch_of(model, 8)).value().loss);
  end();
  EXPECT_EQ(losses, wanted);
  expect_same_state(*found, *expected, batch_of(model, 9));
}

TEST_F(LateResults, AreReadAtOnceWhereTheNextStepDependsOnThem) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.micro_batches = {8}});
  const auto runs_ahead = [&](const TrainerOptions& chosen, size_t mini_batches = 1) {
    const auto trainer = Trainer::open(path, chosen).value();
    for (uint64_t step = 0; step < 3; ++step) {
      const std::vector<Batch> batches(mini_batches, batch_of(model, step));
      trainer->begin_step_part(batches, Accumulated::kOneBatch).value();
      if (step < 2) trainer->end_step().value();
    }
    return trainer->runs_ahead();
  };
  EXPECT_TRUE(runs_ahead(options(one())));
  EXPECT_FALSE(runs_ahead(options({}))) << "the processor";
  EXPECT_FALSE(runs_ahead(options(one()), 2)) << "several mini-batches";
  TrainerOptions clips = options(one());
  clips.clip_norm = 1;
  EXPECT_FALSE(runs_ahead(clips));
  struct Nobody final : NonfiniteObserver {
    void found(const NonfiniteValue&) override {}
  } nobody;
  TrainerOptions examines = options(one());
  examines.nonfinite = &nobody;
  EXPECT_FALSE(runs_ahead(examines));
}

TEST_F(LateResults, AreThoseOfTwoStepsAtMost) {
  const DeviceModel& model = kModels[0];
  const auto trainer = Trainer::open(bundle(model, {.micro_batches = {8}}), options(one())).value();
  EXPECT_FALSE(trainer->end_step().ok());
  trainer->step(batch_of(model, 0)).value();
  for (uint64_t step = 1; step < 3; ++step) begin(*trainer, batch_of(model, step)).value();
  const Result<void> third = begin(*trainer, batch_of(model, 3));
  ASSERT_FALSE(third.ok());
  EXPECT_THAT(third.diagnostic().message, HasSubstr("two steps have begun"));
  trainer->end_step().value();
  begin(*trainer, batch_of(model, 3)).value();
  EXPECT_EQ(trainer->steps_done(), 4U);  // and the end of the trainer waits for both
}

// An error of the next step's samples leaves the results of the step before.
TEST_F(LateResults, OutliveAnErrorOfTheNextStep) {
  const DeviceModel& model = kModels[1];
  const std::string path = bundle(model, {.cuts = {5}, .micro_batches = {4, 4}});
  const auto source = make_dataset(
      [&](uint64_t step) -> Result<Batch> {
        Batch batch = batch_of(model, step);
        if (step == 4) batch["tokens"] = to_value(at::full({8, 5}, 1000, at::kLong));
        return batch;
      },
      "steps");
  const auto found = Trainer::open(path, options(one())).value(), expected = Trainer::open(path, options({})).value();
  std::optional<Diagnostic> failure, wanted;
  const auto late = results(*found, *source, kMany, &failure), plain = results(*expected, *source, kMany, &wanted);
  ASSERT_TRUE(failure && wanted);
  EXPECT_EQ(failure->message, wanted->message);
  ASSERT_EQ(late.size(), 4U);
  ASSERT_EQ(plain.size(), 4U);
  for (size_t step = 0; step < late.size(); ++step) expect_same(late[step], plain[step]);
}

/// A device that works, under an operator that does not, in some action.
class Refusing final : public rannc::testing::ForwardingDevice {
 public:
  Refusing(std::unique_ptr<Device> device, uint64_t action) : ForwardingDevice(std::move(device)), action_(action) {}
  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<Refusing>(target().with_own_streams(), action_);
  }
  void mark(uint64_t number) override {
    if (number > 0 && marks_++ == action_) throw std::runtime_error("no kernel for this shape");
    target().mark(number);
  }

 private:
  const uint64_t action_;
  uint64_t marks_ = 0;
};

TEST_F(LateResults, OutliveAFailureOfTheNextStep) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.micro_batches = {4, 4}});
  const auto expected = Trainer::open(path, options({})).value();
  const uint64_t actions = expected->plan().schedule.rows[0].size();
  Refusing hardware(devices_[0]->with_own_streams(), 4 * actions + 1);
  std::optional<Diagnostic> failure;
  const auto late = results(*Trainer::open(path, options({&hardware})).value(), *data(model), kMany, &failure);
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(failure->message, ::testing::AllOf(HasSubstr("failed: step 4, device 0"), HasSubstr("no kernel")));
  const auto plain = results(*expected, *data(model), 4);
  ASSERT_EQ(late.size(), 4U);
  for (size_t step = 0; step < 4; ++step) expect_same(late[step], plain[step]);
}

// A checkpoint that cannot be written ends neither the run nor the step after the one that reports it.
TEST_F(LateResults, OutliveAFailedCheckpoint) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.micro_batches = {8}});
  const auto trainer = Trainer::open(path, options(one())).value(), expected = Trainer::open(path, options({})).value();
  trainer->step(batch_of(model, 0)).value();
  expected->step(batch_of(model, 0)).value();
  std::ofstream(file("file")) << "no folder";
  trainer->start_save(file("file/step-1")).value();
  begin(*trainer, batch_of(model, 1)).value();
  uint64_t step = 2;
  for (bool saved = true; saved; ++step) {
    expected->step(batch_of(model, step - 1)).value();
    begin(*trainer, batch_of(model, step)).value();
    ASSERT_EQ(trainer->begun_steps(), 2U);
    saved = trainer->end_step().ok();
  }
  ASSERT_EQ(trainer->begun_steps(), 1U);
  expect_same(trainer->end_step().value(), expected->step(batch_of(model, step - 1)).value());
  EXPECT_EQ(trainer->steps_done(), step);
  expect_same(trainer->step(batch_of(model, step)).value(), expected->step(batch_of(model, step)).value());
}

struct Recorder final : Observer {
  void finished(const ActionRecord& record) override {
    const std::lock_guard lock(mutex);
    records.push_back(record);
  }
  std::mutex mutex;
  std::vector<ActionRecord> records;
};

/// A device whose clock says that it works for a thousand times as long.
class Slow final : public rannc::testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<Slow>(target().with_own_streams());
  }
  int64_t ns_between(const EventRef& from, const EventRef& to) const override {
    return 1000 * target().ns_between(from, to);
  }
};

TEST_F(LateResults, AreTimedByTheDevice) {
  Recorder recorder;
  const DeviceModel& model = kModels[0];
  Slow hardware(devices_[0]->with_own_streams());
  TrainerOptions observed = options({&hardware});
  observed.observer = &recorder;
  const auto trainer = Trainer::open(bundle(model, {.micro_batches = {4, 4}}), observed).value();
  const size_t actions = trainer->plan().schedule.rows[0].size();
  results(*trainer, *data(model), 4);
  ASSERT_EQ(recorder.records.size(), 4 * actions);
  for (size_t i = 0; i < recorder.records.size(); ++i) {
    const ActionRecord& record = recorder.records[i];
    EXPECT_EQ(record.step, i / actions);
    EXPECT_LE(record.start_ns, record.end_ns);
    if (i > actions) {  // the second step begins by the host's clock, as the first has ended
      EXPECT_GE(record.start_ns, recorder.records[i - 1].end_ns) << i;
    }
  }
}

/// A device that fails in an action of some step, counted by their marks, which a later mark reports.
class FailingStep final : public rannc::testing::ForwardingDevice {
 public:
  FailingStep(std::unique_ptr<Device> device, uint64_t failing, uint64_t noticed)
      : ForwardingDevice(std::move(device)), failing_(failing), noticed_(noticed) {}
  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<FailingStep>(target().with_own_streams(), failing_, noticed_);
  }
  void mark(uint64_t number) override {
    if (number > 0 && calls_++ >= failing_) failed_ = true;
    if (!failed_) done_ = number;
    check(calls_ > noticed_);
  }
  uint64_t marked() const override { return done_; }
  EventRef record(Stream stream) override {
    check(calls_ > noticed_);
    EventRef event = target().record(stream);
    if (failed_) lost_.insert(event);
    return event;
  }
  void synchronize() override {
    check(true);
    target().synchronize();
  }
  void synchronize(const EventRef& event) override {
    check(calls_ > noticed_ || lost_.contains(event));
    target().synchronize(event);
  }

 private:
  void check(bool notices) const {
    if (failed_ && notices) throw std::runtime_error("an illegal memory access was encountered");
  }
  const uint64_t failing_, noticed_;
  uint64_t calls_ = 0, done_ = 0;
  bool failed_ = false;
  std::set<EventRef> lost_;  ///< that are not reached any more
};

TEST_F(LateResults, NameTheStepAndActionThatFailed) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.micro_batches = {4, 4}});
  const std::vector<ir::Action> row = Trainer::open(path, options(one())).value()->plan().schedule.rows[0];
  const uint64_t actions = row.size();
  for (const uint64_t step : {1, 2, 4}) {  // marks of three steps in turn
    for (uint64_t failing = 0; failing < actions; ++failing) {
      for (const uint64_t later : {uint64_t{0}, actions, actions + 2}) {
        const uint64_t at = step * actions + failing;
        FailingStep hardware(devices_[0]->with_own_streams(), at, at + later);
        std::optional<Diagnostic> failure;
        results(*Trainer::open(path, options({&hardware})).value(), *data(model), kMany, &failure);
        ASSERT_TRUE(failure.has_value());
        EXPECT_THAT(failure->message, HasSubstr("(" + to_string(row[failing]) + ") failed: step " +
                                                std::to_string(step) + ", device 0, stage 0"))
            << "noticed " << later << " actions later";
      }
    }
  }
  rannc::testing::take_race();
}

}  // namespace
}  // namespace rannc::runtime
