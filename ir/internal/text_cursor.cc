#include "ir/internal/text_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/internal/text_writer.h"

namespace rannc::ir {

namespace {
constexpr size_t kMaxRank = 64;           // limits the cost of malicious texts
constexpr size_t kMaxIndices = 1u << 28;  // rejects lists such as `[#0-#4294967294]`

bool is_digit(char c) { return c >= '0' && c <= '9'; }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Reads one character of a quoted string and advances `text`; resolves escapes. Nothing if the escape is unknown.
std::optional<char> unescape(std::string_view& text) {
  const char first = text.front();
  text.remove_prefix(1);
  if (first != '\\') return first;
  if (text.empty()) return std::nullopt;
  const char kind = text.front();
  text.remove_prefix(1);
  switch (kind) {
    case '"':
    case '\\':
      return kind;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'x': {
      if (text.size() < 2 || hex_digit(text[0]) < 0 || hex_digit(text[1]) < 0) return std::nullopt;
      const char byte = static_cast<char>(hex_digit(text[0]) * 16 + hex_digit(text[1]));
      text.remove_prefix(2);
      return byte;
    }
    default:
      return std::nullopt;
  }
}
}  // namespace

void TextCursor::skip_blanks() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
}

bool TextCursor::at_end() {
  skip_blanks();
  return at_ == line_.size() || rest().starts_with("//");
}

size_t TextCursor::column() {
  skip_blanks();
  return at_;
}

std::string_view TextCursor::without_comment() const {
  bool quoted = false;
  for (size_t i = 0; i < line_.size(); ++i) {
    if (line_[i] == '"') quoted = !quoted;
    if (quoted && line_[i] == '\\') ++i;
    if (!quoted && line_.substr(i, 2) == "//") return line_.substr(0, i);
  }
  return line_;
}

Location TextCursor::here() {
  skip_blanks();
  return {*file_, line_number_, static_cast<uint32_t>(at_ + 1), {}};
}

Diagnostic TextCursor::fault(size_t column, std::string message, std::string rule) const {
  return error({*file_, line_number_, static_cast<uint32_t>(column + 1), {}}, std::move(message), std::move(rule));
}

Diagnostic TextCursor::expected(std::string_view what) {
  if (at_end()) return fault(at_, fmt::format("expected {}, found the end of the line", what));
  std::string_view found = rest().substr(0, 24);
  found = found.substr(0, std::max<size_t>(1, found.find_first_of(" \t\r")));
  return fault(at_, fmt::format("expected {}, found {}", what, quote(found)));
}

bool TextCursor::accept(std::string_view token) {
  skip_blanks();
  if (!rest().starts_with(token)) return false;
  at_ += token.size();
  return true;
}

bool TextCursor::accept_word(std::string_view word) {
  if (peek_word() != word) return false;
  at_ += word.size();
  return true;
}

Result<void> TextCursor::expect(std::string_view token) {
  if (accept(token)) return {};
  return expected(fmt::format("`{}`", token));
}

Result<void> TextCursor::expect_end() {
  if (at_end()) return {};
  return expected("the end of the statement");
}

std::string_view TextCursor::peek_word() {
  skip_blanks();
  size_t end = at_;
  while (end < line_.size() && is_word_char(line_[end])) ++end;
  return line_.substr(at_, end - at_);
}

Result<std::string> TextCursor::word(std::string_view what) {
  const std::string_view found = peek_word();
  if (found.empty()) return rest().starts_with('"') ? quoted(what) : Result<std::string>(expected(what));
  at_ += found.size();
  return std::string(found);
}

Result<std::string> TextCursor::quoted(std::string_view what) {
  skip_blanks();
  if (!rest().starts_with('"')) return expected(what);
  const size_t begin = at_;
  std::string text;
  std::string_view left = rest().substr(1);
  while (!left.empty() && left.front() != '"') {
    const size_t column = line_.size() - left.size();
    const auto character = unescape(left);
    if (!character) return fault(column, R"(unknown escape; allowed are \" \\ \n \t \xHH)");
    text += *character;
  }
  if (left.empty()) return fault(begin, fmt::format("{}: the quoted text has no end", what));
  at_ = line_.size() - left.size() + 1;
  return text;
}

Result<std::string> TextCursor::name(char sigil, std::string_view what) {
  skip_blanks();
  if (at_ == line_.size() || line_[at_] != sigil) return expected(fmt::format("{} (`{}name`)", what, sigil));
  const size_t begin = at_++;
  if (rest().starts_with('"')) {
    RANNC_ASSIGN(std::string text, quoted(what));
    if (text.empty()) return fault(begin, fmt::format("{} has an empty name", what));
    return text;
  }
  const std::string_view text = bare_name_prefix(rest());
  if (text.empty()) return fault(begin, fmt::format("expected {} after `{}`", what, sigil));
  at_ += text.size();
  return std::string(text);
}

Result<uint64_t> TextCursor::unsigned_integer(std::string_view what, uint64_t limit) {
  skip_blanks();
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
  if (status == std::errc::invalid_argument) return expected(what);
  if (status != std::errc() || value > limit) return expected(fmt::format("{} of at most {}", what, limit));
  at_ = static_cast<size_t>(end - line_.data());
  return value;
}

Result<int64_t> TextCursor::integer(std::string_view what) {
  skip_blanks();
  int64_t value = 0;
  const auto [end, status] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
  if (status != std::errc()) return expected(fmt::format("{} (an integer of 64 bits)", what));
  at_ = static_cast<size_t>(end - line_.data());
  return value;
}

Result<double> TextCursor::number(std::string_view what) {
  skip_blanks();
  size_t at = at_;
  const bool negative = at < line_.size() && line_[at] == '-';
  if (negative) ++at;
  double value = 0;
  if (line_.substr(at, 2) == "0x" && line_.substr(at + 2, 1) != "-") {
    const auto [end, status] =
        std::from_chars(line_.data() + at + 2, line_.data() + line_.size(), value, std::chars_format::hex);
    if (status == std::errc()) {
      at_ = static_cast<size_t>(end - line_.data());
      return negative ? -value : value;
    }
  }
  return expected(fmt::format("{} (a hexadecimal number such as 0x1.8p+1)", what));
}

Result<Dim> TextCursor::dim() {
  skip_blanks();
  size_t end = at_;
  for (int depth = 0; end < line_.size(); ++end) {
    const char c = line_[end];
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (depth < 0 || (depth == 0 && (c == ',' || c == ']' || c == '}'))) break;
    if (c == '/' && line_.substr(end, 2) == "//") break;
  }
  std::string_view text = line_.substr(at_, end - at_);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  if (text.empty()) return expected("an integer expression");
  int64_t value = 0;
  const auto [last, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc() && last == text.data() + text.size()) {
    at_ = end;
    return Dim(value);
  }
  std::string key(text);
  if (dims_ != nullptr) {
    if (const auto found = dims_->find(key); found != dims_->end()) {
      at_ = end;
      return found->second;
    }
  }
  auto parsed = Dim::parse(text);
  if (!parsed.ok()) return fault(at_, parsed.diagnostic().message);
  at_ = end;
  if (dims_ != nullptr) dims_->emplace(std::move(key), *parsed);
  return parsed;
}

Result<Shape> TextCursor::dims() {
  RANNC_TRY(expect("["));
  Shape shape;
  if (accept("]")) return shape;
  do {
    RANNC_ASSIGN(Dim dim, this->dim());
    shape.push_back(std::move(dim));
  } while (accept(","));
  RANNC_TRY(expect("]"));
  return shape;
}

Result<uint32_t> TextCursor::index(std::string_view sigil, uint64_t limit, std::string_view what) {
  const size_t begin = column();
  if (!accept(sigil)) return expected(fmt::format("{} (`{}0`)", what, sigil));
  RANNC_ASSIGN(const uint64_t value, unsigned_integer(what));
  if (value >= limit)
    return fault(begin, fmt::format("{} {}{} does not exist: there are {}", what, sigil, value, limit));
  return static_cast<uint32_t>(value);
}

Result<std::vector<uint32_t>> TextCursor::indices(std::string_view sigil, uint64_t limit, std::string_view what) {
  RANNC_TRY(expect("["));
  std::vector<uint32_t> found;
  if (accept("]")) return found;
  do {
    const size_t begin = column();
    RANNC_ASSIGN(const uint32_t first, index(sigil, limit, what));
    uint32_t last = first;
    if (accept("-")) {
      RANNC_ASSIGN(last, index(sigil, limit, what));
    }
    if (last < first) return fault(begin, fmt::format("the range {0}{1}-{0}{2} runs backwards", sigil, first, last));
    if (found.size() + (last - first) > kMaxIndices) return fault(begin, "the list is too long");
    for (uint32_t i = first; i <= last; ++i) found.push_back(i);
  } while (accept(","));
  RANNC_TRY(expect("]"));
  return found;
}

Result<DType> TextCursor::dtype() {
  const std::string_view found = peek_word();
  const auto dtype = parse_dtype(found);
  if (!dtype) return expected("an element type (f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool)");
  at_ += found.size();
  return *dtype;
}

Result<ValueType> TextCursor::type() {
  ValueType type;
  RANNC_ASSIGN(type.dtype, dtype());
  if (!accept("[*]")) {
    const size_t begin = column();
    RANNC_ASSIGN(type.shape, dims());
    if (type.shape->size() > kMaxRank) return fault(begin, fmt::format("a rank above {}", kMaxRank));
  }
  if (accept_word("samples")) {
    RANNC_ASSIGN(const int64_t axis, integer("the axis of the samples"));
    if (axis < INT32_MIN || axis > INT32_MAX) return expected("an axis");
    type.batch.axis = static_cast<int32_t>(axis);
    for (auto [word, extent] : {std::pair("outer", &type.batch.outer), std::pair("inner", &type.batch.inner)}) {
      if (!accept_word(word)) continue;
      RANNC_TRY(expect("["));
      RANNC_ASSIGN(*extent, dim());
      RANNC_TRY(expect("]"));
    }
  } else if (const auto mix = parse_mix(peek_word())) {
    type.batch.mix = *mix;
    RANNC_TRY(expect(str(*mix)));
  }
  type.rows = accept_word("rows");
  if (accept_word("contents")) {
    RANNC_ASSIGN(type.contents, dims());
  }
  return type;
}

Result<std::vector<double>> TextCursor::numbers() {
  RANNC_TRY(expect("["));
  std::vector<double> found;
  if (accept("0x]")) return found;
  do {
    RANNC_ASSIGN(const double value, number("a number"));
    found.push_back(value);
  } while (accept(","));
  RANNC_TRY(expect("]"));
  return found;
}

Result<Attribute> TextCursor::list_attribute() {
  const size_t begin = column();
  RANNC_TRY(expect("["));
  skip_blanks();
  const bool floats = rest().starts_with("0x") || rest().starts_with("-0x");
  at_ = begin;
  if (floats) {
    RANNC_ASSIGN(std::vector<double> found, numbers());
    return Attribute(std::move(found));
  }
  RANNC_ASSIGN(Shape list, dims());
  return Attribute(std::move(list));
}

Result<Attribute> TextCursor::attribute(std::span<const Body> bodies) {
  if (at_end()) return expected("a value");
  if (rest().starts_with('"')) {
    RANNC_ASSIGN(std::string text, quoted("a text"));
    return Attribute(std::move(text));
  }
  if (rest().starts_with('[')) return list_attribute();
  if (accept("!")) {
    RANNC_ASSIGN(const DType found, dtype());
    return Attribute(found);
  }
  if (rest().starts_with("@b")) {
    RANNC_ASSIGN(const uint32_t number, index("@b", bodies.size(), "a body that stands before"));
    return Attribute(bodies[number]);
  }
  if (accept_word("true")) return Attribute(true);
  if (accept_word("false")) return Attribute(false);
  if (rest().starts_with("0x") || rest().starts_with("-0x")) {
    RANNC_ASSIGN(const double value, number("a number"));
    return Attribute(value);
  }
  RANNC_ASSIGN(Dim value, dim());
  return Attribute(std::move(value));
}

Result<Attributes> TextCursor::attributes(std::span<const Body> bodies) {
  RANNC_TRY(expect("{"));
  Attributes found;
  do {
    const size_t begin = column();
    RANNC_ASSIGN(const std::string name, word("the name of an attribute"));
    if (found.has(name)) return fault(begin, fmt::format("attribute {} is given twice", name), "G4");
    RANNC_TRY(expect("="));
    RANNC_ASSIGN(Attribute value, attribute(bodies));
    found.set(name, std::move(value));
  } while (accept(","));
  RANNC_TRY(expect("}"));
  return found;
}

Result<std::vector<std::byte>> TextCursor::bytes() {
  skip_blanks();
  const size_t begin = at_;
  if (!rest().starts_with('"')) return expected("hexadecimal digits in quotes");
  const size_t end = line_.find('"', at_ + 1);
  if (end == std::string_view::npos) return fault(begin, "the quoted bytes have no end");
  const std::string_view digits = line_.substr(at_ + 1, end - at_ - 1);
  if (digits.size() % 2 != 0) return fault(begin, "an odd number of hexadecimal digits");
  std::vector<std::byte> bytes(digits.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return fault(begin + 1 + 2 * i, "not a hexadecimal digit");
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  at_ = end + 1;
  return bytes;
}

}  // namespace rannc::ir
