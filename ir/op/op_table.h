/// Documentation of the operator registry.
#pragma once

#include <string>

namespace rannc::ir {

/// Markdown with one table per family: operators with operands, attributes, results, description, and their ONNX and
/// ATen names.
std::string operator_table();

}  // namespace rannc::ir
