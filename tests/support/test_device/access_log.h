/// Orders work by vector clocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rannc::testing {

class Recording;

/// Position in the list of all streams of all devices.
using StreamIndex = uint32_t;

/// How far each stream must have come: the number of work items of stream i that precede something.
class Clock {
 public:
  uint64_t of(StreamIndex stream) const { return stream < ticks_.size() ? ticks_[stream] : 0; }
  /// Precedes what either precedes.
  void join(const Clock& other);
  /// Adds one work item of `stream`; returns its number, from 1.
  uint64_t tick(StreamIndex stream);
  bool covers(const Clock& other) const;

 private:
  std::vector<uint64_t> ticks_;
};

/// One access to a range of bytes by one work item.
struct Access {
  StreamIndex stream = 0;
  uint64_t tick = 0;
  const char* op = "";  ///< its name, which lives as long as the process
  uint64_t begin = 0, end = 0;
  bool write = false;
  /// The recording that the work item belongs to, if any. Items of different recordings don't conflict: their replays
  /// do.
  const Recording* recording = nullptr;

  bool precedes(const Clock& clock) const { return clock.of(stream) >= tick; }
};

/// The accesses to a block of memory that later ones may conflict with.
class AccessLog {
 public:
  /// Adds an access of a work item that all of `clock` precedes. Returns the last one that conflicts with it.
  std::optional<Access> add(const Access& access, const Clock& clock);
  /// The last access that does not precede `clock` and is not recorded.
  std::optional<Access> unordered(const Clock& clock) const;
  void clear() { accesses_.clear(); }
  /// Removes the accesses of a recording.
  void forget(const Recording* recording);
  /// The streams with accesses, perhaps several times.
  std::vector<StreamIndex> streams() const;

 private:
  std::vector<Access> accesses_;
};

}  // namespace rannc::testing
