/// The flags of `rannc-compile` that other tools share.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Flags about the model: loss, precision, batch, kinds of stored tensors, what passes print.
void add_model_flags(CLI::App& app, CompileOptions& options);
/// `--input` and `--output-name`: what a TorchScript file does not say.
void add_signature_flags(CLI::App& app, std::vector<std::string>& inputs, std::vector<std::string>& output_names);
/// Flags about the sizes of a model: `--batch-symbol`, `--same-symbol`, `--batch-size-in-file`, `--max-trips`.
void add_symbol_flags(CLI::App& app, CompileOptions& options);
/// Flags about stored tensors: `--train`, `--freeze`, `--buffer`, `--kind`, `--tie`, `--untie`, `--allow-merged`.
void add_stored_flags(CLI::App& app, CompileOptions& options);
/// `--input-value`: inputs that never change.
void add_input_value_flag(CLI::App& app, std::vector<std::string>& values);
/// `--sync-batch-norm`.
void add_sync_flag(CLI::App& app, bool& sync_batch_norm);
/// `--skip-pass`: of `passes::optional_passes`; `--no-fuse`: of `passes::fusions`, or all of these. Another name is an
/// error that lists them.
void add_left_out_flag(CLI::App& app, std::vector<std::string>& left_out);
/// Flags about what an export for inference lost.
void add_training_flags(CLI::App& app, TrainingFlags& flags);
/// Flags about the plan: cluster, costs, mini-batch, stages, schedule, recompute …
void add_plan_flags(CLI::App& app, CompileOptions& options);

}  // namespace rannc::tools
