/// One mini-batch as a training binary hands it over.
#pragma once

#include <map>
#include <string>

#include "ir/plan/plan.h"
#include "runtime/execute/executor.h"

namespace rannc::runtime {

/// Tensors by the name of the graph input.
using Batch = std::map<std::string, Value>;

/// Symbols of the graph that a batch binds: the batch symbol to the plan's mini-batch, the others from the shapes.
/// Errors: an input that is missing, unknown, or of another element type, rank or extent than the graph says; each
/// names the input, what was found and what was expected; sizes that break an assumption of the graph, located at the
/// task that needs it. A worker of its own needs only the inputs of its stages:
/// `needed` says which (empty: all).
Result<ir::Bindings> bind_batch(const ir::Plan& plan, const Batch& batch, const std::vector<std::string>& needed = {});

/// A batch to evaluate.
struct EvaluationBatch {
  Batch batch;  ///< with zeros for inputs that are not there and that no output reads
  ir::Bindings symbols;
  uint32_t samples = 0;
  bool labelled = true;  ///< nothing was missing
};

/// Per value whether an output of the graph depends on it.
std::vector<bool> read_by_outputs(const ir::Graph& graph);

/// Per value whether it is an input that a task reads, or by which a loss is divided.
std::vector<bool> read_in_training(const ir::Graph& graph);

/// As `bind_batch`, but the batch symbol is bound to the samples that are there, at most the plan's mini-batch, and
/// what only losses read may be missing.
Result<EvaluationBatch> bind_evaluation(const ir::Plan& plan, const Batch& batch,
                                        const std::vector<std::string>& needed = {});

/// The batch with float inputs converted to the model's float type: a file's fp32 samples feed an fp64 model.
Batch to_model_types(const ir::Plan& plan, const Batch& batch);

/// What a loss term counts in a whole mini-batch of `samples`, to be divided by (`LossTerm::divisor`). 0 where all
/// labels are ignored.
/// An error where the labels are missing, or are of a class without a weight where weights are summed.
Result<double> loss_denominator(const ir::Plan& plan, const ir::LossTerm& term, const Batch& batch, uint32_t samples);

/// Samples of a batch. Keeps a reference.
class BatchFeed : public Feed {
 public:
  BatchFeed(const Batch& batch, ir::Bindings symbols) : batch_(batch), symbols_(std::move(symbols)) {}
  Result<Value> input(const Port& port, ir::SampleRange samples) override;

 private:
  const Batch& batch_;
  ir::Bindings symbols_;
};

}  // namespace rannc::runtime
