#include "tools/compile/compile_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/fusions/fuse.h"
#include "tools/compiler/requested_model.h"

namespace rannc::tools {

namespace {

constexpr WholeRange kStageNumbers{0, UINT32_MAX};

compiler::Pin pin_of(const std::string& text) {
  const size_t at = text.rfind('=');
  const auto stage = parse_number(std::string_view(text).substr(at + 1), kStageNumbers);
  return {.task = text.substr(0, at), .stage = static_cast<uint32_t>(*stage)};
}

compiler::Together together_of(const std::string& text) {
  const size_t comma = text.find(',');
  if (comma == std::string::npos || comma == 0 || comma + 1 == text.size())
    throw CLI::ValidationError(fmt::format("--together {}: expected TASK,TASK", text));
  return {text.substr(0, comma), text.substr(comma + 1)};
}

}  // namespace

// Overloads for the types of the public options, which `RowsOf` finds by the type of the table.

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const std::vector<compiler::Pin>& /*initial*/,
                      const Member& member) {
  const auto set = [member](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) member().push_back(pin_of(text));
  };
  return table.add_row<std::vector<std::string>>(row, set)->check(named_number(row.value, kStageNumbers));
}

template <class Member>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, const std::vector<compiler::Together>& /*initial*/,
                      const Member& member) {
  const auto set = [member](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) member().push_back(together_of(text));
  };
  return table.add_row<std::vector<std::string>>(row, set)->delimiter('\0');
}

template <class Member, class File>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, compiler::Costs /*initial*/, const Member& member,
                      const File& file) {
  using compiler::Costs;
  return table.add_row<std::string>(row, [member, file](const std::string& text) {
    constexpr std::string_view kKeeps = "measured:";
    if (text.empty()) return;
    const bool keeps = text.starts_with(kKeeps) && text.size() > kKeeps.size();
    const bool measured = keeps || text == "measured";
    member() = measured ? Costs::kMeasured : text == "analytic" ? Costs::kAnalytic : Costs::kDatabase;
    if (keeps) file() = text.substr(kKeeps.size());
    if (member() == Costs::kDatabase && text != kKeeps) file() = text;  // without a file, which is refused
  });
}

template <class Member, class Patterns>
CLI::Option* add_flag(FlagTable& table, const OptionRow& row, bool /*initial*/, const Member& member,
                      const Patterns& patterns) {
  return table.add_switches(row, [member, patterns](const std::string& text) {
    if (text == "true") {
      member() = true;
    } else {
      patterns().push_back(text);
    }
  });
}

void add_read_flags(FlagTable& table, compiler::ReadOptions& options, PassFlags& passes) {
  table.add(options);
  table.option("--skip-pass").check(wrong_to_skip);
  std::vector<std::string> choices;
  for (const passes::Fusion& fusion : passes::fusions()) choices.emplace_back(fusion.name);
  choices.insert(choices.end(), {"loops", "all"});
  const auto keep_decomposed = [&options, &passes](const std::vector<std::string>& requested) {
    const auto names = [&](std::string_view name) {
      return std::find(requested.begin(), requested.end(), name) != requested.end();
    };
    for (const passes::Fusion& fusion : passes::fusions()) {
      if (names(fusion.name) || names("all")) options.skipped_passes.push_back(passes::pass_name(fusion));
    }
    if (names("loops") || names("all")) passes.loops = false;
  };
  const OptionRow no_fuse{"--no-fuse", "NAME,…", compiler::kCheckedModel,
                          "keep these operators decomposed as in the file; `loops`: compiled stages call LibTorch's "
                          "operators only; `all`; a wrong name lists all"};
  table.add_row<std::vector<std::string>>(no_fuse, keep_decomposed)->check(CLI::IsMember(choices));
  if ((table.inputs() & compiler::kReadModel) == 0) return;
  table.add_switch({"--time-passes", "", compiler::kReadModel, "print the time of every pass"}, passes.time_passes);
}

void add_plan_flags(FlagTable& table, compiler::PlanOptions& options) { table.add(options); }

void require_usage(const Result<void>& checked) {
  if (!checked.ok()) throw CLI::ValidationError(checked.diagnostic().message);
}

}  // namespace rannc::tools
