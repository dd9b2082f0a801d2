/// Detects the steady state of a simulation: a state that repeats, shifted in time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/schedule/schedule.h"
#include "partition/schedule/simulate.h"
#include "partition/schedule/simulator_state.h"

namespace rannc::partition {

/// A message that has been sent but not read.
struct UnreadMessage {
  size_t pair = 0;  ///< index of the pair of replicas, over all routes
  bool activation = true;
  uint32_t micro_batch = 0;
  double arrival = 0;
};

/// A shared resource that messages occupy exclusively.
struct Port {
  double free = 0;  ///< when it becomes free
  uint64_t uses = 0;
};

/// Complete state of a time-ordered simulation between two of its steps.
struct Standing {
  double now = 0;
  uint32_t micro_batch = 0;  ///< whose backward pass the first device has just finished
  std::vector<DeviceState> devices;
  std::vector<DeviceTimeline> timelines;           ///< of each device so far
  std::vector<std::vector<UnreadMessage>> unread;  ///< by receiver, in the order of sending
  std::vector<Port> ports;
};

/// Difference between a standing and its later repetition.
struct Period {
  double time = 0;
  int64_t micro_batches = 0;  ///< negative if backward passes run from the last micro-batch to the first
};

/// Whether `later` equals `earlier` shifted by one time and one number of micro-batches. Ports and devices that were
/// not used in between must be unchanged.
bool repeats(const Standing& earlier, const Standing& later, Period& period);

/// How many times the actions between the two standings repeat after `later` in every row, shifted by the period.
uint64_t periods_ahead(const ir::Schedule& schedule, const Standing& earlier, const Standing& later,
                       const Period& period);

/// Shifts all devices by `times` periods. Returns the number of skipped actions.
uint64_t move_on(const Standing& earlier, const Standing& now, const Period& period, uint64_t times,
                 std::vector<DeviceState>& states, std::vector<DeviceTimeline>& timelines);

/// Recent standings, for comparison with a new one.
class Standings {
 public:
  /// The slot for the current standing.
  Standing& fresh() { return ring_[next_ % kKept]; }
  /// Keeps the contents of `fresh`. Returns the most recent earlier standing that it repeats, or null.
  const Standing* keep(Period& period);
  /// Forgets all standings, because the next ones are unrelated to them.
  void clear() { next_ = first_ = 0; }

 private:
  static constexpr size_t kKept = 64;  ///< longest detectable period, in micro-batches
  std::vector<Standing> ring_ = std::vector<Standing>(kKept);
  size_t first_ = 0, next_ = 0;
};

}  // namespace rannc::partition
