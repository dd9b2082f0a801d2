/// Loops over codegen/native/vector.h and the products of codegen/native/products.h, compiled once per instruction set.
///
/// Plain pointers and tables alone: nothing here may make the linker merge code of two variants.
#pragma once

#include <cstdint>

#include "codegen/native/product_run.h"

namespace rannc::native_kernels {

template <typename T>
struct Unary {
  const char* name;
  void (*run)(const T* x, T* to, std::int64_t count);
};
template <typename T>
struct Binary {
  const char* name;
  void (*run)(const T* x, const T* y, T* to, std::int64_t count);
};
/// Reduces the lanes of one vector.
template <typename T>
struct Reduction {
  const char* name;
  T (*run)(const T* lanes);
};

/// What takes or gives other types than T. All but `layer_norm` process `count` numbers.
template <typename T>
struct Others {
  /// `mask[i] ? x[i] : 0`.
  void (*keep)(const std::uint8_t* mask, const T* x, T* to, std::int64_t count);
  /// `(x < y) & !(x == 0) | (x != x) ^ (y >= 3)` as bytes.
  void (*logic)(const T* x, const T* y, std::uint8_t* to, std::int64_t count);
  /// Whether a lane of one vector is above 0.
  bool (*any_positive)(const T* lanes);
  void (*from_int64)(const std::int64_t* from, T* to, std::int64_t count);
  void (*from_int32)(const std::int32_t* from, T* to, std::int64_t count);
  void (*from_bytes)(const std::uint8_t* from, T* to, std::int64_t count);
  void (*from_double)(const double* from, T* to, std::int64_t count);
  void (*to_int64)(const T* from, std::int64_t* to, std::int64_t count);
  void (*to_float)(const T* from, float* to, std::int64_t count);
  /// A vector of `count` numbers, then of 7 + the lane's number.
  void (*fill)(const T* from, T* lanes, std::int64_t count);
  /// Rows of whole vectors, normalized with eps 1e-5.
  void (*layer_norm)(const T* x, const T* weight, const T* bias, T* to, std::int64_t rows, std::int64_t columns);
};

template <typename T>
struct Table {
  const Unary<T>* unary;
  int unary_count;
  const Binary<T>* binary;
  int binary_count;
  const Reduction<T>* reduction;
  int reduction_count;
  const Others<T>* others;
  int lanes;
};

/// All loops of one variant.
struct Kernels {
  const char* variant;
  Table<float> of_float;
  Table<double> of_double;
  const native::Products* products;
};

const Kernels* baseline_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace rannc::native_kernels
