#include "runtime/train/internal/small_blocks.h"

#include <sys/mman.h>

namespace rannc::runtime {

SmallBlocks::SmallBlocks(size_t bytes) {
  const size_t slabs = bytes / kSlabBytes;
  if (slabs == 0) return;
  void* found =
      ::mmap(nullptr, slabs * kSlabBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return;
  begin_ = static_cast<char*>(found);
  slabs_ = slabs;
  numbers_.reset(new uint8_t[slabs]);
}

SmallBlocks::~SmallBlocks() {
  if (begin_ != nullptr) ::munmap(begin_, slabs_ * kSlabBytes);
}

bool SmallBlocks::contains(const void* pointer) const {
  const auto* at = static_cast<const char*>(pointer);
  return at >= begin_ && at < begin_ + slabs_ * kSlabBytes;
}

void* SmallBlocks::take(size_t bytes) {
  if (bytes == 0 || bytes > kMostBytes) return nullptr;
  const size_t number = (bytes - 1) / kAlignment, size = (number + 1) * kAlignment;
  SizeClass& from = classes_[number];
  const std::lock_guard lock(from.mutex);
  if (Link* const block = from.free; block != nullptr) {
    from.free = block->next;
    return block;
  }
  if (static_cast<size_t>(from.end - from.fresh) < size && !add_slab(number)) return nullptr;
  char* const block = from.fresh;
  from.fresh += size;
  return block;
}

/// Gives a size class a slab.
bool SmallBlocks::add_slab(size_t number) {
  if (used_slabs_.load(std::memory_order_relaxed) >= slabs_) return false;
  const size_t slab = used_slabs_.fetch_add(1, std::memory_order_relaxed);
  if (slab >= slabs_) return false;
  numbers_[slab] = static_cast<uint8_t>(number);
  classes_[number].fresh = begin_ + slab * kSlabBytes;
  classes_[number].end = classes_[number].fresh + kSlabBytes;
  return true;
}

void SmallBlocks::give_back(void* block) {
  const size_t slab = static_cast<size_t>(static_cast<char*>(block) - begin_) / kSlabBytes;
  SizeClass& to = classes_[numbers_[slab]];
  const std::lock_guard lock(to.mutex);
  to.free = new (block) Link{to.free};
}

void SmallBlocks::lock() {
  for (SizeClass& each : classes_) each.mutex.lock();
}

void SmallBlocks::unlock() {
  for (SizeClass& each : classes_) each.mutex.unlock();
}

}  // namespace rannc::runtime
