// Training over NCCL's interface: the numbers of threads over `local`, and no missing wait.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "codegen/bundle_writer.h"
#include "runtime/device/devices.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transport_nccl.h"
#include "tests/runtime/support/forwarding_device.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/runtime/transport/joined_ends.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using rannc::testing::PlanSpec;

constexpr int kSteps = 5;  // one is run normally, one recorded, the others replayed

/// The places where a stream waits.
enum class Wait {
  kForMessage,  ///< the receiver, before it reads a message
  kForValue,    ///< a send, until the value is computed
  kForMemory,   ///< a receive, until earlier work has left its memory
  kForSend,     ///< the sender, before it frees the value
  kForTerms,    ///< the messages of a sum, until the terms are computed
  kForSum,      ///< a member of a sum, before it reads the terms of others
  kNone,
};

/// An event, and the stream on which it is recorded.
class LabelledEvent final : public Event {
 public:
  LabelledEvent(EventRef event, Stream stream) : event(std::move(event)), stream(stream) {}
  const EventRef event;
  const Stream stream;
};

/// A device that leaves out all waits of one kind.
class WithoutWaits final : public rannc::testing::ForwardingDevice {
 public:
  WithoutWaits(std::unique_ptr<Device> device, uint32_t workers)
      : ForwardingDevice(std::move(device)), workers_(workers) {}

  /// From now on.
  void exclude(Wait excluded) { excluded_ = excluded; }

  std::unique_ptr<Device> with_own_streams() const override { return target().with_own_streams(); }
  EventRef record(Stream stream) override { return std::make_shared<LabelledEvent>(target().record(stream), stream); }
  void await(Stream stream, const EventRef& event) override {
    if (event == nullptr) return;
    const auto& labelled = static_cast<const LabelledEvent&>(*event);
    if (kind_of(stream, labelled.stream) != excluded_) target().await(stream, labelled.event);
  }
  bool is_reached(const EventRef& event) const override {
    return event == nullptr || target().is_reached(static_cast<const LabelledEvent&>(*event).event);
  }

 private:
  /// As the transport numbers its streams: to each device, from each device, of sums.
  Wait kind_of(Stream waits, Stream ends) const {
    const bool computes = waits == Stream::kCompute;
    const uint32_t number = static_cast<uint32_t>(computes ? ends : waits) - static_cast<uint32_t>(Stream::kCopies);
    if (number == 2 * workers_) return computes ? Wait::kForSum : Wait::kForTerms;
    if (number % 2 == 0) return computes ? Wait::kForSend : Wait::kForValue;
    return computes ? Wait::kForMessage : Wait::kForMemory;
  }

  const uint32_t workers_;
  Wait excluded_ = Wait::kNone;
};

Batch batch_of(uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return {{"x", to_value(at::randn({8, 6}, generator, at::kDouble))},
          {"target", to_value(at::randn({8, 6}, generator, at::kDouble))}};
}

/// What a worker knows after some steps.
struct Numbers {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients;
  std::string failure;
};

Numbers numbers_of(Trainer& trainer) {
  Numbers numbers;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const auto done = trainer.step(batch_of(step));
    if (!done.ok()) {
      numbers.failure = done.diagnostic().str();
      return numbers;
    }
    numbers.losses.push_back(done->loss);
  }
  const auto gradients = trainer.gradients();  // an error on a worker that has a share
  if (gradients.ok()) {
    for (const auto& [name, gradient] : *gradients) numbers.gradients[name] = to_tensor(gradient);
  }
  return numbers;
}

class NcclTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    rannc::testing::reset_test_device();
    folder_ = fs::temp_directory_path() / ("rannc-nccl-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Writes the bundle.
  ir::Plan build(const PlanSpec& spec) {
    ir::Plan plan = rannc::testing::build_plan(rannc::testing::skip_and_tie(ir::DType::kF64), spec);
    path_ = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(plan, {}, path_).value();
    return plan;
  }

  TrainerOptions options() const {
    TrainerOptions made;
    made.optimizer = {{.kind = OptimizerKind::kAdamW, .learning_rate = 0.01}};
    made.clip_norm = clip_norm_;
    return made;
  }

  Numbers over_local() const { return numbers_of(*Trainer::open(path_, options()).value()); }

  /// The numbers of each worker.
  std::vector<Numbers> over_nccl(const ir::Plan& plan, Wait excluded = Wait::kNone) const {
    Rendezvous common;
    common.workers = static_cast<uint32_t>(plan.devices.size());
    common.pairs = ir::message_pairs(plan);
    if (excluded != Wait::kNone) common.timeout = std::chrono::seconds(3);  // for workers whose peers have failed
    std::vector<std::unique_ptr<WithoutWaits>> hardware;
    for (uint32_t i = 0; i < common.workers; ++i) {
      auto device = devices_of(rannc::testing::test_device_plugin())[i]->with_own_streams();
      hardware.push_back(std::make_unique<WithoutWaits>(std::move(device), common.workers));
    }
    auto joined = rannc::testing::join_each(
        common, [&](const Rendezvous& where) { return join_nccl(where, *hardware[where.rank]); });
    std::vector<Numbers> numbers(common.workers);
    rannc::testing::on_each(common.workers, [&](uint32_t rank) {
      numbers[rank].failure = joined.failures[rank];
      if (!numbers[rank].failure.empty()) return;
      try {
        const auto trainer = Trainer::open_worker(path_, options(), std::move(joined.ends[rank])).value();
        hardware[rank]->exclude(excluded);
        numbers[rank] = numbers_of(*trainer);
      } catch (const std::exception& failed) {
        numbers[rank].failure = failed.what();
      }
    });
    return numbers;
  }

  std::string path_;
  double clip_norm_ = 0.5;

 private:
  fs::path folder_;
  int bundles_ = 0;
};

const std::vector<PlanSpec> kPlans = {
    {.cuts = {4}, .micro_batches = {3, 3, 2}},
    {.cuts = {4}, .micro_batches = {4, 4}, .early_backward = false, .recompute = true},
    {.cuts = {4}, .micro_batches = {4, 4}, .split_backward = true},
    {.replicas = {2}, .micro_batches = {4, 4}},
    {.cuts = {4}, .replicas = {2, 2}, .micro_batches = {4, 4}},
    {.cuts = {4}, .replicas = {3, 1}, .micro_batches = {4, 4}},
    {.cuts = {2, 4, 6}, .micro_batches = {2, 2, 2, 2}},
};

TEST_F(NcclTraining, HasTheBitsOfLocal) {
  for (const PlanSpec& spec : kPlans) {
    const ir::Plan plan = build(spec);
    SCOPED_TRACE(::testing::Message() << plan.devices.size() << " devices, " << plan.stages.size() << " stages");
    const Numbers expected = over_local();
    ASSERT_EQ(expected.failure, "");
    std::map<std::string, at::Tensor> gradients;
    for (const Numbers& found : over_nccl(plan)) {
      ASSERT_EQ(found.failure, "");
      EXPECT_EQ(found.losses, expected.losses);
      for (const auto& [name, gradient] : found.gradients) gradients[name] = gradient;
    }
    EXPECT_EQ(gradients.size(), expected.gradients.size());
    for (const auto& [name, gradient] : gradients)
      EXPECT_TRUE(at::equal(gradient, expected.gradients.at(name))) << name;
    EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
  }
}

TEST_F(NcclTraining, ShardedStateHasTheBitsOfLocal) {
  for (PlanSpec spec : {PlanSpec{.replicas = {2}, .micro_batches = {4, 4}},
                        PlanSpec{.cuts = {4}, .replicas = {2, 1}, .micro_batches = {4, 4}}}) {
    spec.sharded = true;
    for (const double clip_norm : {0.0, 0.5}) {
      clip_norm_ = clip_norm;
      const ir::Plan plan = build(spec);
      const Numbers expected = over_local();
      ASSERT_EQ(expected.failure, "");
      for (const Numbers& found : over_nccl(plan)) {
        ASSERT_EQ(found.failure, "");
        EXPECT_EQ(found.losses, expected.losses);
      }
      EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
    }
  }
}

class NcclMissingWaits : public NcclTraining, public ::testing::WithParamInterface<Wait> {};

TEST_P(NcclMissingWaits, AreNoticed) {
  clip_norm_ = 0;  // else the host waits for sums, before the norm
  const ir::Plan plan = build({.cuts = {4}, .replicas = {2, 1}, .micro_batches = {4, 4}});
  const uint64_t before = rannc::testing::races_found();
  over_nccl(plan, GetParam());
  rannc::testing::take_race();
  EXPECT_EQ(rannc::testing::races_found() > before, GetParam() != Wait::kNone);
}

std::string name_of(const ::testing::TestParamInfo<Wait>& wait) {
  const char* const names[] = {"ForMessage", "ForValue", "ForMemory", "ForSend", "ForTerms", "ForSum", "None"};
  return names[static_cast<size_t>(wait.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, NcclMissingWaits,
                         ::testing::Values(Wait::kForMessage, Wait::kForValue, Wait::kForMemory, Wait::kForSend,
                                           Wait::kForTerms, Wait::kForSum, Wait::kNone),
                         name_of);

}  // namespace
}  // namespace rannc::runtime
