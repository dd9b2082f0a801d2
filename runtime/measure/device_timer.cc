// Times passes by events on the compute stream of a device.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "runtime/measure/internal/pass_clock.h"

namespace rannc::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kCopiedBytes = int64_t{32} << 20;  // takes a GPU longer than the host needs to enqueue it
constexpr double kMostCopies = 512;                  // a GPU accepts about 1,000 pending kernels

class DeviceTimer final : public PassClock {
 public:
  DeviceTimer(Device& device, uint32_t repeat) : device_(device), repeat_(repeat) {}

  bool next_pass() override {
    if (passes_ == PassLimits::kWarmUps) begin_counting();
    if (passes_ >= PassLimits::kWarmUps + counted_) return false;
    if (passes_ < PassLimits::kWarmUps) spans_.clear();  // the last warm-up determines the number of passes
    pass_begun_ = Clock::now();
    ++passes_;
    return true;
  }

  void time(PassPart part, const std::function<void()>& work) override {
    const EventRef begin = device_.stamp(Stream::kCompute);
    work();
    spans_.push_back({part, begin, device_.stamp(Stream::kCompute)});
  }

  PartTimes times() override {
    device_.synchronize();
    PartTimes times;
    for (const Span& span : spans_) times[static_cast<size_t>(span.part)].push_back(ns_of(span));
    return times;
  }

 private:
  struct Span {
    PassPart part;
    EventRef begin, end;
  };

  /// At least 1, because 0 means that a part does not exist.
  double ns_of(const Span& span) const {
    return static_cast<double>(std::max<int64_t>(1, device_.ns_between(span.begin, span.end)));
  }

  void begin_counting() {
    const double host_ns = std::chrono::duration<double, std::nano>(Clock::now() - pass_begun_).count();
    device_.synchronize();
    double pass_ns = 0;
    for (const Span& span : spans_) pass_ns += ns_of(span);
    spans_.clear();
    constexpr uint32_t kMost = PassLimits::kMostPasses - PassLimits::kWarmUps;
    const double enough = std::ceil(PassLimits::kEnoughNs / pass_ns);
    counted_ = std::max(repeat_, static_cast<uint32_t>(std::min<double>(kMost, enough)));
    occupy(host_ns * counted_);
  }

  /// Enqueues copies that take the device this long.
  void occupy(double ns) {
    const TensorSpec spec{ir::DType::kU8, {kCopiedBytes}};
    const Value from = device_.allocate(spec), to = device_.allocate(spec);
    const auto copy = [&] { device_.copy(Stream::kCompute, from, to, {}); };
    copy();
    const EventRef begin = device_.stamp(Stream::kCompute);
    copy();
    const EventRef end = device_.stamp(Stream::kCompute);
    device_.synchronize();
    const auto copy_ns = static_cast<double>(std::max<int64_t>(1, device_.ns_between(begin, end)));
    const auto copies = static_cast<uint32_t>(std::min(kMostCopies, std::ceil(ns / copy_ns)));
    for (uint32_t i = 0; i < copies; ++i) copy();
  }

  Device& device_;
  const uint32_t repeat_;
  uint32_t passes_ = 0;   // begun
  uint32_t counted_ = 0;  // passes that count
  Clock::time_point pass_begun_;
  std::vector<Span> spans_;
};

}  // namespace

std::unique_ptr<PassClock> device_timer(Device& device, uint32_t repeat) {
  return std::make_unique<DeviceTimer>(device, repeat);
}

}  // namespace rannc::runtime
