/// A formula over stored tensors that is evaluated while it is built.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "passes/evaluator.h"

namespace rannc::passes {

/// Values of a formula: leaves, constants and results of operators, each with its numbers.
class Formula {
 public:
  struct Value {
    ir::StoredTensor tensor;
    std::vector<double> numbers;
    const ir::OpInfo* op = nullptr;  ///< null: a leaf or a constant
    std::vector<size_t> operands = {};
    ir::Attributes attributes = {};
    size_t uses = 0;
  };

  /// If `evaluator` is null, no operator can be computed.
  explicit Formula(const Evaluator* evaluator) : evaluator_(evaluator) {}

  const std::vector<Value>& values() const { return values_; }
  const Value& operator[](size_t value) const { return values_[value]; }
  size_t size() const { return values_.size(); }
  ir::Shape shape(size_t value) const { return *values_[value].tensor.type.shape; }
  /// Returns the number of operators computed so far.
  size_t computed() const { return computed_; }

  /// Returns false if its bytes cannot be read.
  bool add_leaf(const ir::StoredTensor& tensor);
  size_t add_constant(ir::DType dtype, const ir::Shape& shape, std::span<const double> numbers);
  size_t add_scalar(ir::DType dtype, double number) { return add_constant(dtype, {}, {&number, 1}); }
  /// Returns nullopt if the operator rejects the operands.
  std::optional<size_t> apply(const ir::OpInfo& op, std::initializer_list<size_t> operands,
                              ir::Attributes attributes = {});
  /// Removes all values from `size` on, from last to first, so that no removed value has readers.
  void shrink(size_t size);

 private:
  const Evaluator* evaluator_;
  std::vector<Value> values_;
  size_t computed_ = 0;
};

/// Returns the largest difference of two lists of numbers, relative to the largest number of the second; infinite if
/// their lengths differ or one is not a number.
double distance(std::span<const double> a, std::span<const double> b);

}  // namespace rannc::passes
