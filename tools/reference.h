/// Folders with a model, a mini-batch and reference numbers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/diagnostic.h"
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

/// A folder in the format that tools/make-check-folder writes.
struct CheckFolder {
  std::string path;
  std::string model;                   ///< model.onnx
  std::string batch;                   ///< batch.safetensors
  uint32_t samples = 0;                ///< of the mini-batch
  std::string loss;                    ///< spelling of `passes::parse_losses`; empty: outputs only
  std::set<std::string> loss_outputs;  ///< outputs that are the loss: reported as such
  std::set<std::string> constants;     ///< float initializers that are no parameters
  std::map<Tag, double> losses;
  std::map<Tag, std::map<std::string, ReferenceTensor>> outputs, gradients;
};

/// Errors name the file and what is missing or malformed.
Result<CheckFolder> read_check_folder(const std::string& path);

/// The worst error of a kind of number. `relative` is the distance divided by the reference's norm (or its floor),
/// `of_limit` the distance divided by what is allowed.
struct WorstError {
  double relative = 0;
  double of_limit = 0;
  std::string at;
};

/// Outcome of one comparison. Names that only one side has are failures.
struct CheckResult {
  WorstError outputs, loss, gradients;
  uint32_t compared_gradients = 0;
  std::vector<std::string> failures;  ///< a line each; empty: all within the limits
  void merge(const CheckResult& other);
};

/// Numbers of our own run.
struct OwnNumbers {
  std::optional<double> loss;
  std::map<std::string, std::vector<double>> outputs, gradients;
};

/// Compares by the rules of the format: against `file64` with fp64's limits, against `f64` with fp32's limits scaled by
/// what `f32` differs from it. `complete`: names that are missing on our side are failures (a single worker of several
/// has only its own).
CheckResult compare(const CheckFolder& folder, const OwnNumbers& own, bool fp64, bool complete);

/// Names that must have a gradient: those of the reference that are no constants.
std::set<std::string> expected_gradients(const CheckFolder& folder, bool fp64);

}  // namespace rannc::tools
