/// Says which sends a peer is certainly ready for when a message of its own has come.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ir/dependencies.h"

namespace rannc::runtime {

/// A peer walks its row in order: where it has sent a message, it has posted every receive before that, and posts those
/// right behind it without waiting for anybody, those behind a recomputation a computation later. To wait, once a
/// message is here, until the sends for those receives have been taken can therefore not block the run; it lets go of
/// them at a known place, so that what a device holds does not hang on how fast its peer wakes.
class AskedSends {
 public:
  /// All sends to `peer` but the last `left` so far.
  struct Wait {
    DeviceId peer;
    uint32_t left = 0;
    bool operator==(const Wait&) const = default;
  };

  /// Of a lowered schedule.
  AskedSends(const ir::Dependencies& dependencies, const ir::Schedule& schedule, DeviceId device);
  /// What may be waited for when all messages for the action `at` of the device's row are here.
  std::span<const Wait> before(size_t at) const { return waits_[at]; }

 private:
  std::vector<std::vector<Wait>> waits_;  // by position in the row
};

}  // namespace rannc::runtime
