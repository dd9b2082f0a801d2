// Operators on the bits of integers.
#include "ir/op/entries/elementwise_rows.h"
#include "ir/op/folding/fold.h"

namespace rannc::ir::ops {
namespace {

using aten::Operand;
using aten::Scalar;

// --- type rules

Result<void> require_integer(const OpCall& call, size_t operand) {
  if (is_integer(call.in(operand).dtype)) return {};
  return error("operand " + std::to_string(operand) + " is " + std::string(str(call.in(operand).dtype)) +
               "; it must be an integer type");
}

Result<Types> infer_bits(const OpCall& call) {
  RANNC_TRY(require_integer(call, 0));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  RANNC_ASSIGN(ValueType type, broadcast_type(call, dtype));
  return Types{std::move(type)};
}

Result<Types> infer_bitwise_not(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  RANNC_TRY(require_integer(call, 0));
  return Types{like(call, call.in(0).dtype)};
}

Result<Types> infer_bitcast(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  const DType from = call.in(0).dtype, to = *call.attributes.dtype("dtype");
  if (byte_size(from) == byte_size(to)) return Types{like(call, to)};
  return error("the bits of " + std::string(str(from)) + " are not as many as those of " + std::string(str(to)));
}

// --- lowering: ATen knows few operators on unsigned types of more than one byte

bool is_wide_unsigned(DType dtype) { return dtype == DType::kU16 || dtype == DType::kU32 || dtype == DType::kU64; }

// Converts to i64: the same number, or the same bits for 64-bit types.
aten::Value widened(Calls& calls, uint32_t operand) { return calls("aten::to.dtype", {Operand{operand}, DType::kI64}); }

Result<aten::Lowering> lower_not(const LowerCall& call) {
  const DType dtype = call.inputs[0]->dtype;
  if (!is_wide_unsigned(dtype)) return one_call("aten::bitwise_not", {Operand{0}});
  Calls calls;
  const aten::Value inverted = calls("aten::bitwise_not", {widened(calls, 0)});
  return std::move(calls).with({calls("aten::to.dtype", {inverted, dtype})});
}

Result<aten::Lowering> lower_left(const LowerCall& call) {
  const DType dtype = call.inputs[0]->dtype;
  if (!is_wide_unsigned(dtype)) return one_call("aten::bitwise_left_shift.Tensor", {Operand{0}, Operand{1}});
  Calls calls;
  const aten::Value number = widened(calls, 0), places = widened(calls, 1);
  const aten::Value moved = calls("aten::bitwise_left_shift.Tensor", {number, places});
  return std::move(calls).with({calls("aten::to.dtype", {moved, dtype})});
}

// Logical right shift. ATen shifts in the sign bit of 64-bit numbers, so these bits are cleared.
Result<aten::Lowering> lower_right(const LowerCall& call) {
  const DType dtype = call.inputs[0]->dtype;
  if (!is_wide_unsigned(dtype)) return one_call("aten::bitwise_right_shift.Tensor", {Operand{0}, Operand{1}});
  Calls calls;
  const aten::Value number = widened(calls, 0), places = widened(calls, 1);
  aten::Value moved = calls("aten::bitwise_right_shift.Tensor", {number, places});
  if (dtype == DType::kU64) {
    const aten::Value ones = calls("aten::full_like", {places, Scalar{Dim(-1)}});
    const aten::Value left = calls("aten::rsub.Scalar", {places, Scalar{Dim(63)}});
    const aten::Value high = calls("aten::bitwise_left_shift.Tensor", {ones, left});
    const aten::Value above = calls("aten::mul.Scalar", {high, Scalar{Dim(2)}});
    moved = calls("aten::bitwise_and.Tensor", {moved, calls("aten::bitwise_not", {above})});
  }
  return std::move(calls).with({calls("aten::to.dtype", {moved, dtype})});
}

Result<aten::Lowering> lower_bitcast(const LowerCall& call) {
  return one_call("aten::view_copy.dtype", {Operand{0}, {"dtype", call.outputs[0]->dtype}});
}

}  // namespace

std::vector<OpInfo> bit_ops() {
  const AttributeInfo dtype{.name = "dtype", .kind = AttributeKind::kDType, .required = true};
  return {binary("bitwise_and", "bits that a and b have", {"BitwiseAnd"}, infer_bits,
                 {.fold = fold::bitwise_and, .schema = "aten::bitwise_and.Tensor"}),
          binary("bitwise_or", "bits that a or b has", {"BitwiseOr"}, infer_bits,
                 {.fold = fold::bitwise_or, .schema = "aten::bitwise_or.Tensor"}),
          binary("bitwise_xor", "bits that either a or b has", {"BitwiseXor"}, infer_bits,
                 {.fold = fold::bitwise_xor, .schema = "aten::bitwise_xor.Tensor"}),
          unary("bitwise_not", "bits that x has not", {"BitwiseNot"}, infer_bitwise_not,
                {.fold = fold::bitwise_not, .lower = lower_not, .aten = {"aten::bitwise_not"}}),
          binary("shift_left", "a's bits moved b places to the left", {"BitShift"}, infer_bits,
                 {.lower = lower_left, .aten = {"aten::bitwise_left_shift"}}),
          binary("shift_right", "a's bits moved b places to the right", {"BitShift"}, infer_bits,
                 {.lower = lower_right, .aten = {"aten::bitwise_right_shift"}}),
          unary("bitcast", "x's bits as an element type of as many", {"BitCast"}, infer_bitcast,
                {.lower = lower_bitcast, .aten = {"aten::view_copy"}, .attributes = {dtype}})};
}

}  // namespace rannc::ir::ops
