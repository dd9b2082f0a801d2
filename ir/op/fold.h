/// Constant folding of integer and boolean operators.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::ir {

/// Maximum number of elements of an operand, or of all results together, that are folded.
constexpr int64_t kMostFoldedIntegers = int64_t{1} << 24;

/// Row-major integers; booleans are 0 and 1.
struct Integers {
  DType dtype = DType::kI64;
  std::vector<int64_t> shape;
  std::vector<int64_t> data;
};

/// Input to a folding rule (`OpInfo::fold`). The rule returns the elements of all results, one result after the other.
/// Elements of narrower types are narrowed afterwards.
struct FoldCall {
  std::span<const Integers* const> inputs;  ///< null: absent optional operand
  std::span<const ValueType> outputs;       ///< from the type rule; shapes are static
  OpAttributes attributes;
  bool failed = false;  ///< set by the rule if an element has no result; the returned elements are then ignored

  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
  const Integers& in(size_t operand) const { return *inputs[operand]; }
  std::vector<int64_t> out_shape(size_t output = 0) const;
};

/// Computes the results of an operator all of whose operands and results are integers or booleans. `types` come from
/// its type rule. A null operand is absent. Arithmetic wraps as the element type does. Returns nothing, so that the
/// task stays, if the operator has no folding rule, an index is out of range, a divisor is zero, an element does not
/// fit int64, there are too many elements, or the bytes cannot be read.
std::optional<std::vector<StoredTensor>> fold_integers(const OpInfo& op, std::span<const StoredTensor* const> operands,
                                                       const Attributes& attributes, std::span<const ValueType> types);

}  // namespace rannc::ir
