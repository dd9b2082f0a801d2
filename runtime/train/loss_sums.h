/// The loss over several mini-batches.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Metrics of one element.
std::map<std::string, double> scalar_metrics(const std::map<std::string, Value>& metrics);

/// Accumulates numerators, counts and the sums of metrics over all samples, never averages of averages. A term without
/// a divisor is a sum over all samples. If the batch size is static, the model may divide by it itself; then the term
/// is the mean over mini-batches.
class LossSums {
 public:
  void add(const StepResult& result);
  /// Returns the loss, or nothing if the model has no loss or no label counts. A term that divides by 0 adds 0. An
  /// error names a term with another coefficient that is not finite.
  Result<std::optional<double>> loss(const ir::Graph& graph) const;
  /// Returns the metrics by name.
  Result<std::map<std::string, Value>> metrics(const ir::Graph& graph) const;

 private:
  BatchSums sums_;
  double batches_ = 0;
};

}  // namespace rannc::runtime
