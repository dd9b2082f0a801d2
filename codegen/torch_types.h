/// Element types of the IR as LibTorch names them.
#pragma once

#include <c10/core/ScalarType.h>

#include "ir/type.h"

namespace rannc::codegen {

inline c10::ScalarType scalar_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF16:
      return c10::kHalf;
    case ir::DType::kBF16:
      return c10::kBFloat16;
    case ir::DType::kF32:
      return c10::kFloat;
    case ir::DType::kF64:
      return c10::kDouble;
    case ir::DType::kI8:
      return c10::kChar;
    case ir::DType::kI16:
      return c10::kShort;
    case ir::DType::kI32:
      return c10::kInt;
    case ir::DType::kI64:
      return c10::kLong;
    case ir::DType::kU8:
      return c10::kByte;
    case ir::DType::kU16:
      return c10::kUInt16;
    case ir::DType::kU32:
      return c10::kUInt32;
    case ir::DType::kU64:
      return c10::kUInt64;
    case ir::DType::kBool:
      return c10::kBool;
  }
  RANNC_CHECK(false) << "unknown element type";
  return c10::kFloat;
}

}  // namespace rannc::codegen
