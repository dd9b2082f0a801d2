/// Determines how a stored tensor was computed from others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/parameters/internal/formula.h"

namespace rannc::passes {

struct FormulaQuestion {
  std::vector<ir::StoredTensor> leaves;  ///< of the target's element type
  ir::StoredTensor target;
  std::vector<std::string> made;  ///< names of intermediate traced values, including the target's own: `clamp_min_1`
  bool lost_constant = false;     ///< a constant that is not among the leaves was read too
};

/// Names of traced values determine the operators, but not their axes, numbers or order. These are searched until the
/// result equals the numbers of the target. What numbers cannot distinguish is not found: axes and places of a tensor
/// that is one number repeated. A clamp bound that no element reaches is assumed to be 1e-12.
///
/// Returns nullopt if no formula was found, an operator is not supported here, or the evaluator is null. Computes at
/// most some thousand operators.
std::optional<Formula> find_formula(const FormulaQuestion& question, const Evaluator* evaluator);

}  // namespace rannc::passes
