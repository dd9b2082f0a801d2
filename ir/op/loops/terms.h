/// Formulas that loop rules are written in. Private to ir.
#pragma once

#include <array>
#include <limits>
#include <optional>

#include "ir/op/loop.h"

namespace rannc::ir::ops {

/// An expression under construction: `0.5 * x0 * (1 + tanh(x0))`. Comparisons give an expression.
class Term {
 public:
  constexpr Term() = default;
  constexpr Term(double number) : Term(LoopNode{LoopOp::kNumber, 0, number}) {}  // NOLINT: a number is a formula
  constexpr explicit Term(LoopNode leaf) { append(leaf); }
  template <class... Terms>
  constexpr Term(LoopOp op, const Terms&... operands) {
    (append(operands), ...);
    RANNC_CHECK(!(operands.is_number() && ...)) << "a rule computes with numbers itself";
    append(LoopNode{op});
  }
  LoopExpression expression() const { return {nodes_.begin(), nodes_.begin() + count_}; }

 private:
  static constexpr uint32_t kMostNodes = 32;

  constexpr bool is_number() const { return count_ == 1 && nodes_[0].op == LoopOp::kNumber; }
  constexpr void append(const LoopNode& node) {
    RANNC_CHECK(count_ < kMostNodes);
    nodes_[count_++] = node;
  }
  constexpr void append(const Term& term) {
    for (uint32_t i = 0; i < term.count_; ++i) append(term.nodes_[i]);
  }

  std::array<LoopNode, kMostNodes> nodes_{};
  uint32_t count_ = 0;
};

// NOLINTBEGIN(readability-identifier-naming): as in formulas
/// Operands, and the number of columns.
inline constexpr Term x0(LoopNode{LoopOp::kOperand, 0}), x1(LoopNode{LoopOp::kOperand, 1}),
    x2(LoopNode{LoopOp::kOperand, 2}), x3(LoopNode{LoopOp::kOperand, 3}), x4(LoopNode{LoopOp::kOperand, 4}),
    n(LoopNode{LoopOp::kColumns}), column(LoopNode{LoopOp::kColumn});
// NOLINTEND(readability-identifier-naming)
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr Term operator-(const Term& a) { return {LoopOp::kNeg, a}; }
constexpr Term operator!(const Term& a) { return {LoopOp::kNot, a}; }
constexpr Term operator+(const Term& a, const Term& b) { return {LoopOp::kAdd, a, b}; }
constexpr Term operator-(const Term& a, const Term& b) { return {LoopOp::kSub, a, b}; }
constexpr Term operator*(const Term& a, const Term& b) { return {LoopOp::kMul, a, b}; }
constexpr Term operator/(const Term& a, const Term& b) { return {LoopOp::kDiv, a, b}; }
constexpr Term operator==(const Term& a, const Term& b) { return {LoopOp::kEq, a, b}; }
constexpr Term operator!=(const Term& a, const Term& b) { return {LoopOp::kNe, a, b}; }
constexpr Term operator<(const Term& a, const Term& b) { return {LoopOp::kLt, a, b}; }
constexpr Term operator<=(const Term& a, const Term& b) { return {LoopOp::kLe, a, b}; }
constexpr Term operator>(const Term& a, const Term& b) { return {LoopOp::kGt, a, b}; }
constexpr Term operator>=(const Term& a, const Term& b) { return {LoopOp::kGe, a, b}; }
constexpr Term operator&(const Term& a, const Term& b) { return {LoopOp::kAnd, a, b}; }
constexpr Term operator|(const Term& a, const Term& b) { return {LoopOp::kOr, a, b}; }
constexpr Term operator^(const Term& a, const Term& b) { return {LoopOp::kXor, a, b}; }
constexpr Term min(const Term& a, const Term& b) { return {LoopOp::kMin, a, b}; }
constexpr Term max(const Term& a, const Term& b) { return {LoopOp::kMax, a, b}; }
constexpr Term select(const Term& a, const Term& b, const Term& c) { return {LoopOp::kSelect, a, b, c}; }
constexpr Term abs(const Term& a) { return {LoopOp::kAbs, a}; }
constexpr Term ceil(const Term& a) { return {LoopOp::kCeil, a}; }
constexpr Term cos(const Term& a) { return {LoopOp::kCos, a}; }
constexpr Term erf(const Term& a) { return {LoopOp::kErf, a}; }
constexpr Term exp(const Term& a) { return {LoopOp::kExp, a}; }
constexpr Term floor(const Term& a) { return {LoopOp::kFloor, a}; }
constexpr Term isnan(const Term& a) { return {LoopOp::kIsNan, a}; }
constexpr Term log(const Term& a) { return {LoopOp::kLog, a}; }
constexpr Term log1p(const Term& a) { return {LoopOp::kLog1p, a}; }
constexpr Term relu(const Term& a) { return {LoopOp::kRelu, a}; }
constexpr Term round(const Term& a) { return {LoopOp::kRound, a}; }
constexpr Term sigmoid(const Term& a) { return {LoopOp::kSigmoid, a}; }
constexpr Term sin(const Term& a) { return {LoopOp::kSin, a}; }
constexpr Term sqrt(const Term& a) { return {LoopOp::kSqrt, a}; }
constexpr Term tanh(const Term& a) { return {LoopOp::kTanh, a}; }

/// Statements of a rule. Each is added by a call that returns its value. `result` is the task's that it makes; one that
/// the task does not have is ignored.
class Statements {
 public:
  /// None: the attributes have no loop.
  Statements() = default;
  /// One, which makes the only result.
  Statements(const Term& result) { each(result, 0); }  // NOLINT: a formula is a rule

  Term each(const Term& of, std::optional<uint32_t> result = {}) { return add({Kind::kEach, of.expression(), result}); }
  Term row(const Term& of, std::optional<uint32_t> result = {}) { return add({Kind::kRow, of.expression(), result}); }
  Term row_sum(const Term& of) { return add({Kind::kRowSum, of.expression()}); }
  Term row_max(const Term& of) { return add({Kind::kRowMax, of.expression()}); }
  /// Sums over rows are result 0.
  void column_sum(const Term& of) { add({Kind::kColumnSum, of.expression(), 0}); }
  void total(const Term& of) { add({Kind::kTotal, of.expression(), 0}); }

  LoopBody body;

 private:
  using Kind = LoopStatement::Kind;
  Term add(LoopStatement statement) {
    body.push_back(std::move(statement));
    return Term(LoopNode{LoopOp::kStatement, static_cast<uint32_t>(body.size() - 1)});
  }
};

/// The sum over rows of a term per element.
inline Statements column_sum_of(const Term& term) {
  Statements s;
  s.column_sum(term);
  return s;
}
/// The sum over all elements.
inline Statements total_of(const Term& term) {
  Statements s;
  s.total(s.row_sum(term));
  return s;
}

}  // namespace rannc::ir::ops
