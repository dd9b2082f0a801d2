/// trainify: gives a model that was exported for inference its training back.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/state/training_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

/// What a user wants back. Patterns (`*`: any characters, `?`: one) are held against modules (`layer1.0.bn1`), nodes
/// and values.
struct TrainingRequest {
  bool batch_norm = false;                     ///< of all that are one task
  std::set<std::string> batch_norms = {};      ///< of those that match, written out as arithmetic too
  std::optional<double> momentum = {};         ///< in (0, 1]: of those; nothing: as the node has it
  std::map<std::string, double> dropout = {};  ///< by pattern a share in (0, 1) behind what matches
  bool lost_dropout = false;                   ///< what the file says was dropped
  bool any() const { return batch_norm || !batch_norms.empty() || !dropout.empty() || lost_dropout; }
};

/// Before => after:
/// - Batch normalisation: `core.batch_norm` by fixed statistics trains: its batch's statistics normalise, and running
///   ones, buffers if they were not, follow them (`ir::Statistics`). Arithmetic on x that is the same function (x less
///   a mean, over the root of a variance with a number added, scaled and shifted, each a stored number per channel)
///   becomes a task first, where a pattern names it: frozen normalisations look alike.
/// - Dropout: the result y of what matches becomes `y.whole`, and y = y.whole * draw, with a draw `y.draw` of kind
///   bernoulli. Its key follows from y's name, so that masks stay as they are whatever else is asked for. A result that
///   is such a product already gets the new share.
/// - Lost dropout: the same behind values that the file names (`ir::TrainingNotes`), where no pattern says otherwise.
///
/// Each change is a remark. What is not asked for is `open`, or a warning where the exported program was in training
/// mode. An error where a pattern, or a demand without one, finds nothing, where two patterns want different shares of
/// one value, and where statistics are read by others as well. What it has done it does not do again.
///
/// Stands behind recover-parameters, which parts statistics that an exporter merged with equal tensors, and before
/// set-precision. Linear for each pattern. Never takes a convolution for one that a normalisation was folded into: of
/// what it was no file says enough.
class Trainify : public Pass {
 public:
  explicit Trainify(TrainingRequest asked = {}, ir::TrainingNotes file = {})
      : asked_(std::move(asked)), file_(std::move(file)) {}
  std::string_view name() const override { return "trainify"; }
  std::string spelling() const override;
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  TrainingRequest asked_;
  ir::TrainingNotes file_;
};

/// `batch-norm`, `batch-norm=PATTERN`, `momentum=0.1`, `dropout=PATTERN:0.1` and `lost-dropout`, joined by commas.
std::string str(const TrainingRequest& asked);
/// Reads that spelling.
Result<TrainingRequest> parse_training(std::string_view text);
/// What is wrong with the numbers; nothing: they can be asked for.
std::optional<std::string> fault_of(const TrainingRequest& asked);

}  // namespace rannc::passes
