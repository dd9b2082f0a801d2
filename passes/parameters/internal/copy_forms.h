/// Recognizes numbers that were computed from another tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/type.h"

namespace rannc::passes {

/// A tensor's shape, with static extents, and its elements in row-major order.
struct Numbers {
  ir::DType dtype;
  std::vector<int64_t> shape;
  std::vector<double> elements;
};

/// How one tensor follows from another, in order of computation: one reduction or one view, then `factor * x + shift`
/// of the result or of its square.
struct CopyForm {
  enum class Reduction : uint8_t { kNone, kSum, kL1, kL2 } reduction = Reduction::kNone;
  std::vector<int64_t> axes = {};   ///< of the reduction
  int64_t sliced = -1;              ///< axis; -1: not sliced
  int64_t start = 0, end = 0;       ///< of the slice
  std::vector<int64_t> order = {};  ///< of the axes after the slice; empty: unchanged
  bool squared = false;
  double factor = 1, shift = 0;
  bool operator==(const CopyForm&) const = default;
  /// Returns whether the elements are those of the other tensor, in other places.
  bool is_view() const { return reduction == Reduction::kNone && !squared && factor == 1 && shift == 0; }
  /// `its negation`, for messages.
  std::string str() const;
};

/// Returns all forms in which `made` follows from `source`, regardless of the shape of `made`. Views have equal bits.
/// Computed numbers are compared within the rounding of the element type, which requires at least four different
/// elements. For single numbers, the number itself, its negation, one minus it and its square are tried, by their bits.
/// Several forms whose results differ in training mean that the numbers do not decide.
std::vector<CopyForm> forms_of_copy(const Numbers& source, const Numbers& made);

}  // namespace rannc::passes
