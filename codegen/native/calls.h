/// Short forms for generated functions of a stage.
#pragma once

// Generated functions are compiled by -Og, in which accessors of tensors are calls. What follows is called often.
#pragma GCC push_options
#pragma GCC optimize("O2")

#include <ATen/core/ATen_fwd.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided_native.h>
#include <c10/core/GradMode.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/headeronly/version.h>

#include <initializer_list>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/native/stage.h"

namespace aten = at::_ops;

namespace rannc::native {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Values of a function. An array has one place to free them all on failure, which compiles faster than variables.
using Tensors = std::vector<at::Tensor>;

/// Moves arguments to the values of these numbers, and values to results.
inline void take(at::Tensor* arguments, Tensors& values, std::initializer_list<uint32_t> numbers) {
  for (const uint32_t number : numbers) values[number] = std::move(*arguments++);
}
inline void give(Tensors& values, std::initializer_list<uint32_t> numbers, at::Tensor* results) {
  for (const uint32_t number : numbers) *results++ = std::move(values[number]);
}

/// Frees values after their last reader.
template <class... Tensors>
void release(Tensors&... tensors) {
  (tensors.reset(), ...);
}

/// Integers as an argument. Lives until the end of the full expression.
inline at::IntArrayRef ints(std::initializer_list<int64_t> list) { return list; }
inline c10::SymIntArrayRef sizes(std::initializer_list<int64_t> list) {
  return c10::fromIntArrayRefSlow(at::IntArrayRef(list));
}

inline at::ArrayRef<double> doubles(std::initializer_list<double> list) { return list; }

/// A list of tensors. Lives until the end of the full expression.
inline at::TensorList list(std::initializer_list<at::Tensor> tensors) { return tensors; }

/// Several tensors as one result.
template <size_t... Index>
auto tuple_of(at::Tensor* tensors, std::index_sequence<Index...>) {
  return std::make_tuple(std::move(tensors[Index])...);
}

/// The tensors of a list result.
template <size_t Count>
auto unpacked(std::vector<at::Tensor> list) {
  TORCH_CHECK(list.size() == Count, "a list has ", list.size(), " tensors, not ", Count);
  return tuple_of(list.data(), std::make_index_sequence<Count>());
}

/// Axes in another order, as a view. LibTorch's operators make the same one in several dispatched calls.
template <size_t kRank>
at::Tensor permuted(const at::Tensor& x, const int64_t (&order)[kRank]) {
  TORCH_CHECK(x.dim() == kRank, "a tensor of ", x.dim(), " axes cannot be permuted as one of ", kRank);
  int64_t sizes[kRank], strides[kRank];
  for (size_t i = 0; i < kRank; ++i) {
    sizes[i] = x.sizes()[order[i]];
    strides[i] = x.strides()[order[i]];
  }
  return at::native::as_strided_tensorimpl(x, sizes, strides, x.storage_offset());
}
inline at::Tensor transposed(const at::Tensor& x) { return permuted(x, {1, 0}); }

/// Runs a kernel that returns what its gradient reads in grad mode only. It records nothing below autograd.
template <class Call>
auto in_grad_mode(Call&& call) {
  const c10::AutoGradMode mode(true);
  return call();
}

/// Runs an instruction that has no C++ form.
template <size_t Count>
auto other(const Run& run, uint32_t instruction, std::initializer_list<at::Tensor> operands) {
  Tensors given(operands), results(Count);
  run.other(run.context, instruction, given.data(), results.data());
  return tuple_of(results.data(), std::make_index_sequence<Count>());
}

}  // namespace rannc::native

#pragma GCC pop_options
