/// Compares a step's results with reference numbers from a check folder.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"
#include "runtime/execute/value.h"

namespace rannc::tools {

/// A reference tensor: either complete, or its Euclidean norm and some of its entries.
struct ReferenceTensor {
  std::vector<double> values;  ///< all entries, or the k entries at i * size / k, i < k
  std::optional<double> norm;  ///< of the whole tensor; present if only some entries are stored
  bool whole() const { return !norm.has_value(); }
};

/// Source of a reference: `file64`, `f64`, `f32`, or `f64.chunks4`, which runs four micro-batches that each normalize
/// over their own samples.
using Tag = std::string;

/// Initializers that hold the same parameter of the original module: by name, whether transposed. `file64` has each
/// copy's share of the gradient; `f64` and `f32` have the whole gradient under each name.
using TiedCopies = std::map<std::string, bool>;

/// Mapping of a reference in the layout of an ONNX initializer to parameters of the original module.
struct ParameterLayout {
  enum class Transform : uint8_t {
    kNone,
    kTranspose,  ///< transposed matrix
    kLstmGates,  ///< ONNX's gate order i, o, f, c instead of PyTorch's i, f, g, o
    kLstmBias,   ///< both biases in that gate order, concatenated
  };
  std::vector<std::string> parameters;  ///< names in `state_dict`: two for `kLstmBias`, else one
  Transform transform = Transform::kNone;
};

/// A folder in the format that tools/make-check-folder writes.
struct CheckFolder {
  std::string path;
  std::string model;       ///< model.onnx, model.pt or model.pt2
  std::string batch;       ///< batch.safetensors
  uint32_t samples = 0;    ///< extent of axis 0 of the first input; `runtime::count_samples` may differ
  std::string loss;        ///< in the syntax of `passes::parse_losses`; empty: outputs only
  std::string loss_graph;  ///< loss.onnx, if it exists; added to the loss
  std::map<std::string, std::string> loss_inputs;  ///< of the loss graph: output of the model
  std::map<std::string, double> loss_weights;      ///< of its outputs
  bool has_loss() const { return !loss.empty() || !loss_graph.empty(); }
  std::set<std::string> loss_outputs;  ///< outputs that are the loss, reported as the loss
  std::set<std::string> constants;     ///< float initializers that are not parameters
  std::set<std::string> parameters;    ///< initializers that the card lists as parameters; all must be compared
  std::set<std::string> absent;        ///< parameters without an own initializer: known but not expected
  std::vector<TiedCopies> tied;        ///< groups of initializers that are one parameter
  /// Number of parameters that the card lists without an own initializer and that have no reference gradient. That many
  /// trained tensors may have unknown names, since they may hold these parameters.
  size_t unreferenced = 0;
  double file_off = 0;  ///< deviation of the file's own results from `f64`
  /// Stored tensors that the compiler extracted from an initializer: name -> initializer. `file64` has only the
  /// initializer.
  std::map<std::string, std::string> parted;
  /// Stored tensors that the compiler trains in place of parameters that the file lost. They need no reference.
  std::set<std::string> stand_ins;
  bool recomputed = false;  ///< values that the exporter precomputed are recomputed, so the file's gradients are wrong
  std::map<Tag, double> losses;
  std::map<Tag, std::map<std::string, ReferenceTensor>> outputs, gradients;
  std::map<Tag, std::map<std::string, ReferenceTensor>> state;  ///< as read: gradients by `state_dict` name
  bool torchscript = false;  ///< the model has the module's own parameters, so `f64` is its reference
  std::vector<std::string> inputs, output_names;   ///< for TorchScript, as for `--input` and `--output-name`
  std::map<std::string, ParameterLayout> layouts;  ///< for TorchScript, by gradient name
};

/// Reads a check folder. `model` is the file in it to check; if empty, model.onnx, else model.pt, else model.pt2.
/// Errors name the file and the missing or malformed part.
Result<CheckFolder> read_check_folder(const std::string& path, const std::string& model = {});
/// Reads a check folder without its references, which may be absent.
Result<CheckFolder> read_model_folder(const std::string& path, const std::string& model = {});

/// Names of all initializers that share a parameter with others. They must stay untied to reproduce the numbers of the
/// unmodified file.
std::vector<std::string> tied_copies(const CheckFolder& folder);

/// Returns the sizes in a batch file of the model's symbols other than the batch symbol, in the syntax of `--assume`:
/// `sequence=12`.
Result<std::map<std::string, int64_t>> assumed_sizes(const ir::Graph& graph, const std::string& batch);

/// The worst error of a kind of number. `relative` is the distance divided by the reference's norm or its floor;
/// `of_limit` is the distance divided by the tolerance.
struct WorstError {
  double relative = 0;
  double of_limit = 0;
  std::string at;
};

/// Result of one comparison. A name that only one side has is a failure: either we lack a gradient of the reference, or
/// we train a tensor that is not a parameter.
struct CheckResult {
  WorstError outputs, loss, gradients;
  uint32_t compared_gradients = 0;
  std::vector<std::string> failures;  ///< a line each; empty: all within the tolerances
  void merge(const CheckResult& other);
};

/// A tensor of our own run.
struct OwnTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

/// The gradient of a tensor in the original program's `state_dict`, in that tensor's layout.
struct StateGradient {
  OwnTensor tensor;
  std::vector<ir::StatePart> parts;  ///< location; names with equal parts are one parameter
  std::set<std::string> of;          ///< the trained tensors that contain it
};

/// Numbers of our own run.
struct OwnNumbers {
  std::optional<double> loss;
  std::map<std::string, OwnTensor> outputs, gradients;
  std::map<std::string, StateGradient> state;  ///< gradients by `state_dict` name
  /// Parameters that only branches read. PyTorch has no gradient for them if the branch is not taken.
  std::set<std::string> in_branches;
};

/// Names of a graph's parameters that only branches read.
std::set<std::string> read_in_branches(const ir::Graph& graph);

/// Options of a comparison.
struct Comparison {
  bool fp64 = true;
  bool complete = true;  ///< missing names are failures; false for one of several workers, which has only some names
  uint32_t micro_batches = 1;
  bool snapped = false;  ///< rounded constants of the file were made exact: fp64 is compared with `f64`
};

/// Compares by the rules of the format:
///  - fp64 with `file64`, within fp64's tolerances;
///  - fp32 with `f64`, within fp32's tolerances, scaled by the difference between `f32` and `f64`;
///  - runs of four micro-batches with `f64.chunks4`, if the folder has it;
///  - fp64 with `f64.chunks4`, and graphs whose constants were made exact with `f64`: within `file_off`;
///  - TorchScript always with the original module.
/// For `file64`, gradients of tensors that the compiler extracted from one initializer are summed. With the module,
/// each parameter is compared once: by its `state_dict` name if the reference has it, else by the initializer's name.
/// If the reference has no gradient for a parameter that only branches read, ours must be zero. Trained tensors that
/// the card does not list are failures, except for `CheckFolder::unreferenced` of them. If the references have no
/// gradients, only outputs and loss are compared.
CheckResult compare(const CheckFolder& folder, const OwnNumbers& own, const Comparison& how);

/// Names that must have a gradient on both sides: the card's parameters, and initializers with a reference that are
/// neither constants nor buffers. A card may omit the latter if they have the same name in the original module. For one
/// of several workers, `parted` initializers are omitted, since their parts may be on other workers.
std::set<std::string> expected_gradients(const CheckFolder& folder, const Comparison& how);

}  // namespace rannc::tools
