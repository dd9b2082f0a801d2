// Prints expressions of loops by the precedence of C++.
#include "codegen/internal/native_expression.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <span>
#include <vector>

namespace rannc::codegen {

namespace {

using ir::LoopOp;

/// From the tightest. Operators of two operands associate to the left.
enum Precedence : uint8_t { kPrimary, kPrefix, kProduct, kSum, kOrder, kEquality, kAnd, kXor, kOr };

struct Operator {
  const char* symbol;
  Precedence precedence;
};

/// What is no operator in C++ is a function of the operation's name.
const std::map<LoopOp, Operator>& operators() {
  static const std::map<LoopOp, Operator> kOperators = {
      {LoopOp::kNeg, {"-", kPrefix}},  {LoopOp::kNot, {"!", kPrefix}},   {LoopOp::kMul, {"*", kProduct}},
      {LoopOp::kDiv, {"/", kProduct}}, {LoopOp::kAdd, {"+", kSum}},      {LoopOp::kSub, {"-", kSum}},
      {LoopOp::kLt, {"<", kOrder}},    {LoopOp::kLe, {"<=", kOrder}},    {LoopOp::kGt, {">", kOrder}},
      {LoopOp::kGe, {">=", kOrder}},   {LoopOp::kEq, {"==", kEquality}}, {LoopOp::kNe, {"!=", kEquality}},
      {LoopOp::kAnd, {"&", kAnd}},     {LoopOp::kXor, {"^", kXor}},      {LoopOp::kOr, {"|", kOr}}};
  return kOperators;
}

/// The shortest text that is read as the same number. It converts to vectors of either type.
std::string literal(double number) {
  if (std::isinf(number)) return number < 0 ? "-INFINITY" : "INFINITY";
  if (number == 0 && std::signbit(number)) return "-0.0";  // -0 is an integer
  return fmt::format("{}", number);
}

struct Printed {
  std::string text;
  Precedence precedence;

  /// In parentheses, unless it binds at least as tightly as `limit`.
  std::string within(Precedence limit) const { return precedence <= limit ? text : fmt::format("({})", text); }
};

Printed leaf(const ir::LoopNode& node, const std::function<std::string(const ir::LoopNode&)>& name) {
  switch (node.op) {
    case LoopOp::kNumber:
      return {literal(node.number), std::signbit(node.number) ? kPrefix : kPrimary};
    case LoopOp::kOperand:
    case LoopOp::kStatement:
      return {name(node), kPrimary};
    default:
      return {std::string(ir::name_of(node.op)), kPrimary};
  }
}

Printed operation(LoopOp op, std::span<const Printed> operands) {
  const auto found = operators().find(op);
  if (found == operators().end()) {
    std::string list;
    for (const Printed& each : operands) list += (list.empty() ? "" : ", ") + each.text;
    return {fmt::format("{}({})", ir::name_of(op), list), kPrimary};
  }
  const auto [symbol, own] = found->second;
  const auto tighter = static_cast<Precedence>(own - 1);
  if (operands.size() == 1) return {symbol + operands[0].within(tighter), own};
  return {fmt::format("{} {} {}", operands[0].within(own), symbol, operands[1].within(tighter)), own};
}

}  // namespace

std::string native_expression(const ir::LoopExpression& expression,
                              const std::function<std::string(const ir::LoopNode&)>& name) {
  std::vector<Printed> done;
  for (const ir::LoopNode& node : expression) {
    const size_t operands = ir::operands_of(node.op);
    Printed printed = operands == 0 ? leaf(node, name) : operation(node.op, std::span(done).last(operands));
    done.resize(done.size() - operands);
    done.push_back(std::move(printed));
  }
  return std::move(done.back().text);
}

}  // namespace rannc::codegen
