/// Products of small matrices. Independent of LibTorch; compiled once per instruction set.
///
/// An element is the sum of its terms in ascending order of depth, one by one. So its bits depend neither on the
/// instruction set nor on the other rows and columns.
#pragma once

#include "codegen/native/loops.h"
#include "codegen/native/product_run.h"

namespace rannc::native {

inline namespace RANNC_VARIANT {

/// Copies `b` to rows of whole lines, filled up with 0. Returns the length of a row.
template <class T>
int64_t pack(const ProductRun& run, T* to) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const int64_t length = (run.columns + kLanes - 1) / kLanes * kLanes;
  const T* const from = static_cast<const T*>(run.b);
  for (int64_t p = 0; p < run.depth; ++p) {
    for (int64_t j = 0; j < run.columns; ++j) to[p * length + j] = from[p * run.b_row + j * run.b_column];
    for (int64_t j = run.columns; j < length; ++j) to[p * length + j] = 0;
  }
  return length;
}

/// Computes rows from `i` on of one vector of columns from `j` on.
template <int kRows, class T, class Lanes>
RANNC_INLINE void product_block(const ProductRun& run, const T* b, int64_t b_row, int64_t i, int64_t j, Lanes lanes) {
  const T* const a = static_cast<const T*>(run.a) + i * run.a_row;
  T* const to = static_cast<T*>(run.to) + i * run.columns + j;
  Vec<T> sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = T(0);
  for (int64_t p = 0; p < run.depth; ++p) {
    const Vec<T> right = load(b + p * b_row + j);
    for (int r = 0; r < kRows; ++r) sum[r] = sum[r] + Vec<T>(a[r * run.a_row + p * run.a_column]) * right;
  }
  for (int r = 0; r < kRows; ++r) {
    if (run.bias != nullptr) sum[r] = sum[r] + lanes.load(static_cast<const T*>(run.bias) + j);
    if (run.adds) sum[r] = lanes.load(to + r * run.columns) + sum[r];
    lanes.store(to + r * run.columns, sum[r]);
  }
}

template <class T>
void product(const ProductRun& run) {
  const T* b = static_cast<const T*>(run.b);
  int64_t b_row = run.b_row;
  if (run.b_column != 1 || run.columns % Vec<T>::kLanes != 0) {
    T* const packed = reinterpret_cast<T*>(run.scratch);
    b_row = pack(run, packed);
    b = packed;
  }
  each<T>(
      run.columns, [&](int64_t j, auto lanes) __attribute__((always_inline)) {
        int64_t i = 0;
        for (; i + 4 <= run.rows; i += 4) product_block<4>(run, b, b_row, i, j, lanes);
        for (; i < run.rows; ++i) product_block<1>(run, b, b_row, i, j, lanes);
      });
}

extern const Products kProducts;
const Products kProducts = {product<float>, product<double>};

}  // namespace RANNC_VARIANT
}  // namespace rannc::native
