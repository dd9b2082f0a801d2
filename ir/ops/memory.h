/// Operators that compute channels last, too (`ir/graph/memory_format.h`). Private to ir/ops.
#pragma once

#include "ir/graph/memory_format.h"
#include "ir/ops/rules.h"

namespace rannc::ir::ops {

/// [samples, channels, height, width] with channels behind, and back in front.
inline constexpr int64_t kBehind[] = {0, 2, 3, 1}, kInFront[] = {0, 3, 1, 2};

AttributeInfo channels_last_attribute();
/// An error where the flag is set and operand 0 is not of rank 4.
Result<void> channels_can_be_last(const OpCall& call);

}  // namespace rannc::ir::ops
