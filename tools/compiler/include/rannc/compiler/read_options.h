/// Options of reading a model. Each has the meaning and the default of a flag of `rannc-compile`, which errors name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rannc/compiler/option_row.h"

namespace rannc::compiler {

/// Float type of the whole model.
enum class Precision : uint8_t { kOfFile, kFloat32, kFloat64 };

/// 16-bit type in which products are computed. Parameters and their optimizer state stay float32.
enum class MixedPrecision : uint8_t { kNone, kBFloat16, kFloat16 };

/// Role of a tensor that a model file stores.
enum class StoredKind : uint8_t { kParameter, kBuffer, kConstant };

/// A loss in a file of its own (ONNX, .pt2 or .rir), whose outputs are added to `ReadOptions::loss`.
struct LossGraph {
  std::string file = {};
  std::map<std::string, std::string> inputs = {};  ///< input of the loss: output of the model; others go by equal names
  std::map<std::string, double> weights = {};      ///< output of the loss: weight, 1 if absent
  bool operator==(const LossGraph&) const = default;
};

/// Training behavior that an export for inference has lost.
struct LostTraining {
  bool every_batch_norm = false;                   ///< train all batch normalization nodes
  std::vector<std::string> batch_norms = {};       ///< train those that match: modules, nodes or values
  std::optional<double> batch_norm_momentum = {};  ///< weight of new statistics; absent: that of the node, or 0.1
  std::map<std::string, double> dropout = {};      ///< pattern of modules, nodes or values: ratio behind them
  bool lost_dropout = false;                       ///< restore dropout that the file disables or omits
  bool operator==(const LostTraining&) const = default;
};

/// How a model file is read and prepared. Patterns have `*` for any characters and `?` for one.
struct ReadOptions {
  std::vector<std::string> inputs = {};        ///< `tokens=i64[batch,128]` per input, in order; PyTorch files only
  std::vector<std::string> output_names = {};  ///< in order; PyTorch files only
  /// `cross_entropy(output=logits,labels=y)`, terms joined by `+`; empty without `loss_graph`: inference.
  std::string loss = {};
  std::optional<LossGraph> loss_graph = {};
  Precision precision = Precision::kOfFile;
  MixedPrecision mixed_precision = MixedPrecision::kNone;

  std::string batch_symbol = {};                                       ///< dimension of samples; empty: recognized
  std::vector<std::pair<std::string, std::string>> same_symbols = {};  ///< dimensions that are equal
  std::optional<int64_t> samples_in_file = {};        ///< static batch size, if the inputs do not show it
  std::optional<int64_t> max_trips = {};              ///< bound of loops whose trip count depends on data
  std::map<std::string, double> input_values = {};    ///< one-element inputs, arguments of TorchScript: fixed values
  std::map<std::string, std::string> sizes = {};      ///< dimensions fixed for good: a number, or `32*k`
  std::map<std::string, int64_t> assumed_sizes = {};  ///< dimensions other than the batch, for planning
  std::optional<uint32_t> mini_batch = {};            ///< samples per step; absent: static batch size, or 32

  std::map<std::string, StoredKind> kinds = {};        ///< by name of the stored tensor; precedes what is recovered
  std::vector<std::string> frozen = {}, buffers = {};  ///< patterns of stored tensors that are not trained
  std::vector<std::string> trained = {};               ///< patterns of those that are, even if `frozen`
  std::vector<std::string> tied = {}, untied = {};     ///< patterns of parameters that are one, or one per module
  bool merged_allowed = false;                         ///< train parameters that the exporter merged as one
  std::map<std::string, int64_t> padding_rows = {};    ///< embedding table: row without gradient
  std::vector<std::string> stopped_gradients = {};     ///< values that no gradient passes
  std::vector<std::string> strict_bounds = {};         ///< results of Clip without gradient at its bounds
  LostTraining lost_training = {};
  bool sync_batch_norm = false;  ///< statistics over all replicas of a micro-batch

  std::string weights = {};      ///< .safetensors file with state_dict names; empty: weights of the model file
  bool partial_weights = false;  ///< `weights` may lack names and have unexpected ones
  bool without_weights = false;  ///< weight files of the model may be absent; enough for planning
  std::vector<std::string> libraries = {};       ///< shared libraries of custom operators; stay loaded
  std::vector<std::string> skipped_passes = {};  ///< optional passes, which an error about a wrong name lists
  std::vector<std::string> print_after = {};     ///< passes whose result `Progress::graph` receives
  bool print_changed = false;                    ///< that of every pass that changes the graph
  std::string reproducer = {};                   ///< file for the input of a pass that fails by a defect; empty: none
  bool operator==(const ReadOptions&) const = default;

  /// Calls `table.row(OptionRow, member, …)` for every flag, and `table.group(name)` before the flags of a group.
  template <class Table>
  static void rows(Table& table);
};

/// The part of the options that contains a member of a row.
inline LossGraph& part(ReadOptions& options, LossGraph* /*type*/) {
  return options.loss_graph ? *options.loss_graph : options.loss_graph.emplace();
}
inline LostTraining& part(ReadOptions& options, LostTraining* /*type*/) { return options.lost_training; }

template <class Table>
void ReadOptions::rows(Table& table) {
  table.group("Inputs");
  table.row(
      {"--input", "NAME=TYPE[SIZES]", kCheckedModel,
       "an input of a PyTorch file, such as `tokens=i64[batch,128]`; once per input of `forward`, in order; other "
       "names rename the inputs"},
      &ReadOptions::inputs);
  table.row({"--output-name", "NAME", kCheckedModel, "name of an output of a PyTorch file; once per output, in order"},
            &ReadOptions::output_names);
  table.row({"--input-value", "NAME=VALUE", kCheckedModel,
             "fix a one-element input of an ONNX file, or a number or boolean that a TorchScript module takes, to "
             "`true`, `false` or a number; removes dead branches and the inputs that only they read"},
            &ReadOptions::input_values, NumberOrBoolean{});
  table.row({"--max-trips", "N", kCheckedModel,
             "bound on the trips of loops whose trip count depends on data; more trips are a runtime error"},
            &ReadOptions::max_trips, Whole{1, uint64_t{1} << 53});
  table.row({"--batch-symbol", "NAME", kCheckedModel,
             "dimension that [counts samples](batch-size.md#batch-symbol), if it is not recognized"},
            &ReadOptions::batch_symbol);
  table.row({"--batch-size-in-file", "N", kCheckedModel,
             "[static batch size](batch-size.md#static-batch-size) of the file, if its inputs do not show it; an error "
             "if the model cannot be made batch-polymorphic"},
            &ReadOptions::samples_in_file, Whole{1, uint64_t{1} << 32});
  table.row({"--same-symbol", "A=B", kCheckedModel, "dimensions `A` and `B` of the file are equal; repeatable"},
            &ReadOptions::same_symbols);
  table.row({"--size", "SYMBOL=N|EXPRESSION", kCheckedModel,
             "fix a [dimension](#sizes) other than the batch for good, as in `sequence=128`, or replace it, as in "
             "`height=32*k`; repeatable"},
            &ReadOptions::sizes);
  table.row({"--assume", "SYMBOL=N", kReadModel,
             "value of a [dimension](#sizes) other than the batch, for planning; the model accepts others"},
            &ReadOptions::assumed_sizes, Whole{1, uint64_t{1} << 53});
  table.row({"--load-library", "FILE", kCheckedModel | kBundleFolder | kRebuiltBundle,
             "shared library of custom operators (`TORCH_LIBRARY`); a bundle records its path and digest"},
            &ReadOptions::libraries);
  table.row({"--dtype", "", kReadModel, "one float type for the whole model (default: types of the file)"},
            &ReadOptions::precision, Choices{"", "float32", "float64"});
  table.row({"--precision", "", kReadModel,
             "[mixed precision](../../runtime/numerics.md#mixed-precision): compute products in this 16-bit type, like "
             "`torch.autocast`; parameters stay float32. Runs of fp16 scale the loss"},
            &ReadOptions::mixed_precision, Choices{"", "bf16", "fp16"});
  table.row({"--without-weights", "", kReadModel, "allow the model's weight files to be absent; enough for planning"},
            &ReadOptions::without_weights);

  table.group("Loss and gradients");
  table.row({"--loss", "TERMS", kReadModel,
             "training [loss](losses.md), such as `cross_entropy(output=logits,labels=y)`; terms joined by `+` "
             "(default: none, for inference)"},
            &ReadOptions::loss);
  table.row({"--loss-graph", "FILE", kReadModel,
             "[file of a loss](losses.md#a-loss-in-a-second-file) (ONNX, .pt2 or .rir); inputs with names of model "
             "outputs read "
             "these, others are labels; outputs are added to the loss"},
            &LossGraph::file);
  table.row({"--loss-input", "INPUT=OUTPUT", kReadModel, "connect an input of `--loss-graph` to a model output"},
            &LossGraph::inputs);
  table.row({"--loss-weight", "OUTPUT=WEIGHT", kReadModel, "weight of an output of `--loss-graph`"},
            &LossGraph::weights, Real{});
  table.row({"--sync-batch-norm", "", kCheckedModel,
             "compute batch normalization statistics over all replicas of a micro-batch, like "
             "`torch.nn.SyncBatchNorm`"},
            &ReadOptions::sync_batch_norm);
  table.row({"--padding-index", "TABLE=ROW", kCheckedModel,
             "an embedding row without gradient, if the file's metadata do not specify it"},
            &ReadOptions::padding_rows, RowOfTable{});
  table.row(
      {"--stop-gradient", "VALUE", kCheckedModel, "no gradient flows through this value, because it was detached"},
      &ReadOptions::stopped_gradients);
  table.row({"--strict-bounds", "VALUE", kCheckedModel,
             "the Clip that produces this value has no gradient at its bounds, like relu6 and hardtanh"},
            &ReadOptions::strict_bounds);

  table.group("Stored tensors");
  table.row(
      {"--freeze", "PATTERN", kCheckedModel, "these parameters are not trained; no gradient is computed for them"},
      &ReadOptions::frozen);
  table.row({"--train", "PATTERN", kCheckedModel, "these tensors are trained, even if `--freeze` matches them"},
            &ReadOptions::trained);
  table.row({"--buffer", "PATTERN", kCheckedModel, "these tensors are buffers"}, &ReadOptions::buffers);
  table.row({"--kind", "NAME=KIND", kCheckedModel,
             "one tensor is a `parameter`, `buffer` or `constant`; overrides the recovered kind"},
            &ReadOptions::kinds, Choices{"parameter", "buffer", "constant"});
  table.row({"--tie", "PATTERN", kCheckedModel, "parameters of equal or transposed values are one parameter"},
            &ReadOptions::tied);
  table.row({"--untie", "PATTERN", kCheckedModel, "every module that reads this parameter has its own copy"},
            &ReadOptions::untied);
  table.row({"--allow-merged", "", kCheckedModel,
             "train parameters that the exporter merged as one, if nothing in the file distinguishes them"},
            &ReadOptions::merged_allowed);

  table.group("Weights");
  table.row({"--weights", "FILE", kReadModel,
             ".safetensors file with [`state_dict` names](parameters.md#weights-by-pytorch-names), whose tensors "
             "replace the weights of the model file; types must match, but `--dtype` accepts any float type"},
            &ReadOptions::weights);
  table.row({"--partial-weights", "", kReadModel,
             "allow `--weights` to lack names of the model, which keep their values, and to have unexpected names, "
             "which are ignored (`strict=False`)"},
            &ReadOptions::partial_weights);

  table.group("Training of inference exports");
  table.row({"--train-batch-norm", "[=PATTERN]", kCheckedModel,
             "train all batch normalization nodes, or those whose module, node or value matches, also decomposed ones"},
            &LostTraining::every_batch_norm, &LostTraining::batch_norms);
  table.row({"--batch-norm-momentum", "M", kCheckedModel,
             "weight of new statistics, as in PyTorch (default: that of the node, or 0.1)"},
            &LostTraining::batch_norm_momentum, Real{0, 1, true});
  table.row({"--dropout", "PATTERN=RATIO", kCheckedModel,
             "add dropout behind the outermost modules that match, else nodes, else values"},
            &LostTraining::dropout, Real{0, 1, true});
  table.row({"--train-dropout", "", kCheckedModel,
             "restore dropout that the file disables or omits, with the ratios of the file"},
            &LostTraining::lost_dropout);

  table.group("Passes");
  table.row({"--skip-pass", "NAME,…", kCheckedModel, "skip optional passes; a wrong name lists them"},
            &ReadOptions::skipped_passes);
  table.row({"--print-after", "PASS,…", kReadModel, "print the graph after these passes"}, &ReadOptions::print_after);
  table.row({"--print-changed", "", kReadModel, "print the graph after each pass that changes it"},
            &ReadOptions::print_changed);
}

}  // namespace rannc::compiler
