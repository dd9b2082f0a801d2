/// Bounds and sign analysis of integer expressions whose symbols are sizes.
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

/// Bounds of an expression whose symbols are at least 1. They are safe but often not tight. Assumes that no divisor is
/// 0: the expression then has no value.
Bounds bounds_of(const Dim& dim);

/// 1, 0 or -1 if the expression's sign is certain.
std::optional<int> sign(const Dim& dim);
/// Whether an expression is certainly at most 0, or at least 0.
bool never_positive(const Dim& dim);
bool never_negative(const Dim& dim);
/// Maximum and minimum of two expressions, simplified to one of them if the order is certain.
Dim larger(const Dim& a, const Dim& b);
Dim smaller(const Dim& a, const Dim& b);
/// Whether two expressions are equal; nothing if that is uncertain.
std::optional<bool> certainly_equal(const Dim& a, const Dim& b);

/// Divides both sides of an equality by their common symbols and the greatest common divisor of all coefficients. The
/// side whose text comes first alphabetically becomes the first.
std::pair<Dim, Dim> reduced_equality(const Dim& a, const Dim& b);

}  // namespace rannc::ir
