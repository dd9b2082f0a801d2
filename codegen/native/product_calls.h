/// Products of small matrices on LibTorch's tensors.
#pragma once

// As in calls.h.
#pragma GCC push_options
#pragma GCC optimize("O2")

#include <ATen/core/Tensor.h>
#include <ATen/ops/linear_ops.h>
#include <ATen/ops/mm_ops.h>

#include "codegen/native/loop_calls.h"
#include "codegen/native/product_run.h"

namespace rannc::native {

// Kernels, one table per instruction set.
namespace baseline {
extern const Products kProducts;
}
namespace avx2 {
extern const Products kProducts;
}
namespace avx512 {
extern const Products kProducts;
}

inline const Products& products() {
  static const Products& table = [&]() -> const Products& {
    const char* const set = instruction_set();
    return set[0] == 'b' ? baseline::kProducts : set[3] == '2' ? avx2::kProducts : avx512::kProducts;
  }();
  return table;
}

/// A product of matrices, the second one optionally transposed.
class SmallProduct {
 public:
  enum class Second { kAsIs, kTransposed };

  SmallProduct(const at::Tensor& a, const at::Tensor& b, Second second) : type_(a.scalar_type()) {
    if (a.dim() != 2 || b.dim() != 2 || b.scalar_type() != type_) return;
    const bool flip = second == Second::kTransposed;
    run_ = {};
    run_.a = a.const_data_ptr();
    run_.a_row = a.strides()[0];
    run_.a_column = a.strides()[1];
    run_.b = b.const_data_ptr();
    run_.b_row = b.strides()[flip ? 1 : 0];
    run_.b_column = b.strides()[flip ? 0 : 1];
    run_.rows = a.sizes()[0];
    run_.depth = a.sizes()[1];
    run_.columns = b.sizes()[flip ? 0 : 1];
    small_ = b.sizes()[flip ? 1 : 0] == run_.depth && is_small(run_.rows, run_.columns, run_.depth) &&
             (type_ == at::kFloat || type_ == at::kDouble);
  }

  /// Whether the kernel computes it. Else LibTorch does.
  bool small() const { return small_; }

  at::Tensor result() const { return at::detail::empty_cpu({run_.rows, run_.columns}, type_); }

  /// Whether the result can be added to `sum`.
  bool fits(const at::Tensor& sum) const {
    return sum.is_contiguous() && sum.scalar_type() == type_ && sum.dim() == 2 && sum.sizes()[0] == run_.rows &&
           sum.sizes()[1] == run_.columns;
  }

  void multiply(const at::Tensor& to, const void* bias, bool adds) {
    run_.to = to.mutable_data_ptr();
    run_.bias = bias;
    run_.adds = adds;
    run_.scratch = scratch_lines(static_cast<size_t>(run_.depth * ((run_.columns + 15) / 16 * 16)) * sizeof(double));
    (type_ == at::kFloat ? products().of_float : products().of_double)(run_);
  }

 private:
  ProductRun run_;
  at::ScalarType type_;
  bool small_ = false;
};

/// x * weight^T + bias.
inline at::Tensor small_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}) {
  SmallProduct product(x, weight, SmallProduct::Second::kTransposed);
  const bool fits = !bias.defined() || (bias.is_contiguous() && bias.scalar_type() == x.scalar_type() &&
                                        bias.dim() == 1 && bias.sizes()[0] == weight.sizes()[0]);
  if (!product.small() || !fits) {
    return aten::linear::call(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  }
  at::Tensor result = product.result();
  product.multiply(result, bias.defined() ? bias.const_data_ptr() : nullptr, false);
  return result;
}

inline at::Tensor small_mm(const at::Tensor& a, const at::Tensor& b) {
  SmallProduct product(a, b, SmallProduct::Second::kAsIs);
  if (!product.small()) return aten::mm::call(a, b);
  at::Tensor result = product.result();
  product.multiply(result, nullptr, false);
  return result;
}

/// Adds a * b to a sum of the run.
inline void add_small_product(const Run& run, at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  SmallProduct product(a, b, SmallProduct::Second::kAsIs);
  const bool adds = sum.defined();
  if (!product.small() || (adds && !product.fits(sum))) return run.add_product(sum, a, b);
  if (!adds) sum = product.result();
  product.multiply(sum, nullptr, adds);
}

}  // namespace rannc::native

#pragma GCC pop_options
