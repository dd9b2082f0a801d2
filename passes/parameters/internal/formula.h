/// A formula over stored tensors, computed step by step while it is put together.
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

  /// `evaluator` may be null: then no operator can be computed.
  explicit Formula(const Evaluator* evaluator) : evaluator_(evaluator) {}

  const std::vector<Value>& values() const { return values_; }
  const Value& operator[](size_t value) const { return values_[value]; }
  size_t size() const { return values_.size(); }
  ir::Shape shape(size_t value) const { return *values_[value].tensor.type.shape; }
  /// The operators that have been computed.
  size_t computed() const { return computed_; }

  /// False where its bytes cannot be read.
  bool add_leaf(const ir::StoredTensor& tensor);
  size_t add_constant(ir::DType dtype, const ir::Shape& shape, std::span<const double> numbers);
  size_t add_scalar(ir::DType dtype, double number) { return add_constant(dtype, {}, {&number, 1}); }
  /// Nothing where the operator does not take such operands.
  std::optional<size_t> apply(const ir::OpInfo& op, std::initializer_list<size_t> operands,
                              ir::Attributes attributes = {});
  /// Takes back all values from `size` on, in an order in which nothing reads what goes.
  void shrink(size_t size);

 private:
  const Evaluator* evaluator_;
  std::vector<Value> values_;
  size_t computed_ = 0;
};

/// How far two lists of numbers are apart, relative to the largest of the second; infinite where they differ in length
/// or one is no number.
double distance(std::span<const double> a, std::span<const double> b);

}  // namespace rannc::passes
