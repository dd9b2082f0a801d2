/// Records what a worker does, so that a hang can be told from a wait for another worker.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "ir/schedule/schedule.h"
#include "runtime/execute/running_clock.h"

namespace rannc::runtime {

/// Work that a thread has begun.
struct Activity {
  std::string_view what;                  ///< static text, such as `reading the samples`
  std::optional<uint64_t> step = {};      ///< counted from 0
  std::optional<ir::Action> action = {};  ///< of a schedule, named instead of `what`
  uint32_t limits = 1;                    ///< number of time-outs that it may take without progress
};
/// `forward (F1.0) of step 3, stage 1, micro-batch 0`.
std::string describe(const Activity& activity);

/// Limits of work whose duration depends on the size of files and that cannot report parts.
constexpr uint32_t kFileLimits = 10;

/// Current work of a worker's threads. Thread-safe.
class Progress {
 public:
  /// Threads that work at the same time. `kSteps` are the main thread and the device's thread, which take turns.
  enum class Lane : uint8_t { kSteps, kCheckpoint };
  static constexpr size_t kLanes = 2;

  struct State {
    Activity activity;
    uint64_t changes = 0;  ///< number of changes so far
    bool waits = true;     ///< it waits for another worker, or does nothing
  };

  void begin(Lane lane, const Activity& activity);
  /// Ends the work of a lane. It has no limit until the next one begins.
  void rest(Lane lane);
  State state(Lane lane) const;

  /// Ends the run in which this worker takes part, because it hangs.
  void declare_hung(std::string why);
  /// Returns the reason of `declare_hung`; empty without one.
  std::string hung() const;
  /// The run has failed, so that nobody waits for this worker beyond one time-out.
  void note_failure() { failed_ = true; }
  bool run_has_failed() const { return failed_; }

  /// The lane `kSteps` waits for another worker during the lifetime of this object. `progress` may be null.
  class Waiting {
   public:
    explicit Waiting(Progress* progress) : progress_(progress) { add(1); }
    ~Waiting() { add(-1); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    void add(int change) {
      if (progress_ != nullptr) progress_->add_waits(change);
    }
    Progress* progress_;
  };

 private:
  struct Work {
    Activity activity;
    uint64_t changes = 0;
    bool rests = true;
    int waits = 0;
  };
  void add_waits(int change);

  mutable std::mutex mutex_;
  std::array<Work, kLanes> lanes_;
  std::string hung_;
  std::atomic<bool> failed_{false};
};

/// Begins work of `kSteps`. `progress` may be null.
inline void begin_work(Progress* progress, const Activity& activity) {
  if (progress != nullptr) progress->begin(Progress::Lane::kSteps, activity);
}

/// Measures how long work makes no progress. Pauses of this process do not count. Not thread-safe.
class StallClock {
 public:
  struct Stall {
    Activity activity;
    std::chrono::milliseconds idle{0};
  };
  /// Returns the work of a lane and how long it has made no progress, as seen by calls for this lane; nothing if it
  /// waits or rests. Call it at least every two `RunningClock::kTick`.
  std::optional<Stall> look(const Progress& progress, Progress::Lane lane = Progress::Lane::kSteps);

 private:
  struct Seen {
    uint64_t changes = 0;
    std::chrono::milliseconds since{0};
  };
  RunningClock clock_;
  std::array<Seen, Progress::kLanes> seen_;
};

}  // namespace rannc::runtime
