/// Options of reading a model. Each has the meaning and the default of a flag of `rannc-compile`, which errors name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
};

}  // namespace rannc::compiler
