/// What the uses of a stored tensor say about whether it is trained.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// How the uses of a value vote, weakest first.
enum class Role : uint8_t {
  kNone,       ///< no use says anything
  kConstant,   ///< a use where nothing trained stands
  kState,      ///< starts a recurrence or is multiplied by a weight: a parameter unless it is one number repeated
  kLikely,     ///< a parameter if it has more than one element and is no mask
  kParameter,  ///< the place of a weight
};

/// Votes over all uses.
struct Roles {
  Role role = Role::kNone;
  bool statistics = false;  ///< is a running mean or variance somewhere
  bool shaped = false;      ///< an exponential, softplus, sigmoid or tanh is taken of it
};

bool has_one_element(const ir::ValueType& type);
/// Not where the shape is not known.
bool has_several_elements(const ir::ValueType& type);

/// By value, whether it depends on the data of an input or on a draw; sizes do not count. `fixed`: inputs that do not
/// vary.
std::vector<bool> varying_values(const ir::Graph& graph, const std::vector<ValueId>& fixed = {});

/// Per value the votes of its uses, found backwards through tasks that depend on no input's data. Linear.
std::vector<Roles> parameter_roles(const ir::Graph& graph);

}  // namespace rannc::passes
