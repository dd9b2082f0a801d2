/// Weights of a bundle, or of its training, under the names of `state_dict`.
#pragma once

#include <string>

#include "runtime/bundle/bundle.h"
#include "runtime/bundle/state_dict.h"

namespace rannc::runtime {

/// Writes the state of a bundle's model to `path`: parameters and buffers as the checkpoint has them (empty: as the
/// bundle has them, never trained), all else as the bundle has it. Of several processes one alone calls it, once all
/// have saved. Errors: a checkpoint of another model, or without a tensor that a stage trains; what the file system
/// says. `path` is then as it was.
Result<StateWritten> export_weights(const Bundle& bundle, const std::string& checkpoint, const std::string& path);

}  // namespace rannc::runtime
