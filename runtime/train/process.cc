#include "runtime/train/process.h"

#include <ATen/Parallel.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace rannc::runtime {

void set_threads(int threads) { at::set_num_threads(threads); }

void keep_freed_memory() {
#if defined(__GLIBC__)
  // Nothing in mappings of its own, which go back when they are freed; one heap, since those of threads take no large
  // pieces; and what lies free at its end stays.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace rannc::runtime
