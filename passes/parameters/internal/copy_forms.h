/// Recognizes numbers that were computed from another tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/type.h"
#include "passes/parameters/internal/formula.h"

namespace rannc::passes {

/// A tensor's shape, with static extents, and its elements in row-major order.
struct Numbers {
  ir::DType dtype;
  std::vector<int64_t> shape;
  std::vector<double> elements;
};

/// A way in which one tensor follows from another.
struct CopyForm {
  Formula formula;
  std::string text;      ///< for messages: `its transpose, negated`
  bool is_view = false;  ///< the elements are those of the other tensor, in other places
};

/// Returns all forms in which `made` follows from `source`: one reduction or one view, then `factor * x + shift` of the
/// result or of its square, in the shape of `made`. Views have equal bits.
/// Computed numbers are compared within the rounding of the element type, which requires at least four different
/// elements. For single numbers, the number itself, its negation, one minus it and its square are tried, by their bits.
/// Several forms whose results differ in training mean that the numbers do not decide.
std::vector<CopyForm> forms_of_copy(const Numbers& source, const Numbers& made);

}  // namespace rannc::passes
