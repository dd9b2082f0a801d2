/// Repeats passes over the functions of a stage and times each function.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace rannc::runtime {

/// Functions of a stage, in the order of a pass.
enum class PassPart : uint8_t { kBegin, kForward, kRebuild, kInput, kWeight, kBackward, kEnd };
constexpr size_t kPassParts = 7;

/// Times of the counted passes by part, ns.
using PartTimes = std::array<std::vector<double>, kPassParts>;

/// Limits on the number of passes.
struct PassLimits {
  static constexpr uint32_t kWarmUps = 2;      ///< passes that do not count
  static constexpr uint32_t kMostPasses = 40;  ///< with warm-ups, unless `repeat` requires more
  static constexpr double kEnoughNs = 8e6;     ///< total time of counted passes after which to stop
};

/// Determines the number of passes and times their parts.
class PassClock {
 public:
  virtual ~PassClock() = default;
  /// Begins the next pass. Returns false if enough passes have run.
  virtual bool next_pass() = 0;
  /// Runs `work`, a part of the current pass.
  virtual void time(PassPart part, const std::function<void()>& work) = 0;
  /// Returns the times of all counted passes. Call it after the last pass.
  virtual PartTimes times() = 0;
};

/// Measures the time of the calling thread: CPU time if LibTorch uses one thread, so that other programs do not count,
/// otherwise wall time. Counts at least `repeat` passes.
std::unique_ptr<PassClock> processor_clock(uint32_t repeat);

/// Measures by events of the device. Counts at least `repeat` passes. The host waits after the warm-ups and at the end,
/// but not between counted passes. Before these, copies keep the compute stream busy for as long as the host needs to
/// enqueue the passes. The host therefore stays ahead, and times of small kernels do not contain it.
std::unique_ptr<PassClock> device_timer(Device& device, uint32_t repeat);

}  // namespace rannc::runtime
