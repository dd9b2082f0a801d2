#include "tools/compile/compile_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "passes/fusions/fuse.h"

namespace rannc::tools {

namespace {

// Empty, or what is wrong with a pass that is to be left out.
std::string wrong_to_leave_out(const std::string& pass) {
  const auto all = passes::pass_names(), optional = passes::optional_passes();
  if (std::find(optional.begin(), optional.end(), pass) != optional.end()) return "";
  const bool known = std::find(all.begin(), all.end(), pass) != all.end();
  return fmt::format("{} {}; there are {}", pass, known ? "cannot be left out" : "is no pass",
                     fmt::join(optional, ", "));
}

}  // namespace

void add_left_out_flag(CLI::App& app, std::vector<std::string>& left_out) {
  app.add_option("--skip-pass", left_out,
                 fmt::format("leave a pass out: {}", fmt::join(passes::optional_passes(), ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(wrong_to_leave_out);
  const std::string all = "all";
  std::vector<std::string> choices;
  for (const passes::Fusion& fusion : passes::fusions()) choices.emplace_back(fusion.name);
  choices.push_back(all);
  const auto leave_out = [&left_out, all](const std::vector<std::string>& asked) {
    for (const passes::Fusion& fusion : passes::fusions()) {
      const bool named = std::find(asked.begin(), asked.end(), fusion.name) != asked.end();
      if (named || std::find(asked.begin(), asked.end(), all) != asked.end())
        left_out.push_back(passes::pass_name(fusion));
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--no-fuse", leave_out,
         fmt::format("leave operators written out as the file has them: {}", fmt::join(choices, ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(choices));
}

void add_training_flags(CLI::App& app, TrainingFlags& flags) {
  app.option_defaults()->group("Training of a file that was exported for inference");
  app.add_flag("--train-batch-norm", flags.batch_norms,
               "[=PATTERN]: batch normalisations train, all that are nodes of the file or those whose module, node or "
               "value matches; with a pattern (*: any characters, ?: one) also those written out as arithmetic");
  app.add_option(
      "--batch-norm-momentum", flags.batch_norm_momentum,
      "weight of the new statistics of these, as PyTorch counts; else as the node has it, 0.1 if it does not");
  app.add_option("--dropout", flags.dropout,
                 "PATTERN=RATIO: a dropout behind the results of what matches: the outermost module, else nodes, else "
                 "values")
      ->allow_extra_args(false);
  app.add_flag("--train-dropout", flags.lost_dropout,
               "dropouts that the file has switched off, or says were left out, come back with its ratios");
}

void add_sync_flag(CLI::App& app, bool& sync_batch_norm) {
  app.add_flag(
      "--sync-batch-norm", sync_batch_norm,
      "batch normalisations of training take mean and variance over all replicas of a micro-batch, not of each");
}

void add_signature_flags(CLI::App& app, std::vector<std::string>& inputs, std::vector<std::string>& output_names) {
  app.add_option(
         "--input", inputs,
         "NAME=TYPE[SIZES]: an input of a file of PyTorch, as tokens=i64[batch,128], once for each that forward "
         "takes, in its order; NAME may be another than forward has")
      ->allow_extra_args(false);
  app.add_option("--output-name", output_names, "NAME of an output of a file of PyTorch, once for each, in order")
      ->allow_extra_args(false);
}

void add_symbol_flags(CLI::App& app, CompileOptions& options) {
  app.add_option("--batch-symbol", options.batch_symbol, "the dimension that counts samples, where it is not found");
  app.add_option(
         "--batch-size-in-file", options.samples_in_file,
         "samples that a file without dynamic axes was made for, where its inputs do not say it; it is an error "
         "if the model cannot take another number of them")
      ->check(CLI::PositiveNumber);
  app.add_option("--same-symbol", options.same_symbol,
                 "A=B: dimension A of the file is dimension B; given again, more of them are one")
      ->allow_extra_args(false);
  app.add_option("--max-trips", options.max_trips,
                 "trips that a loop makes at most where their number depends on data; one more is an error of the run")
      ->check(CLI::PositiveNumber);
}

void add_stored_flags(CLI::App& app, CompileOptions& options) {
  app.add_option("--kind", options.kinds, "NAME=parameter|buffer|constant: overrides what was recovered");
  const char* const kNames = "PATTERN: names of the file or of PyTorch's state_dict, with * and ?; several by commas";
  app.add_option("--freeze", options.frozen, "do not train these parameters (" + std::string(kNames) + ")")
      ->allow_extra_args(false);
  app.add_option("--buffer", options.buffers, "PATTERN: these stored tensors are buffers")->allow_extra_args(false);
  app.add_option("--train", options.trained, "PATTERN: train these, also of what --freeze names")
      ->allow_extra_args(false);
  app.add_option("--tie", options.tied, "PATTERN: parameters of equal values that are one")->allow_extra_args(false);
  app.add_option("--untie", options.untied, "PATTERN: each module that reads this parameter has its own")
      ->allow_extra_args(false);
  app.add_flag("--allow-merged", options.merged_allowed,
               "train parameters as one that the exporter merged and that nothing in the file tells apart");
}

void add_input_value_flag(CLI::App& app, std::vector<std::string>& values) {
  app.add_option("--input-value", values,
                 "NAME=VALUE: an input of one element that is always true, false or that number, as "
                 "use_cache_branch=false; branches that it decides against go, with the inputs that only they read")
      ->allow_extra_args(false);
}

void add_model_flags(CLI::App& app, CompileOptions& options) {
  app.option_defaults()->group("Model");
  add_signature_flags(app, options.inputs, options.output_names);
  app.add_option(
      "--loss", options.loss,
      "training loss: cross_entropy, soft_cross_entropy, bce_with_logits, mse, l1, huber, smooth_l1 or in_graph with "
      "options, as cross_entropy(output=logits,labels=y); terms joined by +; without it: a plan for inference");
  app.add_option("--loss-graph", options.loss_graph,
                 "file of a loss (ONNX, or .pt2): inputs are the model's outputs by name, the others labels; its "
                 "outputs are added");
  app.add_option("--loss-input", options.loss_inputs, "INPUT=OUTPUT: an input of --loss-graph is that output");
  app.add_option("--loss-weight", options.loss_weights, "OUTPUT=W: weight of an output of --loss-graph");
  app.add_option("--dtype", options.dtype, "one float type for the whole model: float32 or float64")
      ->check(CLI::IsMember({"float32", "float64"}));
  add_symbol_flags(app, options);
  add_input_value_flag(app, options.input_values);
  app.add_option("--assume", options.assume, "SYMBOL=N: plan for this value of a dimension other than the batch");
  add_stored_flags(app, options);
  app.add_option("--padding-index", options.padding,
                 "TABLE=ROW: a row of an embedding that takes no gradient, where the file's metadata do not say it");
  app.add_option("--stop-gradient", options.stopped, "VALUE: no gradient flows through it: it was detached");
  app.add_option("--strict-bounds", options.strict,
                 "VALUE: a Clip that makes it passes no gradient at its bounds, as relu6 and hardtanh do not");
  auto* weights = app.add_option(
      "--weights", options.weights,
      ".safetensors file whose tensors, under the names of state_dict, replace the numbers of the model's file; of the "
      "model's types, or of any float type where --dtype says one");
  app.add_flag("--partial-weights", options.partial_weights,
               "--weights may lack names of the model, which stay as they are, and have others, which are left out "
               "(strict=False)")
      ->needs(weights);
  add_sync_flag(app, options.sync_batch_norm);
  add_training_flags(app, options.training);
  app.option_defaults()->group("Model");
  app.add_flag("--without-weights", options.without_weights,
               "the files of the model's weights may be absent: to plan only");
  app.option_defaults()->group("Passes");
  add_left_out_flag(app, options.left_out);
  app.add_option("--print-after", options.passes.print_after, "print the graph after these passes")->delimiter(',');
  app.add_flag("--print-changed", options.passes.print_changed, "print the graph after each pass that changes it");
  app.add_flag("--time-passes", options.time_passes, "say how long each pass takes");
}

void add_plan_flags(CLI::App& app, CompileOptions& options) {
  add_demand_flags(app, options);
  app.option_defaults()->group("Costs and blocks");
  app.add_option("--costs", options.costs, "measured (on this machine), analytic, or a profile database")
      ->capture_default_str();
  app.add_option(
         "--kernels", options.kernels,
         "measured: convolutions, pooling and batch normalisation get the kernels and orders in memory that are "
         "fastest by --costs, where these are times; default: LibTorch chooses")
      ->check(CLI::IsMember({"measured", "default"}))
      ->capture_default_str();
  app.add_option("--blocks", options.blocks, "number of blocks between coarsening and stages")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--block-partitioner", options.block_partitioner, "rannc, multilevel, order-dp, metis …")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of random operators")->capture_default_str();
}

}  // namespace rannc::tools
