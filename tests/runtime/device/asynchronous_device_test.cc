// Training on a device whose work is asynchronous: the numbers of the processor, and no missing wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <set>

#include "codegen/bundle_writer.h"
#include "runtime/device/devices.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/forwarding_device.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using rannc::testing::PlanSpec;
using ::testing::HasSubstr;
using MakeGraph = ir::Graph (*)(ir::DType);

constexpr uint32_t kSamples = 8;
constexpr int kSteps = 5;  // one is run normally, one recorded, the others replayed

struct Model {
  const char* name;
  MakeGraph graph;
  std::vector<int64_t> sample;  // shape of x and target; empty: tokens and labels
  uint32_t cut;                 // first task of a second stage
};

const Model kModels[] = {
    {"skips and a tied parameter", rannc::testing::skip_and_tie, {6}, 4},
    {"tokens", rannc::testing::token_model, {}, 5},
    {"dropout", rannc::testing::dropout_model, {6}, 2},
    {"noise", rannc::testing::noise_model, {6}, 2},
    {"running statistics", rannc::testing::norm_model, {3, 4}, 2},
    {"sums over samples", rannc::testing::sums_model, {6}, 4},
};

std::vector<PlanSpec> cuts_of(const Model& model) {
  return {
      {.micro_batches = {8}},
      {.cuts = {model.cut}, .micro_batches = {3, 3, 2}},
      {.cuts = {model.cut}, .micro_batches = {4, 4}, .early_backward = false, .recompute = true},
      {.cuts = {model.cut}, .micro_batches = {4, 4}, .split_backward = true},
      {.cuts = {model.cut}, .replicas = {2, 1}, .micro_batches = {4, 4}},
      {.cuts = {model.cut}, .replicas = {1, 2}, .micro_batches = {3, 3, 2}},
  };
}

Batch batch_of(const Model& model, uint64_t seed) {
  at::manual_seed(seed);
  if (model.sample.empty()) {
    return {{"tokens", to_value(at::randint(7, {kSamples, 5}, at::kLong))},
            {"labels", to_value(at::randint(7, {kSamples, 5}, at::kLong))}};
  }
  std::vector<int64_t> shape = model.sample;
  shape.insert(shape.begin(), kSamples);
  return {{"x", to_value(at::randn(shape, at::kDouble))}, {"target", to_value(at::randn(shape, at::kDouble))}};
}

class AsynchronousDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    rannc::testing::reset_test_device();
    devices_ = devices_of(rannc::testing::test_device_plugin());
    folder_ = fs::temp_directory_path() / ("rannc-device-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
  }

  std::string bundle(const Model& model, const PlanSpec& spec) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(rannc::testing::build_plan(model.graph(ir::DType::kF64), spec), {}, path).value();
    return path;
  }

  static TrainerOptions options(std::vector<Device*> hardware, const std::string& engine = {}) {
    TrainerOptions made;
    made.optimizer = {.kind = OptimizerKind::kAdamW, .learning_rate = 0.01};
    made.engine = engine;
    made.hardware = std::move(hardware);
    return made;
  }

  std::vector<Device*> one() const { return {devices_[0].get()}; }
  std::vector<Device*> two() const { return {devices_[0].get(), devices_[1].get()}; }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<std::shared_ptr<Device>> devices_;

 private:
  fs::path folder_;
  int bundles_ = 0;
};

void expect_same(const Value& found, const Value& expected, const std::string& what) {
  EXPECT_TRUE(to_tensor(found).is_cpu()) << what;
  EXPECT_TRUE(to_tensor(found).equal(to_tensor(expected))) << what;
}

void expect_same_state(Trainer& found, Trainer& expected, const Batch& batch) {
  const auto gradients = found.gradients().value(), wanted = expected.gradients().value();
  ASSERT_EQ(gradients.size(), wanted.size());
  for (const auto& [name, gradient] : wanted) expect_same(gradients.at(name), gradient, name);
  const StepResult own = found.evaluate(batch).value(), other = expected.evaluate(batch).value();
  EXPECT_EQ(own.loss, other.loss);
  for (const auto& [name, output] : other.outputs) expect_same(own.outputs.at(name), output, name);
}

/// Steps of one and the same model on devices and on the processor.
void expect_same_steps(Trainer& found, Trainer& expected, const Model& model) {
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = batch_of(model, 7 + static_cast<uint64_t>(step));
    const StepResult own = found.step(batch).value(), other = expected.step(batch).value();
    ASSERT_EQ(own.loss, other.loss) << "step " << step;
    ASSERT_EQ(own.gradient_norm, other.gradient_norm) << "step " << step;
  }
  expect_same_state(found, expected, batch_of(model, 3));
}

TEST_F(AsynchronousDevice, TrainsWithTheBitsOfTheProcessor) {
  for (const Model& model : kModels) {
    for (const PlanSpec& spec : cuts_of(model)) {
      const std::string path = bundle(model, spec);
      for (const std::string engine : {"explicit", "autograd"}) {
        for (const auto& hardware : {one(), two()}) {
          SCOPED_TRACE(::testing::Message()
                       << model.name << ", " << engine << ", " << spec.cuts.size() + 1 << " stages, "
                       << spec.replicas.size() << " replicated, " << hardware.size() << " devices");
          const auto found = Trainer::open(path, options(hardware, engine)).value(),
                     expected = Trainer::open(path, options({}, engine)).value();
          expect_same_steps(*found, *expected, model);
        }
      }
    }
  }
}

TEST_F(AsynchronousDevice, NormalizesOverReplicas) {
  const Model model = {"joint", rannc::testing::joint_norm_model, {3, 4}, 2};
  const std::string path = bundle(model, {.cuts = {2}, .replicas = {2, 2}, .micro_batches = {4, 4}});
  for (const std::string engine : {"explicit", "autograd"}) {
    const auto found = Trainer::open(path, options(two(), engine)).value(),
               expected = Trainer::open(path, options({}, engine)).value();
    expect_same_steps(*found, *expected, model);
  }
}

TEST_F(AsynchronousDevice, ClipsAndAccumulates) {
  const Model& model = kModels[0];
  const std::string path = bundle(model, {.cuts = {4}, .micro_batches = {4, 4}});
  TrainerOptions on_devices = options(two()), on_processor = options({});
  on_devices.clip_norm = on_processor.clip_norm = 0.05;
  const auto found = Trainer::open(path, on_devices).value(), expected = Trainer::open(path, on_processor).value();
  expect_same_steps(*found, *expected, model);
  for (const auto& trainer : {found.get(), expected.get()}) trainer->accumulate(batch_of(model, 1)).value();
  expect_same_steps(*found, *expected, model);
}

TEST_F(AsynchronousDevice, ResumesOnAnotherDevice) {
  const Model& model = kModels[4];
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

TEST_F(AsynchronousDevice, ReplaysWhatItRecorded) {
  const Model& model = kModels[2];
  const std::string path = bundle(model, {.cuts = {2}, .micro_batches = {4, 4}});
  TrainerOptions unrecorded = options(one());
  unrecorded.records_steps = false;
  const auto found = Trainer::open(path, options(one())).value(), expected = Trainer::open(path, unrecorded).value();
  expect_same_steps(*found, *expected, model);
}

TEST_F(AsynchronousDevice, TellsTimesOfItsOwnClock) {
  struct Recorder final : Observer {
    void finished(const ActionRecord& record) override {
      const std::lock_guard lock(mutex);
      records.push_back(record);
    }
    std::mutex mutex;
    std::vector<ActionRecord> records;
  } recorder;
  const Model& model = kModels[0];
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

/// The places where the runtime makes a stream wait.
enum class Wait {
  kForMessage,       ///< the receiver, before it reads a message
  kForValue,         ///< a copy, until the sender has computed the value
  kForMemory,        ///< a copy, until the receiver's earlier work has left its memory
  kForCopy,          ///< the sender, before it frees the value
  kForTerms,         ///< a member of a sum, before it reads the terms of others
  kForOtherReaders,  ///< a member of a sum, before it frees its term
  kNone,
};

/// An event, and the copy that it ends, if it ends one.
class LabelledEvent final : public Event {
 public:
  LabelledEvent(EventRef event, const Payload* copied_to) : event(std::move(event)), copied_to(copied_to) {}
  const EventRef event;
  const Payload* const copied_to;
};

EventRef unlabelled(const EventRef& event) {
  return event == nullptr ? nullptr : static_cast<const LabelledEvent&>(*event).event;
}

/// A device that leaves out all waits of one kind, or cannot record from some recording on.
class WithoutWaits final : public rannc::testing::ForwardingDevice {
 public:
  WithoutWaits(std::unique_ptr<Device> device, Wait left_out, size_t recordings = SIZE_MAX)
      : ForwardingDevice(std::move(device)), left_out_(left_out), recordings_(recordings) {}

  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<WithoutWaits>(target().with_own_streams(), left_out_, recordings_);
  }
  EventRef record(Stream stream) override { return std::make_shared<LabelledEvent>(target().record(stream), nullptr); }
  void await(Stream stream, const EventRef& event) override {
    if (event != nullptr && kind_of(event) != left_out_) target().await(stream, unlabelled(event));
  }
  bool is_reached(const EventRef& event) const override { return target().is_reached(unlabelled(event)); }
  Value allocate(const TensorSpec& spec) override { return *received_.insert(target().allocate(spec)).first; }
  EventRef copy(Stream stream, const Value& from, const Value& to, std::span<const EventRef> after) override {
    const EventRef left[] = {left_out_ == Wait::kForValue ? nullptr : unlabelled(after[0]),
                             left_out_ == Wait::kForMemory ? nullptr : unlabelled(after[1])};
    return std::make_shared<LabelledEvent>(target().copy(stream, from, to, left), to.get());
  }
  std::unique_ptr<RecordedWork> capture(const std::function<void()>& work, uint64_t pool) override {
    const bool fails = recorded_++ >= recordings_;
    return target().capture(
        [&] {
          work();
          if (fails) throw std::runtime_error("a kernel waits for the device");
        },
        pool);
  }

 private:
  static constexpr size_t kMembers = 2;  // of a sum, which waits for all terms, then for all readers

  Wait kind_of(const EventRef& event) {
    const Payload* const to = static_cast<const LabelledEvent&>(*event).copied_to;
    if (to == nullptr) return of_sums_++ / kMembers % 2 == 0 ? Wait::kForTerms : Wait::kForOtherReaders;
    const bool own = std::any_of(received_.begin(), received_.end(), [&](const Value& v) { return v.get() == to; });
    return own ? Wait::kForMessage : Wait::kForCopy;
  }

  const Wait left_out_;
  const size_t recordings_;  // that succeed
  size_t recorded_ = 0;
  std::set<Value> received_;
  size_t of_sums_ = 0;
};

TEST_F(AsynchronousDevice, RunsWhatCannotBeRecorded) {
  for (const Model& model : {kModels[0], kModels[2], kModels[4]}) {
    const std::string path = bundle(model, {.cuts = {model.cut}, .micro_batches = {4, 4}});
    for (const size_t recordings : {0, 1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << model.name << ", " << recordings << " recordings");
      WithoutWaits hardware(devices_[0]->with_own_streams(), Wait::kNone, recordings);
      const auto found = Trainer::open(path, options({&hardware})).value(),
                 expected = Trainer::open(path, options({})).value();
      expect_same_steps(*found, *expected, model);
      const auto reasons = found->unrecorded_stages();
      EXPECT_TRUE(std::any_of(reasons.begin(), reasons.end(), [](const auto& each) {
        return each.second.find("a kernel waits for the device") != std::string::npos;
      }));
    }
  }
}

class MissingWaits : public AsynchronousDevice, public ::testing::WithParamInterface<Wait> {
 protected:
  /// Runs steps without some waits. Returns whether the device has noticed it.
  bool is_noticed(Wait left_out) {
    const Model& model = kModels[0];
    const std::string path = bundle(model, {.cuts = {4}, .replicas = {2, 1}, .micro_batches = {4, 4}});
    rannc::testing::reset_test_device();
    const uint64_t before = rannc::testing::races_found();
    {
      WithoutWaits hardware(devices_[0]->with_own_streams(), left_out);
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
  const char* const names[] = {"ForMessage", "ForValue", "ForMemory", "ForCopy", "ForTerms", "ForOtherReaders", "None"};
  return names[static_cast<size_t>(wait.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, MissingWaits,
                         ::testing::Values(Wait::kForMessage, Wait::kForValue, Wait::kForMemory, Wait::kForCopy,
                                           Wait::kForTerms, Wait::kForOtherReaders, Wait::kNone),
                         name_of);

}  // namespace
}  // namespace rannc::runtime
