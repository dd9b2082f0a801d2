// Samples that a thread copies to the device ahead of their step.
#include <gmock/gmock.h>

#include "runtime/data/prefetch.h"
#include "tests/runtime/device/device_training.h"

namespace rannc::runtime {
namespace {

using rannc::testing::PlanSpec;

class StagedSamples : public DeviceTraining {
 protected:
  Device& device() const { return *devices_[0]; }

  /// Work items that `work` enqueues.
  template <class Work>
  static uint64_t items(const Work& work) {
    const uint64_t before = rannc::testing::enqueued_by_host();
    work();
    return rannc::testing::enqueued_by_host() - before;
  }

  static std::unique_ptr<Dataset> ahead(const DeviceModel& model, PrepareValue prepare = {}) {
    return prefetched(make_dataset([model](uint64_t step) -> Result<Batch> { return batch_of(model, step); }, "steps"),
                      std::move(prepare));
  }
  PrepareValue staging() const {
    return [this](const Value& value) { return device().stage(value); };
  }
};

TEST_F(StagedSamples, AreUploadedWithoutACopy) {
  const auto scope = device().enter(Stream::kCompute);
  const at::Tensor numbers = at::arange(32, at::kDouble).view({8, 4});
  const Value value = to_value(numbers), staged = device().stage(value);
  EXPECT_TRUE(to_tensor(staged).is_pinned());
  EXPECT_TRUE(to_tensor(staged).equal(numbers));
  const Value part = staged->samples({.axis = 0}, {2, 5}), of_unstaged = value->samples({.axis = 0}, {2, 5});
  EXPECT_GT(items([&] { device().upload(of_unstaged); }), 0U);
  EXPECT_EQ(items([&] { device().upload(part); }), 0U);
  for (const auto& [host, expected] : {std::pair(staged, numbers), std::pair(part, numbers.narrow(0, 2, 3))}) {
    const at::Tensor doubled = to_tensor(device().upload(host)) * 2;  // on the compute stream
    EXPECT_TRUE(doubled.cpu().equal(expected * 2));
  }
}

TEST_F(StagedSamples, OfAnotherDeviceAreCopied) {
  const Value staged = device().stage(to_value(at::ones({4})));
  const auto scope = devices_[1]->enter(Stream::kCompute);
  const at::Tensor there = to_tensor(devices_[1]->upload(staged));
  EXPECT_EQ(there.device().index(), 1);
  EXPECT_TRUE(there.cpu().equal(at::ones({4})));
}

TEST_F(StagedSamples, AreFreedWhenTheNextStepBegins) {
  const auto scope = device().enter(Stream::kCompute);
  device().drop_staged();  // of other tests
  const uint64_t before = device().live_bytes();
  Value staged = device().stage(to_value(at::ones({1 << 16})));
  EXPECT_GE(device().live_bytes(), before + (4 << 16));
  to_tensor(device().upload(staged)).add(1);
  staged.reset();
  EXPECT_GE(device().live_bytes(), before + (4 << 16)) << "the device may still read the copy";
  device().synchronize();
  device().drop_staged();
  EXPECT_EQ(device().live_bytes(), before);
}

TEST_F(StagedSamples, OfNoElementsAreLeftAlone) {
  EXPECT_EQ(to_tensor(device().stage(to_value(at::ones({0, 3})))).sizes(), (std::vector<int64_t>{0, 3}));
}

TEST_F(StagedSamples, TrainWithTheBitsOfTheProcessor) {
  for (const DeviceModel& model : kModels) {
    for (const PlanSpec& spec : {PlanSpec{.micro_batches = {8}}, PlanSpec{.micro_batches = {3, 3, 2}},
                                 PlanSpec{.cuts = {model.cut}, .micro_batches = {4, 4}}}) {
      SCOPED_TRACE(::testing::Message() << model.name << ", " << spec.cuts.size() + 1 << " stages");
      const std::string path = bundle(model, spec);
      const auto found = Trainer::open(path, options(one())).value(),
                 expected = Trainer::open(path, options({})).value();
      const auto staged = ahead(model, staging()), plain = ahead(model);
      for (uint64_t step = 0; step < kSteps; ++step)
        expect_same(found->step(staged->batch(step).value()).value(),
                    expected->step(plain->batch(step).value()).value());
      expect_same_state(*found, *expected, batch_of(model, 3));
    }
  }
}

// A copy of each input and micro-batch to the device, and nothing else, is gone from the step. The host waits as often.
TEST_F(StagedSamples, SpareTheStepItsCopies) {
  const DeviceModel& model = kModels[0];
  const std::string path = bundle(model, {.micro_batches = {4, 4}});
  std::map<bool, std::pair<uint64_t, uint64_t>> counted;
  for (const bool stages : {false, true}) {
    const auto trainer = Trainer::open(path, options(one())).value();
    const auto batch = [&](uint64_t seed) {
      Batch made = batch_of(model, seed);
      if (stages) {
        for (auto& [name, value] : made) value = device().stage(value);
      }
      return made;
    };
    for (uint64_t step = 0; step < 3; ++step) trainer->step(batch(step)).value();
    const Batch last = batch(3);
    const uint64_t waits = rannc::testing::host_waits();
    counted[stages].first = items([&] { trainer->step(last).value(); });
    counted[stages].second = rannc::testing::host_waits() - waits;
  }
  EXPECT_EQ(counted[true].first + 2 * 2, counted[false].first);
  EXPECT_EQ(counted[true].second, counted[false].second);
}

}  // namespace
}  // namespace rannc::runtime
