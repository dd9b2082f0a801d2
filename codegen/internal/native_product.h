/// Products that a compiled stage computes by a kernel of its own.
#pragma once

#include "runtime/flat/flat_code.h"

namespace rannc::codegen {

/// Whether an instruction multiplies two matrices whose constant sizes are those of a small product
/// (`codegen/native/product_run.h`). At most one of rows, columns and depth is symbolic. The compiled stage compares
/// the actual sizes. Depends on the types of the task's first operand and result.
bool is_small_product(const runtime::FlatCode& code, const runtime::FlatInstruction& of);

}  // namespace rannc::codegen
