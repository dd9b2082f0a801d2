/// Which attention LibTorch's flash kernels compute.
#pragma once

#include <span>

#include "ir/graph/graph.h"
#include "ir/op/op_call.h"

namespace rannc::ir {

/// Whether the flash kernels of a GPU that has them compute attention of q, k and v, and its gradient. `attributes` are
/// those of attention.
///   - They take float16 and bfloat16 with as many features in q as in v, a multiple of 8. More than 192 have no
///     backward pass on every GPU.
///   - A causal mask of theirs ends at the last query and key, ours begins at the first, so the lengths must be equal;
///     `false` where this is not proved.
///   - They subtract the largest product before they scale, so the scale must be positive.
bool fits_flash_attention(std::span<const ValueType* const> qkv, bool has_mask, const OpAttributes& attributes);

/// The same for a task, which has to be attention.
bool fits_flash_attention(const Graph& graph, TaskId task);

}  // namespace rannc::ir
