/// Folders with a model, a mini-batch and reference numbers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/graph.h"
#include "runtime/value.h"

namespace rannc::tools {

/// A reference tensor: whole, or its Euclidean norm and some of its entries.
struct ReferenceTensor {
  std::vector<double> values;  ///< all entries, or those at i * size / k, i < k
  std::optional<double> norm;  ///< present where only some entries are kept: of the whole tensor
  bool whole() const { return !norm.has_value(); }
};

/// Who computed a reference: `file64`, `f64`, `f32`.
using Tag = std::string;

/// Initializers that hold one parameter of the original module: by name, whether transposed. `file64` has each copy's
/// own share of the gradient, `f64` and `f32` the whole under each name.
using TiedCopies = std::map<std::string, bool>;

/// A folder in the format that tools/make-check-folder writes.
struct CheckFolder {
  std::string path;
  std::string model;                                   ///< model.onnx
  std::string batch;                                   ///< batch.safetensors
  uint32_t samples = 0;                                ///< of the mini-batch
  std::string loss;                                    ///< spelling of `passes::parse_losses`; empty: outputs only
  std::string loss_graph;                              ///< loss.onnx where it is there, added to the loss
  std::vector<std::string> loss_inputs, loss_weights;  ///< of it, as `--loss-input` and `--loss-weight` have them
  bool has_loss() const { return !loss.empty() || !loss_graph.empty(); }
  std::set<std::string> loss_outputs;  ///< outputs that are the loss: reported as such
  std::set<std::string> constants;     ///< float initializers that are no parameters
  std::set<std::string> parameters;    ///< initializers that the card names as parameters: all must be compared
  std::set<std::string> absent;        ///< parameters without an initializer of their own: known, but not asked for
  std::vector<TiedCopies> tied;        ///< initializers that are one parameter
  std::map<Tag, double> losses;
  std::map<Tag, std::map<std::string, ReferenceTensor>> outputs, gradients;
};

/// Errors name the file and what is missing or malformed.
Result<CheckFolder> read_check_folder(const std::string& path);
/// The same without the references, which may be absent.
Result<CheckFolder> read_model_folder(const std::string& path);

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

/// Numbers of our own run.
struct OwnNumbers {
  std::optional<double> loss;
  std::map<std::string, OwnTensor> outputs, gradients;
};

/// Compares by the rules of the format: against `file64` with fp64's limits, against `f64` with fp32's limits scaled by
/// what `f32` differs from it. `complete`: names that are missing on our side are failures (a single worker of several
/// has only its own).
CheckResult compare(const CheckFolder& folder, const OwnNumbers& own, bool fp64, bool complete);

/// Names that must have a gradient, on both sides: the card's parameters, and those initializers that kept their name
/// in the original module, which a card may leave out: the reference has them, and they are neither constants nor
/// buffers.
std::set<std::string> expected_gradients(const CheckFolder& folder, bool fp64);

}  // namespace rannc::tools
