/// Folders with a model, a mini-batch and reference numbers.
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

/// A reference tensor: whole, or its Euclidean norm and some of its entries.
struct ReferenceTensor {
  std::vector<double> values;  ///< all entries, or those at i * size / k, i < k
  std::optional<double> norm;  ///< present where only some entries are kept: of the whole tensor
  bool whole() const { return !norm.has_value(); }
};

/// Who computed a reference: `file64`, `f64`, `f32`; `f64.chunks4`, in four micro-batches that each normalise over
/// their own samples.
using Tag = std::string;

/// Initializers that hold one parameter of the original module: by name, whether transposed. `file64` has each copy's
/// own share of the gradient, `f64` and `f32` the whole under each name.
using TiedCopies = std::map<std::string, bool>;

/// How a reference that lies as an initializer of an ONNX file does holds parameters of the original module.
struct ParameterLayout {
  enum class Transform : uint8_t {
    kNone,
    kTranspose,  ///< of a matrix
    kLstmGates,  ///< ONNX's order of gates: i, o, f, c where PyTorch has i, f, g, o
    kLstmBias,   ///< the same of both biases, one behind the other
  };
  std::vector<std::string> parameters;  ///< names in `state_dict`: two of `kLstmBias`, else one
  Transform transform = Transform::kNone;
};

/// A folder in the format that tools/make-check-folder writes.
struct CheckFolder {
  std::string path;
  std::string model;     ///< model.onnx, model.pt or model.pt2
  std::string batch;     ///< batch.safetensors
  uint32_t samples = 0;  ///< extent of axis 0 of the first input; the model may count others (`runtime::count_samples`)
  std::string loss;      ///< spelling of `passes::parse_losses`; empty: outputs only
  std::string loss_graph;                              ///< loss.onnx where it is there, added to the loss
  std::vector<std::string> loss_inputs, loss_weights;  ///< of it, as `--loss-input` and `--loss-weight` have them
  bool has_loss() const { return !loss.empty() || !loss_graph.empty(); }
  std::set<std::string> loss_outputs;  ///< outputs that are the loss: reported as such
  std::set<std::string> constants;     ///< float initializers that are no parameters
  std::set<std::string> parameters;    ///< initializers that the card names as parameters: all must be compared
  std::set<std::string> absent;        ///< parameters without an initializer of their own: known, but not asked for
  std::vector<TiedCopies> tied;        ///< initializers that are one parameter
  /// Parameters that the card lists without an initializer of their own and of which no reference has a gradient: as
  /// many trained tensors under names that nobody knows may hold them.
  size_t unreferenced = 0;
  double file_off = 0;  ///< how far the file's own gradients and loss are from those of `f64`
  /// Stored tensors that the compiler took out of an initializer, by name: `file64` knows the initializer alone.
  std::map<std::string, std::string> parted;
  /// Stored tensors that the compiler trains in the stead of parameters that the file has lost: compared with nothing.
  std::set<std::string> stand_ins;
  bool recomputed = false;  ///< what the exporter computed from parameters follows them: the file's gradients are wrong
  std::map<Tag, double> losses;
  std::map<Tag, std::map<std::string, ReferenceTensor>> outputs, gradients;
  std::map<Tag, std::map<std::string, ReferenceTensor>> state;  ///< as read: gradients by names of `state_dict`
  bool torchscript = false;  ///< the model has the module's own parameters and numbers: `f64` is its reference
  std::vector<std::string> inputs, output_names;   ///< of TorchScript: as `--input` and `--output-name` have them
  std::map<std::string, ParameterLayout> layouts;  ///< of TorchScript: by name of a gradient
};

/// `model` is the file there that is checked; empty: model.onnx, else model.pt, else model.pt2. Errors name the file
/// and what is missing or malformed.
Result<CheckFolder> read_check_folder(const std::string& path, const std::string& model = {});
/// The same without the references, which may be absent.
Result<CheckFolder> read_model_folder(const std::string& path, const std::string& model = {});

/// Names of all tensors that hold one parameter together with others: what stays apart where the numbers of the file as
/// it stands are wanted.
std::vector<std::string> tied_copies(const CheckFolder& folder);

/// What a batch file says of dimensions that the model leaves open beside its batch: `sequence=12`, as `--assume` wants
/// it.
Result<std::vector<std::string>> assumed_sizes(const ir::Graph& graph, const std::string& batch);

/// The worst error of a kind of number. `relative` is the distance divided by the reference's norm (or its floor),
/// `of_limit` the distance divided by what is allowed.
struct WorstError {
  double relative = 0;
  double of_limit = 0;
  std::string at;
};

/// Outcome of one comparison. Names that only one side has are failures: the reference knows a gradient that we do not
/// make, or we train what is no parameter.
struct CheckResult {
  WorstError outputs, loss, gradients;
  uint32_t compared_gradients = 0;
  std::vector<std::string> failures;  ///< a line each; empty: all within the limits
  void merge(const CheckResult& other);
};

/// A tensor of our own run.
struct OwnTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

/// A gradient as PyTorch has it: of a tensor of the program's state, in its own layout.
struct StateGradient {
  OwnTensor tensor;
  std::vector<ir::StatePart> parts;  ///< where it lies: names with equal parts are one parameter
  std::set<std::string> of;          ///< the trained tensors that it lies in
};

/// Numbers of our own run.
struct OwnNumbers {
  std::optional<double> loss;
  std::map<std::string, OwnTensor> outputs, gradients;
  std::map<std::string, StateGradient> state;  ///< gradients by the names of `state_dict`
  /// Parameters that branches alone read: PyTorch has no gradient for them where the branch is not taken.
  std::set<std::string> in_branches;
};

/// Names of the parameters of a graph that are read by branches alone.
std::set<std::string> read_in_branches(const ir::Graph& graph);

/// How numbers are compared.
struct Comparison {
  bool fp64 = true;
  bool complete = true;  ///< names that are missing on our side are failures: a worker of several has only its own
  uint32_t micro_batches = 1;
  bool snapped = false;  ///< numbers of the file were made exact: fp64 is held against `f64`
};

/// Compares by the rules of the format: against `file64` with fp64's limits, against `f64` with fp32's limits scaled by
/// what `f32` differs from it; against `f64.chunks4` where four micro-batches ran and the folder has it, in fp64 within
/// what the file is off from `f64`, as is a graph whose numbers were made exact. Copies that the compiler took out of
/// one initializer are summed for `file64`. Of a parameter that branches alone read, and of which the reference has no
/// gradient, ours must be zero. Trained tensors that the card does not know are failures, but for as many as
/// `CheckFolder::unreferenced`. Without any gradient among the references, outputs and loss alone are compared. Against
/// the module each parameter is compared once: by its name in
/// `state_dict` where the reference has it, else by the initializer's. TorchScript is always held against the module.
CheckResult compare(const CheckFolder& folder, const OwnNumbers& own, const Comparison& how);

/// Names that must have a gradient, on both sides: the card's parameters, and those initializers that kept their name
/// in the original module, which a card may leave out: the reference has them, and they are neither constants nor
/// buffers. For one worker of several, those of `parted` initializers are left out: their copies may be elsewhere.
std::set<std::string> expected_gradients(const CheckFolder& folder, const Comparison& how);

}  // namespace rannc::tools
