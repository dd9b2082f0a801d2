/// Defines the state of the simulator's engine: devices, collectives, blocked messages and the event queue.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <tuple>
#include <vector>

namespace rannc::partition {

inline constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// A time at which the row of a device may continue, or at which the device joins or begins a collective.
struct Wake {
  static constexpr uint32_t kRow = 0;

  double time;
  uint32_t device;
  uint32_t collective = kRow;  ///< its place in the row, counted from 1
  bool operator>(const Wake& other) const {
    return std::tie(time, device, collective) > std::tie(other.time, other.device, other.collective);
  }
};

/// Devices in any order. Correct if transfers do not compete, because then the order of events does not change times.
class AnyOrder {
 public:
  static constexpr bool kTimed = false;
  bool empty() const { return wakes_.empty(); }
  void push(Wake wake) { wakes_.push_back(wake); }
  Wake pop() {
    const Wake wake = wakes_.back();
    wakes_.pop_back();
    return wake;
  }

 private:
  std::vector<Wake> wakes_;
};

/// Devices in order of time, so that a resource serves requests first come, first served.
class TimeOrder {
 public:
  static constexpr bool kTimed = true;
  bool empty() const { return wakes_.empty(); }
  void push(Wake wake) { wakes_.push(wake); }
  Wake pop() {
    const Wake wake = wakes_.top();
    wakes_.pop();
    return wake;
  }

 private:
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

/// A collective in progress: its members so far, its beginning and its end.
struct Collective {
  uint32_t joined = 0;
  uint32_t members = 0;
  double last_join = 0;
  double begin = kUnknown, end = kUnknown;
  std::vector<uint32_t> waiting;  ///< devices whose step waits for the end
};

struct DeviceState {
  uint32_t next = 0;           ///< next action of the row
  double wake = kUnknown;      ///< when the device is examined again; unknown: it waits or has ended
  double clock = 0;            ///< when the compute lane becomes free
  double reduced = 0;          ///< end of the last collective that a later step waits for
  Collective* held = nullptr;  ///< under rendezvous: the collective that the device has joined
  bool waiting = false;        ///< for a message or a collective
  bool parked = false;         ///< at its first step, waiting at the barrier
  bool unsent = false;         ///< compute-only rows: the action before `next` has not sent its results yet
};

/// One blocking message. The first end to arrive stores its time for the second.
struct Meeting {
  double offered = kUnknown;  ///< when the first end arrived
  double arrival = kUnknown;  ///< known once both ends have arrived
};

}  // namespace rannc::partition
