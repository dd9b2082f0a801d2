// Text form of loop statements.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "ir/internal/text_loop.h"
#include "ir/internal/text_writer.h"

namespace rannc::ir {

namespace {

// In the order of the enumerators.
constexpr std::string_view kOps[] = {
    "x",     "s",   "n",     "column", "",      "neg",     "not", "abs",  "ceil", "cos", "erf", "exp",   "floor",
    "isnan", "log", "log1p", "relu",   "round", "sigmoid", "sin", "sqrt", "tanh", "add", "sub", "mul",   "div",
    "min",   "max", "eq",    "ne",     "lt",    "le",      "gt",  "ge",   "and",  "or",  "xor", "select"};
static_assert(std::size(kOps) == static_cast<size_t>(LoopOp::kSelect) + 1);
constexpr std::string_view kKinds[] = {"each", "row", "row_sum", "row_max", "column_sum", "total"};
static_assert(std::size(kKinds) == static_cast<size_t>(LoopStatement::Kind::kTotal) + 1);

std::string text_of(const LoopNode& leaf) {
  switch (leaf.op) {
    case LoopOp::kOperand:
    case LoopOp::kStatement:
      return fmt::format("{}{}", name_of(leaf.op), leaf.index);
    case LoopOp::kNumber:
      return hexadecimal(leaf.number);
    default:
      return std::string(name_of(leaf.op));
  }
}

std::string print(const LoopExpression& expression) {
  std::vector<std::string> done;
  for (const LoopNode& node : expression) {
    const size_t operands = operands_of(node.op);
    if (operands == 0) {
      done.push_back(text_of(node));
      continue;
    }
    std::string text = fmt::format("({}", name_of(node.op));
    for (size_t i = done.size() - operands; i < done.size(); ++i) text += " " + done[i];
    done.resize(done.size() - operands);
    done.push_back(text + ")");
  }
  return std::move(done.back());
}

/// The number behind a letter, as in `x0`.
std::optional<uint32_t> number_behind(std::string_view letter, std::string_view word) {
  uint32_t number = 0;
  if (!word.starts_with(letter)) return std::nullopt;
  const auto [end, error] = std::from_chars(word.data() + letter.size(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(number) : std::nullopt;
}

/// Reads an expression, whose statements are below `statements`.
class ExpressionReader {
 public:
  ExpressionReader(TextCursor& cursor, size_t statements) : cursor_(cursor), statements_(statements) {}

  Result<LoopExpression> read() {
    RANNC_TRY(term(0));
    return std::move(read_);
  }

 private:
  static constexpr size_t kMaxDepth = 256;  // a text must not exhaust the stack

  Result<void> term(size_t depth) {
    if (depth == kMaxDepth) return cursor_.expected("a smaller expression");
    if (cursor_.accept("(")) return operation(depth);
    const std::string_view word = cursor_.peek_word();
    LoopNode leaf;
    if (const auto operand = number_behind("x", word)) {
      leaf = {LoopOp::kOperand, *operand};
    } else if (const auto statement = number_behind("s", word)) {
      if (*statement >= statements_) return cursor_.expected("an earlier statement");
      leaf = {LoopOp::kStatement, *statement};
    } else if (word == name_of(LoopOp::kColumns) || word == name_of(LoopOp::kColumn)) {
      leaf.op = word == name_of(LoopOp::kColumn) ? LoopOp::kColumn : LoopOp::kColumns;
    } else {
      RANNC_ASSIGN(leaf.number, cursor_.number("an operand, a statement or a number"));
    }
    if (leaf.op != LoopOp::kNumber) cursor_.accept(word);
    read_.push_back(leaf);
    return {};
  }

  Result<void> operation(size_t depth) {
    const std::string_view word = cursor_.peek_word();
    const auto first = std::begin(kOps) + static_cast<ptrdiff_t>(LoopOp::kNeg);
    const auto found = std::find(first, std::end(kOps), word);
    if (found == std::end(kOps)) return cursor_.expected("an operation");
    const auto op = static_cast<LoopOp>(found - std::begin(kOps));
    cursor_.accept(word);
    bool numbers = true;
    for (size_t i = 0; i < operands_of(op); ++i) {
      RANNC_TRY(term(depth + 1));
      numbers = numbers && read_.back().op == LoopOp::kNumber;
    }
    if (numbers) return cursor_.expected("an operand that is not a number");
    read_.push_back({op});
    return cursor_.expect(")");
  }

  TextCursor& cursor_;
  size_t statements_;
  LoopExpression read_;
};

}  // namespace

std::string_view name_of(LoopOp op) { return kOps[static_cast<size_t>(op)]; }

std::string print(const LoopBody& body) {
  std::string text = "{";
  for (const LoopStatement& each : body) {
    text += fmt::format("{}{} ", text.size() > 1 ? "; " : "", kKinds[static_cast<size_t>(each.kind)]);
    if (each.result) text += fmt::format("y{} ", *each.result);
    text += print(each.expression);
  }
  return text + "}";
}

Result<LoopBody> read_loop_body(TextCursor& cursor) {
  LoopBody body;
  RANNC_TRY(cursor.expect("{"));
  do {
    const auto kind = std::find(std::begin(kKinds), std::end(kKinds), cursor.peek_word());
    if (kind == std::end(kKinds)) return cursor.expected("a kind of statement");
    cursor.accept(*kind);
    LoopStatement statement{static_cast<LoopStatement::Kind>(kind - std::begin(kKinds)), {}, {}};
    statement.result = number_behind("y", cursor.peek_word());
    if (statement.result) cursor.accept(cursor.peek_word());
    RANNC_ASSIGN(statement.expression, ExpressionReader(cursor, body.size()).read());
    body.push_back(std::move(statement));
  } while (cursor.accept(";"));
  RANNC_TRY(cursor.expect("}"));
  return body;
}

Result<LoopBody> parse_loop_body(std::string_view text, const std::string& file) {
  TextCursor cursor(text, 1, file);
  RANNC_ASSIGN(LoopBody body, read_loop_body(cursor));
  RANNC_TRY(cursor.expect_end());
  return body;
}

}  // namespace rannc::ir
