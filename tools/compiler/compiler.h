/// Compiles a model: reads it, prepares it, plans it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/import.h"
#include "ir/plan/plan.h"
#include "partition/model/plan_model.h"
#include "passes/loss/join_loss.h"
#include "passes/manager.h"
#include "passes/pipeline.h"
#include "tools/compiler/plan_request.h"

namespace rannc::tools {

/// How a model is read and prepared.
struct ModelOptions {
  std::string path;                        ///< .onnx, TorchScript (.pt), torch.export (.pt2), or text (.rir)
  frontend::ImportOptions import;          ///< `whole` and `required` are set by `prepare_model`
  passes::PipelineOptions pipeline;        ///< facts of the file are added by `prepare_model`
  std::optional<passes::LossGraph> loss;   ///< a loss in a file of its own, whose inputs are outputs of the model
  std::optional<int64_t> samples_in_file;  ///< static batch size that inputs do not show
  ir::Bindings assume;                     ///< values of symbols other than the batch
  uint32_t whole_mini_batch = kMiniBatch;  ///< samples, if mini-batches cannot be divided
  std::string weights;                     ///< .safetensors with names of state_dict; empty: those of the model file
  bool partial_weights = false;            ///< names may be missing or unexpected there
  passes::ManagerOptions passes;
};

/// A model as its file has it.
struct ReadModel {
  uint64_t nodes = 0;                      ///< of the file; 0: it is text
  uint32_t tasks = 0;                      ///< as read
  std::map<int32_t, uint32_t> batch_axes;  ///< on which axis of how many inputs the batch symbol is
  std::optional<uint32_t> samples;         ///< for which it was made, where no symbol counts them
};

/// A model after its passes.
struct PreparedModel {
  ir::Graph graph;
  ir::Atoms atoms;
  ReadModel read;
  std::vector<Note> remarks;          ///< what was changed, or found to be so
  std::vector<Note> open;             ///< what was left as it is though the user may mean otherwise
  std::vector<std::string> warnings;  ///< what is probably not what the user means
  passes::RunReport report;
  std::string digest;  ///< of the model file
  /// Stored tensors that were part of one that the exporter merged: by name, that one's.
  std::map<std::string, std::string> parted;
  passes::FoldedTensors folded;
  /// Why its mini-batches stay whole, at the task that mixes samples. Nothing: they can be divided, or no input says
  /// where its samples lie.
  std::optional<Diagnostic> undivided;
  /// Of a model whose inputs, together, are one mini-batch of whatever extents the data have: the symbol that would
  /// count samples. Empty: a number or the batch symbol counts them.
  std::string extent_of_data;
};

/// Where printed graphs and progress go; either may be empty.
struct CompileProgress {
  passes::PassManager::Show show_pass;
  std::function<void(const std::string&)> step;    ///< `measuring 23 of 41`
  std::function<void(const std::string&)> remark;  ///< what the user should know of the costs
};

/// Reads and prepares a model. On a failure that is ours the reproducer is written beside the working folder's
/// `rannc-reproducer.rir` and named in a note.
Result<PreparedModel> prepare_model(const ModelOptions& options, const CompileProgress& progress = {});

/// Writes a copy of an ONNX model with the numbers of `weights`. Of the options those about stored tensors count.
/// Returns lines for people: what was replaced, what was warned of.
Result<std::vector<std::string>> copy_with_weights(const ModelOptions& options, const std::string& to, bool replace);

/// Completes the request for a model: mini-batch, tasks by name, costs. Measures this machine for `Costs::kMeasured`.
Result<partition::PlanOptions> plan_options(const PlanRequest& request, const PreparedModel& model,
                                            const CompileProgress& progress = {});
/// Likewise; if `request.choose_kernels`, also gives the model the fastest kernels.
Result<partition::PlanOptions> plan_with_kernels(const PlanRequest& request, PreparedModel& model,
                                                 const CompileProgress& progress = {});

/// Runs the planner. An infeasible problem is a diagnostic with the missing memory and remedies.
Result<partition::PlannedModel> plan_prepared(const PreparedModel& model, const partition::PlanOptions& options);

}  // namespace rannc::tools
