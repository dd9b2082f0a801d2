/// A tensor as seen by executor and transports: an opaque payload with the operations that routing needs.
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

/// `ir::BatchLayout` with its symbols bound: `axis` has extent outer * samples * inner. If axis is -1, the value has no
/// samples.
struct SampleAxis {
  int32_t axis = -1;
  int64_t outer = 1, inner = 1;
  bool present() const { return axis >= 0; }
  bool operator==(const SampleAxis&) const = default;
};

class Payload;
/// Shared and immutable. Null means no value, such as an output without gradient.
using Value = std::shared_ptr<const Payload>;
using Values = std::vector<Value>;

/// Target of a `Value`. All values of one run have the same implementation (LibTorch tensors, or a fake in tests).
/// Reading is thread-safe. Results may share memory with `*this`.
class Payload {
 public:
  virtual ~Payload() = default;
  virtual TensorSpec spec() const = 0;
  /// Returns the element-wise sum with a value of equal spec as a new value.
  virtual Value plus(const Payload& other) const = 0;
  /// Returns the element-wise sum of values of equal spec, added in order. `terms[0]` is this value. 16-bit values are
  /// added in 32 bits and rounded once.
  virtual Value sum(std::span<const Value> terms) const = 0;
  /// Returns samples [first, last) along a present `axis`.
  virtual Value samples(const SampleAxis& axis, ir::SampleRange range) const = 0;
  /// Concatenates `parts` in order along a present `axis`. `parts[0]` is this value.
  virtual Value joined(std::span<const Value> parts, const SampleAxis& axis) const = 0;
  /// Returns a value with the same elements in row-major memory; this memory itself if that holds already.
  virtual Value contiguous() const = 0;
  /// Returns elements [first, last) of a contiguous value in memory order, of rank 1. They share its memory.
  virtual Value elements(int64_t first, int64_t last) const = 0;
  /// Replaces the elements by those of a value of equal spec, for all values that share the memory. Only the owner of
  /// the memory calls it: programs own gradients and parameters.
  virtual void overwrite(const Payload& source) const = 0;
  /// Returns zeros of the same spec.
  virtual Value zeros() const = 0;
  /// Returns the element of a value with one element.
  virtual double item() const = 0;
  uint64_t bytes() const { return spec().bytes(); }
};

}  // namespace rannc::runtime
