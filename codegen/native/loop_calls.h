/// Calls of generated loops on LibTorch's tensors.
#pragma once

// As in calls.h.
#pragma GCC push_options
#pragma GCC optimize("O2")

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "codegen/native/calls.h"
#include "codegen/native/loop_run.h"

namespace rannc::native {

/// An operand of a loop: all rows, or those of `LoopOperand`, by default one.
struct In {
  const at::Tensor& tensor;
  int64_t divisor = 1, period = 1, outer_divisor = 1, outer_period = 1;
  LoopRandom random = {};  ///< of an undefined tensor
};

/// Random numbers that a loop makes. `elements`: of a sample.
inline In random(const Run& run, uint32_t value, int64_t elements) {
  static const at::Tensor none;
  const Numbers numbers = run.numbers(run.context, value);
  return {none, 1, 1, 1, 1, {numbers.key, numbers.first_sample, elements, numbers.ones}};
}

/// Labels, each of which is a column or `ignored`.
inline at::Tensor labels(const at::Tensor& of, int64_t columns, int64_t ignored) {
  const at::Tensor given = of.contiguous();
  const auto check = [&](const auto* from) {
    for (int64_t i = 0; i < given.numel(); ++i) {
      const auto label = static_cast<int64_t>(from[i]);
      TORCH_CHECK_INDEX(label == ignored || (label >= 0 && label < columns), "Target ", label, " is out of bounds.");
    }
  };
  if (given.scalar_type() == at::kLong) {
    check(given.const_data_ptr<int64_t>());
  } else {
    check(given.const_data_ptr<int32_t>());
  }
  return given;
}

/// How a result lies over rows and columns. `kTotal`: one sum over rows.
enum class Made { kEach, kRow, kColumn, kTotal };

/// A result of a loop.
struct Out {
  at::Tensor& place;
  at::IntArrayRef sizes;
  Made made = Made::kEach;
  bool truths = false;  ///< else floats of the loop's type
};

/// Type of floats and shape of a loop. `scratch`: rows of elements that passes hand over.
struct LoopShape {
  at::ScalarType dtype;
  int64_t rows, columns;
  bool by_rows;  ///< else rows and columns are one long row, which is cut into pieces
  int scratch;
};

/// Rows whose sums are added one by one. Sums of chunks are added in order, so that a sum depends neither on threads
/// nor on instruction sets.
constexpr int64_t kChunkRows = 64;
constexpr int64_t kPieceColumns = 4096;
constexpr int64_t kGrain = 32768;  // elements per thread, as ATen's

/// Calls `body(first, last)` for parts of [0, count): on threads if that pays.
template <class Body>
void in_parts(int64_t count, int64_t grain, const Body& body) {
  if (count <= grain) {
    body(int64_t{0}, count);
  } else {
    at::parallel_for(0, count, grain, body);
  }
}

/// Memory of this thread, which lasts until the next call.
inline char* scratch_lines(size_t bytes) {
  static thread_local std::unique_ptr<char[]> memory;
  static thread_local size_t size = 0;
  if (size < bytes + 64) {
    size = 2 * bytes + 64;
    memory.reset(new char[size]);
  }
  return memory.get() + (64 - reinterpret_cast<uintptr_t>(memory.get()) % 64) % 64;
}

/// One call. Its arrays are the caller's, and have the lengths of `in` and `out`.
class LoopCall {
 public:
  LoopCall(Loop loop, const LoopShape& shape, std::initializer_list<In> in, std::initializer_list<Out> out,
           LoopOperand* operands, void** results)
      : loop_(loop), shape_(shape), out_(out), operands_(operands), results_(results) {
    elements_ = shape.rows * shape.columns;
    if (!shape.by_rows) {
      shape_.columns = std::min(elements_, kPieceColumns);
      shape_.rows = shape_.columns == 0 ? 0 : (elements_ + shape_.columns - 1) / shape_.columns;
    }
    const at::Tensor* const model = in_memory_order(in);
    for (const In& each : in) *operands++ = operand(each, model != nullptr);
    for (const Out& each : out) {
      sums_ = sums_ || sum_size(each) > 0;
      const at::ScalarType dtype = each.truths ? at::kBool : shape.dtype;
      each.place = model == nullptr ? at::detail::empty_cpu(each.sizes, dtype)
                                    : at::detail::empty_strided_cpu(each.sizes, model->strides(), dtype);
      *results++ = each.place.mutable_data_ptr();
    }
  }

  void run() const {
    if (sums_) {
      run_chunks();
    } else {
      const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(shape_.columns, 1));
      in_parts(shape_.rows, grain, [this](int64_t first, int64_t last) { call(results_, first, last); });
    }
  }

 private:
  /// An operand, if all operands and results of a loop over single elements have its sizes, and all operands its
  /// strides, which leave no gaps, but are not in the order of the axes: those of channels last, for example. The loop
  /// then follows the memory, as LibTorch's operators do, and its results have the same strides.
  const at::Tensor* in_memory_order(std::initializer_list<In> in) const {
    const at::Tensor* model = nullptr;
    for (const In& each : in) {
      if (shape_.by_rows || !each.tensor.defined()) return nullptr;  // random numbers follow the axes
      if (each.tensor.numel() == 1) continue;
      if (model == nullptr) model = &each.tensor;
      if (each.tensor.sizes() != model->sizes() || each.tensor.strides() != model->strides()) return nullptr;
    }
    if (model == nullptr || model->is_contiguous() || !model->is_non_overlapping_and_dense()) return nullptr;
    const bool sized = std::all_of(out_.begin(), out_.end(), [&](const Out& o) { return o.sizes == model->sizes(); });
    return sized ? model : nullptr;
  }

  LoopOperand operand(const In& each, bool in_memory_order) {
    const int64_t period = std::max<int64_t>(each.period, 1), outer_period = std::max<int64_t>(each.outer_period, 1);
    LoopOperand made{nullptr, each.divisor, period, each.outer_divisor, outer_period, each.random};
    const at::Tensor* tensor = &each.tensor;
    if (!tensor->defined()) return made;
    if (!in_memory_order && !tensor->is_contiguous()) tensor = &copies_.emplace_back(tensor->contiguous());
    made.data = tensor->const_data_ptr();
    return made;
  }

  void call(void* const* results, int64_t first, int64_t last) const {
    char* scratch = nullptr;
    if (shape_.scratch > 0) {
      const size_t row = static_cast<size_t>((shape_.columns + 15) / 16 * 16) * sizeof(double);
      scratch = scratch_lines(static_cast<size_t>(shape_.scratch) * row);
    }
    loop_({operands_, results, shape_.columns, elements_, scratch}, first, last);
  }

  /// Elements of a sum over rows; 0: another result.
  int64_t sum_size(const Out& result) const {
    return result.made == Made::kColumn ? shape_.columns : result.made == Made::kTotal ? 1 : 0;
  }
  size_t sum_bytes(const Out& result) const {
    return static_cast<size_t>(sum_size(result)) * c10::elementSize(shape_.dtype);
  }

  void run_chunks() const {
    const int64_t chunks = (shape_.rows + kChunkRows - 1) / kChunkRows;
    if (chunks <= 1) {
      clear(results_);
      call(results_, 0, shape_.rows);
      return;
    }
    // Sums of each chunk, result after result.
    size_t bytes = 0;
    for (const Out& each : out_) bytes += sum_bytes(each);
    const std::unique_ptr<char[]> parts(new char[bytes * static_cast<size_t>(chunks)]);
    const int64_t grain = std::max<int64_t>(1, kGrain / (kChunkRows * std::max<int64_t>(shape_.columns, 1)));
    in_parts(chunks, grain, [&](int64_t first, int64_t last) {
      std::vector<void*> results(results_, results_ + out_.size());
      for (int64_t chunk = first; chunk < last; ++chunk) {
        char* part = parts.get();
        for (size_t k = 0; k < out_.size(); ++k) {
          const Out& each = out_.begin()[k];
          if (sum_size(each) == 0) continue;
          results[k] = part + static_cast<size_t>(chunk) * sum_bytes(each);
          part += sum_bytes(each) * static_cast<size_t>(chunks);
        }
        clear(results.data());
        call(results.data(), chunk * kChunkRows, std::min(shape_.rows, (chunk + 1) * kChunkRows));
      }
    });
    add_up(parts.get(), chunks);
  }

  /// Sets sums to 0.
  void clear(void* const* results) const {
    for (const Out& each : out_) {
      if (sum_size(each) > 0) std::memset(*results, 0, sum_bytes(each));
      ++results;
    }
  }

  void add_up(const char* parts, int64_t chunks) const {
    for (size_t k = 0; k < out_.size(); ++k) {
      const Out& each = out_.begin()[k];
      if (sum_size(each) == 0) continue;
      if (shape_.dtype == at::kFloat) {
        add_up(reinterpret_cast<const float*>(parts), static_cast<float*>(results_[k]), sum_size(each), chunks);
      } else {
        add_up(reinterpret_cast<const double*>(parts), static_cast<double*>(results_[k]), sum_size(each), chunks);
      }
      parts += sum_bytes(each) * static_cast<size_t>(chunks);
    }
  }

  template <class T>
  static void add_up(const T* parts, T* sum, int64_t size, int64_t chunks) {
    std::copy_n(parts, size, sum);
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      for (int64_t j = 0; j < size; ++j) sum[j] += parts[chunk * size + j];
    }
  }

  Loop loop_;
  LoopShape shape_;
  std::initializer_list<Out> out_;
  LoopOperand* operands_;
  void** results_;
  int64_t elements_ = 0;
  bool sums_ = false;
  std::vector<at::Tensor> copies_;  // of operands that are not contiguous
};

/// Runs a loop and assigns its results. Not inlined, because that would keep the arrays until the caller returns.
__attribute__((noinline)) inline void loop(Loop body, const LoopShape& shape, std::initializer_list<In> in,
                                           std::initializer_list<Out> out) {
  auto* const operands = static_cast<LoopOperand*>(__builtin_alloca((in.size() + 1) * sizeof(LoopOperand)));
  auto* const results = static_cast<void**>(__builtin_alloca((out.size() + 1) * sizeof(void*)));
  LoopCall(body, shape, in, out, operands, results).run();
}

// Tables of the loops, one per instruction set.
namespace baseline {
extern const Loop kLoops[];
}
namespace avx2 {
extern const Loop kLoops[];
}
namespace avx512 {
extern const Loop kLoops[];
}

/// The instruction set of this processor.
inline const char* instruction_set() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return "avx512";
  }
  return __builtin_cpu_supports("avx2") ? "avx2" : "baseline";
}

inline const Loop* loops() {
  static const Loop* const table = [] {
    const char* const set = instruction_set();
    return set[0] == 'b' ? baseline::kLoops : set[3] == '2' ? avx2::kLoops : avx512::kLoops;
  }();
  return table;
}

}  // namespace rannc::native

#pragma GCC pop_options
