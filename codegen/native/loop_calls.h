/// Calls of generated loops on LibTorch's tensors.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/empty_ops.h>

#include <algorithm>
#include <memory>

#include "codegen/native/calls.h"
#include "codegen/native/loop_run.h"

namespace rannc::native {

/// An operand of a loop.
struct In {
  at::Tensor tensor;
  int64_t divisor, period, outer_divisor = 1, outer_period = 1;
  LoopDraw draw = {};  ///< instead of a tensor
};

/// Random numbers that a loop makes. `elements`: of a sample.
inline In drawn(const Run& run, uint32_t value, int64_t elements) {
  const Numbers numbers = run.numbers(run.context, value);
  return {{}, 1, 1, 1, 1, {numbers.key, numbers.first_sample, elements, numbers.ones}};
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
  Made made;
  at::ScalarType dtype;
};

/// Shape of a loop. `scratch`: rows of elements that passes hand over.
struct LoopShape {
  int64_t rows, columns;
  bool by_rows;  ///< else rows and columns are one long row, which is cut into pieces
  int scratch;
};

/// Rows whose sums are added one by one. Sums of chunks are added in order, so that a sum depends neither on threads
/// nor on instruction sets.
constexpr int64_t kChunkRows = 64;
constexpr int64_t kPieceColumns = 4096;
constexpr int64_t kGrain = 32768;  // elements per thread, as ATen's

class LoopCall {
 public:
  LoopCall(Loop loop, LoopShape shape, std::initializer_list<In> in, std::initializer_list<Out> out)
      : loop_(loop), shape_(shape), out_(out) {
    const int64_t elements = shape.rows * shape.columns;
    if (!shape.by_rows) {
      shape_.columns = std::min(elements, kPieceColumns);
      shape_.rows = shape_.columns == 0 ? 0 : (elements + shape_.columns - 1) / shape_.columns;
    }
    elements_ = elements;
    for (const In& each : in) {
      in_.push_back({nullptr, each.divisor, std::max<int64_t>(each.period, 1), each.outer_divisor,
                     std::max<int64_t>(each.outer_period, 1), each.draw});
      if (!each.tensor.defined()) continue;
      operands_.push_back(each.tensor.contiguous());
      in_.back().data = operands_.back().const_data_ptr();
      if (shape.by_rows || each.tensor.numel() != elements) continue;
      in_.back().divisor = 1;
      in_.back().period = std::max<int64_t>(shape_.rows, 1);
    }
    for (const Out& each : out) {
      sums_ = sums_ || sum_size(each) > 0;
      made_.push_back(at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(each.sizes), each.dtype,
                                                          at::kStrided, at::Device(at::kCPU), false, std::nullopt));
    }
  }

  void run() {
    if (sums_) {
      run_chunks();
    } else {
      const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(shape_.columns, 1));
      at::parallel_for(0, shape_.rows, grain, [&](int64_t first, int64_t last) {
        std::vector<void*> out;
        for (const at::Tensor& each : made_) out.push_back(each.mutable_data_ptr());
        call(out, first, last);
      });
    }
    size_t i = 0;
    for (const Out& each : out_) each.place = std::move(made_[i++]);
  }

 private:
  /// Elements of a sum over rows; 0: another result.
  int64_t sum_size(const Out& result) const {
    return result.made == Made::kColumn ? shape_.columns : result.made == Made::kTotal ? 1 : 0;
  }

  void call(const std::vector<void*>& out, int64_t first, int64_t last) const {
    const size_t row = static_cast<size_t>((shape_.columns + 15) / 16 * 16) * sizeof(double);
    const std::unique_ptr<char[]> scratch(new char[static_cast<size_t>(shape_.scratch) * row + 64]);
    char* const line = scratch.get() + (64 - reinterpret_cast<uintptr_t>(scratch.get()) % 64) % 64;
    loop_({in_.data(), out.data(), shape_.columns, elements_, line}, first, last);
  }

  void run_chunks() {
    const int64_t chunks = std::max<int64_t>(1, (shape_.rows + kChunkRows - 1) / kChunkRows);
    std::vector<at::Tensor> parts(made_.size());
    size_t i = 0;
    for (const Out& each : out_) {
      if (sum_size(each) > 0) {
        parts[i] = at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow({chunks, sum_size(each)}), each.dtype,
                                                       at::kStrided, at::Device(at::kCPU), false, std::nullopt);
      }
      ++i;
    }
    const int64_t grain = std::max<int64_t>(1, kGrain / (kChunkRows * std::max<int64_t>(shape_.columns, 1)));
    at::parallel_for(0, chunks, grain, [&](int64_t first, int64_t last) {
      for (int64_t chunk = first; chunk < last; ++chunk) {
        std::vector<void*> out;
        for (size_t k = 0; k < made_.size(); ++k) {
          if (!parts[k].defined()) {
            out.push_back(made_[k].mutable_data_ptr());
            continue;
          }
          const size_t bytes = static_cast<size_t>(parts[k].size(1)) * parts[k].element_size();
          out.push_back(static_cast<char*>(parts[k].mutable_data_ptr()) + static_cast<size_t>(chunk) * bytes);
          std::fill_n(static_cast<char*>(out.back()), bytes, 0);
        }
        call(out, chunk * kChunkRows, std::min(shape_.rows, (chunk + 1) * kChunkRows));
      }
    });
    for (size_t k = 0; k < made_.size(); ++k) {
      if (!parts[k].defined()) continue;
      if (parts[k].scalar_type() == at::kFloat) {
        add_up<float>(parts[k], made_[k], chunks);
      } else {
        add_up<double>(parts[k], made_[k], chunks);
      }
    }
  }

  template <class T>
  void add_up(const at::Tensor& parts, const at::Tensor& sum, int64_t chunks) const {
    const T* const from = static_cast<const T*>(parts.const_data_ptr());
    T* const to = static_cast<T*>(sum.mutable_data_ptr());
    const int64_t size = parts.size(1);
    std::copy_n(from, size, to);
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      for (int64_t j = 0; j < size; ++j) to[j] += from[chunk * size + j];
    }
  }

  Loop loop_;
  LoopShape shape_;
  std::initializer_list<Out> out_;
  int64_t elements_ = 0;
  bool sums_ = false;
  std::vector<at::Tensor> operands_, made_;
  std::vector<LoopOperand> in_;
};

/// Runs a loop and assigns its results.
inline void loop(Loop body, LoopShape shape, std::initializer_list<In> in, std::initializer_list<Out> out) {
  LoopCall(body, shape, in, out).run();
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
