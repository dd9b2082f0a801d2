/// Scratch memory of LibTorch's convolution kernels, beside operands, results and their gradients.
///
/// oneDNN computes on copies. Contiguous operands are reordered into blocks of 16 channels, the result is computed in
/// blocks and copied back, and weights and their gradients are packed. LibTorch's own kernels unfold images into
/// columns. All of this memory comes from the tensor allocator and often exceeds what a task keeps.
///
/// The kernel depends on sizes, element type, memory format and the processor's instruction set, by the rules of
/// LibTorch and of oneDNN with one thread per worker. Shorter vectors have smaller blocks, hence less padding. Where
/// oneDNN has no kernel for an instruction set, it multiplies unfolded images, in blocks that fit a core's second
/// cache. Its size is assumed; of a larger one the forward pass takes up to the difference more.
#pragma once

#include <cstdint>
#include <span>

#include "ir/base/instruction_set.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

inline constexpr int64_t kAssumedCoreCache = 512 << 10;  ///< bytes

/// Peak bytes of a pass, without the result (forward) or the gradients of the operands (backward).
struct KernelScratch {
  int64_t forward = 0, backward = 0;
};

/// Whether `kernel_scratch` has a rule for this operator.
bool has_kernel_scratch(const OpInfo& op);

/// The operand of a convolution whose gradient a task of this operator computes: bit 0 the images, bit 1 the weight; 0:
/// it computes none.
uint64_t convolution_gradient(const OpInfo& op);

/// Scratch memory of one task, whose operator must have a rule: the largest among `sets`, of which there is at least
/// one. Bit k of `wanted`: operand k needs a gradient. `sizes` binds the symbols of the shapes; the result is 0 for
/// shapes with unbound symbols.
KernelScratch kernel_scratch(const Graph& graph, TaskId task, uint64_t wanted, const Bindings& sizes,
                             std::span<const InstructionSet> sets);

}  // namespace rannc::ir
