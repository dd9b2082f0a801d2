/// Finds out how a stored tensor was computed from others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/parameters/internal/formula.h"

namespace rannc::passes {

struct FormulaQuestion {
  std::vector<ir::StoredTensor> leaves;  ///< of one element type, that of the target
  ir::StoredTensor target;
  std::vector<std::string> made;  ///< names of traced values on the way, the target's own among them: `clamp_min_1`
  bool lost_constant = false;     ///< a constant that is not among the leaves was read as well
};

struct FoundFormula {
  Formula formula;
  size_t result;
};

/// Names of traced values tell the operators, but neither their axes nor their numbers nor their order: these are
/// searched until the numbers of the target come out. What no number could tell apart is not found: axes and places of
/// a tensor that is one number repeated. A bound of a clamp that nothing reaches is taken for 1e-12.
///
/// Nothing where no formula was found, an operator is not known here or its evaluator is null. Computes some thousand
/// operators at most.
std::optional<FoundFormula> find_formula(const FormulaQuestion& question, const Evaluator* evaluator);

}  // namespace rannc::passes
