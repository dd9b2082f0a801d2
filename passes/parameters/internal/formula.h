/// Formulas by which stored tensors follow from others.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/graph/graph.h"
#include "ir/op/op.h"
#include "passes/evaluator.h"

namespace rannc::passes {

/// How a tensor follows from others. Values are numbered: first the leaves, then a value per step.
struct Formula {
  struct Step {
    const ir::OpInfo* op = nullptr;  ///< null: a constant
    std::vector<size_t> operands = {};
    ir::Attributes attributes = {};
    ir::StoredTensor constant = {};
  };
  size_t leaves = 1;
  std::vector<Step> steps = {};
  size_t result = 0;

  /// Adds a step whose value becomes the result.
  void then(std::string_view op, std::vector<size_t> operands, ir::Attributes attributes = {});
  /// Adds a number and returns its value.
  size_t add_number(ir::DType dtype, double number);
};

/// A stored tensor that follows from other values of a graph.
struct Derivation {
  ValueId target;
  std::vector<ValueId> leaves;
  Formula formula;
};

/// Before => after: the targets are no longer stored; tasks without a node compute them, under their names. A target
/// may be a leaf of a later derivation.
void compute_targets(ir::Graph& graph, const std::vector<Derivation>& derivations);

/// A formula that is evaluated while it is built: each value has its numbers.
class ComputedFormula {
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
  explicit ComputedFormula(const Evaluator* evaluator) : evaluator_(evaluator) {}

  const Value& operator[](size_t value) const { return values_[value]; }
  size_t size() const { return values_.size(); }
  ir::Shape shape(size_t value) const { return *values_[value].tensor.type.shape; }
  /// Returns the number of operators computed so far.
  size_t computed() const { return computed_; }
  /// Returns the formula of a value, without numbers.
  Formula formula_of(size_t value) const;

  /// Leaves come before all other values. Returns false if its bytes cannot be read.
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
  size_t leaves_ = 0, computed_ = 0;
};

/// Returns the largest difference of two lists of numbers, relative to the largest number of the second; infinite if
/// their lengths differ or one is not a number.
double distance(std::span<const double> a, std::span<const double> b);

}  // namespace rannc::passes
