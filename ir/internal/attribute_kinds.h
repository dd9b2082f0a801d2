/// Validation of attributes against the operator's entry.
#pragma once

#include <string_view>

#include "ir/graph/attributes.h"
#include "ir/op/op.h"

namespace rannc::ir {

/// The fault of an attribute of `op`: an unknown name, or a value that the operator's rules do not accept. Empty if it
/// is valid. Operator rules rely on this check.
std::string attribute_fault(const OpInfo& op, std::string_view name, const Attribute& value);

}  // namespace rannc::ir
