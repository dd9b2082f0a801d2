/// Determines from the uses of a stored tensor whether it is trained.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Vote of a value's uses, weakest first.
enum class Role : uint8_t {
  kNone,      ///< no use is evidence
  kConstant,  ///< a use in a place where nothing is trained
  kState,   ///< initial state of a recurrence, or multiplied by a weight: a parameter unless it is one number repeated
  kLikely,  ///< a parameter if it has more than one element and is no mask
  kParameter,  ///< the place of a weight
};

/// Votes over all uses.
struct Roles {
  Role role = Role::kNone;
  bool statistics = false;  ///< used as a running mean or variance
  bool shaped = false;      ///< operand of an exponential, softplus, sigmoid or tanh
};

bool has_one_element(const ir::ValueType& type);
/// Returns false if the shape is unknown.
bool has_several_elements(const ir::ValueType& type);

/// Returns for each value whether it depends on the data of an input or on a random input; sizes do not count. `fixed`:
/// inputs that do not vary.
std::vector<bool> varying_values(const ir::Graph& graph, const std::vector<ValueId>& fixed = {});

/// Returns for each value the votes of its uses, found backwards through tasks that depend on no input's data. Linear.
std::vector<Roles> parameter_roles(const ir::Graph& graph);

}  // namespace rannc::passes
