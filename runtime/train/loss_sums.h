/// The loss over several mini-batches.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Accumulates loss terms over all samples as sums of numerators and denominators, never as averages of averages. A
/// term without a denominator is a sum over all samples. If the batch size is static, the model may divide by it
/// itself; then the term is the mean over mini-batches.
class LossSums {
 public:
  void add(const StepResult& result);
  /// Returns the loss, or nothing if the model has no loss or no label counts. A term without counting labels adds 0.
  std::optional<double> loss(const ir::Graph& graph) const;

 private:
  std::vector<LossSum> sums_;
};

}  // namespace rannc::runtime
