#include "ir/plan/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ir/base/number_range.h"

namespace rannc::ir {

namespace {

constexpr uint32_t bit(OptimizerKind kind) { return 1U << static_cast<uint32_t>(kind); }
constexpr uint32_t kAdams = bit(OptimizerKind::kAdam) | bit(OptimizerKind::kAdamW) | bit(OptimizerKind::kMuon);
constexpr uint32_t kEvery = ~0U;

// A setting of an update. Exactly one member is set.
struct Setting {
  std::string_view name;
  uint32_t kinds;  // that have it
  double UpdateRule::*number = nullptr;
  NumberRange range;
  bool UpdateRule::*choice = nullptr;
};

// The optimizer, the last row, decides which settings exist.
const std::array<Setting, 9>& settings() {
  static const std::array<Setting, 9> kSettings = {{
      {"rate", kEvery, &UpdateRule::learning_rate, {0, NumberRange::kMost, true}},
      {"weight_decay", kEvery, &UpdateRule::weight_decay, {0}},
      {"momentum", bit(OptimizerKind::kSgd) | bit(OptimizerKind::kMuon), &UpdateRule::momentum, {0, 0.999999}},
      {"nesterov", bit(OptimizerKind::kSgd) | bit(OptimizerKind::kMuon), nullptr, {}, &UpdateRule::nesterov},
      {"beta1", kAdams | bit(OptimizerKind::kLion), &UpdateRule::beta1, {0, 0.9999999}},
      {"beta2", kAdams | bit(OptimizerKind::kLion), &UpdateRule::beta2, {0, 0.9999999}},
      {"epsilon", kAdams, &UpdateRule::epsilon, {0, 1}},
      {"amsgrad", kAdams, nullptr, {}, &UpdateRule::amsgrad},
      {"match_rms_adamw", bit(OptimizerKind::kMuon), nullptr, {}, &UpdateRule::match_rms_adamw},
  }};
  return kSettings;
}

const Setting* find_setting(std::string_view name) {
  const auto found = std::find_if(settings().begin(), settings().end(), [&](const auto& s) { return s.name == name; });
  return found == settings().end() ? nullptr : &*found;
}

constexpr std::string_view kOptimizer = "optimizer";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// A factor of the run's learning rate, such as `0.1x`.
bool is_factor(const Setting& setting, std::string_view value) {
  return setting.number == &UpdateRule::learning_rate && value.ends_with('x');
}

Result<void> check_value(const Setting& setting, std::string_view value) {
  if (setting.choice != nullptr) {
    if (value == "true" || value == "false") return {};
    return error(fmt::format("{}={}: expected true or false", setting.name, value));
  }
  const bool factor = is_factor(setting, value);
  if (parse_number(value.substr(0, value.size() - (factor ? 1 : 0)), setting.range)) return {};
  const bool rate = setting.number == &UpdateRule::learning_rate;
  return error(fmt::format("{}={}: expected {}{}", setting.name, value, setting.range.str(),
                           rate ? ", or a factor of the run's such as 0.1x" : ""));
}

Result<void> check_setting(std::string_view name, std::string_view value) {
  if (name == kOptimizer) {
    const Result<OptimizerKind> kind = parse_optimizer(value);
    return kind.ok() ? Result<void>() : Result<void>(kind.diagnostic());
  }
  const Setting* const setting = find_setting(name);
  if (setting != nullptr) return check_value(*setting, value);
  std::vector<std::string_view> names{kOptimizer};
  for (const Setting& each : settings()) names.push_back(each.name);
  return error(fmt::format("'{}' is not one of {}", name, fmt::join(names, ", ")));
}

}  // namespace

const std::vector<std::string_view>& optimizer_names() {
  static const std::vector<std::string_view> kNames = {"sgd", "adam", "adamw", "lion", "muon", "adafactor"};
  return kNames;
}

std::string_view str(OptimizerKind kind) { return optimizer_names()[static_cast<size_t>(kind)]; }

Result<OptimizerKind> parse_optimizer(std::string_view name) {
  const auto& names = optimizer_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<OptimizerKind>(found - names.begin());
  return error(fmt::format("optimizer '{}' is not one of {}", name, fmt::join(names, ", ")));
}

UpdateRule default_rule(OptimizerKind kind, double learning_rate) {
  UpdateRule rule{.kind = kind, .learning_rate = learning_rate};
  if (kind == OptimizerKind::kLion) rule.beta2 = 0.99;
  if (kind == OptimizerKind::kMuon) {
    rule.momentum = 0.95;
    rule.nesterov = true;
  }
  return rule;
}

UpdateRule with_kind(const UpdateRule& rule, OptimizerKind kind) {
  if (rule.kind == kind) return rule;
  UpdateRule changed = default_rule(kind, rule.learning_rate);
  changed.weight_decay = rule.weight_decay;
  const auto is_adam = [](OptimizerKind of) { return (bit(of) & kAdams) != 0; };
  if (is_adam(rule.kind) && is_adam(kind)) {
    changed.beta1 = rule.beta1;
    changed.beta2 = rule.beta2;
    changed.epsilon = rule.epsilon;
    changed.amsgrad = rule.amsgrad;
  }
  return changed;
}

bool has_setting(OptimizerKind kind, std::string_view setting) {
  const Setting* const found = find_setting(setting);
  RANNC_CHECK(found != nullptr) << setting << " is no setting";
  return (found->kinds & bit(kind)) != 0;
}

std::string optimizers_with(std::string_view setting) {
  std::vector<std::string_view> names;
  for (size_t k = 0; k < optimizer_names().size(); ++k) {
    if (has_setting(static_cast<OptimizerKind>(k), setting)) names.push_back(optimizer_names()[k]);
  }
  const std::string_view last = names.back();
  names.pop_back();
  return names.empty() ? std::string(last) : fmt::format("{} and {}", fmt::join(names, ", "), last);
}

std::vector<std::string_view> element_states(const UpdateRule& rule) {
  switch (rule.kind) {
    case OptimizerKind::kSgd:
      return rule.momentum != 0 ? std::vector<std::string_view>{"momentum"} : std::vector<std::string_view>{};
    case OptimizerKind::kLion:
      return {"exp_avg"};
    case OptimizerKind::kAdafactor:
      return {"variance"};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
    case OptimizerKind::kMuon:
      break;
  }
  if (rule.amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

std::vector<WholeState> whole_states(OptimizerKind kind, const std::vector<int64_t>& shape) {
  if (kind == OptimizerKind::kMuon) return {{"momentum_buffer", shape}};
  RANNC_CHECK(kind == OptimizerKind::kAdafactor) << str(kind) << " updates elements";
  if (shape.size() < 2) return {{"variance", shape}};
  std::vector<int64_t> rows = shape, columns = shape;
  rows.back() = 1;
  columns[columns.size() - 2] = 1;
  return {{"row_var", rows}, {"col_var", columns}};
}

Result<ParameterGroup> parse_group(std::string_view text) {
  const size_t colon = text.rfind(':');
  ParameterGroup group;
  group.pattern = std::string(trimmed(text.substr(0, std::min(colon, text.size()))));
  const auto wrong = [&](const std::string& what) { return error(fmt::format("'{}': {}", text, what)); };
  if (colon == std::string_view::npos || group.pattern.empty())
    return wrong("expected PATTERN: NAME=VALUE, … such as '*.bias: weight_decay=0'");
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, comma);
    const size_t equal = one.find('=');
    if (equal == std::string_view::npos) return wrong(fmt::format("expected NAME=VALUE, found '{}'", trimmed(one)));
    const std::string name(trimmed(one.substr(0, equal))), value(trimmed(one.substr(equal + 1)));
    if (const Result<void> valid = check_setting(name, value); !valid.ok()) return wrong(valid.diagnostic().message);
    const auto same = [&](const auto& setting) { return setting.first == name; };
    if (std::any_of(group.settings.begin(), group.settings.end(), same))
      return wrong(fmt::format("{} has two values", name));
    group.settings.emplace_back(name, value);
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  const UpdateRule without = apply(group, {});
  const auto kind = std::find_if(group.settings.begin(), group.settings.end(),
                                 [](const auto& setting) { return setting.first == kOptimizer; });
  for (const auto& [name, value] : group.settings) {
    if (name == kOptimizer || kind == group.settings.end() || has_setting(without.kind, name)) continue;
    return wrong(fmt::format("{} applies to {}, not to {}", name, optimizers_with(name), kind->second));
  }
  return group;
}

std::string str(const ParameterGroup& group) {
  std::string text = group.pattern;
  for (size_t i = 0; i < group.settings.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? ": " : ", ", group.settings[i].first, group.settings[i].second);
  return text;
}

UpdateRule apply(const ParameterGroup& group, UpdateRule rule) {
  for (const auto& [name, value] : group.settings) {
    if (name == kOptimizer) rule = with_kind(rule, parse_optimizer(value).value());
  }
  for (const auto& [name, value] : group.settings) {
    if (name == kOptimizer) continue;
    const Setting& setting = *find_setting(name);
    if (setting.choice != nullptr) {
      rule.*setting.choice = value == "true";
      continue;
    }
    const bool factor = is_factor(setting, value);
    const double number =
        parse_number(std::string_view(value).substr(0, value.size() - (factor ? 1 : 0)), setting.range).value();
    rule.*setting.number = factor ? rule.*setting.number * number : number;
  }
  return rule;
}

UpdateRule PlanOptimizer::rule() const {
  UpdateRule rule = default_rule(parse_optimizer(name).value(), UpdateRule().learning_rate);
  if (momentum != 0) rule.momentum = momentum;
  rule.amsgrad = amsgrad;
  return rule;
}

uint32_t PlanOptimizer::states() const {
  if (name.empty()) return 0;
  return static_cast<uint32_t>(element_states(rule()).size()) + (grouping.average > 0 ? 1 : 0);
}

}  // namespace rannc::ir
