/// Where a simulation stands: what recognises that it repeats itself, shifted in time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/schedule/schedule.h"
#include "partition/schedule/simulate.h"
#include "partition/schedule/simulator_state.h"

namespace rannc::partition {

/// A message that has been sent and not been read.
struct UnreadMessage {
  size_t pair = 0;  ///< of replicas, over all routes
  bool activation = true;
  uint32_t micro_batch = 0;
  double arrival = 0;
};

/// A shared thing that messages occupy one at a time.
struct Port {
  double free = 0;  ///< from when on
  uint64_t uses = 0;
};

/// Everything that decides how a simulation in the order of time goes on, between two of its steps.
struct Standing {
  double now = 0;
  uint32_t micro_batch = 0;  ///< whose backward pass the first device has just done
  std::vector<DeviceState> devices;
  std::vector<DeviceTimeline> timelines;           ///< of each device so far
  std::vector<std::vector<UnreadMessage>> unread;  ///< by receiver, in the order of sending
  std::vector<Port> ports;
};

/// What lies between two standings of which the second is the first one, later.
struct Period {
  double time = 0;
  int64_t micro_batches = 0;  ///< negative where backward passes run from the last micro-batch to the first
};

/// Whether `later` is `earlier` shifted by one time and by one number of micro-batches. Ports and devices that have not
/// been used in between must not have changed at all.
bool repeats(const Standing& earlier, const Standing& later, Period& period);

/// How often the actions between the two standings follow again behind `later`, in every row, shifted by the period.
uint64_t periods_ahead(const ir::Schedule& schedule, const Standing& earlier, const Standing& later,
                       const Period& period);

/// Puts all devices `times` periods later; how many actions that leaves out.
uint64_t move_on(const Standing& earlier, const Standing& now, const Period& period, uint64_t times,
                 std::vector<DeviceState>& states, std::vector<DeviceTimeline>& timelines);

/// The standings of late, to compare a new one with.
class Standings {
 public:
  /// Where to write the standing of now.
  Standing& fresh() { return ring_[next_ % kKept]; }
  /// Keeps what `fresh` holds; the most recent earlier standing that it repeats, or none.
  const Standing* keep(Period& period);
  /// Forgets all: what follows is not connected with what was.
  void clear() { next_ = first_ = 0; }

 private:
  static constexpr size_t kKept = 64;  ///< longest period that is found, in micro-batches
  std::vector<Standing> ring_ = std::vector<Standing>(kKept);
  size_t first_ = 0, next_ = 0;
};

}  // namespace rannc::partition
