/// A stream of bytes from one thread to another, possibly of another process, through shared memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rannc::runtime {

/// One writer and one reader. Neither waits: both transfer what fits. Bytes become visible to the reader once they are
/// complete, so a writer that is killed at any moment leaves a prefix of its stream.
class ByteRing {
 public:
  /// Bytes of memory for a ring that holds `capacity` bytes, a power of two.
  static constexpr size_t memory_bytes(size_t capacity) { return sizeof(Head) + capacity; }

  ByteRing() = default;
  /// Views zeroed memory, or the same memory in the other process. `capacity` is a power of two.
  ByteRing(std::byte* memory, size_t capacity)
      : head_(reinterpret_cast<Head*>(memory)), data_(memory + sizeof(Head)), capacity_(capacity) {}

  /// Appends the first of `bytes`. Returns how many.
  size_t write(std::span<const std::byte> bytes) {
    const uint64_t at = head_->written.load(std::memory_order_relaxed);
    const size_t count = std::min(bytes.size(), capacity_ - used(at, head_->read.load(std::memory_order_acquire)));
    if (count == 0) return 0;
    const size_t start = at & (capacity_ - 1), first = std::min(count, capacity_ - start);
    std::memcpy(data_ + start, bytes.data(), first);
    std::memcpy(data_, bytes.data() + first, count - first);
    head_->written.store(at + count, std::memory_order_seq_cst);
    return count;
  }

  /// Removes the next bytes. Returns how many.
  size_t read(std::span<std::byte> into) {
    const uint64_t at = head_->read.load(std::memory_order_relaxed);
    const size_t count = std::min(into.size(), used(head_->written.load(std::memory_order_acquire), at));
    if (count == 0) return 0;
    const size_t start = at & (capacity_ - 1), first = std::min(count, capacity_ - start);
    std::memcpy(into.data(), data_ + start, first);
    std::memcpy(into.data() + first, data_, count - first);
    head_->read.store(at + count, std::memory_order_seq_cst);
    return count;
  }

  /// Number of bytes that the reader has removed since the beginning.
  uint64_t bytes_read() const { return head_->read.load(std::memory_order_seq_cst); }

  /// Requests that the other side rings this side's bell after it has written or read.
  void reader_waits(bool waits) { head_->reader_waits.store(waits, std::memory_order_seq_cst); }
  void writer_waits(bool waits) { head_->writer_waits.store(waits, std::memory_order_seq_cst); }
  bool reader_waits() const { return head_->reader_waits.load(std::memory_order_seq_cst) != 0; }
  bool writer_waits() const { return head_->writer_waits.load(std::memory_order_seq_cst) != 0; }

 private:
  struct Head {
    alignas(64) std::atomic<uint64_t> written;
    std::atomic<uint32_t> writer_waits;
    alignas(64) std::atomic<uint64_t> read;
    std::atomic<uint32_t> reader_waits;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

  /// Limited to the capacity, in case that the other process has overwritten the counters.
  size_t used(uint64_t written, uint64_t read) const { return std::min<uint64_t>(written - read, capacity_); }

  Head* head_ = nullptr;
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace rannc::runtime
