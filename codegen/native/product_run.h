/// The interface of products of small matrices, for their callers and for kernels, which are compiled apart.
#pragma once

#include <cstdint>

namespace rannc::native {

/// Whether a product is small: of at most 32 * 32 * 32 multiplications and 2048 elements of the second matrix and of
/// the result, with sums of at most 256 terms, which are added one by one. Up to there the kernels are faster than
/// LibTorch's.
inline constexpr bool is_small(int64_t rows, int64_t columns, int64_t depth) {
  constexpr int64_t kMostElements = 2048;
  if (rows > kMostElements || columns > kMostElements || depth > 256) return false;
  return rows * columns <= kMostElements && columns * depth <= kMostElements && rows * columns * depth <= 32 * 32 * 32;
}

/// One product, of `rows` x `depth` and `depth` x `columns`.
struct ProductRun {
  const void* a;
  int64_t a_row, a_column;  ///< strides, in elements
  const void* b;
  int64_t b_row, b_column;
  const void* bias;  ///< a number per column, added to each row; null: none
  void* to;          ///< rows x columns, contiguous
  int64_t rows, columns, depth;
  bool adds;      ///< to what `to` holds
  char* scratch;  ///< `depth` rows of `columns` elements, each in 64-byte lines
};

/// Kernels by type.
struct Products {
  void (*of_float)(const ProductRun& run);
  void (*of_double)(const ProductRun& run);
};

}  // namespace rannc::native
