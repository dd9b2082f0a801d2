// Recursive descent over the grammar of dimension expressions.
#include "ir/dim/dim_parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace rannc::ir {
namespace {

class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    if (text_.size() > kMaxLength)
      return error("a dimension of more than " + std::to_string(kMaxLength) + " characters");
    RANNC_ASSIGN(Dim value, sum());
    skip_space();
    if (at_ != text_.size()) return fail("an operator");
    return value;
  }

 private:
  static constexpr int kMaxDepth = 64;
  static constexpr size_t kMaxLength = 4096;  // bounds how deep quotients nest

  enum class Sign { kPlus, kMinus };

  bool at_digit() const { return at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  Diagnostic fail(std::string_view expected) const {
    return error("dimension '" + std::string(text_) + "': expected " + std::string(expected) + " at position " +
                 std::to_string(at_ + 1));
  }

  Result<Dim> sum() {
    RANNC_ASSIGN(Dim value, product());
    while (true) {
      if (accept("+")) {
        RANNC_ASSIGN(const Dim right, product());
        value = value + right;
      } else if (accept("-")) {
        RANNC_ASSIGN(const Dim right, product());
        value = value - right;
      } else {
        return value;
      }
    }
  }

  Result<Dim> product() {
    RANNC_ASSIGN(Dim value, unary());
    while (true) {
      if (accept("*")) {
        RANNC_ASSIGN(const Dim right, unary());
        value = value * right;
      } else if (accept("//") || accept("/")) {  // floor((a)/(b)) and exporters' own a/b are integer quotients
        RANNC_ASSIGN(const Dim right, unary());
        value = floor_div(value, right);
      } else if (accept("%")) {
        RANNC_ASSIGN(const Dim right, unary());
        value = mod(value, right);
      } else {
        return value;
      }
    }
  }

  Result<Dim> unary() {
    if (++depth_ > kMaxDepth) return fail("at most 64 nested parentheses");
    Result<Dim> value = accept("-") ? negated() : primary();
    --depth_;
    return value;
  }

  // Parses a number together with its sign, because -2^63 is representable and 2^63 is not.
  Result<Dim> negated() {
    skip_space();
    if (at_digit()) return number(Sign::kMinus);
    RANNC_ASSIGN(const Dim value, unary());
    return Dim(0) - value;
  }

  Result<Dim> primary() {
    skip_space();
    if (accept("(")) {
      RANNC_ASSIGN(const Dim value, sum());
      if (!accept(")")) return fail("')'");
      return value;
    }
    if (at_digit()) return number(Sign::kPlus);
    return name_or_call();
  }

  Result<Dim> number(Sign sign) {
    uint64_t magnitude = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), magnitude);
    const uint64_t largest = uint64_t{INT64_MAX} + (sign == Sign::kMinus ? 1 : 0);
    if (status != std::errc() || magnitude > largest) return fail("an integer below 2^63");
    at_ = static_cast<size_t>(end - text_.data());
    return Dim(static_cast<int64_t>(sign == Sign::kMinus ? -magnitude : magnitude));
  }

  Result<Dim> name_or_call() {
    const size_t begin = at_;
    auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) return fail("a number, a symbol or '('");
    const std::string name(text_.substr(begin, at_ - begin));
    if (!accept("(")) return Dim::symbol(name);
    return call(name);
  }

  Result<Dim> call(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    RANNC_ASSIGN(Dim value, sum());
    while (accept(",")) {
      RANNC_ASSIGN(const Dim right, sum());
      if (name == "max") {
        value = max(value, right);
      } else if (name == "min") {
        value = min(value, right);
      } else if (name == "mod") {
        value = mod(value, right);
      } else {
        return fail("one of the functions floor, mod, max, min");
      }
    }
    if (name != "max" && name != "min" && name != "mod" && name != "floor") {
      return fail("one of the functions floor, mod, max, min");
    }
    if (!accept(")")) return fail("')'");
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Dim> parse_dim(std::string_view text) { return DimParser(text).parse(); }

}  // namespace rannc::ir
