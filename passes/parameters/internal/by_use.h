/// Reports stored tensors whose uses alone decided whether they are trained.
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
  std::set<std::string>
      left;  ///< not trained, although they have names of the program's modules and interact with data
};

/// Adds a remark for trained tensors and an `open` note for `left`. Tensors without the name of a layer's weight or
/// bias come first, because they may be buffers.
void report_by_use(const ByUse& found, PassContext& context);

/// Returns whether an untrained tensor has the name of a parameter or a buffer and interacts with data. A learned
/// threshold does; so does the mean of the samples.
bool is_left(const ir::Graph& graph, ValueId value, const Roles& roles);

/// Reports weights that an exporter wrote as numbers of the model's code, as Paddle's does and as in a frozen
/// TorchScript module, together with added biases. Each by name.
void report_weights_in_code(const ir::Graph& graph, const std::vector<Roles>& roles, const StoredFacts& known,
                            PassContext& context);

}  // namespace rannc::passes
