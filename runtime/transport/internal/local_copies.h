/// Copies between the memories of devices that threads of one process drive.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "runtime/transport/internal/local_run.h"
#include "runtime/transport/internal/ordered_sum.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// A tensor of a collective between two devices.
struct CollectivePart {
  CollectiveKey key;
  SumPhase phase = SumPhase::kTerms;
  uint32_t number = 0;  ///< counts those of the phase from one device to another
  auto operator<=>(const CollectivePart&) const = default;
};

/// A copy from one device to another.
struct CopyName {
  DeviceId from, to;
  std::variant<MessageKey, CollectivePart> what;
  auto operator<=>(const CopyName&) const = default;
};

/// A copy. Once it is enqueued, the values belong to both sides again.
struct LocalCopy {
  Value value, into;         ///< until the copy is enqueued
  EventRef made, allocated;  ///< what it waits for
  Device* sender = nullptr;  ///< runs it
  Stream stream = Stream::kCopies;
  EventRef done;
  bool enqueued = false;
  bool dropped = false;  ///< by one side, before that
};
using LocalCopyRef = std::shared_ptr<LocalCopy>;

/// Copies of all devices, which outlive it. The second of send and receive enqueues a copy, always on a stream of the
/// sender, so that no message waits for those of other devices or of the other direction.
class LocalCopies final : public LocalRun {
 public:
  using LocalRun::LocalRun;

  Result<LocalCopyRef> send(const CopyName& name, Value value, EventRef made, Device& sender, Stream stream) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    const LocalCopyRef copy = copy_of(name);
    if (copy->value != nullptr) return error("sent twice: " + text(name));
    copy->value = std::move(value);
    copy->made = std::move(made);
    copy->sender = &sender;
    copy->stream = stream;
    RANNC_TRY(enqueue(name, *copy));
    return copy;
  }

  Result<LocalCopyRef> receive(const CopyName& name, Value into, EventRef allocated) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    const LocalCopyRef copy = copy_of(name);
    if (copy->into != nullptr) return error("received twice: " + text(name));
    copy->into = std::move(into);
    copy->allocated = std::move(allocated);
    RANNC_TRY(enqueue(name, *copy));
    return copy;
  }

  /// Waits until a copy is enqueued: `what` is awaited. `background`: of the thread that waits, null for the device's.
  Result<void> await_enqueued(const LocalCopy& copy, const std::string& what, BackgroundWait* background = nullptr) {
    const auto enqueued = [&] { return copy.enqueued; };
    Lock lock(mutex_, std::defer_lock);
    if (background != nullptr) return await(lock, enqueued, what, *background);
    lock.lock();
    return await(lock, enqueued, what);
  }

  bool is_enqueued(const LocalCopy& copy) const {
    const std::lock_guard lock(mutex_);
    return copy.enqueued;
  }

  /// Returns the end of a copy that is enqueued. Another one never will be.
  EventRef drop(LocalCopy& copy) {
    const std::lock_guard lock(mutex_);
    copy.dropped = true;
    return copy.done;
  }

  /// Forgets the copies of a device that ends.
  void leave(DeviceId device) {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const auto& each) { return each.first.from == device || each.first.to == device; });
  }

  static std::string text(const CopyName& name) {
    if (const auto* message = std::get_if<MessageKey>(&name.what)) return describe(*message);
    return describe(std::get<CollectivePart>(name.what).key);
  }

 private:
  void forget_messages() override { waiting_.clear(); }

  /// Returns the copy of that name, which is forgotten once both sides have it.
  LocalCopyRef copy_of(const CopyName& name) {
    const auto found = waiting_.find(name);
    if (found == waiting_.end()) return waiting_.emplace(name, std::make_shared<LocalCopy>()).first->second;
    return std::move(waiting_.extract(found).mapped());
  }

  Result<void> enqueue(const CopyName& name, LocalCopy& copy) {
    if (copy.value == nullptr || copy.into == nullptr || copy.dropped) return {};
    if (!(copy.value->spec() == copy.into->spec()))
      return error(text(name) + " has another type or shape than its receiver expects");
    const EventRef after[] = {copy.made, copy.allocated};
    copy.done = copy.sender->copy(copy.stream, copy.value, copy.into, after);
    copy.value.reset();
    copy.into.reset();
    copy.enqueued = true;
    changed_.notify_all();
    return {};
  }

  std::map<CopyName, LocalCopyRef> waiting_;  // of which one side has come
};

}  // namespace rannc::runtime
