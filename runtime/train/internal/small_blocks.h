/// A heap of its own for small tensors.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rannc::runtime {

/// Hands out blocks of at most `kMostBytes`, aligned to 64 bytes, from one address range. Thread-safe.
///
/// Each size has a list of its own, so that taking and returning a block are a few instructions. The C library's
/// aligned allocation, which searches for room, costs more than a small operator computes. Pages that were used once
/// are never returned to the system.
class SmallBlocks {
 public:
  static constexpr size_t kMostBytes = 4096;

  /// Reserves address space, not memory. Has no blocks if the system refuses it.
  explicit SmallBlocks(size_t bytes);
  ~SmallBlocks();
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;

  /// Returns a block; null if `bytes` is 0 or too many, or if the range is full.
  void* take(size_t bytes);
  /// `block` is one that `take` returned.
  void give_back(void* block);
  bool contains(const void* pointer) const;
  /// Keeps other threads out until `unlock`, so that `fork` copies complete lists.
  void lock();
  void unlock();

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kSlabBytes = size_t{64} << 10;  ///< blocks of one size lie in slabs

  struct Link {
    Link* next;
  };
  struct alignas(kAlignment) SizeClass {
    std::mutex mutex;
    Link* free = nullptr;   ///< returned blocks, the last one first
    char* fresh = nullptr;  ///< rest of the last slab
    char* end = nullptr;
  };

  bool add_slab(size_t number);

  char* begin_ = nullptr;
  size_t slabs_ = 0;
  std::atomic<size_t> used_slabs_ = 0;
  std::unique_ptr<uint8_t[]> numbers_;  ///< of size classes, by slab
  std::array<SizeClass, kMostBytes / kAlignment> classes_;
};

}  // namespace rannc::runtime
