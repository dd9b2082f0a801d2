/// Compiles a model from its file to a plan.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/batching.h"
#include "ir/plan/plan.h"
#include "partition/model/plan_model.h"
#include "passes/manager.h"
#include "passes/pipeline.h"
#include "tools/compiler/named_tasks.h"
#include "tools/compiler/requested_model.h"
#include "tools/compiler/requested_plan.h"

namespace rannc::tools {

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
  std::string digest;  ///< of the model without its weights (`model_digest`)
  /// Stored tensors that the exporter merged, by name: name of the merged tensor.
  std::map<std::string, std::string> parted;
  passes::FoldedTensors folded;
  Batching batching;
  NodeModules modules;  ///< as far as the file names them
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

/// Reads a model (.onnx, TorchScript, torch.export or .rir) and runs the passes. An internal failure writes
/// `options.reproducer` and names it in a note.
Result<PreparedModel> prepare_model(const frontend::ModelSource& source, const compiler::ReadOptions& options,
                                    const CompileProgress& progress = {});

/// Writes a copy of the ONNX model at `path` to `to` with the weights of `options.weights`. Uses only the options about
/// stored tensors. Returns a report in lines, with warnings.
Result<std::vector<std::string>> copy_with_weights(const std::string& path, const compiler::ReadOptions& options,
                                                   const std::string& to, bool replace);

/// Completes a request for a model: mini-batch, named tasks, costs. Measures this machine for `Costs::kMeasured`. If
/// `chooses` is not null, also chooses the fastest kernels, unless they are `Kernels::kDefault`; it is `model` itself.
Result<partition::PlanOptions> plan_options(const RequestedPlan& request, const PreparedModel& model,
                                            const CompileProgress& progress = {}, PreparedModel* chooses = nullptr);

/// Runs the planner. An infeasible problem is a diagnostic with the missing memory and remedies.
Result<partition::PlannedModel> plan_prepared(const PreparedModel& model, const partition::PlanOptions& options);

}  // namespace rannc::tools
