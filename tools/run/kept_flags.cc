#include "tools/run/kept_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/base/mapped_file.h"
#include "ir/base/replacement.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "flags.json";
/// At most one of them is used.
constexpr std::string_view kLengths[] = {"--steps", "--epochs"};

bool is_length(std::string_view flag) {
  return std::find(std::begin(kLengths), std::end(kLengths), flag) != std::end(kLengths);
}

std::string text_of(const std::string& flag, const std::vector<std::string>& values) {
  const bool is_switch = values == std::vector<std::string>{"true"};
  return is_switch ? flag : fmt::format("{} {}", flag, fmt::join(values, fmt::format(" {} ", flag)));
}

/// Returns the flags that are kept. Paths are absolute, since the next command may run in another folder.
ExplicitFlags kept(const ExplicitFlags& flags) {
  ExplicitFlags found;
  for (const auto& [flag, values] : flags) {
    const auto scope = scope_of(flag);
    if (scope != FlagScope::kRun && scope != FlagScope::kReported) continue;
    found[flag] = values;
    std::error_code failed;
    const fs::path absolute = flag == "--validate" ? fs::absolute(values.front(), failed) : fs::path();
    if (!absolute.empty()) found[flag] = {absolute.lexically_normal().string()};
  }
  return found;
}

Result<std::optional<ExplicitFlags>> read_flags(const fs::path& path) {
  constexpr uint64_t kMostBytes = 1 << 20;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::optional<ExplicitFlags>();
  RANNC_ASSIGN(const MappedFile file, MappedFile::open(path, kMostBytes));
  const nlohmann::json entry = nlohmann::json::parse(file.bytes(), nullptr, false);
  try {
    return std::optional(entry.at("flags").get<ExplicitFlags>());
  } catch (const nlohmann::json::exception&) {
    return error({path.string(), 0, 0, {}}, "does not have the flags of a run: remove it to resume without them");
  }
}

/// Returns the run's flags, where the command line has others those.
ExplicitFlags merged(const ExplicitFlags& of_run, const ExplicitFlags& own, KeptFlags& differences) {
  ExplicitFlags all = own;
  const bool own_length = std::any_of(own.begin(), own.end(), [](const auto& entry) { return is_length(entry.first); });
  std::map<std::string, std::string> replaced;  // by the flag that does
  for (const auto& [flag, values] : of_run) {
    const auto found = own.find(flag);
    if (found != own.end()) {
      if (found->second != values) replaced[flag] = fmt::format("{}", fmt::join(values, " "));
    } else if (scope_of(flag) != FlagScope::kRun) {
      differences.lacking.push_back(text_of(flag, values));
    } else if (is_length(flag) && own_length) {
      replaced[std::string(kLengths[flag == kLengths[0] ? 1 : 0])] = text_of(flag, values);
    } else {
      all[flag] = values;
      differences.used.push_back(text_of(flag, values));
    }
  }
  for (const auto& [flag, values] : own) {
    if (scope_of(flag) != FlagScope::kRun) continue;
    const auto before = replaced.find(flag);
    if (before != replaced.end()) {
      differences.changed.push_back(fmt::format("{} instead of {}", text_of(flag, values), before->second));
    } else if (!of_run.contains(flag)) {
      differences.changed.push_back(fmt::format("{}, which the run did not have", text_of(flag, values)));
    }
  }
  return all;
}

}  // namespace

Result<KeptFlags> use_kept_flags(const fs::path& folder, RunFlags& flags) {
  const fs::path path = folder / kFile;
  RANNC_ASSIGN(const std::optional<ExplicitFlags> of_run, read_flags(path));
  KeptFlags differences{.unknown = !of_run};
  if (!of_run) return differences;
  const ExplicitFlags all = merged(*of_run, kept(flags.explicit_flags), differences);
  // The parser of the command line checks and converts them. Flags that it does not find keep their values.
  CLI::App app;
  RunFlags parsed;
  add_run_flags(app, parsed);
  std::vector<std::string> words;
  for (const auto& [flag, values] : all) {
    if (scope_of(flag) != FlagScope::kRun) continue;
    for (const std::string& value : values) words.insert(words.end(), {flag, value});
  }
  std::reverse(words.begin(), words.end());  // as the parser reads them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& failure) {
    return error({path.string(), 0, 0, {}}, failure.what());
  }
  flags.steps = parsed.steps;
  flags.epochs = parsed.epochs;
  flags.accumulate = parsed.accumulate;
  flags.accumulate_as = parsed.accumulate_as;
  flags.checkpoint_every = parsed.checkpoint_every;
  flags.source.validate = parsed.source.validate;
  flags.source.validate_every = parsed.source.validate_every;
  flags.source.metrics = parsed.source.metrics;
  flags.explicit_flags = all;
  return differences;
}

Result<void> keep_flags(const fs::path& folder, const RunFlags& flags) {
  const nlohmann::json entry{{"flags", kept(flags.explicit_flags)}};
  return write_file((folder / kFile).string(), entry.dump(1) + '\n');
}

}  // namespace rannc::tools
