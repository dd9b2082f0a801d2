/// Imports and exports a run's weights by the names of `state_dict`.
#pragma once

#include <string>

#include "runtime/bundle/bundle.h"
#include "runtime/train/trainer.h"
#include "tools/common/driver.h"

namespace rannc::tools {

/// Weight options from the command line.
struct WeightFlags {
  std::string from;       ///< file that replaces the bundle's weights; empty: the bundle's
  bool partial = false;   ///< allows missing and unexpected names in `from`
  std::string to;         ///< file to write the final weights to; empty: none
  bool averaged = false;  ///< writes their averages
  runtime::WeightNames names() const {
    return partial ? runtime::WeightNames::kThoseGiven : runtime::WeightNames::kAll;
  }
};
/// Checks the flags without reading a tensor: the input file must match the bundle, and the output must be writable.
Result<void> check_weight_flags(const WeightFlags& flags, const runtime::Bundle& bundle);

/// Replaces the weights of a trainer if the user requested it. If `leads`, prints differences of names to standard
/// error.
Result<void> take_weights(runtime::Trainer& trainer, const WeightFlags& flags, bool leads);

/// Writes and reports the weights of a checkpoint (if empty, of the bundle), if the user requested it.
Result<void> give_weights(const runtime::Bundle& bundle, const std::string& checkpoint, const WeightFlags& flags);

}  // namespace rannc::tools
