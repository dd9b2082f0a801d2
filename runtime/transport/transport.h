/// How values travel between the devices of a pipeline.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"
#include "runtime/execute/value.h"

namespace rannc::runtime {

enum class Direction : uint8_t { kActivation, kGradient };

/// What a message between two devices carries. With both devices it names the message uniquely within a run.
struct MessageKey {
  uint64_t step = 0;
  uint32_t route = 0;  ///< index into `PipelineShape::routes`
  uint32_t micro_batch = 0;
  Direction direction = Direction::kActivation;
  auto operator<=>(const MessageKey&) const = default;
};

/// A collective, by its kind and number within a step: stage for AR and for sums in the middle of its passes, group for
/// RS, 0 for the others.
struct CollectiveKey {
  enum class Kind : uint8_t { kAllReduce, kReduceShared, kWithinPass, kOther };
  uint64_t step = 0;
  Kind kind = Kind::kOther;
  uint32_t index = 0;
  uint32_t part = 0;  ///< of one action's sums, or of all passes of a stage, which follow each other
  auto operator<=>(const CollectiveKey&) const = default;
};

/// A value that is on its way to this device.
class Receipt {
 public:
  virtual ~Receipt() = default;
  /// Blocks until the value is here, the transport's time-out has passed, or the run was aborted. Call it once.
  virtual Result<Value> wait() = 0;
};

/// One device's end. Used by that device's thread, except `abort` and `failure`, which any thread may call.
/// After an abort every call on every end returns the diagnostic it was aborted with, within seconds.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual DeviceId device() const = 0;
  /// How many devices the run has.
  virtual uint32_t devices() const = 0;
  /// Hands `value` over without waiting for the receiver. Between two devices, sends happen in the order in which the
  /// other side posts its receives (rule S5).
  virtual Result<void> send(const MessageKey& key, DeviceId to, Value value) = 0;
  /// Posts a receive and returns at once. `spec` is what the plan says of the value.
  virtual Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) = 0;
  /// Element-wise sums over `members`, among which this device is; all call it with the same key, members and specs.
  /// Every member gets the same bits, the same over every transport: those of `Payload::sum` in the order of `members`.
  virtual Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) = 0;
  /// Waits until at most `left` messages to a device are under way; nothing is where a send itself hands over.
  virtual Result<void> await_sends(DeviceId to, size_t left) {
    (void)to, (void)left;
    return {};
  }
  /// Waits until everything sent was handed over; ends a step.
  virtual Result<void> flush() = 0;
  /// Ends the run for all devices. The first reason wins.
  virtual void abort(const Diagnostic& reason) = 0;
  /// Why the run was aborted, here or elsewhere.
  virtual std::optional<Diagnostic> failure() const = 0;
};

}  // namespace rannc::runtime
