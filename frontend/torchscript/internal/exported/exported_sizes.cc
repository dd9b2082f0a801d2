#include "frontend/torchscript/internal/exported/exported_sizes.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <string>
#include <vector>

#include "frontend/internal/batch.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;

/// Limit on numbers and symbols that keeps an expression short although products of sums are expanded.
constexpr int kMostLeaves = 16;
constexpr int kDeepestSize = 100;
constexpr size_t kLongest = size_t{1} << 12;

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Result<Dim> run() {
    RANNC_ASSIGN(Dim made, expression(0));
    if (!rest_.empty()) return unexpected();
    return made;
  }

 private:
  Diagnostic unexpected() const {
    return error(fmt::format("a size cannot be read from '{}' on", rest_.substr(0, 40)));
  }

  void skip_spaces() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }

  bool eat(char wanted) {
    skip_spaces();
    const bool there = rest_.starts_with(wanted);
    if (there) rest_.remove_prefix(1);
    return there;
  }

  std::string_view word() {
    skip_spaces();
    size_t end = 0;
    while (end < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[end])) || rest_[end] == '_')) ++end;
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return found;
  }

  Result<Dim> integer() {
    skip_spaces();
    int64_t value = 0;
    const auto [end, status] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (status != std::errc()) return unexpected();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return Dim(value);
  }

  /// `'s13', positive=True, integer=True)`. The properties hold for every size and are ignored.
  Result<Dim> symbol() {
    if (!eat('\'')) return unexpected();
    const size_t end = rest_.find('\'');
    if (end == std::string_view::npos || end == 0) return unexpected();
    const std::string name = symbol_name(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    while (eat(',')) {
      if (word().empty() || !eat('=') || word().empty()) return unexpected();
    }
    return Dim::symbol(name);
  }

  Result<Dim> expression(int depth) {
    if (depth > kDeepestSize) return error("a size is nested too deep");
    const std::string_view name = word();
    if (name.empty() || !eat('(')) return unexpected();
    if (name == "Integer" || name == "Symbol") {
      if (++leaves_ > kMostLeaves) return error(fmt::format("a size has more than {} terms", kMostLeaves));
      RANNC_ASSIGN(Dim made, name == "Integer" ? integer() : symbol());
      if (!eat(')')) return unexpected();
      return made;
    }
    std::vector<Dim> of;
    do {
      RANNC_ASSIGN(Dim each, expression(depth + 1));
      of.push_back(std::move(each));
    } while (eat(','));
    if (!eat(')')) return unexpected();
    return combined(name, of);
  }

  static Result<Dim> combined(std::string_view name, const std::vector<Dim>& of) {
    const auto all = [&](auto&& join) {
      Dim made = of[0];
      for (size_t i = 1; i < of.size(); ++i) made = join(made, of[i]);
      return made;
    };
    if (name == "Add") return all([](const Dim& a, const Dim& b) { return a + b; });
    if (name == "Mul") return all([](const Dim& a, const Dim& b) { return a * b; });
    if (name == "Max") return all([](const Dim& a, const Dim& b) { return max(a, b); });
    if (name == "Min") return all([](const Dim& a, const Dim& b) { return min(a, b); });
    const bool divides = name == "FloorDiv" || name == "CleanDiv" || name == "Mod" || name == "PythonMod";
    if (!divides || of.size() != 2 || of[1] == Dim(0))
      return error(fmt::format("a size is {} of {} numbers, which is not supported", name, of.size()));
    return name.ends_with("Div") ? floor_div(of[0], of[1]) : mod(of[0], of[1]);
  }

  std::string_view rest_;
  int leaves_ = 0;
};

}  // namespace

Result<Dim> parse_size(std::string_view text) {
  if (text.size() > kLongest) return error("a size is longer than 4096 characters");
  return Parser(text).run();
}

}  // namespace rannc::frontend::torchscript
