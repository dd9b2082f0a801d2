/// Steps from a value of a formula to a stored tensor that are found by comparing both.
#pragma once

#include <optional>
#include <vector>

#include "passes/parameters/internal/formula.h"

namespace rannc::passes {

/// The expected result of a formula.
struct FormulaTarget {
  ir::StoredTensor tensor;
  std::vector<double> numbers;
  double tolerance;  ///< relative to the largest number
};

/// Each function adds steps to the formula that turn `value` into the target, and returns the result; nullopt if it
/// does not fit. fit_layout: axes in another order or merged; the elements must occur in the target unchanged.
std::optional<size_t> fit_layout(ComputedFormula& formula, size_t value, const FormulaTarget& target);
/// The value times a number plus a number.
std::optional<size_t> fit_scaled(ComputedFormula& formula, size_t value, const FormulaTarget& target);
/// Elements at constant places: rows, slices, repetitions. They are located by their numbers, which must differ.
std::optional<size_t> fit_picked(ComputedFormula& formula, size_t value, const FormulaTarget& target);
/// The value itself in some places, and one number in all others.
std::optional<size_t> fit_masked(ComputedFormula& formula, size_t value, const FormulaTarget& target);
/// The value times, or plus, a constant tensor of arbitrary numbers. A fit proves nothing.
enum class Unknown : uint8_t { kFactor, kTerm };
std::optional<size_t> fit_unknown(ComputedFormula& formula, size_t value, const FormulaTarget& target, Unknown what);

}  // namespace rannc::passes
