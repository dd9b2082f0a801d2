/// Weights by the names of `state_dict`, into a run and out of it.
#pragma once

#include <string>

#include "runtime/bundle/bundle.h"
#include "runtime/train/trainer.h"
#include "tools/common/driver.h"

namespace rannc::tools {

/// What the user said of weights.
struct WeightFlags {
  std::string from;      ///< file that replaces the bundle's weights; empty: the bundle's
  bool partial = false;  ///< names may be missing there, or unexpected
  std::string to;        ///< file for the weights at the end; empty: none
  runtime::WeightNames names() const {
    return partial ? runtime::WeightNames::kThoseGiven : runtime::WeightNames::kAll;
  }
};
/// `--weights`, `--partial-weights`, `--export-weights`.
void add_weight_flags(CLI::App& app, WeightFlags& flags);

/// What is wrong with the flags, seen without reading a tensor: a file that does not fit the bundle, a place where none
/// can be written.
Result<void> check_weight_flags(const WeightFlags& flags, const runtime::Bundle& bundle);

/// Replaces the weights of a trainer, where the user said so. `leads`: says on standard error how names differed.
Result<void> take_weights(runtime::Trainer& trainer, const WeightFlags& flags, bool leads);

/// Writes the weights of a checkpoint (empty: the bundle's own) where the user said so, and says it.
Result<void> give_weights(const runtime::Bundle& bundle, const std::string& checkpoint, const WeightFlags& flags);

}  // namespace rannc::tools
