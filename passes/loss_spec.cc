#include "passes/loss_spec.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace rannc::passes {

namespace {

constexpr std::array<std::string_view, 3> kKinds = {"cross_entropy", "mse", "in_graph"};
constexpr std::array<std::string_view, 3> kReductions = {"mean", "samples", "sum"};

template <class Enum, size_t N>
Result<Enum> find_word(const std::array<std::string_view, N>& words, std::string_view word, std::string_view what) {
  std::string allowed;
  for (size_t i = 0; i < N; ++i) {
    if (words[i] == word) return static_cast<Enum>(i);
    allowed += (i == 0 ? "" : ", ") + std::string(words[i]);
  }
  return error(fmt::format("`{}` is no {}; there are {}", word, what, allowed));
}

template <class Number>
Result<Number> parse_number(std::string_view key, std::string_view text) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc() && end == text.data() + text.size()) return value;
  return error(fmt::format("`{}` of a loss is a number, found `{}`", key, text));
}

Result<void> set_option(LossSpec& term, std::string_view key, std::string_view value) {
  if (key == "output") {
    term.output = value;
  } else if (key == "labels") {
    term.labels = value;
  } else if (key == "axis") {
    RANNC_ASSIGN(term.axis, parse_number<int64_t>(key, value));
  } else if (key == "ignore_index") {
    RANNC_ASSIGN(term.ignore_index, parse_number<int64_t>(key, value));
  } else if (key == "weight") {
    RANNC_ASSIGN(term.weight, parse_number<double>(key, value));
    if (!std::isfinite(term.weight)) return error(fmt::format("the weight of a loss is {}", value));
  } else if (key == "reduction") {
    RANNC_ASSIGN(term.reduction, find_word<LossSpec::Reduction>(kReductions, value, "reduction"));
  } else {
    return error(
        fmt::format("a loss has no option `{}`; it has output, labels, axis, ignore_index, weight, reduction", key));
  }
  return {};
}

Result<LossSpec> parse_term(std::string_view text) {
  LossSpec term;
  const size_t open = text.find('(');
  RANNC_ASSIGN(term.kind, find_word<LossSpec::Kind>(kKinds, text.substr(0, open), "loss"));
  if (open == std::string_view::npos) return term;
  if (text.back() != ')') return error(fmt::format("`{}` lacks a closing parenthesis", text));
  std::string_view options = text.substr(open + 1, text.size() - open - 2);
  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find(','));
    options.remove_prefix(std::min(option.size() + 1, options.size()));
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos) return error(fmt::format("`{}` is no option=value of a loss", option));
    RANNC_TRY(set_option(term, option.substr(0, equals), option.substr(equals + 1)));
  }
  return term;
}

std::string str(const LossSpec& term) {
  const LossSpec defaults;
  std::string options;
  const auto option = [&](std::string_view key, const auto& value) {
    options += fmt::format("{}{}={}", options.empty() ? "" : ",", key, value);
  };
  if (!term.output.empty()) option("output", term.output);
  if (!term.labels.empty()) option("labels", term.labels);
  if (term.axis != defaults.axis) option("axis", term.axis);
  if (term.ignore_index != defaults.ignore_index) option("ignore_index", term.ignore_index);
  if (term.weight != defaults.weight) option("weight", term.weight);
  if (term.reduction != defaults.reduction) option("reduction", kReductions[static_cast<size_t>(term.reduction)]);
  std::string text(kKinds[static_cast<size_t>(term.kind)]);
  return options.empty() ? text : text + "(" + options + ")";
}

}  // namespace

std::string str(const std::vector<LossSpec>& terms) {
  std::string text;
  for (const LossSpec& term : terms) text += (text.empty() ? "" : "+") + str(term);
  return text;
}

Result<std::vector<LossSpec>> parse_losses(std::string_view text) {
  std::vector<LossSpec> terms;
  while (true) {
    size_t end = 0;
    for (int depth = 0; end < text.size() && (depth > 0 || text[end] != '+'); ++end) {
      if (text[end] == '(') ++depth;
      if (text[end] == ')') --depth;
    }
    RANNC_ASSIGN(LossSpec term, parse_term(text.substr(0, end)));
    terms.push_back(std::move(term));
    if (end == text.size()) return terms;
    text.remove_prefix(end + 1);
  }
}

}  // namespace rannc::passes
