#include "runtime/train/process.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "runtime/train/internal/tensor_heap.h"

namespace rannc::runtime {

void set_threads(int threads) { at::set_num_threads(threads); }

void set_product_precision(ProductPrecision precision) {
  const bool rounds = precision == ProductPrecision::kHigh;
  at::globalContext().setAllowTF32CuBLAS(rounds);
  at::globalContext().setAllowTF32CuDNN(rounds);
}

void use_deterministic_kernels() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // programs read what they have written
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

void time_convolutions() { at::globalContext().setBenchmarkCuDNN(true); }

void use_tensor_heap() { c10::SetCPUAllocator(&TensorHeap::instance()); }

void keep_freed_memory() {
  use_tensor_heap();
#if defined(__GLIBC__)
  // No separate mappings, which are returned when freed. One heap, because thread heaps cannot hold large blocks. No
  // trimming of free memory at the end of the heap.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace rannc::runtime
