/// Adds the rows of tables of options (`rannc/compiler/option_row.h`) to a command line.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rannc/compiler/option_row.h"
#include "tools/common/number_checks.h"
#include "tools/common/option_ranges.h"
#include "tools/common/units.h"

namespace rannc::tools {

using compiler::OptionRow;

/// Returns the text of a row for `--help`: without links, behind the form of the value.
std::string help_of(const OptionRow& row);

/// The flags of a program that stand in tables. Also adds a hidden flag, `--flag-tables`, which prints the manual's
/// tables.
class FlagTable {
 public:
  struct Entry {
    const CLI::Option* option = nullptr;
    OptionRow row;
    std::string group, value;  ///< form of the value
    bool given() const { return option->count() > 0; }
  };

  /// Takes the rows that apply to at least one of `inputs`.
  explicit FlagTable(CLI::App& app, uint32_t inputs = ~0U);

  /// Adds the flags of `Options::rows`, which fill `options`.
  template <class Options>
  void add(Options& options);

  void group(const char* name);
  /// Adds a flag whose values `set` receives together.
  template <class Value>
  CLI::Option* add_row(const OptionRow& row, std::function<void(const Value&)> set) {
    return entered(row, app_.add_option_function<Value>(row.flag, std::move(set), help_of(row)));
  }
  /// Adds a flag for one of `choices`; `set` receives its position. An empty choice is none of the flag's.
  CLI::Option* add_choice(const OptionRow& row, const compiler::Choices& choices, std::function<void(size_t)> set);
  CLI::Option* add_switch(const OptionRow& row, bool& value) {
    return entered(row, app_.add_flag(row.flag, value, help_of(row)));
  }
  /// Adds a flag that may have a value, such as `[=PATTERN]`. Without one the text is `true`.
  CLI::Option* add_switches(const OptionRow& row, std::function<void(const std::string&)> set);

  CLI::Option& option(const char* flag) { return *app_.get_option(flag); }
  uint32_t inputs() const { return inputs_; }
  const std::vector<Entry>& entries() const { return entries_; }
  /// The tables in Markdown, each below the name of its group.
  std::string markdown() const;

 private:
  CLI::Option* entered(const OptionRow& row, CLI::Option* option);

  CLI::App& app_;
  uint32_t inputs_;
  std::string group_;
  std::vector<Entry> entries_;
};

/// Splits the `NAME=VALUE` texts of a flag. Throws a usage error if one is malformed or a name has two values.
std::map<std::string, std::string> pairs_of(const char* flag, const std::vector<std::string>& texts);
/// Returns the position of `text` among the names, or throws a usage error that begins with `what`.
size_t choice_of(const std::string& what, const compiler::Choices& names, const std::string& text);

/// Ranges of numbers whose texts are more than decimal numbers (`parse_number`).
struct RowRange {
  static std::string str() { return "a whole number"; }
};
struct ValueRange {
  static std::string str() { return "true, false or a number"; }
};
std::optional<int64_t> parse_number(std::string_view text, RowRange range);
std::optional<double> parse_number(std::string_view text, ValueRange range);

inline RowRange range_of(compiler::RowOfTable) { return {}; }
inline ValueRange range_of(compiler::NumberOrBoolean) { return {}; }

/// Validators of numbers.
template <class Range>
CLI::Validator validator(Range range) {
  return in_range(range_of(range));
}
inline CLI::Validator validator(compiler::Bytes range) {
  return parsed_by(range.or_zero ? &parse_bytes_or_zero : &parse_bytes, "SIZE");
}
inline CLI::Validator validator(compiler::Duration) { return parsed_by(&parse_duration, "TIME"); }

/// Rows of one struct of options. `add_flag` adds the flag of a member of type `T`, which `member()` returns; `initial`
/// is its default. Files with options of types of their own declare more overloads.
template <class T>
struct NumberOf {
  using Type = T;
};
template <class T>
struct NumberOf<std::optional<T>> {
  using Type = T;
};

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, bool, const Member& member) {
  return table.add_switch(row, member());
}

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const std::string& initial, const Member& member) {
  CLI::Option* option = table.add_row<std::string>(row, [member](const std::string& text) { member() = text; });
  return initial.empty() ? option : option->default_str(initial);
}

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const std::string& initial, const Member& member,
                      const compiler::Choices& choices) {
  const auto set = [member, choices](size_t choice) { member() = choices[choice]; };
  return table.add_choice(row, choices, set)->default_str(initial);
}

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const std::vector<std::string>&, const Member& member) {
  return table.add_row<std::vector<std::string>>(row, [member](const auto& texts) { member() = texts; });
}

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const std::optional<std::string>&, const Member& member,
                      const compiler::Choices& choices) {
  return add_flag(table, row, std::string(), member, choices);
}

template <class T, class Member, class Range>
requires std::is_arithmetic_v<typename NumberOf<T>::Type> &&
    (!std::is_same_v<T, bool>)CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const T& initial,
                                                    const Member& member, Range range) {
  using Number = typename NumberOf<T>::Type;
  CLI::Option* option = table.add_row<Number>(row, [member](Number number) { member() = number; });
  if constexpr (std::is_arithmetic_v<T>) {
    if (row.help.find("(default: ") == std::string::npos) option->default_str(fmt::format("{}", initial));
  }
  return option->transform(validator(range));
}

template <class Number, class Member, class Range>
requires std::is_arithmetic_v<Number> CLI::Option* add_flag(FlagTable& table, const OptionRow& row,
                                                            const std::vector<Number>&, const Member& member,
                                                            Range range) {
  return table.add_row<std::vector<Number>>(row, [member](const auto& numbers) { member() = numbers; })
      ->transform(validator(range));
}

template <class Choice, class Member>
requires std::is_enum_v<Choice> CLI::Option* add_flag(FlagTable& table, const OptionRow& row, Choice initial,
                                                      const Member& member, const compiler::Choices& names) {
  const auto set = [member](size_t choice) { member() = static_cast<Choice>(choice); };
  return table.add_choice(row, names, set)->default_str(names[static_cast<size_t>(initial)]);
}

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const std::map<std::string, std::string>&,
                      const Member& member) {
  return table.add_row<std::vector<std::string>>(
      row, [member, flag = row.flag](const auto& texts) { member() = pairs_of(flag, texts); });
}

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const std::vector<std::pair<std::string, std::string>>&,
                      const Member& member) {
  return table.add_row<std::vector<std::string>>(row, [member, flag = row.flag](const auto& texts) {
    for (const std::string& text : texts) member().push_back(*pairs_of(flag, {text}).begin());
  });
}

template <class Choice, class Member>
requires std::is_enum_v<Choice> CLI::Option* add_flag(FlagTable& table, const OptionRow& row,
                                                      const std::map<std::string, Choice>&, const Member& member,
                                                      const compiler::Choices& names) {
  return table.add_row<std::vector<std::string>>(row, [member, names, flag = row.flag](const auto& texts) {
    for (const auto& [name, text] : pairs_of(flag, texts))
      member()[name] = static_cast<Choice>(choice_of(fmt::format("{} {}={}", flag, name, text), names, text));
  });
}

template <class Number, class Member, class Range>
requires std::is_arithmetic_v<Number> CLI::Option* add_flag(FlagTable& table, const OptionRow& row,
                                                            const std::map<std::string, Number>&, const Member& member,
                                                            Range range) {
  const auto set = [member, range, flag = row.flag](const std::vector<std::string>& texts) {
    for (const auto& [name, text] : pairs_of(flag, texts))
      member()[name] = static_cast<Number>(*parse_number(text, range_of(range)));
  };
  return table.add_row<std::vector<std::string>>(row, set)->check(named_number(row.value, range_of(range)));
}

template <class Options>
class RowsOf {
 public:
  RowsOf(FlagTable& table, Options& options) : table_(table), options_(options) {}
  void group(const char* name) { table_.group(name); }
  /// Adds the flag of a member. `more`: range or choices, or another member that the flag fills, too.
  template <class Part, class T, class... More>
  void row(const OptionRow& row, T Part::*member, const More&... more) {
    if ((row.inputs & table_.inputs()) != 0) add_flag(table_, row, Part{}.*member, reference(member), bound(more)...);
  }

 private:
  template <class Part, class T>
  auto reference(T Part::*member) {
    return [options = &options_, member]() -> T& {
      if constexpr (std::is_same_v<Part, Options>) {
        return options->*member;
      } else {
        return part(*options, static_cast<Part*>(nullptr)).*member;
      }
    };
  }
  template <class Part, class T>
  auto bound(T Part::*member) {
    return reference(member);
  }
  template <class Other>
  const Other& bound(const Other& other) {
    return other;
  }

  FlagTable& table_;
  Options& options_;
};

template <class Options>
void FlagTable::add(Options& options) {
  RowsOf<Options> rows(*this, options);
  Options::rows(rows);
}

}  // namespace rannc::tools
