#include "tools/common/flag_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace rannc::tools {

namespace {

constexpr std::string_view kDefault = " (default: ";

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream all(text);
  for (std::string part; std::getline(all, part, ',');) parts.push_back(part);
  return parts;
}

/// The help of a row in Markdown, without the default at its end, and that default.
std::pair<std::string, std::string> help_and_default(const FlagTable::Entry& entry) {
  std::string help = entry.row.help;
  const size_t at = help.rfind(kDefault);
  if (at != std::string::npos) {
    std::string value = help.substr(at + kDefault.size());
    value.pop_back();
    return {help.substr(0, at), std::move(value)};
  }
  const std::string value = entry.option->get_default_str();
  const bool plain = value.empty() || rannc::parse_number(value, NumberRange{});
  return {std::move(help), plain ? value : fmt::format("`{}`", value)};
}

std::string flag_cell(const FlagTable::Entry& entry) {
  std::vector<std::string> names;
  for (const std::string& name : parts_of(entry.row.flag))
    names.push_back(fmt::format("`{}`", name.starts_with('!') ? name.substr(1) : name));
  std::string& last = names.back();
  last.pop_back();
  if (!entry.value.empty() && !entry.value.starts_with('[')) last += ' ';
  for (const char c : entry.value) last += c == '|' ? std::string("\\|") : std::string(1, c);
  last += '`';
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string table_of(const std::vector<const FlagTable::Entry*>& entries) {
  const bool defaults = std::any_of(entries.begin(), entries.end(),
                                    [](const auto* entry) { return !help_and_default(*entry).second.empty(); });
  std::string text = defaults ? "| flag | meaning | default |\n|---|---|---|\n" : "| flag | meaning |\n|---|---|\n";
  for (const FlagTable::Entry* entry : entries) {
    const auto [help, value] = help_and_default(*entry);
    text += fmt::format("| {} | {} |", flag_cell(*entry), help);
    if (defaults) text += value.empty() ? " |" : fmt::format(" {} |", value);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string help_of(const OptionRow& row) {
  std::string text = row.help;
  for (size_t end = 0; (end = text.find("](")) != std::string::npos;) {
    const size_t begin = text.rfind('[', end);
    text.erase(end, text.find(')', end) + 1 - end);
    text.erase(begin, 1);
  }
  std::erase(text, '`');
  const std::string_view value = row.value;
  return value.size() < 2 ? text : fmt::format("{}: {}", value, text);
}

FlagTable::FlagTable(CLI::App& app, uint32_t inputs) : app_(app), inputs_(inputs) {
  app.add_flag_callback("--flag-tables", [this] { throw CLI::CallForVersion(markdown(), 0); })->group("");
}

void FlagTable::group(const char* name) {
  group_ = name;
  app_.option_defaults()->group(name);
}

CLI::Option* FlagTable::entered(const OptionRow& row, CLI::Option* option) {
  entries_.push_back({option, row, group_, row.value});
  if (option->get_items_expected_max() > 1) {
    option->allow_extra_args(false);
    if (std::string_view(row.value).find(',') != std::string_view::npos) option->delimiter(',');
  }
  return option;
}

CLI::Option* FlagTable::add_choice(const OptionRow& row, const compiler::Choices& choices,
                                   std::function<void(size_t)> set) {
  std::vector<std::string> texts(choices.begin(), choices.end());
  std::erase(texts, "");
  CLI::Option* option = add_row<std::string>(row, [choices, set = std::move(set)](const std::string& text) {
    set(static_cast<size_t>(std::find(choices.begin(), choices.end(), text) - choices.begin()));
  });
  entries_.back().value = fmt::format("{}", fmt::join(texts, "|"));
  return option->check(CLI::IsMember(texts));
}

CLI::Option* FlagTable::add_switches(const OptionRow& row, std::function<void(const std::string&)> set) {
  CLI::Option* option = app_.add_flag(row.flag)->each(std::move(set));
  return entered(row, option->description(help_of(row))->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
}

std::string FlagTable::markdown() const {
  std::vector<std::string> groups;
  for (const Entry& entry : entries_) {
    if (std::find(groups.begin(), groups.end(), entry.group) == groups.end()) groups.push_back(entry.group);
  }
  std::string text;
  for (const std::string& group : groups) {
    std::vector<const Entry*> rows;
    for (const Entry& entry : entries_) {
      if (entry.group == group && entry.row.flag[0] == '-') rows.push_back(&entry);
    }
    if (!rows.empty()) text += fmt::format("{}### {}\n{}", text.empty() ? "" : "\n", group, table_of(rows));
  }
  return text;
}

std::map<std::string, std::string> pairs_of(const char* flag, const std::vector<std::string>& texts) {
  std::map<std::string, std::string> found;
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
      throw CLI::ValidationError(fmt::format("{} {}: expected NAME=VALUE", flag, text));
    const std::string name = text.substr(0, at), value = text.substr(at + 1);
    const auto [known, fresh] = found.emplace(name, value);
    if (!fresh && known->second != value) {
      throw CLI::ValidationError(fmt::format("{} {}: '{}' is {} by another {}", flag, text, name, known->second, flag));
    }
  }
  return found;
}

size_t choice_of(const std::string& what, const compiler::Choices& names, const std::string& text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  throw CLI::ValidationError(fmt::format("{}: expected one of {}", what, fmt::join(names, ", ")));
}

std::optional<int64_t> parse_number(std::string_view text, RowRange /*range*/) {
  const bool negative = text.starts_with('-');
  const auto row = rannc::parse_number(text.substr(negative ? 1 : 0), WholeRange{});
  if (!row) return std::nullopt;
  return negative ? -static_cast<int64_t>(*row) : static_cast<int64_t>(*row);
}

std::optional<double> parse_number(std::string_view text, ValueRange /*range*/) {
  if (text == "true" || text == "false") return text == "true" ? 1 : 0;
  return rannc::parse_number(text, NumberRange{});
}

}  // namespace rannc::tools
