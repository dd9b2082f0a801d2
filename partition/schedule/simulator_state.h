/// What the simulator's engine keeps of devices, collectives and blocked messages; in which order it looks at devices.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <tuple>
#include <vector>

namespace rannc::partition {

inline constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// A device whose row may go on at a time.
struct Wake {
  double time;
  uint32_t device;
  bool operator>(const Wake& other) const { return std::tie(time, device) > std::tie(other.time, other.device); }
};

/// Devices in any order: right where transfers do not compete, since then no order of events changes a time.
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

/// Devices in the order of time, so that a resource serves first who asks first.
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

/// A collective under way: who has joined, and when it ends.
struct Collective {
  uint32_t joined = 0;
  uint32_t members = 0;
  double last_join = 0;
  double end = kUnknown;
  std::vector<uint32_t> waiting;  ///< devices whose step waits for the end
};

struct DeviceState {
  uint32_t next = 0;           ///< action of the row
  double wake = kUnknown;      ///< when the device is looked at again; unknown: it waits or has ended
  double clock = 0;            ///< when the compute lane is free
  double reduced = 0;          ///< end of the last collective that a coming step waits for
  Collective* held = nullptr;  ///< under rendezvous: the collective that the device is in
  bool waiting = false;        ///< for a message or a collective
  bool parked = false;         ///< at its first step, behind the barrier
  bool unsent = false;         ///< compute-only rows: the action before `next` has not sent its results yet
};

/// One end of a blocking message: the first to come leaves its time, the second finds it.
struct Meeting {
  double offered = kUnknown;  ///< when the first end came
  double arrival = kUnknown;  ///< known once both are there
};

}  // namespace rannc::partition
