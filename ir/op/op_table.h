/// The operator registry as a table for people.
#pragma once

#include <string>

namespace rannc::ir {

/// Markdown, a table per family: operators with operands, attributes and results, what they do, and whose names of ONNX
/// and ATen they stand for.
std::string operator_table();

}  // namespace rannc::ir
