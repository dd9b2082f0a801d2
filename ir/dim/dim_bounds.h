/// What is certain of integer expressions whose symbols are sizes.
#pragma once

#include <optional>
#include <utility>

#include "ir/dim/dim.h"

namespace rannc::ir {

/// The integers from `low` to `high`; an absent end is unbounded.
struct Bounds {
  std::optional<int64_t> low, high;
  bool operator==(const Bounds&) const = default;
};

/// Bounds of an expression whose symbols are at least 1: never too narrow, often too wide. Where a divisor is 0 an
/// expression has no value, which lies in any bounds.
Bounds bounds_of(const Dim& dim);

/// 1, 0 or -1 where the expression's sign is certain.
std::optional<int> sign(const Dim& dim);
/// Whether an expression is certainly at most, or at least, 0.
bool never_positive(const Dim& dim);
bool never_negative(const Dim& dim);
/// The larger, or smaller, of two expressions: one of them where it is certain which.
Dim larger(const Dim& a, const Dim& b);
Dim smaller(const Dim& a, const Dim& b);
/// Whether two expressions are equal, where that is certain.
std::optional<bool> certainly_equal(const Dim& a, const Dim& b);

/// The same equality without what divides both sides: symbols, and the greatest common divisor of all numbers. The
/// side whose text comes first stands first.
std::pair<Dim, Dim> reduced_equality(const Dim& a, const Dim& b);

}  // namespace rannc::ir
