/// Expressions of loop statements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rannc::ir {

/// What a node of an expression is. Functions are those of `codegen/native/vector_math.h`.
enum class LoopOp : uint8_t {
  // Leaves.
  kOperand,    ///< of the task
  kStatement,  ///< value of an earlier statement of the task
  kColumns,    ///< number of columns
  kColumn,     ///< number of the column
  kNumber,     ///< literal of the loop's type
  // Of one operand.
  kNeg,
  kNot,
  kAbs,
  kCeil,
  kCos,
  kErf,
  kExp,
  kFloor,
  kIsNan,
  kLog,
  kLog1p,
  kRelu,
  kRound,
  kSigmoid,
  kSin,
  kSqrt,
  kTanh,
  // Of two.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,  ///< NaN if an operand is
  kMax,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kXor,
  // Of three.
  kSelect,  ///< the second operand where the first is true, else the third
};
/// The word of text IR: `x`, `s`, `n`, `column`, nothing for a number, else the operation's name.
std::string_view name_of(LoopOp op);
/// The number of operands.
constexpr size_t operands_of(LoopOp op) {
  return op < LoopOp::kNeg ? 0 : op < LoopOp::kAdd ? 1 : op < LoopOp::kSelect ? 2 : 3;
}

/// A node of an expression.
struct LoopNode {
  LoopOp op = LoopOp::kNumber;
  uint32_t index = 0;  ///< of the operand or the statement
  double number = 0;   ///< rounded to the loop's type once
  bool operator==(const LoopNode&) const = default;
};

/// A tree in postfix order: the operands of an operation precede it. Its values are floats of the loop's type, or truth
/// values. No operation has numbers alone.
using LoopExpression = std::vector<LoopNode>;

}  // namespace rannc::ir
