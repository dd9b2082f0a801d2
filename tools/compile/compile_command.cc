#include "tools/compile/compile_command.h"

#include <fmt/format.h>

#include <filesystem>

#include "tools/compile/listing.h"
#include "tools/compile/profile_command.h"
#include "tools/compiler/bundle_model.h"
#include "tools/compiler/check_plan_options.h"
#include "tools/compiler/requested_model.h"

namespace rannc::tools {

namespace {

using compiler::Input;

bool given(const FlagTable& table, std::string_view flag) {
  const auto& entries = table.entries();
  return std::any_of(entries.begin(), entries.end(),
                     [&](const auto& entry) { return entry.option->check_name(std::string(flag)) && entry.given(); });
}

/// Throws `message` of the first flag that is given and applies to none of `inputs`.
template <class Message>
void refuse_others(const FlagTable& table, uint32_t inputs, const Message& message) {
  for (const FlagTable::Entry& entry : table.entries()) {
    if (entry.given() && (entry.row.inputs & inputs) == 0)
      throw CLI::ValidationError(fmt::format("{}: {}", entry.option->get_name(), message(entry.row)));
  }
}

Input input_of(const std::string& model) {
  if (is_bundle(model)) return Input::kBundleFolder;
  if (!is_profile(model)) return Input::kModelFile;
  return std::filesystem::path(model).extension() == ".json" ? Input::kPlacementGraph : Input::kProfileText;
}

/// Why a flag does not apply to an input.
std::string refusal(const std::string& model, Input input, const OptionRow& row) {
  constexpr uint32_t kProfiles = Input::kProfileText | Input::kPlacementGraph;
  if (input == Input::kBundleFolder)
    return fmt::format("{} is a bundle, whose model, loss, passes and optimizer stay; compile the model's file", model);
  if (row.inputs == Input::kBundleFolder) return fmt::format("{} is not a bundle", model);
  if (input == Input::kModelFile) return fmt::format("{} is not a profile", model);
  if ((row.inputs & kProfiles) == 0) return fmt::format("{} is a profile, not a model", model);
  if (input == Input::kPlacementGraph)
    return fmt::format("{} is a placement graph, which specifies this itself", model);
  return fmt::format("{} is a profile, not a placement graph (.json)", model);
}

void check_bundle(const FlagTable& table, const CompileCommand& command) {
  if (command.emit == "onnx" || command.emit == "stage-onnx") {
    throw CLI::ValidationError(
        fmt::format("--emit {} needs the model's ONNX file; {} is a bundle", command.emit, command.model));
  }
  if (command.emit == "bundle" && !given(table, "--output"))
    throw CLI::ValidationError(fmt::format("--output is missing: name the bundle to write; {} is kept", command.model));
}

void check_onnx_output(const FlagTable& table, const CompileCommand& command) {
  const auto require = [&](const char* flag, const char* why) {
    if (!given(table, flag)) throw CLI::ValidationError(fmt::format("{} is missing: {}", flag, why));
  };
  if (command.emit == "onnx") {
    require("--weights", "--emit onnx writes a copy of the model with other weights");
    require("--output", "--emit onnx does not overwrite the model");
    if (std::filesystem::path(command.model).extension() == ".rir")
      throw CLI::ValidationError(fmt::format("--emit: {} is not an ONNX file", command.model));
  }
  if (command.emit == "stage-onnx") {
    require("--bundle", "--emit stage-onnx cuts the model at the plan of a bundle");
    require("--output", "--emit stage-onnx writes a folder");
  } else if (!command.bundle.empty()) {
    throw CLI::ValidationError("--bundle requires --emit stage-onnx");
  }
  if (command.stage_onnx && command.emit != "bundle")
    throw CLI::ValidationError("--stage-onnx adds files to a bundle; --emit " + command.emit + " writes none");
}

}  // namespace

void add_compile_flags(FlagTable& table, CompileCommand& command) {
  table.add(command);
  add_read_flags(table, command.read, command.passes);
  add_plan_flags(table, command.plan);
  table.option("--plan").check(CLI::ExistingFile);
}

void check_command(const FlagTable& table, const CompileCommand& command) {
  if (!command.rebuilt.empty()) {
    return refuse_others(table, Input::kRebuiltBundle, [](const OptionRow&) {
      return std::string("--rebuild takes everything but the compiler from the bundle");
    });
  }
  if (command.model.empty()) throw CLI::RequiredError("model");
  const Input input = input_of(command.model);
  const bool profile = input == Input::kProfileText || input == Input::kPlacementGraph;
  refuse_others(table, input, [&](const OptionRow& row) { return refusal(command.model, input, row); });
  if (input == Input::kBundleFolder) check_bundle(table, command);
  if (profile && given(table, "--emit") && command.emit == "bundle")
    throw CLI::ValidationError(fmt::format("--emit: {} is a profile, which has no bundle", command.model));
  compiler::PlanOptions plan = command.plan;
  if (!plan.plan.empty()) {
    const uint32_t saved = Input::kSavedPlan | (profile ? Input::kSavedStages : 0U);
    refuse_others(table, saved, [](const OptionRow&) {
      return std::string("the plan of --plan decides; edit its file, or leave out the flag");
    });
    if (profile) plan.plan.clear();  // it decides less than that of a model
  }
  check_onnx_output(table, command);
  require_usage(check(command.read));
  if (const auto checked_plan = checked(plan); !checked_plan.ok()) require_usage(checked_plan.diagnostic());
  if (profile) require_usage(check_profile_command(command));
}

}  // namespace rannc::tools
