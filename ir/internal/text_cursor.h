/// Lexer of one line of text IR with located errors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/dim/dim.h"
#include "ir/graph/attributes.h"
#include "ir/graph/type.h"

namespace rannc::ir {

/// Cache of parsed expressions by text. A graph repeats a handful of them a million times.
using DimCache = std::unordered_map<std::string, Dim>;

/// A position in one statement. Blanks before a token are skipped. `//` ends the statement. Returned views point into
/// the line.
class TextCursor {
 public:
  TextCursor(std::string_view line, uint32_t line_number, const std::string& file, DimCache* dims = nullptr)
      : line_(line), line_number_(line_number), file_(&file), dims_(dims) {}

  /// Whether only blanks and a comment are left.
  bool at_end();
  /// Skips `token` if it is next.
  bool accept(std::string_view token);
  /// Skips `word` if it is the next complete word.
  bool accept_word(std::string_view word);
  Result<void> expect(std::string_view token);
  Result<void> expect_end();

  /// The next word (letters, digits, `_ . : $ -`) without moving; empty if there is none.
  std::string_view peek_word();
  /// Reads a word or a quoted string. `what` names it in the error.
  Result<std::string> word(std::string_view what);
  /// Reads `"…"` with the escapes `\" \\ \n \t \xHH`.
  Result<std::string> quoted(std::string_view what);
  /// Reads a sigil and a name: bare letters, digits and `_ . $ / -` without `//`, or a quoted string.
  Result<std::string> name(char sigil, std::string_view what);
  Result<uint64_t> unsigned_integer(std::string_view what, uint64_t limit = UINT64_MAX);
  Result<int64_t> integer(std::string_view what);
  /// Reads `0x1.8p+1`, `-0x1p+0`, `0xinf`, `0xnan`.
  Result<double> number(std::string_view what);
  /// Reads `[0x1p+0,0x1.8p+1]`; `[0x]` if empty.
  Result<std::vector<double>> numbers();
  /// Reads an integer expression, up to a comma or closing bracket outside parentheses.
  Result<Dim> dim();
  /// Reads `[a,b]`.
  Result<Shape> dims();
  /// Reads `[#0-#3,#7]` with the given sigil (`#`, `d`). Keeps the written order. Each index must be below `limit`.
  Result<std::vector<uint32_t>> indices(std::string_view sigil, uint64_t limit, std::string_view what);
  /// Reads `#7`.
  Result<uint32_t> index(std::string_view sigil, uint64_t limit, std::string_view what);
  Result<Attribute> attribute(std::span<const Body> bodies = {});
  /// Reads `{a = 1, b = "x"}`. `@b0` is the first of `bodies`.
  Result<Attributes> attributes(std::span<const Body> bodies = {});
  Result<DType> dtype();
  /// Reads `f32[batch,12] samples 0 outer [2] inner [3] contents [1,2]`.
  Result<ValueType> type();
  /// Reads pairs of hexadecimal digits in quotes.
  Result<std::vector<std::byte>> bytes();

  /// The whole line, without its comment.
  std::string_view without_comment() const;
  Location here();
  /// The error "expected X, found `rest`" at the current position.
  Diagnostic expected(std::string_view what);
  /// A diagnostic about the token just read, at `column` (from 0).
  Diagnostic fault(size_t column, std::string message, std::string rule = {}) const;
  /// Column (from 0) of the next token.
  size_t column();

 private:
  void skip_blanks();
  std::string_view rest() const { return line_.substr(at_); }
  Result<Attribute> list_attribute();

  std::string_view line_;
  size_t at_ = 0;
  uint32_t line_number_;
  const std::string* file_;
  DimCache* dims_;
};

}  // namespace rannc::ir
