/// One mini-batch, as provided by a training program.
#pragma once

#include <map>
#include <string>

#include "ir/plan/plan.h"
#include "runtime/data/needed_samples.h"
#include "runtime/execute/executor.h"

namespace rannc::runtime {

/// Tensors by name of the graph input.
using Batch = std::map<std::string, Value>;

/// Binds the symbols of the graph to a batch: the batch symbol to the plan's mini-batch, the others from the shapes.
/// `needed` lists the inputs that a worker's stages require (empty: all). Errors:
/// - an input that is missing, unknown, or has another element type, rank or extent than in the graph; names the input,
///   what was found and what was expected;
/// - sizes that violate an assumption of the graph, located at the task that requires it.
Result<ir::Bindings> bind_batch(const ir::Plan& plan, const Batch& batch, const std::vector<std::string>& needed = {});

/// The same for a batch that has only the `needed` samples of the needed inputs.
Result<ir::Bindings> bind_part(const ir::Plan& plan, const Batch& batch, const NeededSamples& needed);

/// Describes the sizes that exceed those of the plan, as `StepResult::beyond_plan`.
std::string sizes_beyond_plan(const ir::Plan& plan, const ir::Bindings& symbols);

/// A batch to evaluate.
struct EvaluationBatch {
  Batch batch;  ///< with zeros for missing inputs that no output reads
  ir::Bindings symbols;
  uint32_t samples = 0;
  bool labelled = true;  ///< no input was missing
};

/// Returns per value whether an output of the graph depends on it.
std::vector<bool> read_by_outputs(const ir::Graph& graph);

/// Returns per value whether it is an input that a task or a count reads.
std::vector<bool> read_in_training(const ir::Graph& graph);

/// As `bind_batch`, but binds the batch symbol to the number of samples in the batch, at most the plan's mini-batch
/// unless the model is undivided.
/// Inputs that only losses read may be missing.
Result<EvaluationBatch> bind_evaluation(const ir::Plan& plan, const Batch& batch,
                                        const std::vector<std::string>& needed = {});

/// Whether numbers of a batch may be converted to the type of a model's input: floats to floats, and integers to wider
/// ones.
bool becomes_type(ir::DType of_batch, ir::DType of_model);

/// Converts inputs to the model's types where `becomes_type`, so that fp32 samples can feed an fp64 model and int32
/// tokens one of int64.
Batch to_model_types(const ir::Plan& plan, const Batch& batch);

/// Feeds the samples of a batch. Keeps references to it and to `part`.
class BatchFeed : public Feed {
 public:
  /// `part`: the samples that the batch has; null: all of the mini-batch.
  BatchFeed(const Batch& batch, ir::Bindings symbols, const NeededSamples* part = nullptr)
      : batch_(batch), symbols_(std::move(symbols)), part_(part) {}
  Result<Value> input(const Port& port, ir::SampleRange samples) override;

 private:
  const Batch& batch_;
  ir::Bindings symbols_;
  const NeededSamples* part_;
};

}  // namespace rannc::runtime
