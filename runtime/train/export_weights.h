/// Exports initial or trained weights of a bundle under `state_dict` names.
#pragma once

#include <string>

#include "runtime/bundle/bundle.h"
#include "runtime/bundle/state_dict.h"

namespace rannc::runtime {

enum class ExportedWeights : uint8_t { kParameters, kAverages };

/// Writes the state of a bundle's model to `path`. Parameters and buffers come from `checkpoint`, or from the untrained
/// bundle if `checkpoint` is empty. All else comes from the bundle. In a run of several processes, exactly one calls
/// it, after all have saved. Errors: a checkpoint of another model or without a trained tensor, and file system errors.
/// `kAverages`: the averages of the parameters (`Grouping::average`) in their place, which the checkpoint must have. An
/// error leaves `path` unchanged.
Result<StateWritten> export_weights(const Bundle& bundle, const std::string& checkpoint, const std::string& path,
                                    ExportedWeights which = ExportedWeights::kParameters);

}  // namespace rannc::runtime
