/// Wakes the threads of a process when another process has done something for them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace rannc::runtime {

/// Lies in zeroed memory that processes share. Two threads of its owner listen: the device's thread while it waits,
/// else a helper. A killed listener or ringer leaves nothing locked.
class Bell {
 public:
  enum class Listener : uint32_t { kDevice = 1, kHelper = 2 };

  /// Wakes the device's thread if it waits, else the helper.
  void ring();
  /// Number of rings so far. Read it before looking for work, and pass it to `listen`.
  uint32_t rings() const { return rings_.load(std::memory_order_seq_cst); }
  /// Sleeps until the bell has rung since it had `seen` rings, or for `limit`. May return early.
  void listen(Listener who, uint32_t seen, std::chrono::milliseconds limit);
  /// Sets whether the device's thread waits. Rings before the end of its wait may have been for it alone, so it must
  /// look for work, or ring, after `device_waits(false)`.
  void device_waits(bool waits) { device_waits_.store(waits, std::memory_order_seq_cst); }
  bool device_waits() const { return device_waits_.load(std::memory_order_seq_cst) != 0; }

 private:
  std::atomic<uint32_t> rings_;
  std::atomic<uint32_t> device_waits_;
  std::atomic<uint32_t> sleeping_;  ///< bits of `Listener`
};

}  // namespace rannc::runtime
