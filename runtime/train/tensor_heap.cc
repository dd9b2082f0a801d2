#include "runtime/train/internal/tensor_heap.h"

#include <c10/core/CPUAllocator.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLeastBytes = size_t{64} << 10;  // of a block of the range

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Address space for twice the memory of the machine: free blocks take room, too.
size_t reserved_bytes() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? 2 * static_cast<size_t>(pages) * static_cast<size_t>(size) : 0;
}

}  // namespace

// --- blocks

BlockRange::BlockRange(size_t bytes) {
  if (bytes == 0) return;
  void* found = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return;
  begin_ = static_cast<char*>(found);
  size_ = bytes;
}

BlockRange::~BlockRange() {
  if (begin_ != nullptr) ::munmap(begin_, size_);
}

bool BlockRange::contains(const void* pointer) const {
  const auto* at = static_cast<const char*>(pointer);
  return at >= begin_ && at < begin_ + size_;
}

void* BlockRange::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const size_t needed = rounded(bytes);
  size_t place = end_;
  if (const auto best = by_size_.lower_bound({needed, 0}); best != by_size_.end()) {
    const auto block = free_.find(best->second);
    const size_t rest = block->second - needed;
    place = block->first;
    remove_free(block);
    if (rest > 0) add_free(place + needed, rest);
  } else {
    if (!free_.empty() && free_.rbegin()->first + free_.rbegin()->second == end_) place = free_.rbegin()->first;
    if (needed > size_ - place) return nullptr;
    if (place < end_) remove_free(std::prev(free_.end()));
    end_ = place + needed;
  }
  taken_.emplace(place, needed);
  return begin_ + place;
}

void BlockRange::give_back(void* block) {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(static_cast<size_t>(static_cast<char*>(block) - begin_));
  RANNC_CHECK(taken != taken_.end()) << "a block is freed that was not taken";
  size_t place = taken->first, bytes = taken->second;
  taken_.erase(taken);
  auto next = free_.lower_bound(place);
  if (next != free_.end() && place + bytes == next->first) {
    bytes += next->second;
    const auto merged = next++;
    remove_free(merged);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == place) {
      place = before->first;
      bytes += before->second;
      remove_free(before);
    }
  }
  add_free(place, bytes);
}

size_t BlockRange::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

size_t BlockRange::free_blocks() const {
  const std::lock_guard lock(mutex_);
  return free_.size();
}

void BlockRange::add_free(size_t place, size_t bytes) {
  free_.emplace(place, bytes);
  by_size_.emplace(bytes, place);
}

void BlockRange::remove_free(std::map<size_t, size_t>::iterator block) {
  by_size_.erase({block->second, block->first});
  free_.erase(block);
}

// --- LibTorch's interface

TensorHeap& TensorHeap::instance() {
  static auto* heap = [] {
    auto* const made = new TensorHeap;
    RANNC_CHECK(pthread_atfork(&before_fork, &after_fork, &after_fork) == 0) << "no memory";
    return made;
  }();
  return *heap;
}

// A thread inside a range may wait for the C library's heap. `fork` locks that after this handler has run.
void TensorHeap::before_fork() {
  instance().range_.lock();
  instance().small_.lock();
}

// In the parent and in the child, by the thread that forks.
void TensorHeap::after_fork() {
  instance().small_.unlock();
  instance().range_.unlock();
}

TensorHeap::TensorHeap()
    : range_(reserved_bytes()), small_(reserved_bytes() / 8), other_(*c10::GetDefaultCPUAllocator()) {}

c10::DataPtr TensorHeap::allocate(size_t bytes) {
  void* block = bytes < kLeastBytes ? small_.take(bytes) : range_.take(bytes);
  if (block == nullptr) return other_.allocate(bytes);
  c10::profiledCPUMemoryReporter().New(block, bytes);
  return {block, block, &TensorHeap::release, c10::Device(c10::DeviceType::CPU)};
}

c10::DeleterFnPtr TensorHeap::raw_deleter() const { return &TensorHeap::release; }

void TensorHeap::copy_data(void* to, const void* from, size_t bytes) const { default_copy_data(to, from, bytes); }

void TensorHeap::release(void* block) {
  TensorHeap& heap = instance();
  const bool is_small = heap.small_.contains(block);
  if (!is_small && !heap.range_.contains(block)) return heap.other_.raw_deallocate(block);
  c10::profiledCPUMemoryReporter().Delete(block);
  if (is_small) {
    heap.small_.give_back(block);
  } else {
    heap.range_.give_back(block);
  }
}

}  // namespace rannc::runtime
