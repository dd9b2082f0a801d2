/// Process-wide settings for programs. The library never calls them (`runtime/embedding.md`).
#pragma once

#include <cstdint>

namespace rannc::runtime {

/// Sets the number of threads that LibTorch uses per operator, for every device of this process.
void set_threads(int threads);

/// Precision of products of float32 on GPUs, for the whole process. Opening a GPU selects `kHighest`; when the last one
/// is closed, the setting before is restored.
enum class ProductPrecision : uint8_t {
  kHighest,  ///< IEEE
  kHigh,     ///< TF32: operands have 10 bits after the point
};
void set_product_precision(ProductPrecision precision);

/// Makes LibTorch use only kernels whose results have the same bits in every run, for the whole process. An operator
/// without one is an error that names it. On GPUs, products with the same bits also need the environment variable
/// CUBLAS_WORKSPACE_CONFIG=:4096:8, before the first call of a GPU.
void use_deterministic_kernels();

/// Makes cuDNN time its kernels for each new size of a convolution and take the fastest, for the whole process. Which
/// one that is may differ from run to run, and bits with it.
void time_convolutions();

/// Lets LibTorch allocate tensors from a heap of their own, which keeps freed memory (`train/internal/tensor_heap.h`).
/// The next step allocates tensors of the same sizes, and fresh pages from the system cost a tenth of a step. Affects
/// all new tensors of the process on a processor, and nothing else. Other tensors stay valid. The heap may be selected
/// at any time, and a forked process may use its copy.
void use_tensor_heap();

/// The same, and lets the C library keep freed memory, too, if it supports that: `mallopt`, for the rest of the
/// process. For programs of one's own. Call it before the first tensor and the first thread.
void keep_freed_memory();

}  // namespace rannc::runtime
