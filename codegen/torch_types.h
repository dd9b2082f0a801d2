/// Element types of the IR as LibTorch names them.
#pragma once

#include <c10/core/ScalarType.h>

#include "ir/type.h"

namespace rannc::codegen {

inline c10::ScalarType scalar_type(ir::DType dtype) { return static_cast<c10::ScalarType>(ir::torch_number(dtype)); }

}  // namespace rannc::codegen
