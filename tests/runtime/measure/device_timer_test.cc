// How times are taken from a device. No test here knows how long anything takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/training/cut_functions.h"
#include "runtime/device/devices.h"
#include "runtime/measure/internal/pass_clock.h"
#include "runtime/measure/measure_tasks.h"
#include "tests/runtime/support/forwarding_device.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::runtime {
namespace {

using ::testing::Each;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

/// Notes calls as letters, and copies nothing. Any two stamps are `ns` apart.
class NotingDevice final : public rannc::testing::ForwardingDevice {
 public:
  NotingDevice(std::unique_ptr<Device> device, int64_t ns) : ForwardingDevice(std::move(device)), ns_(ns) {}

  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<NotingDevice>(target().with_own_streams(), ns_);
  }
  EventRef stamp(Stream stream) override {
    EXPECT_EQ(stream, Stream::kCompute);
    calls += 's';
    return ForwardingDevice::stamp(stream);
  }
  void synchronize() override {
    calls += 'w';
    ForwardingDevice::synchronize();
  }
  int64_t ns_between(const EventRef&, const EventRef&) const override {
    calls += 'r';
    return ns_;
  }
  EventRef copy(Stream stream, const Value&, const Value&, std::span<const EventRef>) override {
    EXPECT_EQ(stream, Stream::kCompute);
    calls += 'c';
    return nullptr;
  }

  mutable std::string calls;

 private:
  const int64_t ns_;
};

class DeviceTimerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rannc::testing::reset_test_device();
    device_ = devices_of(rannc::testing::test_device_plugin())[0];
  }
  void TearDown() override { EXPECT_EQ(rannc::testing::take_race(), std::nullopt); }

  NotingDevice noting(int64_t ns) const { return {device_->with_own_streams(), ns}; }

  /// Times of passes whose only part is a forward pass that takes `ns`.
  static PartTimes forward_times(NotingDevice& device, uint32_t repeat) {
    const auto scope = device.enter(Stream::kCompute);
    const auto timer = device_timer(device, repeat);
    while (timer->next_pass()) timer->time(PassPart::kForward, [&] { device.calls += 'k'; });
    return timer->times();
  }

  static Result<TaskTimes> measure(const ir::Graph& graph, uint32_t repeat, Device& device) {
    std::vector<TaskId> tasks;
    for (const TaskId task : graph.tasks()) tasks.push_back(task);
    TaskRunOptions options{[](const ir::StageGraph& stage) { return passes::cut_functions(stage); }, repeat};
    options.device = &device;
    return measure_tasks(graph, tasks, GraphFacts(graph), {{graph.batch_symbol(), 8}}, options);
  }

  std::shared_ptr<Device> device_;
};

TEST_F(DeviceTimerTest, DoesNotWaitBetweenPasses) {
  NotingDevice device = noting(int64_t{1} << 30);
  forward_times(device, 3);
  // Warm-ups; a wait and the time of the last one; the time of a copy; copies that occupy the device; counted passes, a
  // wait and their times.
  EXPECT_THAT(device.calls, MatchesRegex("skssks"
                                         "wr"
                                         "cscswr"
                                         "c*"
                                         "skssksskswrrr"));
}

TEST_F(DeviceTimerTest, OccupiesTheDeviceWhileTheHostEnqueues) {
  NotingDevice device = noting(1);  // a copy takes less time than the host
  forward_times(device, 3);
  EXPECT_THAT(device.calls, MatchesRegex("skssks"
                                         "wr"
                                         "cscswr"
                                         "ccc+"
                                         "(sks)+"
                                         "wr+"));
}

TEST_F(DeviceTimerTest, RepeatsShortWork) {
  struct Row {
    int64_t ns;
    uint32_t repeat;
    size_t passes;
  };
  for (const Row& row :
       {Row{0, 3, 38}, Row{1, 3, 38}, Row{1, 50, 50}, Row{1'000'000, 3, 8}, Row{1'000'000'000, 3, 3}}) {
    NotingDevice device = noting(row.ns);
    const PartTimes times = forward_times(device, row.repeat);
    EXPECT_THAT(times[static_cast<size_t>(PassPart::kForward)], SizeIs(row.passes)) << row.ns;
    EXPECT_THAT(times[static_cast<size_t>(PassPart::kForward)], Each(std::max(1.0, static_cast<double>(row.ns))));
    EXPECT_THAT(times[static_cast<size_t>(PassPart::kBackward)], SizeIs(0));
  }
}

TEST_F(DeviceTimerTest, TheHostWaitsAsOftenForManyRunsAsForFew) {
  const ir::Graph graph = rannc::testing::skip_and_tie(ir::DType::kF32);
  NotingDevice device = noting(int64_t{1} << 30);  // LibTorch queries the events of times that it reads
  measure(graph, 1, device).value();               // what only the first run waits for
  const auto waits = [&](uint32_t repeat) {
    const uint64_t before = rannc::testing::host_waits();
    measure(graph, repeat, device).value();
    return rannc::testing::host_waits() - before;
  };
  const uint64_t few = waits(3);
  EXPECT_GT(few, 0U);
  EXPECT_EQ(waits(30), few);
}

TEST_F(DeviceTimerTest, MeasuresModels) {
  using namespace rannc::testing;  // NOLINT(google-build-using-namespace): toy graphs
  for (const auto& make : {skip_and_tie, token_model, dropout_model, norm_model}) {
    const auto times = measure(make(ir::DType::kF32), 1, *device_);
    ASSERT_TRUE(times.ok()) << times.diagnostic().str();
    EXPECT_GT(times->forward_ns, 0);
    EXPECT_GT(times->backward_ns, 0);
    EXPECT_GT(times->held_bytes, 0);
    EXPECT_GT(times->temporary_bytes, 0);
  }
}

TEST_F(DeviceTimerTest, CountsBytesOfTheDevice) {
  const ir::Graph graph = rannc::testing::skip_and_tie(ir::DType::kF32);
  const uint64_t before = device_->live_bytes();
  device_->restart_peak();
  const TaskTimes times = measure(graph, 1, *device_).value();
  EXPECT_EQ(device_->live_bytes(), before) << "everything was freed";
  EXPECT_GE(static_cast<double>(device_->peak_bytes() - before), times.held_bytes);
}

}  // namespace
}  // namespace rannc::runtime
