/// The flags of `rannc-compile` that other tools share.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/compile/plan_flags.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Value of `--train-batch-norm` without a pattern.
constexpr std::string_view kEveryBatchNorm = "true";

/// Flags that restore training behavior which an export for inference lost (`passes::TrainingRequest`).
struct TrainingFlags {
  std::vector<std::string> batch_norms;  ///< patterns; `kEveryBatchNorm`: all that are nodes
  std::optional<double> batch_norm_momentum;
  std::vector<std::string> dropout;  ///< `pattern=0.1`
  bool lost_dropout = false;
};

/// All flags about models.
struct CompileFlags : PlanFlags {
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

/// Flags about the model: loss, precision, batch, kinds of stored tensors, what passes print.
void add_model_flags(CLI::App& app, CompileFlags& flags);
/// `--input` and `--output-name`: what a TorchScript file does not say.
void add_signature_flags(CLI::App& app, std::vector<std::string>& inputs, std::vector<std::string>& output_names);
/// Flags about the sizes of a model: `--batch-symbol`, `--same-symbol`, `--batch-size-in-file`, `--max-trips`.
void add_symbol_flags(CLI::App& app, CompileFlags& flags);
/// Flags about stored tensors: `--train`, `--freeze`, `--buffer`, `--kind`, `--tie`, `--untie`, `--allow-merged`.
void add_stored_flags(CLI::App& app, CompileFlags& flags);
/// `--input-value`: inputs that never change.
void add_input_value_flag(CLI::App& app, std::vector<std::string>& values);
/// `--sync-batch-norm`.
void add_sync_flag(CLI::App& app, bool& sync_batch_norm);
/// `--skip-pass`: of `passes::optional_passes`; `--no-fuse`: of `passes::fusions`, or all of these. Another name is an
/// error that lists them.
void add_left_out_flag(CLI::App& app, std::vector<std::string>& left_out);
/// Flags about what an export for inference lost.
void add_training_flags(CLI::App& app, TrainingFlags& flags);
/// Flags about the plan of a model: those of any plan, costs, blocks, kernels, seed.
void add_model_plan_flags(CLI::App& app, CompileFlags& flags);

/// Values of `--assume`.
Result<ir::Bindings> assumptions(const CompileFlags& flags);
/// Converts the flags about the model. Errors name the flag.
Result<ModelOptions> model_options(const CompileFlags& flags);
/// Converts the flags about the plan of a model.
Result<PlanRequest> model_plan_request(const CompileFlags& flags);

/// `prepare_model` and `plan_options` with the options that the flags specify.
Result<PreparedModel> prepare_model(const CompileFlags& flags, const CompileProgress& progress = {});
Result<partition::PlanOptions> plan_options(const CompileFlags& flags, const PreparedModel& model,
                                            const CompileProgress& progress = {});

}  // namespace rannc::tools
