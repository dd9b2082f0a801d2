// The order of messages and sums over NCCL's interface: every schedule runs on devices with room for one kernel.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "codegen/bundle_writer.h"
#include "ir/schedule/early_sums.h"
#include "ir/schedule/lower_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "runtime/device/devices.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transport_nccl.h"
#include "tests/runtime/support/exactness_case.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/runtime/transport/forwarding_transport.h"
#include "tests/runtime/transport/joined_ends.h"
#include "tests/support/test_device/fake_nccl.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSteps = 2;  // one is run normally, one recorded
constexpr std::chrono::seconds kPatience{2};

/// Posts a receive when its value is needed, as a program does that does not look ahead.
class LateReceives final : public rannc::testing::ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) override {
    return std::unique_ptr<Receipt>(std::make_unique<Late>(inner(), key, from, spec));
  }

 private:
  class Late final : public Receipt {
   public:
    Late(Transport& end, const MessageKey& key, DeviceId from, TensorSpec spec)
        : end_(end), key_(key), from_(from), spec_(std::move(spec)) {}
    Result<Arrived> wait() override {
      RANNC_ASSIGN(const auto receipt, end_.receive(key_, from_, spec_));
      return receipt->wait();
    }

   private:
    Transport& end_;
    const MessageKey key_;
    const DeviceId from_;
    const TensorSpec spec_;
  };
};

enum class Receives : uint8_t { kInOrder, kLate };

Batch batch_of(uint64_t seed, int64_t samples) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return {{"x", to_value(at::randn({samples, 6}, generator, at::kDouble))},
          {"target", to_value(at::randn({samples, 6}, generator, at::kDouble))}};
}

std::string trained(Trainer& trainer) {
  for (uint64_t step = 0; step < kSteps; ++step) {
    const auto done = trainer.step(batch_of(step, trainer.plan().mini_batch));
    if (!done.ok()) return done.diagnostic().str();
  }
  return {};
}

class NcclOrder : public ::testing::Test {
 protected:
  void SetUp() override {
    rannc::testing::reset_test_device();
    folder_ = fs::temp_directory_path() / ("rannc-nccl-order-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override {
    rannc::testing::limit_fake_nccl({});
    fs::remove_all(folder_);
    rannc::testing::take_race();
  }

  /// Trains with one kernel at a time on each device. Returns the failures of all workers.
  std::vector<std::string> train(const ir::Plan& plan, Receives receives = Receives::kInOrder) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(plan, {}, path).value();
    Rendezvous common;
    common.workers = static_cast<uint32_t>(plan.devices.size());
    common.pairs = ir::message_pairs(plan);
    common.sum_pairs = ir::sum_pairs(plan);
    common.pass_sum_pairs = ir::pass_sum_pairs(plan);
    common.timeout = kPatience;
    rannc::testing::limit_fake_nccl({.resident = 1});
    std::vector<std::unique_ptr<Device>> hardware;
    for (uint32_t i = 0; i < common.workers; ++i)
      hardware.push_back(devices_of(rannc::testing::test_device_plugin()).at(i)->with_own_streams());
    auto joined = rannc::testing::join_each(
        common, [&](const Rendezvous& where) { return join_nccl(where, *hardware[where.rank]); });
    std::vector<std::string> failures = joined.failures;
    TrainerOptions options;
    options.optimizer = {{.kind = OptimizerKind::kAdamW, .learning_rate = 0.01}};
    rannc::testing::on_each(common.workers, [&](uint32_t rank) {
      if (!failures[rank].empty()) return;
      std::unique_ptr<Transport> end = std::move(joined.ends[rank]);
      if (receives == Receives::kLate) end = std::make_unique<LateReceives>(std::move(end));
      try {
        failures[rank] = trained(*Trainer::open_worker(path, options, std::move(end)).value());
      } catch (const std::exception& failed) {
        failures[rank] = failed.what();
      }
    });
    return failures;
  }

 private:
  fs::path folder_;
  int bundles_ = 0;
};

/// Stages, their replicas and the micro-batches.
struct Division {
  uint32_t stages;
  std::vector<uint32_t> replicas, micro_batches;
  std::optional<ir::RecomputedMicroBatches> recompute = std::nullopt;
};

/// In the last two, some replicas have no samples of the last micro-batch.
const std::vector<Division> kDivisions = {
    {4, {1}, {3, 2, 2, 2}}, {4, {1}, {3, 2, 2, 2}, ir::RecomputedMicroBatches::kUnlessBackwardFollows},
    {4, {2}, {3, 2, 2, 2}}, {2, {1, 2}, {3, 2, 2, 2}},
    {4, {2}, {2, 2, 1}},    {2, {3, 1}, {3, 2, 2}},
};

/// A skip over all cuts and a parameter shared by two stages, on at most four devices.
std::vector<rannc::testing::ExactnessCase> cases() {
  std::vector<rannc::testing::ExactnessCase> found;
  for (const std::string_view schedule : partition::schedule_names()) {
    for (const Division& each : kDivisions) {
      rannc::testing::ExactnessCase made{.schedule = schedule,
                                         .stages = each.stages,
                                         .replicas = each.replicas,
                                         .micro_batches = each.micro_batches,
                                         .recompute = each.recompute,
                                         .transport = "nccl",
                                         .dtype = ir::DType::kF64};
      if (!why_impossible(made) && plan_of(made).devices.size() <= rannc::testing::kTestDevices) found.push_back(made);
    }
  }
  return found;
}

TEST_F(NcclOrder, EveryScheduleRunsOneKernelAtATime) {
  std::map<std::string_view, size_t> by_schedule;
  for (const rannc::testing::ExactnessCase& of : cases()) {
    const ir::Plan plan = plan_of(of);
    SCOPED_TRACE(::testing::Message() << of.schedule << ", " << of.stages << " stages, replicas "
                                      << ::testing::PrintToString(of.replicas) << ", micro-batches "
                                      << ::testing::PrintToString(of.micro_batches) << ", recompute "
                                      << of.recompute.has_value());
    const std::vector<bool> joint(plan.stages.size());
    EXPECT_THAT(ir::early_sums(ir::pipeline_shape(plan), plan.schedule, joint), Each(true));
    EXPECT_THAT(train(plan), Each(IsEmpty()));
    EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
    ++by_schedule[of.schedule];
  }
  EXPECT_EQ(by_schedule.size(), partition::schedule_names().size());
}

TEST_F(NcclOrder, SharesAreSummedOneKernelAtATime) {
  for (const std::vector<uint32_t>& replicas : {std::vector<uint32_t>{2, 1}, {2, 2}, {1, 3}}) {
    const ir::Plan plan = rannc::testing::build_plan(
        rannc::testing::skip_and_tie(ir::DType::kF64),
        {.cuts = {4}, .replicas = replicas, .micro_batches = {3, 3, 3}, .sharded = true, .bucket_bytes = 0});
    EXPECT_THAT(train(plan), Each(IsEmpty())) << ::testing::PrintToString(replicas);
  }
}

// In 1F1B a stage would send a gradient before it receives the activation that its peer has sent before.
TEST_F(NcclOrder, LateReceivesStop) {
  const ir::Plan plan = rannc::testing::build_plan(rannc::testing::skip_and_tie(ir::DType::kF64),
                                                   {.cuts = {4}, .micro_batches = {2, 2, 2, 2}});
  EXPECT_THAT(train(plan, Receives::kLate), ::testing::Contains(HasSubstr(" ms for device ")));
}

/// Stage 0 on the devices 0 and 1, stage 1 on 2 and 0. Device 0 needs a gradient of device 2 before it comes to its own
/// backward pass of stage 1.
ir::Plan crossed() {
  ir::Plan plan = rannc::testing::build_plan(rannc::testing::skip_and_tie(ir::DType::kF64),
                                             {.cuts = {4}, .replicas = {2, 1}, .micro_batches = {4}});
  plan.stages[1].devices = {DeviceId(2), DeviceId(0)};
  ir::choose_buckets(plan, 0);
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  plan.schedule =
      ir::lower_schedule(shape, ir::parse_schedule("0: F0.0 F1.0 B0.0 B1.0\n1: F0.0 B0.0\n2: F1.0 B1.0", shape).value())
          .value();
  return plan;
}

// Device 2 would begin the sums of stage 1 in its backward pass, and the gradient behind them would never leave.
TEST_F(NcclOrder, SumsBeginWhereNoMemberWaitsBehindThem) { EXPECT_THAT(train(crossed()), Each(IsEmpty())); }

}  // namespace
}  // namespace rannc::runtime
