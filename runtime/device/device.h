/// A device as the runtime sees it: its memory, its streams and its clock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ir/base/device_type.h"
#include "runtime/device/plugin.h"
#include "runtime/execute/value.h"

namespace rannc::runtime {

/// A point in the work of a stream.
class Event {
 public:
  virtual ~Event() = default;
};
/// Null: a point that is already reached, as all are on a CPU.
using EventRef = std::shared_ptr<const Event>;

/// A stream of a device. Work on one stream runs in order. Streams wait for each other only through events.
enum class Stream : uint32_t {
  kCompute = 0,  ///< of programs and optimizers
  kUploads = 1,  ///< of `stage`
  kCopies = 2,   ///< the first of the streams for messages, of high priority, which the transport numbers
};

/// The stream for messages with this number.
constexpr Stream message_stream(uint32_t number) {
  return static_cast<Stream>(static_cast<uint32_t>(Stream::kCopies) + number);
}
/// The same, but where a device has no stream left, several of these are one.
inline constexpr uint32_t kFirstShareable = 1U << 16;
constexpr Stream shareable_stream(uint32_t number) { return message_stream(kFirstShareable + number); }

/// Makes the calls of a thread run on a stream, until it is destroyed.
class StreamScope {
 public:
  virtual ~StreamScope() = default;
};

/// One device. The host enqueues work, which may run later. A thread that uses the device holds a `StreamScope`.
/// Memory belongs to the stream on which it was allocated: it may be reused by later work of that stream as soon as the
/// last reference is gone. Before that, this stream must wait for other streams that use the memory.
///
/// Errors of the device are exceptions derived from `std::exception`, thrown by any later call.
class Device {
 public:
  virtual ~Device() = default;
  virtual ir::DeviceType type() const = 0;
  virtual bool has_flash_attention() const = 0;
  /// Determines how programs are lowered.
  ir::DeviceKernels kernels() const { return {type(), has_flash_attention()}; }
  /// LibTorch's name: `cpu`, `cuda:0`.
  virtual std::string address() const = 0;
  /// `NVIDIA H100 80GB HBM3`; empty if unknown.
  virtual std::string model() const = 0;
  virtual uint64_t memory_bytes() const = 0;  ///< 0: unknown
  virtual uint64_t clock_khz() const = 0;     ///< highest; 0: unknown
  /// Whether calls return before their work is done.
  virtual bool is_asynchronous() const = 0;

  /// The same hardware with streams of its own, for another device of a plan.
  virtual std::unique_ptr<Device> with_own_streams() const = 0;

  // Streams and events: any thread may call these functions.

  virtual std::unique_ptr<StreamScope> enter(Stream stream) = 0;
  /// A point after all work that was enqueued on a stream.
  virtual EventRef record(Stream stream) = 0;
  /// The same for `ns_between`. Slower to wait for.
  virtual EventRef stamp(Stream stream) = 0;
  /// Makes later work on a stream wait for an event of any device of the same type.
  virtual void await(Stream stream, const EventRef& event) = 0;
  /// Whether an event is reached. Does not wait.
  virtual bool is_reached(const EventRef& event) const = 0;
  /// Waits for an event.
  virtual void synchronize(const EventRef& event) = 0;
  /// Waits for all work on these streams.
  virtual void synchronize() = 0;
  /// Numbers the work that is on the compute stream now. 0 begins anew, and requires that all work on it is done.
  virtual void mark(uint64_t number) = 0;
  /// The last number whose work is done. Does not wait, and works on a device that has failed.
  virtual uint64_t marked() const = 0;
  /// The time between two stamps of this device that are reached, ns.
  virtual int64_t ns_between(const EventRef& from, const EventRef& to) const = 0;

  /// Uninitialized memory on the compute stream.
  virtual Value allocate(const TensorSpec& spec) = 0;
  /// Enqueues a copy from this device to any of the same type on a stream, after some events. Both values must live
  /// until the result is awaited on the streams that they belong to. Copies within host memory at once. Any thread may
  /// call it.
  virtual EventRef copy(Stream stream, const Value& from, const Value& to, std::span<const EventRef> after) = 0;
  /// Returns a value of host memory in memory from which a device copies without the host's help.
  virtual Value pinned(const Value& value) = 0;
  /// Returns the same, of which `upload` needs no copy any more: begins to copy on a stream of its own, if there is
  /// room. Nobody may change the value. The copy is freed after the result, by `drop_staged`. Any thread may call it.
  virtual Value stage(const Value& value) = 0;
  /// Frees the copies of values that are gone. The work that reads them must be done.
  virtual void drop_staged() = 0;
  /// Returns the value in this device's memory. Copies on the compute stream, from host memory without waiting, unless
  /// the value or what it is a part of is staged.
  virtual Value upload(const Value& value) = 0;
  /// Returns the value in host memory. Waits for the compute stream.
  virtual Value download(const Value& value) = 0;

  /// Begins to copy a value to host memory, after what is on the compute stream now. The result may be read after
  /// `synchronize`.
  virtual Value fetch(const Value& value) = 0;

  /// Generates random numbers on the compute stream.
  virtual void fill(const DeviceRandom& random_input) = 0;

  /// Enqueues an optimizer step on the compute stream. Returns false if the device has no kernel for it.
  virtual bool update(const DeviceUpdate& update) = 0;

  /// Records what `work` enqueues on the compute stream, instead of running it (`DevicePlugin::record`). Recordings
  /// with one `pool` of this device share memory: they run in the order in which they were made. Null if that is
  /// impossible.
  virtual std::unique_ptr<RecordedWork> capture(const std::function<void()>& work, uint64_t pool) = 0;

  /// Messages to devices of other processes; null if there are none.
  virtual const NcclTable* nccl() const = 0;

  /// Gives memory that nothing uses back to the system. May wait for all work of the device.
  virtual void give_back_memory() = 0;
  virtual uint64_t live_bytes() const = 0;  ///< allocated by all users of the device in this process
  virtual uint64_t peak_bytes() const = 0;  ///< since the last `restart_peak`
  virtual void restart_peak() = 0;
};

/// The processor that this code runs on. Its values lie in host memory, its work is done when calls return, and its
/// memory is not counted.
Device& cpu();

}  // namespace rannc::runtime
