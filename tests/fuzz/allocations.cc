// By hooks of the address sanitizer where it is there, else by operators of this program's own.
#include "tests/fuzz/allocations.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define RANNC_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RANNC_ADDRESS_SANITIZER 1
#endif
#endif

namespace {

std::atomic<int64_t> held{0};
std::atomic<int64_t> most{0};

void count(int64_t bytes) {
  const int64_t now = held.fetch_add(bytes) + bytes;
  int64_t known = most.load();
  while (now > known && !most.compare_exchange_weak(known, now)) {
  }
}

}  // namespace

#ifdef RANNC_ADDRESS_SANITIZER
// sanitizer/allocator_interface.h, which GCC does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                                         void (*free_hook)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void* p);

namespace {
const int hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t size) { count(static_cast<int64_t>(size)); },
    [](const volatile void* p) {
      if (p != nullptr) count(-static_cast<int64_t>(__sanitizer_get_allocated_size(p)));
    });
}  // namespace
#else
namespace {

void* counted(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  count(static_cast<int64_t>(malloc_usable_size(p)));
  return p;
}

void release(void* p) {
  if (p != nullptr) count(-static_cast<int64_t>(malloc_usable_size(p)));
  std::free(p);
}

}  // namespace

void* operator new(size_t size) { return counted(std::malloc(std::max<size_t>(size, 1))); }
void* operator new(size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(unit, (std::max<size_t>(size, 1) + unit - 1) / unit * unit));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { release(p); }
#endif

namespace rannc::fuzz {

PeakAllocation::PeakAllocation() : held_before_(held.load()) { most.store(held_before_); }

uint64_t PeakAllocation::bytes() const {
  return static_cast<uint64_t>(std::max<int64_t>(most.load() - held_before_, 0));
}

}  // namespace rannc::fuzz
