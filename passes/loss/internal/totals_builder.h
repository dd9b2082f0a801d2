/// Builds the bodies that compute numbers of a whole mini-batch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/loss/internal/linear_form.h"

namespace rannc::passes {

/// Adds counts, coefficients and metrics to the totals of a graph. Copies the tasks that compute them, in f64 and i64,
/// so that nothing of the graph itself needs them. Tasks may be added to the graph meanwhile.
class TotalsBuilder {
 public:
  /// Keeps references to both.
  TotalsBuilder(ir::Graph& graph, Origins& origins, LinearForms& forms);

  /// Returns the loss term of a scalar numerator with this coefficient. An error names a value that no count gives.
  Result<ir::LossTerm> term(ValueId numerator, const Coefficient& by);
  /// Makes the coefficient `count` the content of an input.
  Result<void> give(ValueId input, ValueId count);
  /// Makes an output that is a function of sums over samples a metric. An error names a value that no sum gives.
  Result<void> measure(ValueId output);
  /// Stores the totals in the graph. Outputs are extended by the sums of metrics.
  void finish() &&;

 private:
  /// A body after the counts: coefficients or metrics.
  struct Copy {
    ir::Graph graph;
    std::map<ValueId, ValueId> made = {};  // by value of the model
    std::vector<ValueId> counts = {};      // inputs
    std::vector<ValueId> sums = {};        // inputs, of metrics only
  };
  Result<ValueId> copied(Copy& to, ValueId value);
  std::vector<ValueId> copied_operands(const Copy& to, ValueId value);
  bool reduces(ValueId value) const;
  Result<ValueId> scalar_in(Copy& to, ValueId value, ir::DType dtype);
  Result<ValueId> number(Copy& to, ValueId value);
  Result<ValueId> stored(Copy& to, ValueId value);
  Result<ValueId> mean_in(Copy& to, uint32_t count);
  Result<ValueId> shared(Copy& to, ValueId value);
  Result<ValueId> reduced(Copy& to, ValueId value);
  Result<ValueId> form_in(Copy& to, const Form& form, ValueId of);
  Result<ValueId> task(Copy& to, ValueId value);
  Result<std::optional<ValueId>> sizes(Copy& to, const ir::Contents& contents);
  Result<std::optional<ValueId>> size(Copy& to, const ir::Dim& dim);
  ValueId count_in(Copy& to, uint32_t count);
  Result<ValueId> sum_in(Copy& to, ValueId value);
  Result<std::optional<uint32_t>> product(const std::vector<ValueId>& values, const Coefficient& by, bool divides);
  /// The number of a count: a sum over samples of what they determine, or a value of an undivided mini-batch.
  Result<uint32_t> count(ValueId value);
  uint32_t count_of_sizes(const ir::Dim& each);
  uint32_t add_count(ir::Graph body);
  ir::ValueType count_type(uint32_t count) const;
  Diagnostic closed(ValueId value, const std::string& why) const;

  ir::Graph& graph_;
  Origins& origins_;
  LinearForms& forms_;
  ir::Totals totals_;
  Copy coefficients_, metrics_;
  static constexpr int kMostNested = 64;
  int nested_ = 0;                           // copies of values that copy sums over samples
  std::map<std::string, uint32_t> results_;  // of coefficients, by what they multiply
};

}  // namespace rannc::passes
