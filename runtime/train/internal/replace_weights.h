/// Replaces the parameters and buffers of programs by tensors of a file.
#pragma once

#include <map>
#include <string>

#include "runtime/bundle/bundle.h"
#include "runtime/bundle/state_dict.h"
#include "runtime/execute/value.h"

namespace rannc::runtime {

/// `held`: this process's parameters and buffers by stored value, each possibly on several devices. The whole file is
/// compared with the graph before the first tensor is written, constants with those that this process has.
Result<WeightsLoaded> replace_weights(const Bundle& bundle, const std::string& path, WeightNames names,
                                      const std::map<ValueId, Values>& held);

}  // namespace rannc::runtime
