/// What LibTorch's convolution kernels allocate for a while, beside operands, results and their gradients.
///
/// oneDNN computes on copies: operands that lie as their axes say are reordered into blocks of 16 channels, the result
/// is made in blocks and copied back, weights are packed, and so are their gradients. LibTorch's own kernels unfold
/// images into columns. All of that comes from the allocator of tensors, and often outweighs what a task keeps.
///
/// Which kernel runs follows from sizes, element type, order in memory and one thread a worker, by LibTorch's rule and
/// oneDNN's for processors with vectors of 512 bits. On shorter vectors blocks are smaller, so that less is padded.
#pragma once

#include <cstdint>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Bytes at the peak of a pass, less the result (forward) or the gradients of the operands (backward).
struct KernelScratch {
  int64_t forward = 0, backward = 0;
};

/// Whether `kernel_scratch` has a rule for this operator.
bool has_kernel_scratch(const OpInfo& op);

/// Of one task. `wanted`: bit k where operand k wants a gradient. `sizes` gives every symbol of the shapes a number;
/// nothing is said of shapes without one. The operator has a rule.
KernelScratch kernel_scratch(const Graph& graph, TaskId task, uint64_t wanted, const Bindings& sizes);

}  // namespace rannc::ir
