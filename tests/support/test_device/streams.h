/// The streams of all test devices, with what precedes what.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/test_device/access_log.h"

namespace rannc::testing {

/// Guards everything of this folder that is shared by threads. Held while bookkeeping, never while kernels run.
std::recursive_mutex& device_mutex();

/// Work of a stream that ends when another thread of the host does something, such as sending a message.
struct PendingWork {
  explicit PendingWork(Clock precedes) : clock(std::move(precedes)) {}
  bool is_done() const { return done.load(); }
  /// Blocks the calling thread, which must not hold `device_mutex()`.
  void wait() const { done.wait(false); }

  Clock clock;  ///< what precedes its end; guarded by `device_mutex()`
  std::atomic<bool> done = false;
};
using PendingWorks = std::vector<std::shared_ptr<const PendingWork>>;

/// Work recorded by an event.
struct TestEvent {
  bool recorded = false;
  Clock clock;
  std::chrono::steady_clock::time_point time;
  Recording* recording = nullptr;
  PendingWorks pending;  ///< precedes the event as well
};

/// Where bytes are read or written by a work item: memory of a device, or pinned memory of the host.
struct Touch {
  const void* address = nullptr;
  size_t bytes = 0;
  bool write = false;
};

/// All streams. Every function takes `device_mutex()`. Those that wait or begin work first block the calling thread
/// until pending work of the stream or event is done, because work runs at once.
class Streams {
 public:
  static Streams& instance();

  c10::Stream default_stream(c10::DeviceIndex device);
  /// A stream of its own, until there are 32 of a device and priority; then these in turn. Below 0: high.
  c10::Stream pooled(c10::DeviceIndex device, int priority);
  c10::Stream create(c10::DeviceIndex device, int priority = 0);
  int priority(const c10::Stream& stream);

  /// Counts a work item of `stream`, which reads and writes `touches`; to be called before the work runs. Returns its
  /// number. Throws a pending race, or that an access isn't ordered after an earlier one.
  uint64_t begin(const c10::Stream& stream, const char* op, const std::vector<Touch>& touches);
  /// Begins work whose end is not known yet. It does not wait for pending work of the stream: the caller keeps the
  /// order.
  std::shared_ptr<PendingWork> begin_pending(const c10::Stream& stream, const char* op,
                                             const std::vector<Touch>& touches);
  /// Ends work that `begin_pending` began on a stream. `precedes` does so too.
  void finish(const c10::Stream& stream, PendingWork& work, const Clock& precedes = {});
  bool has_pending(const c10::Stream& stream);
  static bool has_pending(const TestEvent& event);
  /// Counts the allocation of a block by `stream` as the first write to it.
  void allocated(const c10::Stream& stream, AccessLog& log, const Touch& block);

  void record(TestEvent& event, const c10::Stream& stream);
  /// Orders later work of `stream` after the event.
  void wait(const c10::Stream& stream, const TestEvent& event);
  /// Orders later work of `later` after the present work of `earlier`.
  void wait(const c10::Stream& later, const c10::Stream& earlier);
  /// Orders the host, and thus what it enqueues later, after work.
  void host_wait(const Clock& clock);
  void host_wait(const c10::Stream& stream);
  void host_wait(const TestEvent& event);
  void host_wait_for_device(c10::DeviceIndex device);

  /// What precedes the next work item of `stream`.
  Clock clock(StreamIndex stream);
  Clock clock(const c10::Stream& stream) { return clock(index(stream)); }
  const Clock& host() const { return host_; }
  StreamIndex index(const c10::Stream& stream) const;

  /// What `stream` enqueues is recorded; null if nothing.
  Recording* recording(const c10::Stream& stream);
  void set_recording(const c10::Stream& stream, Recording* recording);
  /// Streams of `recording` go on as if its work had not been: none of it ran.
  void end_recording(const Recording* recording);

  /// "stream 3 of device 0"
  std::string name(StreamIndex stream) const;

  /// Counts a race, and keeps it as pending.
  void report_race(const std::string& message);
  uint64_t host_waits = 0;                          ///< and queries
  std::atomic<uint64_t> enqueued_by_host = 0;       ///< work items outside of replays
  static inline thread_local bool replays = false;  ///< the calling thread runs what was recorded
  std::optional<std::string> pending;               ///< the first race found where nothing can be thrown
  uint64_t races = 0;

 private:
  struct State {
    c10::Device device;
    c10::StreamId id = 0;
    int priority = 0;
    Clock clock;
    Recording* recording = nullptr;
    Clock before_recording;
    PendingWorks pending;
  };

  Streams();
  /// Those that are not done.
  PendingWorks pending_of(const c10::Stream& stream);
  void wait_for_pending(const c10::Stream& stream);
  /// Counts a work item, whatever is pending.
  uint64_t count(const c10::Stream& stream, const char* op, const std::vector<Touch>& touches);
  State& state(const c10::Stream& stream) { return states_[index(stream)]; }
  void throw_pending();

  std::vector<State> states_;
  std::vector<std::vector<StreamIndex>> by_device_;
  struct Pool {
    std::vector<c10::StreamId> streams;
    size_t next = 0;
  };
  std::map<std::pair<c10::DeviceIndex, bool>, Pool> pools_;  ///< by device, and whether the priority is high
  Clock host_;
};

/// "aten::add on stream 3 of device 0 reads memory that aten::mul on stream 1 of device 0 writes, and no event
/// orders them"
std::string race_message(const Access& later, const Access& earlier);

}  // namespace rannc::testing
