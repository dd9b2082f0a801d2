/// ATen operators that exporters fold, as steps of a formula.
#pragma once

#include <string_view>

namespace rannc::passes {

/// Kind of step that an ATen operator is in the search.
enum class Step : uint8_t {
  kUnary,  ///< a core operator of the same name
  kNegate,
  kSquare,
  kPower,
  kClamp,
  kReduce,  ///< a core operator of the same name, over axes
  kNorm,
  kSpread,  ///< variance or standard deviation
  kSoftmax,
  kAdd,  ///< or a difference
  kMultiply,
  kExtreme,
  kProduct,
  kTurn,    ///< permuted or new axes
  kLayout,  ///< the same elements; resolved at the end unless broadcasting makes it unnecessary
  kPick,    ///< selects elements at constant places
  kJoin,
  kMask,
  kConstant,  ///< makes numbers without operands
};

struct KnownStep {
  Step step;
  std::string_view aten;       ///< its name without namespace and overload
  std::string_view core = {};  ///< the core operator, if it is one
  bool commutes = false;
  double (*inverse)(double) = nullptr;  ///< of a function of one number
};

/// Returns null if unknown.
const KnownStep* known_step(std::string_view aten);

}  // namespace rannc::passes
