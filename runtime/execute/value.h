/// A tensor as executor and transports see it: an opaque payload with the few operations that routing needs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ir/graph/type.h"
#include "ir/schedule/schedule.h"

namespace rannc::runtime {

/// Element type and sizes of a tensor whose symbols are bound.
struct TensorSpec {
  ir::DType dtype = ir::DType::kF32;
  std::vector<int64_t> shape;

  uint64_t bytes() const {
    uint64_t total = ir::byte_size(dtype);
    for (int64_t extent : shape) total *= static_cast<uint64_t>(extent);
    return total;
  }
  bool operator==(const TensorSpec&) const = default;
};

/// `ir::BatchLayout` with its symbols bound: `axis` has extent outer * samples * inner. axis -1: the value has no
/// samples.
struct SampleAxis {
  int32_t axis = -1;
  int64_t outer = 1, inner = 1;
  bool present() const { return axis >= 0; }
  bool operator==(const SampleAxis&) const = default;
};

class Payload;
/// Shared, never changed once it is one. Null stands for «no value»: an output without gradient.
using Value = std::shared_ptr<const Payload>;
using Values = std::vector<Value>;

/// What a `Value` points to. All values of one run have the same implementation (LibTorch's tensors, or a test's fake).
/// Reading is thread-safe. Results may share memory with `*this`.
class Payload {
 public:
  virtual ~Payload() = default;
  virtual TensorSpec spec() const = 0;
  /// Element-wise sum with a value of equal spec, as a new value.
  virtual Value plus(const Payload& other) const = 0;
  /// Element-wise sum of values of equal spec in their order; `terms[0]` is this value. Those of 16 bits are added in
  /// 32 and rounded once.
  virtual Value sum(std::span<const Value> terms) const = 0;
  /// Samples [first, last) along a present `axis`.
  virtual Value samples(const SampleAxis& axis, ir::SampleRange range) const = 0;
  /// The parts put together along a present `axis`, in order; `parts[0]` is this value.
  virtual Value joined(std::span<const Value> parts, const SampleAxis& axis) const = 0;
  /// Zeros of the same spec.
  virtual Value zeros() const = 0;
  /// The element of a value with one element.
  virtual double item() const = 0;
  uint64_t bytes() const { return spec().bytes(); }
};

}  // namespace rannc::runtime
