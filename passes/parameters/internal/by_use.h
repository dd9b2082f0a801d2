/// Says which stored tensors are trained, or are not, because of their use alone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/parameters/internal/parameter_roles.h"
#include "passes/parameters/recover_parameters.h"
#include "passes/pass.h"

namespace rannc::passes {

struct ByUse {
  std::set<std::string> trained;
  std::set<std::string> left;  ///< not trained, though they have names of the program's modules and meet data
};

/// A remark of what is trained; what is left is `open`. What does not have the name of a layer's weight or bias comes
/// first, for it may be a buffer.
void report_by_use(const ByUse& found, PassContext& context);

/// Whether a tensor that is not trained has the name of a parameter or a buffer and meets data, as a learned threshold
/// does, and the mean of the samples.
bool is_left(const ir::Graph& graph, ValueId value, const Roles& roles);

/// Weights that an exporter wrote as numbers of the model's code, as Paddle's does, and a frozen TorchScript module's
/// are; with them what is added as biases are. All by name.
void report_weights_in_code(const ir::Graph& graph, const std::vector<Roles>& roles, const StoredFacts& known,
                            PassContext& context);

}  // namespace rannc::passes
