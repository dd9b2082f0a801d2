/// Flags of `rannc-compile` that other tools share.
#pragma once

#include <CLI/CLI.hpp>

#include "rannc/compiler/read_options.h"
#include "tools/compile/plan_flags.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Value of `--train-batch-norm` without a pattern.
constexpr std::string_view kEveryBatchNorm = "true";

/// Flags that restore training behavior lost by an export for inference (`passes::TrainingRequest`).
struct TrainingFlags {
  std::vector<std::string> batch_norms;  ///< patterns; `kEveryBatchNorm`: all nodes
  std::optional<double> batch_norm_momentum;
  std::vector<std::string> dropout;  ///< `pattern=0.1`
  bool lost_dropout = false;
};

/// All flags about models.
struct CompileFlags : PlanFlags {
  std::string model;                                  ///< .onnx, TorchScript (.pt), torch.export (.pt2), or text (.rir)
  std::vector<std::string> inputs;                    ///< `tokens=i64[batch,128]`; PyTorch files only, in order
  std::vector<std::string> output_names;              ///< PyTorch files only, in order
  std::string loss;                                   ///< for `passes::parse_losses`; empty: inference
  std::string precision;                              ///< `bf16`, `fp16`; empty: one float type
  std::string dtype;                                  ///< `float32`, `float64`; empty: types of the file
  std::string batch_symbol;                           ///< empty: the frontend determines it
  std::vector<std::string> same_symbol;               ///< `s53=s70`
  std::vector<std::string> sizes;                     ///< `height=224`, `height=32*k`; fixed for good
  std::vector<std::string> input_values;              ///< `use_cache_branch=false`; constant inputs
  std::optional<int64_t> max_trips;                   ///< bound for loops with a data-dependent trip count
  std::optional<int64_t> samples_in_file;             ///< static batch size of the file
  std::vector<std::string> assume;                    ///< `sequence=128`
  std::vector<std::string> kinds;                     ///< `name=parameter|buffer|constant`
  std::vector<std::string> frozen, buffers, trained;  ///< patterns of names; `trained` has precedence
  std::vector<std::string> tied, untied;              ///< patterns of names
  bool merged_allowed = false;                        ///< train merged parameters as one
  std::string loss_graph;                             ///< file whose outputs are added to the loss; empty: none
  std::vector<std::string> loss_inputs;               ///< `input=output`: model output for an input of the loss
  std::vector<std::string> loss_weights;              ///< `output=0.5`: weights of the loss's outputs
  std::vector<std::string> padding;                   ///< `table=0`: a row without gradient
  std::vector<std::string> stopped;                   ///< values through which no gradient flows
  std::vector<std::string> strict;                    ///< results of clamps without gradient at their bounds
  TrainingFlags training;
  bool sync_batch_norm = false;       ///< batch statistics over all replicas of a stage
  std::vector<std::string> left_out;  ///< skipped passes, of `passes::optional_passes`
  bool loops = true;                  ///< compiled stages have loops of their own
  std::string weights;                ///< .safetensors with state_dict names; empty: weights of the file
  bool partial_weights = false;       ///< allows missing and unexpected names in `weights`
  bool without_weights = false;       ///< weight files may be absent; enough for planning
  std::vector<std::string> print_after;
  bool print_changed = false;
  bool time_passes = false;

  std::string costs;  ///< `measured`, `analytic`, a profile database file; empty: as the cluster allows
  std::string matmul_precision = "highest";
  std::string kernels = "measured";  ///< `measured` by `costs`, or `default`: LibTorch chooses
  std::string block_partitioner = "rannc";
  uint32_t blocks = 32;
  uint64_t seed = 0;
};

/// Adds the flags about the model: loss, precision, batch, kinds of stored tensors, printing of passes.
void add_model_flags(CLI::App& app, CompileFlags& flags);
/// Adds `--input` and `--output-name`, which describe the signature of a PyTorch file.
void add_signature_flags(CLI::App& app, std::vector<std::string>& inputs, std::vector<std::string>& output_names);
/// Adds the flags about dimensions: `--batch-symbol`, `--same-symbol`, `--size`, `--batch-size-in-file`,
/// `--max-trips`.
void add_symbol_flags(CLI::App& app, CompileFlags& flags);
/// Adds the flags about stored tensors: `--train`, `--freeze`, `--buffer`, `--kind`, `--tie`, `--untie`,
/// `--allow-merged`.
void add_stored_flags(CLI::App& app, CompileFlags& flags);
/// Adds the flags that restore gradient behavior that a file lost.
void add_gradient_flags(CLI::App& app, CompileFlags& flags);
/// Adds `--input-value`, which fixes inputs.
void add_input_value_flag(CLI::App& app, std::vector<std::string>& values);
/// Adds `--sync-batch-norm`.
void add_sync_flag(CLI::App& app, bool& sync_batch_norm);
/// Adds `--skip-pass` for `passes::optional_passes` and `--no-fuse` for `passes::fusions`. The error for any other name
/// lists the valid ones. `loops`, unless null, is set to false by `--no-fuse loops` and `--no-fuse all`.
void add_left_out_flag(CLI::App& app, std::vector<std::string>& left_out, bool* loops = nullptr);
/// Adds the flags about training behavior lost by an export for inference.
void add_training_flags(CLI::App& app, TrainingFlags& flags);
/// Adds the flags about the plan of a model: those of `add_plan_flags`, costs, blocks, kernels, seed.
void add_model_plan_flags(CLI::App& app, CompileFlags& flags);

/// Parses the values of `--assume`.
Result<ir::Bindings> assumptions(const CompileFlags& flags);
/// Converts the flags about the model. Errors name the flag.
Result<compiler::ReadOptions> read_options(const CompileFlags& flags);
/// Converts the flags about the plan of a model, those of `PlanFlags` included.
Result<compiler::PlanOptions> model_plan_options(const CompileFlags& flags);

/// Convert the same flags to what the compiler library makes of these options.
Result<ModelOptions> model_options(const CompileFlags& flags);
Result<PlanRequest> model_plan_request(const CompileFlags& flags);

/// Call `prepare_model` and `plan_options` with the options that the flags specify.
Result<PreparedModel> prepare_model(const CompileFlags& flags, const CompileProgress& progress = {});
Result<partition::PlanOptions> plan_options(const CompileFlags& flags, const PreparedModel& model,
                                            const CompileProgress& progress = {});

}  // namespace rannc::tools
