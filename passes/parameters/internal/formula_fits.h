/// Ways in which a value of a formula becomes a stored tensor that are found by looking at both.
#pragma once

#include <optional>
#include <vector>

#include "passes/parameters/internal/formula.h"

namespace rannc::passes {

/// What a formula is to give.
struct FormulaTarget {
  ir::StoredTensor tensor;
  std::vector<double> numbers;
  double tolerance;  ///< relative to the largest number
};

/// Each adds to the formula what makes the target of `value`, and gives that; nothing where it does not fit.
/// Axes in another order or joined: what lies in the target as it is.
std::optional<size_t> fit_layout(Formula& formula, size_t value, const FormulaTarget& target);
/// The value times a number plus a number.
std::optional<size_t> fit_scaled(Formula& formula, size_t value, const FormulaTarget& target);
/// Elements at constant places: rows, slices, repetitions. They are found by their numbers, which must differ.
std::optional<size_t> fit_picked(Formula& formula, size_t value, const FormulaTarget& target);
/// The value itself at some places, and one number at all others.
std::optional<size_t> fit_masked(Formula& formula, size_t value, const FormulaTarget& target);
/// The value times a constant tensor, or plus one, whatever its numbers are: proves nothing.
enum class Unknown : uint8_t { kFactor, kTerm };
std::optional<size_t> fit_unknown(Formula& formula, size_t value, const FormulaTarget& target, Unknown what);

}  // namespace rannc::passes
