#include "passes/loss/loss_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace rannc::passes {

namespace {

using Kind = LossSpec::Kind;

constexpr std::array<std::string_view, 8> kKinds = {"cross_entropy",   "mse", "in_graph", "soft_cross_entropy",
                                                    "bce_with_logits", "l1",  "huber",    "smooth_l1"};
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

// `0.5/1/2`: commas part options.
Result<std::vector<double>> parse_numbers(std::string_view key, std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    const std::string_view part = text.substr(0, text.find('/'));
    RANNC_ASSIGN(const double number, parse_number<double>(key, part));
    if (!(std::isfinite(number) && number >= 0)) {
      return error(fmt::format("`{}` of a loss is {}; it must be 0 or more, and finite", key, part));
    }
    numbers.push_back(number);
    if (part.size() == text.size()) return numbers;
    text.remove_prefix(part.size() + 1);
  }
}

bool is_softmax(Kind kind) { return kind == Kind::kCrossEntropy || kind == Kind::kSoftCrossEntropy; }

// Options that only some kinds have.
struct OfKinds {
  std::string_view key;
  bool (*uses)(Kind kind);
};
constexpr OfKinds kOfKinds[] = {
    {"class_weights", is_softmax},
    {"label_smoothing", is_softmax},
    {"pos_weight", [](Kind kind) { return kind == Kind::kBceWithLogits; }},
    {"delta", [](Kind kind) { return kind == Kind::kHuber; }},
    {"beta", [](Kind kind) { return kind == Kind::kSmoothL1; }},
    {"count", [](Kind kind) { return kind != Kind::kInGraph; }},
};

// Empty where the kind has no such option.
Result<bool> set_own_option(LossSpec& term, std::string_view key, std::string_view value) {
  const auto* row = std::find_if(std::begin(kOfKinds), std::end(kOfKinds), [&](const auto& r) { return r.key == key; });
  if (row == std::end(kOfKinds)) return false;
  if (!row->uses(term.kind)) {
    return error(fmt::format("a loss {} has no option `{}`", kKinds[static_cast<size_t>(term.kind)], key));
  }
  if (key == "class_weights") {
    RANNC_ASSIGN(term.class_weights, parse_numbers(key, value));
  } else if (key == "pos_weight") {
    RANNC_ASSIGN(term.pos_weight, parse_numbers(key, value));
  } else if (key == "label_smoothing") {
    RANNC_ASSIGN(term.label_smoothing, parse_number<double>(key, value));
    if (!(term.label_smoothing >= 0 && term.label_smoothing <= 1)) {
      return error(fmt::format("`label_smoothing` of a loss is {}; it must be from 0 to 1", value));
    }
  } else if (key == "count") {
    term.count = value;
  } else {
    RANNC_ASSIGN(term.delta, parse_number<double>(key, value));
    if (!(std::isfinite(term.delta) && (term.delta > 0 || (key == "beta" && term.delta == 0)))) {
      return error(fmt::format("`{}` of a loss is {}; it must be positive", key, value));
    }
  }
  return true;
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
    RANNC_ASSIGN(const bool known, set_own_option(term, key, value));
    if (known) return {};
    return error(
        fmt::format("a loss has no option `{}`; it has output, labels, axis, ignore_index, weight, reduction, count, "
                    "and by its kind class_weights, label_smoothing, pos_weight, delta, beta",
                    key));
  }
  return {};
}

std::string_view without_spaces_around(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") + 1 - first);
}

Result<LossSpec> parse_term(std::string_view text) {
  LossSpec term;
  text = without_spaces_around(text);
  const size_t open = text.find('(');
  RANNC_ASSIGN(term.kind, find_word<LossSpec::Kind>(kKinds, without_spaces_around(text.substr(0, open)), "loss"));
  if (open == std::string_view::npos) return term;
  if (text.back() != ')') return error(fmt::format("`{}` lacks a closing parenthesis", text));
  std::string_view options = text.substr(open + 1, text.size() - open - 2);
  while (!options.empty()) {
    std::string_view option = options.substr(0, options.find(','));
    options.remove_prefix(std::min(option.size() + 1, options.size()));
    option = without_spaces_around(option);
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
  if (!term.count.empty()) option("count", term.count);
  if (!term.class_weights.empty()) option("class_weights", fmt::format("{}", fmt::join(term.class_weights, "/")));
  if (term.label_smoothing != 0) option("label_smoothing", term.label_smoothing);
  if (!term.pos_weight.empty()) option("pos_weight", fmt::format("{}", fmt::join(term.pos_weight, "/")));
  if (term.delta != defaults.delta) option(term.kind == Kind::kSmoothL1 ? "beta" : "delta", term.delta);
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
    Result<LossSpec> term = parse_term(text.substr(0, end));
    const bool several = !terms.empty() || end != text.size();
    if (!term.ok() && several) {
      Diagnostic fault = term.diagnostic();
      fault.message += fmt::format(" (term {} of the loss)", terms.size() + 1);
      return fault;
    }
    RANNC_TRY(term);
    terms.push_back(*std::move(term));
    if (end == text.size()) return terms;
    text.remove_prefix(end + 1);
  }
}

std::span<const std::string_view> loss_names() { return kKinds; }

}  // namespace rannc::passes
