/// Helpers of operators that support channels last (`ir/graph/memory_format.h`). Private to ir/op.
#pragma once

#include "ir/graph/memory_format.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// Permutations of [samples, channels, height, width]: channels to the end, and back to the front.
inline constexpr int64_t kBehind[] = {0, 2, 3, 1}, kInFront[] = {0, 3, 1, 2};

AttributeInfo channels_last_attribute();
/// Fails if the flag is set and operand 0 does not have rank 4.
Result<void> channels_can_be_last(const OpCall& call);

}  // namespace rannc::ir::ops
