#include "tools/compile/compile_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "passes/fusions/fuse.h"
#include "tools/common/number_checks.h"
#include "tools/compiler/requested_model.h"
#include "tools/compiler/requested_plan.h"

namespace rannc::tools {

namespace {

constexpr WholeRange kSizes{.least = 1};  // of dimensions

/// Rows of a table, of which PyTorch counts negative ones from the end.
struct RowNumbers {
  static std::string str() { return "a whole number"; }
};
std::optional<int64_t> parse_number(std::string_view text, const RowNumbers& /*any*/) {
  const bool negative = text.starts_with('-');
  const auto row = rannc::parse_number(text.substr(negative ? 1 : 0), WholeRange{});
  if (!row) return std::nullopt;
  return negative ? -static_cast<int64_t>(*row) : static_cast<int64_t>(*row);
}

}  // namespace

void add_left_out_flag(CLI::App& app, std::vector<std::string>& left_out, bool* loops) {
  app.add_option("--skip-pass", left_out, fmt::format("skip a pass: {}", fmt::join(passes::optional_passes(), ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(wrong_to_skip);
  const std::string all = "all", of_loops = "loops";
  std::vector<std::string> choices;
  for (const passes::Fusion& fusion : passes::fusions()) choices.emplace_back(fusion.name);
  if (loops != nullptr) choices.push_back(of_loops);
  choices.push_back(all);
  const auto leave_out = [&left_out, loops, all, of_loops](const std::vector<std::string>& asked) {
    const auto names = [&](std::string_view name) {
      return std::find(asked.begin(), asked.end(), name) != asked.end();
    };
    for (const passes::Fusion& fusion : passes::fusions()) {
      if (names(fusion.name) || names(all)) left_out.push_back(passes::pass_name(fusion));
    }
    if (loops != nullptr && (names(of_loops) || names(all))) *loops = false;
  };
  app.add_option_function<std::vector<std::string>>(
         "--no-fuse", leave_out, fmt::format("keep operators decomposed as in the file: {}", fmt::join(choices, ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(choices));
}

void add_training_flags(CLI::App& app, TrainingFlags& flags) {
  app.option_defaults()->group("Training of inference exports");
  app.add_flag("--train-batch-norm", flags.batch_norms,
               "[=PATTERN]: train all batch normalization nodes, or those whose module, node or value matches, also "
               "decomposed ones (*: any characters, ?: one)");
  app.add_option("--batch-norm-momentum", flags.batch_norm_momentum,
                 "weight of new statistics, as in PyTorch (default: that of the node, or 0.1)")
      ->transform(in_range(NumberRange{.least = 0, .most = 1, .above = true}));
  app.add_option("--dropout", flags.dropout,
                 "PATTERN=RATIO: add dropout behind the outermost modules that match, else nodes, else values")
      ->allow_extra_args(false)
      ->check(named_number("PATTERN=RATIO", NumberRange{.least = 0, .most = 1, .above = true}));
  app.add_flag("--train-dropout", flags.lost_dropout,
               "restore dropout that the file disables or omits, with the ratios of the file");
}

void add_sync_flag(CLI::App& app, bool& sync_batch_norm) {
  app.add_flag("--sync-batch-norm", sync_batch_norm,
               "compute batch normalization statistics over all replicas of a micro-batch");
}

void add_signature_flags(CLI::App& app, std::vector<std::string>& inputs, std::vector<std::string>& output_names) {
  app.add_option(
         "--input", inputs,
         "NAME=TYPE[SIZES]: an input of a PyTorch file, such as tokens=i64[batch,128]; once per input of forward, in "
         "order; other names rename the inputs")
      ->allow_extra_args(false);
  app.add_option("--output-name", output_names, "name of an output of a PyTorch file; once per output, in order")
      ->allow_extra_args(false);
}

void add_symbol_flags(CLI::App& app, CompileFlags& flags) {
  app.add_option("--batch-symbol", flags.batch_symbol, "dimension that counts samples, if it is not recognized");
  app.add_option("--batch-size-in-file", flags.samples_in_file,
                 "static batch size of the file, if its inputs do not show it; an error if the model cannot be made "
                 "batch-polymorphic")
      ->transform(whole_number(1, uint64_t{1} << 32));
  app.add_option("--same-symbol", flags.same_symbol, "A=B: dimensions A and B of the file are equal; repeatable")
      ->allow_extra_args(false);
  app.add_option("--size", flags.sizes,
                 "SYMBOL=N or SYMBOL=EXPRESSION: fix a dimension other than the batch for good, as in sequence=128, or "
                 "replace it, as in height=32*k; repeatable")
      ->allow_extra_args(false);
  app.add_option("--max-trips", flags.max_trips,
                 "bound on the trips of loops whose trip count depends on data; more trips are a runtime error")
      ->transform(whole_number(1));
}

void add_stored_flags(CLI::App& app, CompileFlags& flags) {
  app.add_option("--kind", flags.kinds,
                 "NAME=parameter|buffer|constant: kind of a stored tensor; overrides the recovered kind");
  const char* const kNames = "PATTERN: names of the file or of state_dict, with * and ?; separated by commas";
  app.add_option("--freeze", flags.frozen, "do not train these parameters (" + std::string(kNames) + ")")
      ->allow_extra_args(false);
  app.add_option("--buffer", flags.buffers, "PATTERN: these stored tensors are buffers")->allow_extra_args(false);
  app.add_option("--train", flags.trained, "PATTERN: train these, even if --freeze matches them")
      ->allow_extra_args(false);
  app.add_option("--tie", flags.tied, "PATTERN: treat parameters of equal values as one")->allow_extra_args(false);
  app.add_option("--untie", flags.untied, "PATTERN: give each module that reads this parameter its own copy")
      ->allow_extra_args(false);
  app.add_flag("--allow-merged", flags.merged_allowed,
               "train parameters that the exporter merged as one, if nothing in the file distinguishes them");
}

void add_gradient_flags(CLI::App& app, CompileFlags& flags) {
  app.add_option("--padding-index", flags.padding,
                 "TABLE=ROW: an embedding row without gradient, if the file's metadata do not specify it")
      ->allow_extra_args(false)
      ->check(named_number("TABLE=ROW", RowNumbers{}));
  app.add_option("--stop-gradient", flags.stopped,
                 "VALUE: no gradient flows through this value, because it was detached")
      ->allow_extra_args(false);
  app.add_option("--strict-bounds", flags.strict,
                 "VALUE: the Clip that produces this value has no gradient at its bounds, like relu6 and hardtanh")
      ->allow_extra_args(false);
}

namespace {

std::string number_of_input(const std::string& text) { return text == "true" ? "1" : text == "false" ? "0" : text; }

CLI::Validator input_value_check() {
  return CLI::Validator(
      [](const std::string& text) {
        const size_t at = text.rfind('=');
        const bool pair = at != std::string::npos && at > 0;
        if (pair && parse_number(number_of_input(text.substr(at + 1)), NumberRange{})) return std::string();
        return fmt::format("expected NAME=VALUE with true, false or a number, found '{}'", text);
      },
      "NAME=VALUE");
}

}  // namespace

void add_input_value_flag(CLI::App& app, std::vector<std::string>& values) {
  app.add_option(
         "--input-value", values,
         "NAME=VALUE: fix a one-element input of an ONNX file, or a number or boolean that a TorchScript module "
         "takes, to true, false or a number, such as use_cache_branch=false; removes dead branches and the "
         "inputs that only they read")
      ->allow_extra_args(false)
      ->check(input_value_check());
}

void add_model_flags(CLI::App& app, CompileFlags& flags) {
  app.option_defaults()->group("Model");
  add_signature_flags(app, flags.inputs, flags.output_names);
  app.add_option(
      "--loss", flags.loss,
      "training loss: cross_entropy, soft_cross_entropy, bce_with_logits, mse, l1, huber, smooth_l1 or in_graph with "
      "options, such as cross_entropy(output=logits,labels=y); terms joined by + (default: none, for inference)");
  auto* graph = app.add_option(
      "--loss-graph", flags.loss_graph,
      "file of a loss (ONNX, .pt2 or .rir); inputs with names of model outputs read these, others are labels; "
      "outputs are added to the loss");
  app.add_option("--loss-input", flags.loss_inputs, "INPUT=OUTPUT: connect an input of --loss-graph to a model output")
      ->needs(graph);
  app.add_option("--loss-weight", flags.loss_weights, "OUTPUT=WEIGHT: weight of an output of --loss-graph")
      ->check(named_number("OUTPUT=WEIGHT", NumberRange{}))
      ->needs(graph);
  app.add_option("--dtype", flags.dtype, "one float type for the whole model: float32 or float64")
      ->check(CLI::IsMember({"float32", "float64"}));
  app.add_option(
         "--precision", flags.precision,
         "mixed precision: compute products in this 16-bit type, like torch.autocast; parameters stay float32. Runs "
         "of fp16 scale the loss")
      ->check(CLI::IsMember({"bf16", "fp16"}));
  add_symbol_flags(app, flags);
  add_input_value_flag(app, flags.input_values);
  app.add_option("--assume", flags.assume,
                 "SYMBOL=N: value of a dimension other than the batch, for planning; the model accepts others")
      ->check(named_number("SYMBOL=N", kSizes));
  add_stored_flags(app, flags);
  add_gradient_flags(app, flags);
  auto* weights = app.add_option(
      "--weights", flags.weights,
      ".safetensors file with state_dict names, whose tensors replace the weights of the model file; types must match, "
      "but --dtype accepts any float type");
  app.add_flag(
         "--partial-weights", flags.partial_weights,
         "allow --weights to lack names of the model, which keep their values, and to have unexpected names, which "
         "are ignored (strict=False)")
      ->needs(weights);
  add_sync_flag(app, flags.sync_batch_norm);
  add_training_flags(app, flags.training);
  app.option_defaults()->group("Model");
  app.add_flag("--without-weights", flags.without_weights,
               "allow the model's weight files to be absent; enough for planning");
  app.option_defaults()->group("Passes");
  add_left_out_flag(app, flags.left_out, &flags.loops);
  app.add_option("--print-after", flags.print_after, "print the graph after these passes")->delimiter(',');
  app.add_flag("--print-changed", flags.print_changed, "print the graph after each pass that changes it");
  app.add_flag("--time-passes", flags.time_passes, "print the time of every pass");
}

void add_model_plan_flags(CLI::App& app, CompileFlags& flags) {
  add_plan_flags(app, flags);
  app.option_defaults()->group("Costs and blocks");
  app.add_option("--costs", flags.costs,
                 "measured (on this machine's processor), analytic, or a profile database file (default: measured if "
                 "the cluster consists of this processor, else analytic)");
  app.add_option("--matmul-precision", flags.matmul_precision,
                 "of the run, whose float32 products are estimated by it: highest, or high for TF32 on GPUs")
      ->check(CLI::IsMember({"highest", "high"}))
      ->capture_default_str();
  app.add_option(
         "--kernels", flags.kernels,
         "measured: choose kernels and memory formats of convolutions, pooling and batch normalization by measured "
         "--costs; default: LibTorch chooses")
      ->check(CLI::IsMember({"measured", "default"}))
      ->capture_default_str();
  app.add_option("--blocks", flags.blocks, "number of blocks")
      ->transform(whole_number(1, 1U << 24))
      ->capture_default_str();
  app.add_option("--block-partitioner", flags.block_partitioner, "rannc, multilevel, order-dp, metis …")
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "seed of random operators")
      ->transform(whole_number(0, UINT64_MAX))
      ->capture_default_str();
}

namespace {

/// Splits the `a=b` texts of a flag.
Result<std::map<std::string, std::string>> pairs(const std::vector<std::string>& texts, const std::string& flag) {
  std::map<std::string, std::string> found;
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      return error(fmt::format("{} {}: expected NAME=VALUE", flag, text));
    }
    const std::string name = text.substr(0, at), value = text.substr(at + 1);
    const auto [known, fresh] = found.emplace(name, value);
    if (!fresh && known->second != value)
      return error(fmt::format("{} {}: '{}' is {} by another {}", flag, text, name, known->second, flag));
  }
  return found;
}

Result<double> number_of(const std::string& given, const std::string& text, const std::string& flag) {
  if (const auto value = parse_number(text, NumberRange{})) return *value;
  return error(fmt::format("{} {}: expected a number", flag, given));
}

Result<std::map<std::string, double>> numbers(const std::vector<std::string>& texts, const std::string& flag) {
  RANNC_ASSIGN(const auto given, pairs(texts, flag));
  std::map<std::string, double> found;
  for (const auto& [name, text] : given) {
    RANNC_ASSIGN(found[name], number_of(name + "=" + text, text, flag));
  }
  return found;
}

Result<std::map<std::string, int64_t>> padding_rows(const CompileFlags& flags) {
  std::map<std::string, int64_t> rows;
  RANNC_ASSIGN(const auto padding, pairs(flags.padding, "--padding-index"));
  for (const auto& [table, text] : padding) {
    const auto row = parse_number(text, RowNumbers{});
    if (!row) return error(fmt::format("--padding-index {}={}: expected an integer", table, text));
    rows[table] = *row;
  }
  return rows;
}

Result<compiler::LostTraining> lost_training(const TrainingFlags& flags) {
  compiler::LostTraining lost;
  for (const std::string& pattern : flags.batch_norms) {
    if (pattern == kEveryBatchNorm) {
      lost.every_batch_norm = true;
    } else {
      lost.batch_norms.push_back(pattern);
    }
  }
  lost.batch_norm_momentum = flags.batch_norm_momentum;
  RANNC_ASSIGN(lost.dropout, numbers(flags.dropout, "--dropout"));
  lost.lost_dropout = flags.lost_dropout;
  return lost;
}

Result<compiler::Precision> precision(const CompileFlags& flags) {
  using compiler::Precision;
  if (flags.dtype.empty()) return Precision::kOfFile;
  if (flags.dtype == "float32") return Precision::kFloat32;
  if (flags.dtype == "float64") return Precision::kFloat64;
  return error(fmt::format("--dtype {}: expected float32 or float64", flags.dtype));
}

Result<compiler::MixedPrecision> mixed_precision(const CompileFlags& flags) {
  using compiler::MixedPrecision;
  if (flags.precision.empty()) return MixedPrecision::kNone;
  if (flags.precision == "bf16") return MixedPrecision::kBFloat16;
  if (flags.precision == "fp16") return MixedPrecision::kFloat16;
  return error(fmt::format("--precision {}: expected bf16 or fp16", flags.precision));
}

Result<std::map<std::string, compiler::StoredKind>> stored_kinds(const CompileFlags& flags) {
  using compiler::StoredKind;
  std::map<std::string, StoredKind> found;
  RANNC_ASSIGN(const auto kinds, pairs(flags.kinds, "--kind"));
  for (const auto& [name, kind] : kinds) {
    if (kind == "parameter") {
      found[name] = StoredKind::kParameter;
    } else if (kind == "buffer") {
      found[name] = StoredKind::kBuffer;
    } else if (kind == "constant") {
      found[name] = StoredKind::kConstant;
    } else {
      return error(fmt::format("--kind {}={}: expected parameter, buffer or constant", name, kind));
    }
  }
  return found;
}

/// Converts the flags about inputs and sizes.
Result<void> add_inputs(const CompileFlags& flags, compiler::ReadOptions& options) {
  options.inputs = flags.inputs;
  options.output_names = flags.output_names;
  options.batch_symbol = flags.batch_symbol;
  for (const std::string& text : flags.same_symbol) {
    RANNC_ASSIGN(const auto symbols, pairs({text}, "--same-symbol"));
    options.same_symbols.emplace_back(*symbols.begin());
  }
  RANNC_ASSIGN(options.sizes, pairs(flags.sizes, "--size"));
  options.samples_in_file = flags.samples_in_file;
  options.max_trips = flags.max_trips;
  RANNC_ASSIGN(const auto given, pairs(flags.input_values, "--input-value"));
  for (const auto& [name, text] : given) {
    RANNC_ASSIGN(options.input_values[name], number_of(name + "=" + text, number_of_input(text), "--input-value"));
  }
  RANNC_ASSIGN(const ir::Bindings assumed, assumptions(flags));
  options.assumed_sizes = {assumed.begin(), assumed.end()};
  options.mini_batch = flags.mini_batch;
  return {};
}

/// Converts the flags about stored tensors.
Result<void> add_stored(const CompileFlags& flags, compiler::ReadOptions& options) {
  RANNC_ASSIGN(options.kinds, stored_kinds(flags));
  options.frozen = flags.frozen;
  options.buffers = flags.buffers;
  options.trained = flags.trained;
  options.tied = flags.tied;
  options.untied = flags.untied;
  options.merged_allowed = flags.merged_allowed;
  RANNC_ASSIGN(options.padding_rows, padding_rows(flags));
  options.weights = flags.weights;
  options.partial_weights = flags.partial_weights;
  options.without_weights = flags.without_weights;
  return {};
}

compiler::Costs costs_of(const CompileFlags& flags) {
  using compiler::Costs;
  return flags.costs.empty()         ? Costs::kOfCluster
         : flags.costs == "measured" ? Costs::kMeasured
         : flags.costs == "analytic" ? Costs::kAnalytic
                                     : Costs::kDatabase;
}

}  // namespace

Result<ir::Bindings> assumptions(const CompileFlags& flags) {
  ir::Bindings sizes;
  RANNC_ASSIGN(const auto given, pairs(flags.assume, "--assume"));
  for (const auto& [symbol, text] : given) {
    const auto size = parse_number(text, kSizes);
    if (!size) return error(fmt::format("--assume {}={}: expected a positive integer", symbol, text));
    sizes[symbol] = static_cast<int64_t>(*size);
  }
  return sizes;
}

Result<compiler::ReadOptions> read_options(const CompileFlags& flags) {
  compiler::ReadOptions options;
  options.loss = flags.loss;
  if (!flags.loss_graph.empty()) {
    options.loss_graph.emplace().file = flags.loss_graph;
    RANNC_ASSIGN(options.loss_graph->inputs, pairs(flags.loss_inputs, "--loss-input"));
    RANNC_ASSIGN(options.loss_graph->weights, numbers(flags.loss_weights, "--loss-weight"));
  }
  RANNC_ASSIGN(options.precision, precision(flags));
  RANNC_ASSIGN(options.mixed_precision, mixed_precision(flags));
  RANNC_TRY(add_inputs(flags, options));
  RANNC_TRY(add_stored(flags, options));
  options.stopped_gradients = flags.stopped;
  options.strict_bounds = flags.strict;
  RANNC_ASSIGN(options.lost_training, lost_training(flags.training));
  options.sync_batch_norm = flags.sync_batch_norm;
  options.skipped_passes = flags.left_out;
  options.print_after = flags.print_after;
  options.print_changed = flags.print_changed;
  options.reproducer = "rannc-reproducer.rir";
  return options;
}

Result<compiler::PlanOptions> model_plan_options(const CompileFlags& flags) {
  RANNC_ASSIGN(compiler::PlanOptions options, plan_options(flags));
  options.costs = costs_of(flags);
  if (options.costs == compiler::Costs::kDatabase) options.cost_database = flags.costs;
  if (flags.matmul_precision == "high") options.matmul_precision = compiler::MatmulPrecision::kHigh;
  if (flags.kernels == "default") options.kernels = compiler::Kernels::kDefault;
  options.blocks = flags.blocks;
  options.block_partitioner = flags.block_partitioner;
  options.seed = flags.seed;
  return options;
}

Result<ModelOptions> model_options(const CompileFlags& flags) {
  RANNC_ASSIGN(const compiler::ReadOptions options, read_options(flags));
  return model_options(flags.model, options);
}

Result<PlanRequest> model_plan_request(const CompileFlags& flags) {
  RANNC_ASSIGN(const compiler::PlanOptions options, model_plan_options(flags));
  RANNC_ASSIGN(PlanRequest request, plan_request(options));
  RANNC_ASSIGN(request.options.assume, assumptions(flags));
  return request;
}

Result<PreparedModel> prepare_model(const CompileFlags& flags, const CompileProgress& progress) {
  RANNC_ASSIGN(const ModelOptions options, model_options(flags));
  return prepare_model(options, progress);
}

Result<partition::PlanOptions> plan_options(const CompileFlags& flags, const PreparedModel& model,
                                            const CompileProgress& progress) {
  RANNC_ASSIGN(const PlanRequest request, model_plan_request(flags));
  return plan_options(request, model, progress);
}

}  // namespace rannc::tools
