// Times passes by the clock of the calling thread.
#include <ATen/Parallel.h>

#include <ctime>

#include "runtime/measure/internal/pass_clock.h"

namespace rannc::runtime {

namespace {

double clock_ns() {
  timespec time{};
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

class ProcessorClock final : public PassClock {
 public:
  explicit ProcessorClock(uint32_t repeat) : least_(PassLimits::kWarmUps + repeat) {}

  bool next_pass() override {
    if (passes_ >= least_ && (passes_ >= PassLimits::kMostPasses || total_ns_ >= PassLimits::kEnoughNs)) return false;
    ++passes_;
    return true;
  }

  void time(PassPart part, const std::function<void()>& work) override {
    const double start = clock_ns();
    work();
    const double elapsed = clock_ns() - start;
    if (passes_ <= PassLimits::kWarmUps) return;
    times_[static_cast<size_t>(part)].push_back(elapsed);
    total_ns_ += elapsed;
  }

  PartTimes times() override { return std::move(times_); }

 private:
  const uint32_t least_;
  uint32_t passes_ = 0;  // begun
  double total_ns_ = 0;
  PartTimes times_;
};

}  // namespace

std::unique_ptr<PassClock> processor_clock(uint32_t repeat) { return std::make_unique<ProcessorClock>(repeat); }

}  // namespace rannc::runtime
