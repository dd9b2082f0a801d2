/// The way of a model from file to plan, as the command-line tools walk it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/plan/plan.h"
#include "partition/model/plan_model.h"
#include "passes/manager.h"
#include "passes/pipeline.h"
#include "tools/compiler/demands.h"

namespace rannc::tools {

/// What `--train-batch-norm` without a pattern is in `TrainingFlags`.
constexpr std::string_view kEveryBatchNorm = "true";

/// Flags about what an export for inference lost: `passes::TrainingRequest` as they are spelled.
struct TrainingFlags {
  std::vector<std::string> batch_norms;  ///< patterns; `kEveryBatchNorm`: all that are nodes
  std::optional<double> batch_norm_momentum;
  std::vector<std::string> dropout;  ///< `pattern=0.1`
  bool lost_dropout = false;
};

/// Flags in the spelling of `rannc-compile`; what is demanded of the plan comes from `PlanDemands`.
struct CompileOptions : PlanDemands {
  std::string model;                                  ///< .onnx, TorchScript (.pt), torch.export (.pt2), or text (.rir)
  std::vector<std::string> inputs;                    ///< `tokens=i64[batch,128]`: of PyTorch's files, in order
  std::vector<std::string> output_names;              ///< of PyTorch's files, in order
  std::string loss;                                   ///< of `passes::parse_losses`; empty: for inference
  std::string dtype;                                  ///< `float32`, `float64`; empty: as the file has it
  std::string batch_symbol;                           ///< empty: found by the frontend
  std::vector<std::string> same_symbol;               ///< `s53=s70`
  std::vector<std::string> input_values;              ///< `use_cache_branch=false`: inputs that never change
  std::optional<int64_t> max_trips;                   ///< of loops whose number of trips depends on data
  std::optional<int64_t> samples_in_file;             ///< for which a file without a batch symbol was made
  std::vector<std::string> assume;                    ///< `sequence=128`
  std::vector<std::string> kinds;                     ///< `name=parameter|buffer|constant`
  std::vector<std::string> frozen, buffers, trained;  ///< patterns of names; what is trained counts last
  std::vector<std::string> tied, untied;              ///< patterns of names
  bool merged_allowed = false;                        ///< parameters that the exporter made one are trained as one
  std::string loss_graph;                             ///< ONNX file whose outputs are added to the loss; empty: none
  std::vector<std::string> loss_inputs;               ///< `input=output`: what of the model an input of the loss is
  std::vector<std::string> loss_weights;              ///< `output=0.5`: of the loss's outputs
  std::vector<std::string> padding;                   ///< `table=0`: a row that takes no gradient
  std::vector<std::string> stopped;                   ///< values through which no gradient flows
  std::vector<std::string> strict;                    ///< results of clamps whose bounds take no gradient
  TrainingFlags training;
  bool sync_batch_norm = false;       ///< batch normalisations are over all replicas of their stage
  std::vector<std::string> left_out;  ///< of `passes::optional_passes`
  std::string weights;                ///< .safetensors under the names of state_dict; empty: the file's numbers
  bool partial_weights = false;       ///< names may be missing there, or unexpected
  bool without_weights = false;       ///< weight files may be absent: enough to plan, not to train
  passes::ManagerOptions passes;
  bool time_passes = false;

  std::string costs = "measured";    ///< `measured`, `analytic`, or a profile database's file
  std::string kernels = "measured";  ///< chosen by `costs` where these are times, or `default`: LibTorch chooses
  std::string block_partitioner = "rannc";
  uint32_t blocks = 32;
  uint64_t seed = 0;
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
Result<PreparedModel> prepare_model(const CompileOptions& options, const CompileProgress& progress = {});

/// Writes a copy of an ONNX model with the numbers of `weights`. Of the options those about stored tensors count.
/// Returns lines for people: what was replaced, what was warned of.
Result<std::vector<std::string>> copy_with_weights(const CompileOptions& options, const std::string& to, bool replace);

/// What is planned with: cluster, costs and demands. Measures this machine where `costs` says so.
Result<partition::PlanOptions> plan_options(const CompileOptions& options, const PreparedModel& model,
                                            const CompileProgress& progress = {});
/// The same, and gives the model the kernels that times speak for, unless `kernels` says otherwise.
Result<partition::PlanOptions> plan_with_kernels(const CompileOptions& options, PreparedModel& model,
                                                 const CompileProgress& progress = {});

/// Both and the planner. An infeasible problem is a diagnostic here, with what is missing and what would help.
Result<partition::PlannedModel> plan_prepared(const PreparedModel& model, const partition::PlanOptions& options);

/// The values of `--assume`.
Result<ir::Bindings> assumptions(const CompileOptions& options);

/// `a=b` pairs of a flag; an error names the flag and the text.
Result<std::map<std::string, std::string>> pairs(const std::vector<std::string>& texts, const std::string& flag);

}  // namespace rannc::tools
