/// Parts of attention that its forward and its backward operator share. Private to ir/op.
#pragma once

#include <span>
#include <vector>

#include "ir/op/op_memory.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// Result types of attention: its result and, if `call` has two results, the logarithms of the sums of exponentials of
/// the rows. Operands: q, k, v and optionally a mask.
Result<Types> attention_types(const OpCall& call);
/// Those of attention and of its gradient.
std::vector<AttributeInfo> attention_attributes();
/// Floating-point operations of one of its products of queries with keys.
Dim attention_product(const Shape& q, const Shape& k);

/// Lowers attention to LibTorch's fused CPU kernel. The kernel reads tensors by heads, whose features must be
/// consecutive in memory. It never checks that they are.
class FusedAttention {
 public:
  explicit FusedAttention(const LowerCall& call);

  /// Whether the kernel exists for these operands: q, k, v. LibTorch decomposes attention otherwise.
  static bool fits(std::span<const ValueType* const> operands);

  /// The axes in memory of the gradients that the kernel makes, by heads.
  static std::vector<int64_t> axes_of_gradients(const Attributes&) { return {0, 2, 1, 3}; }
  /// Those of the result's gradient that it reads, in the order of the result.
  static std::vector<int64_t> axes_of_read_gradient(const Attributes& attributes);
  /// Those of `operands` that `by_heads` copies.
  static std::vector<uint32_t> copied(const MemoryCall& call, std::initializer_list<uint32_t> operands);

  /// Bytes of the kernel's buffers on one thread: `blocks` blocks of scores, and `each_row` numbers for each row of a
  /// block.
  static Dim buffers(const ValueType& q, const ValueType& k, int64_t blocks, const Dim& each_row);

  /// An operand by heads, as the kernel can read it. Memory in the order of the result is not copied; the kernels of
  /// CUDA take any strides of whole rows.
  aten::Value by_heads(uint32_t operand);
  /// An operand in the order of the result, by heads. `dense`: as the kernel can read it.
  aten::Value turned_back(uint32_t operand);
  aten::Value turned_back_dense(uint32_t operand);
  /// A value by heads, in the order of the result.
  aten::Value in_order(aten::Value by_heads) { return calls("aten::permute", {by_heads, order_}); }
  /// The mask in the element type of q. A bool mask becomes zeros and negative infinities.
  aten::Argument mask(uint32_t operand, DType dtype);

  /// Bytes of the mask that `mask` makes; 0 if it makes none. Operand 0 or 1 of the call has the element type of q.
  static Dim mask_bytes(const MemoryCall& call, uint32_t operand);

  Calls calls;

 private:
  const LowerCall& call_;
  std::vector<int64_t> order_, inverse_;
};

/// The kernels of CUDA: the one with blocks of scores (`efficient`), which takes features in units of 16 bytes, or
/// products and a softmax, which keep all scores of a call.
aten::Lowering lower_cuda_attention(const LowerCall& call);
aten::Lowering lower_cuda_attention_grad(const LowerCall& call);
/// Bytes that they need beside operands and results.
Dim cuda_attention_temporary(const MemoryCall& call);
Dim cuda_attention_grad_temporary(const MemoryCall& call);

}  // namespace rannc::ir::ops
