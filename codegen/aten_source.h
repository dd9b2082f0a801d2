/// How a lowering is spelled in TorchScript.
#pragma once

#include <span>
#include <string>

#include "ir/op/aten.h"

namespace rannc::codegen {

/// Variables of the function that the statements stand in.
struct AtenNames {
  std::span<const std::string> operands;  ///< of each operand; empty text: absent
  std::span<const std::string> results;   ///< to be assigned; also what variables in between are called after
  std::string device;                     ///< an expression; of factories
  std::string training;                   ///< an expression
};

/// One statement a line, without indentation, that assign all results. What is read once stands where it is read.
std::string torchscript_statements(const ir::aten::Lowering& lowering, const AtenNames& names);

}  // namespace rannc::codegen
