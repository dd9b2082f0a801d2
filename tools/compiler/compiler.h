/// Compiles a model from its file to a plan.
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
  frontend::ImportOptions import;          ///< `prepare_model` sets `whole` and `required`
  passes::PipelineOptions pipeline;        ///< `prepare_model` adds the facts of the file
  std::optional<passes::LossGraph> loss;   ///< a loss in a file of its own, whose inputs are outputs of the model
  std::optional<int64_t> samples_in_file;  ///< static batch size, if inputs do not show it
  ir::Bindings assume;                     ///< values of symbols other than the batch
  uint32_t whole_mini_batch = kMiniBatch;  ///< samples, if mini-batches cannot be divided
  std::string weights;                     ///< .safetensors with state_dict names; empty: weights of the model file
  bool partial_weights = false;            ///< allows missing and unexpected names in `weights`
  passes::ManagerOptions passes;
  std::string reproducer;  ///< file for the input of a pass that fails by a defect; empty: none
};

/// Properties of a model file.
struct ReadModel {
  uint64_t nodes = 0;                      ///< of the file; 0 for text
  uint32_t tasks = 0;                      ///< before all passes
  std::map<int32_t, uint32_t> batch_axes;  ///< by axis: number of inputs with the batch symbol on it
  std::optional<uint32_t> samples;         ///< static batch size, if no symbol counts samples
};

/// A model after all passes.
struct PreparedModel {
  ir::Graph graph;
  ir::Atoms atoms;
  ReadModel read;
  std::vector<Note> remarks;          ///< changes and findings
  std::vector<Note> open;             ///< limits that the user may not expect
  std::vector<std::string> warnings;  ///< probable mistakes
  passes::RunReport report;
  std::string digest;  ///< of the model file
  /// Stored tensors that the exporter merged, by name: name of the merged tensor.
  std::map<std::string, std::string> parted;
  passes::FoldedTensors folded;
  /// Why mini-batches cannot be divided, at the task that mixes samples. Absent if they can be divided or no input has
  /// a sample axis.
  std::optional<Diagnostic> undivided;
  /// Symbol that would count samples, if the inputs together are one mini-batch of the data's extents. Empty if a
  /// number or the batch symbol counts samples.
  std::string extent_of_data;
};

/// Returns a copy, which shares the bytes of stored tensors.
PreparedModel clone(const PreparedModel& model);

/// Receivers of printed graphs and progress. Each may be empty.
struct CompileProgress {
  passes::PassManager::Show show_pass;
  std::function<void(const std::string&)> step;    ///< `measuring 23 of 41`
  std::function<void(const std::string&)> remark;  ///< about costs and kernels
  std::function<void(const std::string&)> note;    ///< about guessed sizes
};

/// Reads a model and runs the passes. An internal failure writes `options.reproducer` and names it in a note.
Result<PreparedModel> prepare_model(const ModelOptions& options, const CompileProgress& progress = {});

/// Writes a copy of an ONNX model to `to` with the weights of `options.weights`. Uses only the options about stored
/// tensors. Returns a report in lines, with warnings.
Result<std::vector<std::string>> copy_with_weights(const ModelOptions& options, const std::string& to, bool replace);

/// Completes a request for a model: mini-batch, named tasks, costs. Measures this machine for `Costs::kMeasured`.
Result<partition::PlanOptions> plan_options(const PlanRequest& request, const PreparedModel& model,
                                            const CompileProgress& progress = {});
/// Likewise. If `request.choose_kernels`, also chooses the fastest kernels of the model.
Result<partition::PlanOptions> plan_with_kernels(const PlanRequest& request, PreparedModel& model,
                                                 const CompileProgress& progress = {});

/// Runs the planner. An infeasible problem is a diagnostic with the missing memory and remedies.
Result<partition::PlannedModel> plan_prepared(const PreparedModel& model, const partition::PlanOptions& options);

}  // namespace rannc::tools
