/// What generated loops are made of. Independent of LibTorch; compiled once per instruction set.
#pragma once

#include <cstdint>

#include "codegen/native/loop_run.h"
#include "codegen/native/vector_math.h"

namespace rannc::native {

inline namespace RANNC_VARIANT {

/// All lanes.
struct Whole {
  template <class T>
  RANNC_INLINE Vec<T> load(const T* from) const {
    return native::load(from);
  }
  template <class T>
  RANNC_INLINE Mask<T> truths(const bool* from) const {
    return load_mask<T>(from);
  }
  template <class T, class Integer>
  RANNC_INLINE Vec<T> numbers(const Integer* from) const {
    return load_as<T>(from);
  }
  template <class To, class From>
  RANNC_INLINE void store(To* to, From v) const {
    native::store(to, v);
  }
  template <class T>
  RANNC_INLINE Vec<T> or_else(Vec<T> v, T) const {
    return v;
  }
};

/// The first lanes, at the end of a row.
struct Tail {
  int64_t count;
  template <class T>
  RANNC_INLINE Vec<T> load(const T* from) const {
    return native::load(from, count);
  }
  template <class T>
  RANNC_INLINE Mask<T> truths(const bool* from) const {
    return load_mask<T>(from, count);
  }
  template <class T, class Integer>
  RANNC_INLINE Vec<T> numbers(const Integer* from) const {
    return load_as<T>(from, count);
  }
  template <class To, class From>
  RANNC_INLINE void store(To* to, From v) const {
    native::store(to, v, count);
  }
  /// `v` in the lanes of the row, else `other`.
  template <class T>
  RANNC_INLINE Vec<T> or_else(Vec<T> v, T other) const {
    return select(first_lanes<T>(count), v, Vec<T>(other));
  }
};

/// Calls `body(column, lanes)` for all columns of a row.
template <class T, class Body>
RANNC_INLINE void each(int64_t columns, const Body& body) {
  int64_t j = 0;
  for (; j + Vec<T>::kLanes <= columns; j += Vec<T>::kLanes) body(j, Whole{});
  if (j < columns) body(j, Tail{columns - j});
}

RANNC_INLINE int64_t length_of(const LoopRun& run, int64_t row) {
  const int64_t rest = run.elements - row * run.columns;
  return rest < run.columns ? rest : run.columns;
}

/// Divisions take longer than a short row.
RANNC_INLINE int64_t index_of(const LoopOperand& in, int64_t row) {
  const int64_t inner = in.period == 1 ? 0 : row / in.divisor % in.period;
  return in.outer_period == 1 ? inner : inner + row / in.outer_divisor % in.outer_period * in.period;
}

/// The elements of a row of an operand, which has all rows.
template <class T>
RANNC_INLINE const T* row_of(const LoopRun& run, int operand, int64_t row) {
  return static_cast<const T*>(run.in[operand].data) + row * run.columns;
}
/// The same of an operand of periodic rows.
template <class T>
RANNC_INLINE const T* periodic_row_of(const LoopRun& run, int operand, int64_t row) {
  return row_of<T>(run, operand, index_of(run.in[operand], row));
}
/// The element of a row.
template <class T, class Element = T>
RANNC_INLINE Vec<T> element_of(const LoopRun& run, int operand, int64_t row) {
  return Vec<T>(static_cast<T>(static_cast<const Element*>(run.in[operand].data)[row]));
}
template <class T, class Element = T>
RANNC_INLINE Vec<T> periodic_element_of(const LoopRun& run, int operand, int64_t row) {
  return element_of<T, Element>(run, operand, index_of(run.in[operand], row));
}
/// Results.
template <class T>
RANNC_INLINE T* result_row(const LoopRun& run, int result, int64_t row) {
  return static_cast<T*>(run.out[result]) + row * run.columns;
}
template <class T>
RANNC_INLINE void set_element(const LoopRun& run, int result, int64_t row, Vec<T> v) {
  store(static_cast<T*>(run.out[result]) + row, v, 1);
}
/// Adds to the sum over rows.
template <class T>
RANNC_INLINE void add_to_total(const LoopRun& run, int result, Vec<T> v) {
  T row;
  store(&row, v, 1);
  *static_cast<T*>(run.out[result]) += row;
}
/// A row that a later pass over the same columns reads.
template <class T, class Element>
RANNC_INLINE Element* scratch_row(const LoopRun& run, int index) {
  constexpr int64_t kLine = Vec<T>::kLanes;
  return reinterpret_cast<Element*>(reinterpret_cast<T*>(run.scratch) +
                                    index * ((run.columns + kLine - 1) / kLine * kLine));
}

}  // namespace RANNC_VARIANT
}  // namespace rannc::native
