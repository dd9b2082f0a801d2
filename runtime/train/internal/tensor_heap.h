/// A heap of its own for tensors.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/train/internal/small_blocks.h"

namespace rannc::runtime {

/// Hands out blocks of one address range and keeps freed ones: best fit, with neighbors merged. Thread-safe.
///
/// A step allocates and frees tensors of the same sizes again. In the C library's heap, small blocks come to lie
/// between them, so that freed memory does not merge. A range for large blocks alone stays within some percent of the
/// live peak
/// (`tests/bench/training.md`). Pages that were used once are never returned to the system.
class BlockRange {
 public:
  /// Reserves address space, not memory. An empty range if the system refuses it.
  explicit BlockRange(size_t bytes);
  ~BlockRange();
  BlockRange(const BlockRange&) = delete;
  BlockRange& operator=(const BlockRange&) = delete;

  /// Returns a block aligned to 64 bytes, or null if the range has no room.
  void* take(size_t bytes);
  /// `block` is one that `take` returned.
  void give_back(void* block);
  bool contains(const void* pointer) const;
  /// Bytes from the beginning of the range to the end of the last block that was ever taken.
  size_t used_bytes() const;
  /// Number of separate free blocks below that end.
  size_t free_blocks() const;
  /// Keeps other threads out until `unlock`, so that `fork` copies complete lists.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  using Free = std::pair<size_t, size_t>;  ///< bytes, place

  void add_free(size_t place, size_t bytes);
  void remove_free(std::map<size_t, size_t>::iterator block);

  char* begin_ = nullptr;
  size_t size_ = 0;
  size_t end_ = 0;                  ///< of the last block that was ever taken
  std::map<size_t, size_t> free_;   ///< place -> bytes; never two neighbors
  std::set<Free> by_size_;          ///< the same
  std::map<size_t, size_t> taken_;  ///< place -> bytes
  mutable std::mutex mutex_;
};

/// LibTorch's allocator for the CPU, with a range for blocks of 64 KiB and more and one for those of
/// 4 KiB and less. Reports memory as LibTorch's does.
///
/// A process that is forked while threads allocate has a usable copy of the heap: `fork` waits until no thread is
/// inside. Blocks of the parent's other threads stay taken in the child.
class TensorHeap final : public c10::Allocator {
 public:
  /// The heap of this process, which is never destroyed.
  static TensorHeap& instance();

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;
  const BlockRange& range() const { return range_; }
  const SmallBlocks& small() const { return small_; }

 private:
  TensorHeap();
  static void release(void* block);
  static void before_fork();
  static void after_fork();

  BlockRange range_;
  SmallBlocks small_;
  c10::Allocator& other_;  ///< LibTorch's own
};

}  // namespace rannc::runtime
