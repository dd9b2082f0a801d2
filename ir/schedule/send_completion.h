/// Send completion: positions in a row by which sends have certainly finished.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ir/schedule/dependencies.h"

namespace rannc::ir {

/// A send completes once its receive is posted. A peer executes its row in order. When one of its messages has arrived,
/// it has posted every receive that precedes the send of that message. It posts the receives directly after that send
/// without waiting, and those after a recomputation one computation later. Waiting for the matching sends at that point
/// therefore never blocks the run, and peak memory does not depend on peer timing.
class SendCompletion {
 public:
  /// All sends to `peer` so far except the last `left`.
  struct Wait {
    DeviceId peer;
    uint32_t left = 0;
    bool operator==(const Wait&) const = default;
  };

  /// Requires a lowered schedule.
  SendCompletion(const Dependencies& dependencies, const Schedule& schedule, DeviceId device);
  /// Sends that complete without further waiting once all messages for the action `at` of the device's row have
  /// arrived.
  std::span<const Wait> before(size_t at) const { return waits_[at]; }

 private:
  std::vector<std::vector<Wait>> waits_;  // by position in the row
};

}  // namespace rannc::ir
