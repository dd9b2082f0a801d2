/// Size of a value in bytes.
#pragma once

#include "ir/graph/type.h"

namespace rannc::ir {

/// Bytes of a dense tensor of a type; 0 if its shape is unknown.
inline Dim byte_count(const ValueType& type) {
  return type.shape ? element_count(*type.shape) * Dim(byte_size(type.dtype)) : Dim(0);
}

}  // namespace rannc::ir
