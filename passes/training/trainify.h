/// Restores the training behaviour of a model that was exported for inference.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/state/training_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Training behaviour that the user wants back. Patterns (`*`: any characters, `?`: one) are matched against modules
/// (`layer1.0.bn1`), nodes and values.
struct TrainingRequest {
  bool batch_norm = false;                 ///< all batch normalizations that are one task
  std::set<std::string> batch_norms = {};  ///< those that match, including ones decomposed into arithmetic
  std::optional<double> momentum = {};     ///< of those, in (0, 1]; nullopt: as in the node
  std::map<std::string, double> dropout =
      {};                     ///< pattern -> dropout probability in (0, 1), applied to the results of what matches
  bool lost_dropout = false;  ///< dropouts that the file records as dropped
  bool any() const { return batch_norm || !batch_norms.empty() || !dropout.empty() || lost_dropout; }
};

/// Before => after:
/// - Batch normalization: `core.batch_norm` by fixed statistics becomes trained. It normalises by the statistics of its
///   batch and updates running statistics (`ir::Statistics`), which become buffers if they were not. Arithmetic on x
///   that is the same function first becomes a task, if a pattern names it, because other frozen normalizations look
///   alike. This function is x minus a mean, divided by the root of a variance plus a number, scaled and shifted, each
///   a stored number per channel.
/// - Dropout: the result y of what matches becomes `y.whole`, and y = y.whole * y.random, with a random input of
///   kind bernoulli. Its key depends on y's name only, so that masks do not depend on other options. A result that is
///   such a product already gets the new probability.
/// - Lost dropout: the same for values that the file names (`ir::TrainingNotes`), unless a pattern specifies otherwise.
///
/// Each change is a remark. A possible change that was not requested is `open`, or a warning if the exported program
/// was in training mode. It is an error if a pattern, or a request without one, matches nothing, if two patterns
/// specify different probabilities for one value, or if the statistics have other readers. Idempotent.
///
/// Runs after recover-parameters, which separates statistics that an exporter merged with equal tensors, and before
/// set-precision. Linear for each pattern. Never restores a normalization that was folded into a convolution: no file
/// records enough about it.
/// Example: `tests/passes/golden/trainify.rir`.
class Trainify : public Pass {
 public:
  explicit Trainify(TrainingRequest request = {}, ir::TrainingNotes file = {})
      : request_(std::move(request)), file_(std::move(file)) {}
  std::string_view name() const override { return "trainify"; }
  std::string spelling() const override;
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  TrainingRequest request_;
  ir::TrainingNotes file_;
};

/// `batch-norm`, `batch-norm=PATTERN`, `momentum=0.1`, `dropout=PATTERN:0.1` and `lost-dropout`, joined by commas.
std::string str(const TrainingRequest& request);
/// Parses that spelling.
Result<TrainingRequest> parse_training(std::string_view text);
/// Returns why the numbers are invalid; nullopt if they are valid.
std::optional<std::string> fault_of(const TrainingRequest& request);

}  // namespace rannc::passes
