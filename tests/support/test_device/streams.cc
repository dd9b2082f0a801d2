// Streams, and the order of the work on them.
#include "tests/support/test_device/streams.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "tests/support/test_device/device_memory.h"
#include "tests/support/test_device/pinned_memory.h"
#include "tests/support/test_device/test_device.h"
#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {

std::recursive_mutex& device_mutex() {
  static auto* const mutex = new std::recursive_mutex;  // outlives the tensors of static objects
  return *mutex;
}

using DeviceLock = std::lock_guard<std::recursive_mutex>;

Streams& Streams::instance() {
  static auto* const streams = new Streams;
  return *streams;
}

Streams::Streams() : by_device_(kTestDevices) {
  for (c10::DeviceIndex device = 0; device < kTestDevices; ++device) create(device);
}

c10::Stream Streams::default_stream(c10::DeviceIndex device) {
  return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kPrivateUse1, device));
}

c10::Stream Streams::create(c10::DeviceIndex device, int priority) {
  const DeviceLock lock(device_mutex());
  auto& streams = by_device_.at(static_cast<size_t>(device));
  const auto id = static_cast<c10::StreamId>(streams.size());
  const c10::Device of(c10::kPrivateUse1, device);
  streams.push_back(static_cast<StreamIndex>(states_.size()));
  states_.push_back({of, id, priority});
  return c10::Stream(c10::Stream::UNSAFE, of, id);
}

c10::Stream Streams::pooled(c10::DeviceIndex device, int priority) {
  constexpr size_t kPooled = 32;
  const DeviceLock lock(device_mutex());
  Pool& pool = pools_[{device, priority < 0}];
  if (pool.streams.size() < kPooled) {
    const c10::Stream made = create(device, priority);
    pool.streams.push_back(made.id());
    return made;
  }
  const c10::StreamId next = pool.streams[pool.next++ % kPooled];
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kPrivateUse1, device), next);
}

int Streams::priority(const c10::Stream& stream) {
  const DeviceLock lock(device_mutex());
  return state(stream).priority;
}

StreamIndex Streams::index(const c10::Stream& stream) const {
  const DeviceLock lock(device_mutex());
  const auto& streams = by_device_.at(static_cast<size_t>(stream.device_index()));
  return streams.at(static_cast<size_t>(stream.id()));
}

std::string Streams::name(StreamIndex stream) const {
  const State& state = states_.at(stream);
  return fmt::format("stream {} of device {}", state.id, static_cast<int>(state.device.index()));
}

std::string race_message(const Access& later, const Access& earlier) {
  const Streams& streams = Streams::instance();
  return fmt::format("{} on {} {} memory that {} on {} {}, and no event orders them", later.op,
                     streams.name(later.stream), later.write ? "writes" : "reads", earlier.op,
                     streams.name(earlier.stream), earlier.write ? "writes" : "reads");
}

void Streams::report_race(const std::string& message) {
  const DeviceLock lock(device_mutex());
  ++races;
  if (!pending) pending = message;
}

void Streams::throw_pending() {
  if (!pending) return;
  const std::string message = *std::exchange(pending, std::nullopt);
  TORCH_CHECK(false, message);
}

uint64_t Streams::begin(const c10::Stream& stream, const char* op, const std::vector<Touch>& touches) {
  wait_for_pending(stream);
  return count(stream, op, touches);
}

std::shared_ptr<PendingWork> Streams::begin_pending(const c10::Stream& stream, const char* op,
                                                    const std::vector<Touch>& touches) {
  const DeviceLock lock(device_mutex());
  count(stream, op, touches);
  auto work = std::make_shared<PendingWork>(state(stream).clock);
  state(stream).pending = pending_of(stream);
  state(stream).pending.push_back(work);
  return work;
}

void Streams::finish(const c10::Stream& stream, PendingWork& work, const Clock& precedes) {
  const DeviceLock lock(device_mutex());
  work.clock.join(precedes);
  state(stream).clock.join(precedes);
  work.done = true;
  work.done.notify_all();
}

PendingWorks Streams::pending_of(const c10::Stream& stream) {
  const DeviceLock lock(device_mutex());
  PendingWorks open;
  for (const auto& work : state(stream).pending) {
    if (!work->is_done()) open.push_back(work);
  }
  return open;
}

void Streams::wait_for_pending(const c10::Stream& stream) {
  for (const auto& work : pending_of(stream)) work->wait();
}

bool Streams::has_pending(const c10::Stream& stream) { return !pending_of(stream).empty(); }

bool Streams::has_pending(const TestEvent& event) {
  return std::any_of(event.pending.begin(), event.pending.end(), [](const auto& work) { return !work->is_done(); });
}

uint64_t Streams::count(const c10::Stream& stream, const char* op, const std::vector<Touch>& touches) {
  const DeviceLock lock(device_mutex());
  throw_pending();
  if (!replays) ++enqueued_by_host;
  State& on = state(stream);
  on.clock.join(host_);
  const StreamIndex at = index(stream);
  const uint64_t tick = on.clock.tick(at);
  for (const Touch& touch : touches) {
    AccessLog* log = DeviceMemory::instance().log(touch.address);
    if (log == nullptr) log = PinnedMemory::instance().log(touch.address);
    if (log == nullptr || touch.bytes == 0) continue;
    const auto begin = reinterpret_cast<uint64_t>(touch.address);
    const Access access{at, tick, op, begin, begin + touch.bytes, touch.write, on.recording};
    if (const auto earlier = log->add(access, on.clock)) {
      ++races;
      TORCH_CHECK(false, race_message(access, *earlier));
    }
  }
  return tick;
}

void Streams::allocated(const c10::Stream& stream, AccessLog& log, const Touch& block) {
  const DeviceLock lock(device_mutex());
  State& on = state(stream);
  on.clock.join(host_);
  const StreamIndex at = index(stream);
  const auto begin = reinterpret_cast<uint64_t>(block.address);
  log.clear();
  log.add({at, on.clock.tick(at), "the allocation", begin, begin + block.bytes, true, on.recording}, on.clock);
}

void Streams::record(TestEvent& event, const c10::Stream& stream) {
  const DeviceLock lock(device_mutex());
  const State& on = state(stream);
  event = {true, on.clock, std::chrono::steady_clock::now(), on.recording, pending_of(stream)};
  event.clock.join(host_);
}

void Streams::wait(const c10::Stream& stream, const TestEvent& event) {
  for (const auto& work : event.pending) work->wait();
  const DeviceLock lock(device_mutex());
  if (!event.recorded) return;
  State& on = state(stream);
  if (event.recording == nullptr) {
    TORCH_CHECK(on.recording == nullptr || on.clock.covers(event.clock), name(index(stream)),
                " is recorded and waits for work that is not");
    on.clock.join(event.clock);
    for (const auto& work : event.pending) on.clock.join(work->clock);
    return;
  }
  const bool goes_on = std::any_of(states_.begin(), states_.end(),
                                   [&](const State& other) { return other.recording == event.recording; });
  TORCH_CHECK(goes_on, name(index(stream)), " waits for an event of a recording that ended");
  set_recording(stream, event.recording);
  on.clock.join(event.clock);
}

void Streams::wait(const c10::Stream& later, const c10::Stream& earlier) {
  wait_for_pending(earlier);
  const DeviceLock lock(device_mutex());
  state(later).clock.join(state(earlier).clock);
}

void Streams::host_wait(const Clock& clock) {
  const DeviceLock lock(device_mutex());
  host_.join(clock);
  PinnedMemory::instance().host_reached(host_);
}

void Streams::host_wait(const c10::Stream& stream) {
  wait_for_pending(stream);
  const DeviceLock lock(device_mutex());
  TORCH_CHECK(recording(stream) == nullptr, "the host waits for ", name(index(stream)), " while it is recorded");
  ++host_waits;
  host_wait(state(stream).clock);
}

void Streams::host_wait(const TestEvent& event) {
  for (const auto& work : event.pending) work->wait();
  const DeviceLock lock(device_mutex());
  TORCH_CHECK(event.recording == nullptr, "the host waits for an event of a recording");
  ++host_waits;
  host_wait(event.clock);
  for (const auto& work : event.pending) host_wait(work->clock);
}

void Streams::host_wait_for_device(c10::DeviceIndex device) {
  PendingWorks pending;
  {
    const DeviceLock lock(device_mutex());
    for (const StreamIndex stream : by_device_.at(static_cast<size_t>(device))) {
      pending.insert(pending.end(), states_[stream].pending.begin(), states_[stream].pending.end());
    }
  }
  for (const auto& work : pending) work->wait();
  const DeviceLock lock(device_mutex());
  for (const StreamIndex stream : by_device_.at(static_cast<size_t>(device))) host_.join(states_[stream].clock);
  PinnedMemory::instance().host_reached(host_);
}

Clock Streams::clock(StreamIndex stream) {
  const DeviceLock lock(device_mutex());
  Clock clock = states_.at(stream).clock;
  clock.join(host_);
  return clock;
}

Recording* Streams::recording(const c10::Stream& stream) {
  const DeviceLock lock(device_mutex());
  return state(stream).recording;
}

void Streams::set_recording(const c10::Stream& stream, Recording* recording) {
  const DeviceLock lock(device_mutex());
  State& on = state(stream);
  if (on.recording == nullptr) on.before_recording = on.clock;
  on.recording = recording;
}

void Streams::end_recording(const Recording* recording) {
  const DeviceLock lock(device_mutex());
  DeviceMemory::instance().forget(recording);
  for (State& on : states_) {
    if (on.recording != recording) continue;
    on.recording = nullptr;
    on.clock = on.before_recording;
  }
}

}  // namespace rannc::testing
