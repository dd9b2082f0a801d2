/// Iteration over row-major integers for the folding rules. Private to ir/op.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op/fold.h"

namespace rannc::ir::ops::fold {

using Sizes = std::vector<int64_t>;

/// Conversion of signed numbers to unsigned ones, whose sums and products wrap, and back.
inline uint64_t u(int64_t value) { return static_cast<uint64_t>(value); }
inline int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

inline int64_t count_of(const Sizes& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

inline Sizes strides_of(const Sizes& shape) {
  Sizes strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Strides with which a broadcast operand is read along the axes of `to`.
inline Sizes broadcast_strides(const Sizes& from, const Sizes& to) {
  const Sizes own = strides_of(from);
  Sizes strides(to.size(), 0);
  const size_t offset = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) strides[i + offset] = from[i] == 1 ? 0 : own[i];
  return strides;
}

/// Calls f(index) for every index of `shape` in row-major order.
template <class F>
void for_each_index(const Sizes& shape, F&& f) {
  Sizes index(shape.size(), 0);
  for (int64_t n = count_of(shape); n > 0; --n) {
    f(index);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

/// Offset of an index under strides.
inline int64_t dot(const Sizes& index, const Sizes& strides) {
  int64_t at = 0;
  for (size_t i = 0; i < strides.size(); ++i) at += index[i] * strides[i];
  return at;
}

/// Normalizes an axis that may count from the end.
inline int64_t from_front(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }

/// The attribute `axis` of an operator on a value of that rank.
inline int64_t axis_of(const FoldCall& call, size_t rank) { return from_front(call.attributes.integer("axis"), rank); }

/// The integer list in the attribute `name`, else in that operand, else `otherwise`.
inline Sizes list_of(const FoldCall& call, std::string_view name, size_t operand, const Sizes& otherwise = {}) {
  if (call.attributes.has(name)) return call.attributes.integers(name);
  return call.has(operand) ? call.in(operand).data : otherwise;
}

/// Normalizes an index; negative ones count from the end. The call fails if it is out of range.
inline int64_t position(FoldCall& call, int64_t index, int64_t extent) {
  const int64_t at = index < 0 ? index + extent : index;
  if (at >= 0 && at < extent) return at;
  call.failed = true;
  return 0;
}

}  // namespace rannc::ir::ops::fold
