#include "tools/common/driver.h"

#include <fmt/format.h>

#include <cstdio>
#include <sstream>

#include "tools/common/number_checks.h"
#include "tools/common/standard_streams.h"
#include "tools/common/truncated_files.h"

namespace rannc::tools {

namespace {

/// Includes standard output in the result.
int code_of(Result<void> result) {
  const Result<void> printed = check_standard_output();
  if (result.ok() && !printed.ok()) result = printed.diagnostic();
  if (result.ok()) return kOk;
  fmt::print(stderr, "{}\n", result.diagnostic().str());
  return kDiagnostics;
}

bool has_range(CLI::Option& option) {
  try {
    return option.get_validator(kRangeCheck) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

/// Every flag with a number has a range: CLI11 alone makes another number of -1, of 010 and of 2^64.
void require_ranges(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool number = type.starts_with("UINT") || type.starts_with("INT") || type.starts_with("FLOAT");
    if (number && !has_range(*option)) throw InternalError(option->get_name() + " has no range of numbers");
  }
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; })) require_ranges(*command);
}

int report_defect(const CLI::App& app, const std::exception& failure) {
  fmt::print(stderr, "{}: internal error: {}\nThis is a defect of rannc: please report it with the command line.\n",
             app.get_name(), failure.what());
  return kInternal;
}

}  // namespace

int run_tool(CLI::App& app, int argc, char** argv, const std::function<Result<void>()>& body) {
  open_standard_streams();
  report_truncated_files();
  app.set_version_flag("--version", app.get_name() + " " RANNC_VERSION);
  app.get_formatter()->column_width(34);
  try {
    require_ranges(app);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& failure) {
    if (failure.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      std::ostringstream text;
      app.exit(failure, text);
      fmt::print("{}", text.str());
      return code_of({});
    }
    fmt::print(stderr, "{}: error: {}\nTry '{} --help'.\n", app.get_name(), failure.what(), app.get_name());
    return kUsage;
  } catch (const InternalError& failure) {
    return report_defect(app, failure);
  }
  try {
    return code_of(body());
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const Error& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return kDiagnostics;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: error: out of memory\n", app.get_name());
    return kDiagnostics;
  } catch (const std::exception& failure) {
    return report_defect(app, failure);
  }
}

std::string shell_words(const std::vector<std::string>& arguments) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += ' ';
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace rannc::tools
