// Splits code into tokens as LibTorch's lexer does (torch/csrc/jit/frontend/lexer.h), or into more.
#include "frontend/torchscript/internal/archive/check_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

namespace rannc::frontend::torchscript {

namespace {

// Measured with LibTorch 2.11: at most 2.9 KB a level, 5 KB a function.
constexpr uint64_t kLevelBytes = 6 << 10, kFunctionBytes = 16 << 10;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c != '\n' && std::isspace(static_cast<unsigned char>(c)) != 0; }

/// An element of a list in brackets, or a statement. Every node of its syntax tree has a token of its own.
struct CodeLevel {
  uint32_t tokens = 0;   ///< of the current element
  uint32_t nested = 0;   ///< depth of the brackets in it
  uint32_t deepest = 0;  ///< depth of the elements before
  uint32_t repeated = 0;
  bool is_subscript = false, is_group = false, has_comma = false;

  void end_element() {
    deepest = std::max(deepest, tokens + nested);
    tokens = nested = 0;
  }
};

class CodeScanner {
 public:
  CodeScanner(std::string_view code, const std::string& path, const std::string& record)
      : code_(code), path_(path), record_(record) {}

  Result<uint64_t> run() {
    begin_line();
    while (at_ < code_.size()) RANNC_TRY(step());
    RANNC_TRY(end_statement());
    end_function();
    return stack_bytes_;
  }

 private:
  Diagnostic fail(std::string message) const {
    return error({path_, 0, 0, fmt::format("{}:{}", record_, line_)}, std::move(message));
  }

  Result<void> step() {
    const char c = code_[at_];
    if (c == '\n') return newline();
    if (is_blank(c)) return ++at_, Result<void>();
    if (c == '#' && !code_.substr(at_).starts_with("# type:")) {
      at_ = std::min(code_.find('\n', at_), code_.size());
      return count_empty();
    }
    if (c == '\\' && at_ + 1 < code_.size() && code_[at_ + 1] == '\n') {
      at_ += 2, ++line_;
      return count_empty();
    }
    empty_ = 0;
    const std::string_view name = std::exchange(name_, {});  // the token before, if it is one
    const bool is_attribute = std::exchange(last_, c) == '.';
    if (c == '"' || c == '\'') return text(c);
    if (is_letter(c)) return word(is_attribute);
    if (is_digit(c)) {
      while (at_ < code_.size() && is_digit(code_[at_])) ++at_;
      return token(/*is_operand=*/true);
    }
    ++at_;
    // `a = b = …` or `a : type = …`
    const bool assigns = levels_.size() == 1 && (c == '=' || (c == ':' && levels_.back().tokens == 1));
    if (assigns && !names_function_of_file()) assigned_.insert(name);
    if (c == '(') RANNC_TRY(check_call(name));
    if (c == '(' || c == '[' || c == '{') return open(c);
    if (c == ')' || c == ']' || c == '}') return close();
    if (c == ',') {
      levels_.back().has_comma = true;
      levels_.back().end_element();
      after_operand_ = false;
      return {};
    }
    return token(/*is_operand=*/false);
  }

  // Lines without tokens, over which the lexer recurses.
  Result<void> count_empty() {
    if (++empty_ <= kDeepestCode) return {};
    return fail(fmt::format("more than {} lines in a row are empty or comments", kDeepestCode));
  }

  Result<void> newline() {
    ++at_, ++line_;
    RANNC_TRY(count_empty());
    if (levels_.size() > 1) return {};
    RANNC_TRY(end_statement());
    begin_line();
    return {};
  }

  void begin_line() {
    size_t width = 0;
    while (at_ + width < code_.size() && is_blank(code_[at_ + width])) ++width;
    if (at_ + width == code_.size() || code_[at_ + width] == '\n' || code_[at_ + width] == '#') return;
    while (!indents_.empty() && indents_.back() >= width) indents_.pop_back();
    if (width > 0) indents_.push_back(width);
    starts_ = true;
  }

  Result<void> text(char quote) {
    const size_t width = code_.substr(at_).starts_with(std::string(3, quote)) ? 3 : 1;
    const std::string ending(width, quote);
    size_t end = at_ + width;
    while (end < code_.size() && !code_.substr(end).starts_with(ending)) {
      if (code_[end] == '\n' && width == 1) break;
      end += code_[end] == '\\' ? 2 : 1;
    }
    if (end >= code_.size() || code_[end] == '\n') return fail("a text in the code has no end");
    line_ += static_cast<uint32_t>(std::count(code_.begin() + at_, code_.begin() + end, '\n'));
    at_ = end + width;
    return token(/*is_operand=*/true);
  }

  /// Whether the rest of the line is the name of a function in the archive's code, as torch.jit.save abbreviates them.
  bool names_function_of_file() const {
    const std::string_view rest = code_.substr(at_, code_.find('\n', at_) - at_);
    const size_t first = rest.find_first_not_of(' ');
    if (first == std::string_view::npos || !rest.substr(first).starts_with("__torch__.")) return false;
    return !fills_texts(rest.substr(rest.rfind('.') + 1)) &&
           std::all_of(rest.begin() + static_cast<std::ptrdiff_t>(first), rest.end(),
                       [](char c) { return is_letter(c) || is_digit(c) || c == '.'; });
  }

  static bool fills_texts(std::string_view name) {
    static constexpr std::string_view kFillers[] = {"ljust", "rjust", "center", "zfill", "expandtabs"};
    return std::find(std::begin(kFillers), std::end(kFillers), name) != std::end(kFillers);
  }

  /// A call of a function that fills texts, or of one that has no name or that of a variable and so may be such.
  Result<void> check_call(std::string_view name) const {
    if (!after_operand_) return {};
    if (name.empty() || (!is_attribute_ && assigned_.contains(name)))
      return fail("calls a function by another name than its own, which LibTorch may run while it loads the file");
    if (!is_attribute_ || !fills_texts(name)) return {};
    return fail(fmt::format("uses {}, which LibTorch may run while it loads the file, for texts of any size", name));
  }

  Result<void> word(bool is_attribute) {
    const size_t begin = at_;
    while (at_ < code_.size() && (is_letter(code_[at_]) || is_digit(code_[at_]))) ++at_;
    const std::string_view word = code_.substr(begin, at_ - begin);
    name_ = word, is_attribute_ = is_attribute;
    if (word == "__setstate__")
      return fail("defines __setstate__, which LibTorch would run while it loads the file: remove it from the module");
    if (starts_ && (word == "def" || word == "class")) end_function();
    starts_ = false;
    if (word == "elif") ++elifs_;
    if ((word == "return" || word == "break" || word == "continue") && ++exits_ > kMostExits) {
      return fail(fmt::format("a function has more than {} return, break and continue statements", kMostExits));
    }
    static constexpr std::string_view kKeywords[] = {"and",    "or",    "not", "if",  "elif", "else",  "in",     "is",
                                                     "return", "raise", "for", "del", "with", "while", "assert", "as"};
    return token(std::find(std::begin(kKeywords), std::end(kKeywords), word) == std::end(kKeywords));
  }

  Result<void> token(bool is_operand) {
    starts_ = false;
    after_operand_ = is_operand;
    ++levels_.back().tokens;
    return {};
  }

  Result<void> open(char c) {
    if (levels_.size() > kDeepestCode) return too_deep(static_cast<uint32_t>(levels_.size()));
    CodeLevel level;
    level.is_subscript = c == '[' && after_operand_;
    level.is_group = c == '(' && !after_operand_;
    RANNC_TRY(token(false));
    levels_.push_back(level);
    return {};
  }

  Result<void> close() {
    if (levels_.size() == 1) return token(true);
    CodeLevel done = levels_.back();
    levels_.pop_back();
    done.end_element();
    const bool is_repeated = done.is_subscript || (done.is_group && done.has_comma);
    const uint32_t repeated = done.repeated + (is_repeated ? 1 : 0);
    if (repeated > kDeepestRepeated && is_repeated)
      return fail(fmt::format("tuples and subscripts are nested more than {} deep", kDeepestRepeated));
    CodeLevel& around = levels_.back();
    around.nested = std::max(around.nested, done.deepest + 1);
    around.repeated = std::max(around.repeated, repeated);
    after_operand_ = true;
    return {};
  }

  Result<void> end_statement() {
    while (levels_.size() > 1) RANNC_TRY(close());
    levels_.back().end_element();
    const auto blocks = static_cast<uint32_t>(indents_.size());
    deepest_ = std::max(deepest_, levels_.back().deepest + blocks);
    levels_.back() = CodeLevel();
    after_operand_ = false;
    const uint32_t depth = deepest_ + elifs_ + exits_;
    return depth > kDeepestCode ? too_deep(depth) : Result<void>();
  }

  Result<void> too_deep(uint32_t depth) const {
    return fail(
        fmt::format("brackets, operators and blocks are nested {} deep or more; the limit is {}", depth, kDeepestCode));
  }

  void end_function() {
    stack_bytes_ += kFunctionBytes + kLevelBytes * (deepest_ + elifs_ + exits_);
    deepest_ = elifs_ = exits_ = 0;
    assigned_.clear();
  }

  std::string_view code_;
  const std::string &path_, &record_;
  size_t at_ = 0;
  uint32_t line_ = 1, empty_ = 0;
  std::vector<CodeLevel> levels_{CodeLevel()};
  std::vector<size_t> indents_;
  bool starts_ = false, after_operand_ = false;
  std::string_view name_;  ///< the last token, if it is a word
  bool is_attribute_ = false;
  char last_ = 0;                                 ///< first of the last token
  std::set<std::string_view> assigned_;           ///< variables of the function
  uint32_t deepest_ = 0, elifs_ = 0, exits_ = 0;  ///< of the function
  uint64_t stack_bytes_ = 0;
};

}  // namespace

Result<uint64_t> code_stack_bytes(std::string_view code, const std::string& path, const std::string& record) {
  return CodeScanner(code, path, record).run();
}

uint32_t bracket_depth(std::string_view type) {
  uint32_t depth = 0, deepest = 0;
  for (const char c : type) {
    if (c == '[' || c == '(' || c == '{') deepest = std::max(deepest, ++depth);
    if ((c == ']' || c == ')' || c == '}') && depth > 0) --depth;
  }
  return deepest;
}

}  // namespace rannc::frontend::torchscript
