/// Puts tensors of a file in the place of what programs train.
#pragma once

#include <map>
#include <string>

#include "ir/graph/graph.h"
#include "runtime/bundle/state_dict.h"
#include "runtime/execute/value.h"

namespace rannc::runtime {

/// `held`: the parameters and buffers of this process by stored value, each maybe on several devices. All of the file
/// is compared with the graph before the first of them is written.
Result<WeightsLoaded> replace_weights(const ir::Graph& graph, const std::string& path, WeightNames names,
                                      const std::map<ValueId, Values>& held);

}  // namespace rannc::runtime
