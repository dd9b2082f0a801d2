/// Finds the linear form of a loss: sums over samples times coefficients.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/loss/internal/origins.h"

namespace rannc::passes {

/// A number that is known before a step: weight * factors / divisors, and 0 unless the conditions hold. Its values are
/// counts of the graph.
struct Coefficient {
  double weight = 1;
  std::vector<ValueId> factors = {}, divisors = {};
  std::vector<std::pair<ValueId, bool>> conditions = {};  ///< a boolean, and what it must be

  Coefficient& operator*=(const Coefficient& other);
  Coefficient& operator/=(const Coefficient& other);
};

/// A value of the graph times a coefficient. An invalid value is 1.
struct Part {
  ValueId value;
  Coefficient by = {};
};
/// A sum.
using Form = std::vector<Part>;

/// Rewrites values as linear forms by abstract interpretation from a value towards its operands. Counts that are not
/// factors or divisors of a whole part become inputs that have no samples (`given`), such as a `pos_weight` that is a
/// quotient of counts. Adds tasks to the graph, of which unused ones are dead. Operands come first
/// (`operands_of_form`), so that recursion is as deep as a few tasks, however deep the model is.
class LinearForms {
 public:
  LinearForms(ir::Graph& graph, Origins& origins) : graph_(graph), origins_(origins) {}

  /// The form of a scalar loss. Each part is a partial sum or the same for all samples.
  Result<Form> of_loss(ValueId value) { return of(value); }
  /// The form of a sum or mean over the samples of a count, which is then not a count of its own.
  Result<Form> of_reduction(ValueId value) { return of_task(value); }
  /// Inputs that hold counts, and which.
  const std::vector<std::pair<ValueId, ValueId>>& given() const { return given_; }

 private:
  Result<Form> of(ValueId value);
  /// The operands whose forms a rule will request for a value, in its order. Rules that add tasks first request others.
  std::vector<ValueId> operands_of_form(ValueId value);
  Result<Form> find(ValueId value);
  Result<Form> of_task(ValueId value);
  Result<Form> by_rule(ValueId value);
  bool is_known_count(ValueId value);
  bool has_parts(ValueId value);
  bool whole_has_parts(ValueId value);
  Result<Form> same(ValueId value);
  Result<Form> cast(ValueId value);
  Result<Form> sum(ValueId value, double other_weight);
  Result<ValueId> spread(ValueId part, ValueId sum);
  Result<Form> product(ValueId value);
  /// The operand of a product that is a coefficient of the other one.
  std::optional<size_t> factor_of(ValueId product);
  Result<Form> quotient(ValueId value);
  Result<Form> choice(ValueId value);
  Result<Form> reduced(ValueId value);
  /// Whether the form of a sum or mean is made of that of its operand, which depends on sums over samples.
  bool folds_itself(ValueId value);
  Result<Form> joined(ValueId value, ValueId parts, double weight);
  Result<Form> linear_in_one(ValueId value);
  /// The operand in which the task of a value is linear while the others are the same for all samples.
  std::optional<size_t> linear_operand(ValueId value);
  Result<Form> with_given(ValueId value);
  /// Replaces an operand of the task that makes `value` in each part.
  Result<Form> mapped(ValueId value, size_t operand);

  std::optional<double> number(ValueId value);
  bool is_coefficient(ValueId value);
  Coefficient coefficient(ValueId value, int nested = 0);
  bool is_splittable(ValueId value);
  /// Copies the task that makes `value` with other operands. An error if they do not fit.
  Result<ValueId> rebuilt(ValueId value, std::vector<ValueId> operands);
  Result<ValueId> with_operand(ValueId value, size_t operand, ValueId by);
  Result<ValueId> without_counts(ValueId value);
  ValueId given(ValueId count);
  bool fits(ValueId value) const;
  Diagnostic closed(ValueId value);

  static constexpr size_t kMostParts = 4'000'000;  ///< of all forms; a sum of thousands of sums has one form for each
  static constexpr int kMostNested = 64;           ///< tasks that a coefficient is made of, one after another
  static constexpr size_t kMostNamed = 4;          ///< sums in a message
  ir::Graph& graph_;
  Origins& origins_;
  std::map<ValueId, Result<Form>> known_;
  std::map<ValueId, ValueId> without_counts_;  ///< invalid: there is none
  std::vector<std::pair<ValueId, ValueId>> given_;
  size_t parts_ = 0;  ///< of all known forms
};

/// Adds a size as a count of the graph.
ValueId add_size(ir::Graph& graph, const ir::Dim& size, const std::string& name, const Location& where);

/// Adds a number of the code.
ValueId add_number(ir::Graph& graph, ir::DType dtype, double number);

/// Sums a value over all of its elements, or makes it a scalar if it has one.
ValueId scalar_sum(ir::Graph& graph, ValueId value);

}  // namespace rannc::passes
