/// Writes a lowering as TorchScript statements.
#pragma once

#include <span>
#include <string>

#include "ir/op/aten.h"

namespace rannc::codegen {

/// Names in the function that contains the statements.
struct AtenNames {
  std::span<const std::string> operands;  ///< one per operand; empty if absent
  std::span<const std::string> results;   ///< to be assigned; temporaries derive their names from these
  std::string device;                     ///< an expression, used by factory functions
  std::string training;                   ///< an expression
};

/// Returns statements that assign all results, one per line, without indentation. Values that are read once are
/// inlined.
std::string torchscript_statements(const ir::aten::Lowering& lowering, const AtenNames& names);

}  // namespace rannc::codegen
