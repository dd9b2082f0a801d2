/// Validators of numbers on the command line.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// Accepts finite numbers that are at least `least`, or above it if it is excluded. The error says `expected`.
inline CLI::Validator number_check(double least, bool excluded, const char* expected) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value) && value < 1e300;
        if (number && (excluded ? value > least : value >= least)) return std::string();
        return std::string("expected ") + expected + ", found " + text;
      },
      "NUMBER");
}
inline CLI::Validator positive_number() { return number_check(0, /*excluded=*/true, "a positive number"); }
inline CLI::Validator non_negative_number() { return number_check(0, /*excluded=*/false, "0 or a positive number"); }

/// Replaces text, such as `16GiB`, by the number that `parse` returns.
template <class Number>
CLI::Validator parsed_by(Result<Number> (*parse)(std::string_view), const char* form) {
  return CLI::Validator(
      [parse](std::string& text) {
        const Result<Number> value = parse(text);
        if (!value.ok()) return value.diagnostic().message;
        text = fmt::format("{}", *value);
        return std::string();
      },
      form);
}

}  // namespace rannc::tools
