/// Whether an attribute is what its operator's entry declares.
#pragma once

#include <string_view>

#include "ir/graph/attributes.h"
#include "ir/op/op.h"

namespace rannc::ir {

/// What is wrong with an attribute of `op`: an unknown name, or a value that the operator's rules cannot take. Empty
/// where it fits. Rules of operators rely on this having been asked.
std::string attribute_fault(const OpInfo& op, std::string_view name, const Attribute& value);

}  // namespace rannc::ir
