/// Reads a user's specification of input names and types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"

namespace rannc::frontend::torchscript {

struct InputSpec {
  std::string name;
  ir::ValueType type;
};

/// Parses `tokens=i64[batch,128]`: a name, an element type and sizes, which are integers, symbols or expressions.
Result<InputSpec> parse_input(std::string_view text);

/// Sorts inputs into the order of a function's arguments if all names are argument names. Otherwise keeps their order
/// and ignores the argument names.
Result<std::vector<InputSpec>> in_order(std::vector<InputSpec> given, const std::vector<std::string>& arguments);

/// Renames the inputs of a file and the symbols in their sizes as in `given`, which has all inputs or none, matched by
/// name or by order. Errors: a different number of inputs, element type, number of axes or size.
Result<void> call_inputs(std::vector<InputSpec>& inputs, std::vector<InputSpec> given);

}  // namespace rannc::frontend::torchscript
