/// Integer and boolean operators computed on stored constants, each by the rule of its entry.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::ir {

/// Elements beyond which nothing is computed here, of an operand or of all results together.
constexpr int64_t kMostFoldedIntegers = int64_t{1} << 24;

/// Row-major integers; booleans are 0 and 1.
struct Integers {
  DType dtype = DType::kI64;
  std::vector<int64_t> shape;
  std::vector<int64_t> data;
};

/// What a folding rule (`OpInfo::fold`) sees of one execution. It gives the elements of all results, one result after
/// the other; those of a narrower type are narrowed afterwards.
struct FoldCall {
  std::span<const Integers* const> inputs;  ///< null: absent optional operand
  std::span<const ValueType> outputs;       ///< as the type rule gave them, of shapes made of integers
  OpAttributes attributes;
  bool failed = false;  ///< set by the rule where an element has no result; what it gives then is not read

  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
  const Integers& in(size_t operand) const { return *inputs[operand]; }
  std::vector<int64_t> out_shape(size_t output = 0) const;
};

/// The results of one execution of an operator all of whose operands and results are integers or booleans; `types` are
/// those its type rule gave. A null operand is absent. Nothing where the operator has no folding rule, an index is
/// outside, a divisor is zero, an element lies beyond int64, there are too many, or the bytes cannot be read: the task
/// then stays. Wraps as the element type does.
std::optional<std::vector<StoredTensor>> fold_integers(const OpInfo& op, std::span<const StoredTensor* const> operands,
                                                       const Attributes& attributes, std::span<const ValueType> types);

}  // namespace rannc::ir
