/// Operators of ATen that exporters fold, as steps of a formula.
#pragma once

#include <string_view>

namespace rannc::passes {

/// What an operator of ATen is to the search.
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
  kTurn,    ///< axes in another order, or new ones
  kLayout,  ///< the same elements: seen to at the end, where broadcasting does not do without
  kPick,    ///< some of the elements, at constant places
  kJoin,
  kMask,
  kConstant,  ///< makes numbers of none
};

struct KnownStep {
  Step step;
  std::string_view aten;       ///< its name without namespace and overload
  std::string_view core = {};  ///< the core operator, where it is one
  bool commutes = false;
};

/// Null: not known.
const KnownStep* known_step(std::string_view aten);

}  // namespace rannc::passes
