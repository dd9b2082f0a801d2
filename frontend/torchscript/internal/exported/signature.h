/// What a user says of the inputs of a file that does not know their shapes.
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

/// Reads `tokens=i64[batch,128]`: a name, an element type, sizes, which are integers, symbols or expressions of them.
Result<InputSpec> parse_input(std::string_view text);

/// Brings inputs into the order of a function's arguments: by name where all names are those of arguments, else as they
/// stand, whatever the arguments are called.
Result<std::vector<InputSpec>> in_order(std::vector<InputSpec> given, const std::vector<std::string>& arguments);

/// Calls inputs that a file describes, and symbols in their sizes, as `given` has them, all or none of the inputs: in
/// their order, or by their names. Errors: another number of inputs, another element type, number of axes or size.
Result<void> call_inputs(std::vector<InputSpec>& inputs, std::vector<InputSpec> given);

}  // namespace rannc::frontend::torchscript
