/// The interface for communication between the devices of a pipeline.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"
#include "runtime/device/device.h"
#include "runtime/execute/progress.h"
#include "runtime/execute/value.h"
#include "runtime/transport/sent_bytes.h"

namespace rannc::runtime {

enum class Direction : uint8_t { kActivation, kGradient };

/// Identifies a message between two devices uniquely within a run.
struct MessageKey {
  uint64_t step = 0;
  uint32_t route = 0;  ///< index into `PipelineShape::routes`
  uint32_t micro_batch = 0;
  Direction direction = Direction::kActivation;
  auto operator<=>(const MessageKey&) const = default;
};

/// Returns a description for messages to users, such as `the gradient of route 2, micro-batch 0`.
std::string describe(const MessageKey& key);

/// Identifies a collective by kind and index within a step. The index is the stage for AR, SC, AG and sums within
/// passes, the group for RS, and 0 otherwise.
struct CollectiveKey {
  enum class Kind : uint8_t { kAllReduce, kReduceShared, kWithinPass, kOther, kReduceScatter, kAllGather };
  uint64_t step = 0;
  Kind kind = Kind::kOther;
  uint32_t index = 0;
  uint32_t part = 0;  ///< counts the calls of one action, or the sums within all passes of a stage
  auto operator<=>(const CollectiveKey&) const = default;
};

/// Returns a description for messages to users, such as `all-reduce 2, part 0 of step 7`.
std::string describe(const CollectiveKey& key);

/// Returns the index of `self` in `members`, which contain it.
size_t position_in(std::span<const DeviceId> members, DeviceId self);

/// When a transport that copies messages frees a sent value.
enum class SentValue : uint8_t {
  kFreedWhenTaken,    ///< once the receiver has taken it
  kHeldUntilAwaited,  ///< once `await_sends` or `flush` finds it taken; peak memory does not depend on the receiver
};

/// A received value, which may be read by work that awaits `ready`.
struct Arrived {
  Value value;
  EventRef ready;
};

/// A pending receive.
class Receipt {
 public:
  virtual ~Receipt() = default;
  /// Blocks until the value has arrived or its arrival is enqueued, the transport's time-out expires, or the run is
  /// aborted. Call it once.
  virtual Result<Arrived> wait() = 0;
};

/// A sum over devices that was begun. One that is dropped before `wait` goes on without its result.
class PendingSum {
 public:
  virtual ~PendingSum() = default;
  /// Blocks until the sum is complete or its completion is enqueued, the transport's time-out expires, or the run is
  /// aborted. The time-out counts from here. Call it once.
  virtual Result<Values> wait() = 0;
  /// When the sum was complete, on the clock of `ActionRecord`, ns. Valid after `wait`. On an asynchronous device, when
  /// `wait` returned.
  virtual int64_t finished_ns() const = 0;
};

/// One device's endpoint. Used by that device's thread, except `abort` and `failure`, which any thread may call. Values
/// lie in the memory of `hardware()` and belong to its compute stream. Sums may also be of values in host memory.
/// After an abort, every call on every endpoint returns the abort's diagnostic within seconds.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual DeviceId device() const = 0;
  virtual Device& hardware() const { return cpu(); }
  /// Number of devices of the run.
  virtual uint32_t devices() const = 0;
  /// Sends `value`, as the compute stream leaves it, without waiting for the receiver. Between two devices, sends
  /// happen in the order in which the receiver posts its receives (rule S5).
  virtual Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) = 0;
  /// Posts a receive and returns immediately. `spec` is the type of the value in the plan.
  virtual Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) = 0;
  /// Returns element-wise sums over `members`, which include this device. All call it with the same key, members and
  /// specs. The result is bit-identical for all members and transports: `Payload::sum` in the order of `members`. It
  /// may be read on the compute stream.
  virtual Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) = 0;
  /// Begins the sums of `all_reduce`, which run while the device computes, and returns at once. All members begin sums
  /// in one order. They may take the memory of the terms, so nothing else may use it before `PendingSum::wait`, which
  /// may be called in any order. Transports with a `SumQueue` complete the sums of a device in the order of begins, and
  /// keep receive buffers of two at most. Blocking sums and `all_gather` follow the sums that were begun before; sums
  /// within passes never wait for others. The endpoint must outlive the result.
  virtual Result<std::unique_ptr<PendingSum>> begin_all_reduce(const CollectiveKey& key,
                                                               std::span<const DeviceId> members, Values values) = 0;
  /// Begins sums that only this device receives, in the memory of its own terms. `terms[i]` are this device's
  /// contiguous terms of the values of member i, in the order of `members`: all members pass terms of equal specs for
  /// one member. `PendingSum::wait` returns this device's own terms, which then are the sums of `all_reduce`.
  virtual Result<std::unique_ptr<PendingSum>> begin_reduce_scatter(const CollectiveKey& key,
                                                                   std::span<const DeviceId> members,
                                                                   std::vector<Values> terms) = 0;
  /// Copies values of each member to all others. `parts[i]` are the values of member i, in the order of `members`: this
  /// device's own are sent, the memory of all others is overwritten. Specs are equal on all members. Own parts may
  /// change afterwards.
  virtual Result<void> all_gather(const CollectiveKey& key, std::span<const DeviceId> members,
                                  const std::vector<Values>& parts) = 0;
  /// Waits until at most `left` sends to a device are incomplete, and frees the values of the others. On an
  /// asynchronous device, the compute stream may wait instead of the host. The default is for transports whose sends
  /// complete immediately.
  virtual Result<void> await_sends(DeviceId to, size_t left) {
    (void)to, (void)left;
    return {};
  }
  /// Waits for completion of all sends. Called at the end of a step.
  virtual Result<void> flush() = 0;
  /// Receives what this device does; null: nobody watches it, or this transport cannot tell its waits from its work.
  virtual Progress* progress() const { return nullptr; }
  /// Returns the bytes that this device has sent to each other device since it joined. Values that are passed by
  /// reference count as if they were copied. Do not call it while a step runs.
  virtual SentByPeer sent_bytes() const = 0;
  /// Ends the run for all devices. The first reason is kept.
  virtual void abort(const Diagnostic& reason) = 0;
  /// Returns the reason of an abort on this or another device; empty if there was none.
  virtual std::optional<Diagnostic> failure() const = 0;
};

}  // namespace rannc::runtime
