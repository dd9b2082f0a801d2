#include "tools/compile/bundle_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "partition/cluster.h"

namespace rannc::tools {

namespace {

// Flags about plans, and about other inputs, that a bundle decides.
constexpr const char* kDecided[] = {"--optimizer", "--momentum",      "--kernels", "--seed",   "--stage-onnx",
                                    "--bundle",    "--profile-batch", "--exact",   "--rebuild"};

bool is_local_worker(const ir::PlanDevice& device) {
  const partition::Cluster local = partition::preset_cluster("local:1").value();
  return device.type == ir::DeviceType::kCpu && device.kind == local.kinds.front().name;
}

}  // namespace

bool is_bundle(const std::string& path) {
  const std::filesystem::path folder(path);
  std::error_code ignored;
  return std::filesystem::is_directory(folder, ignored) &&
         (std::filesystem::exists(folder / runtime::kManifestFile, ignored) ||
          std::filesystem::exists(folder / runtime::kPlanFile, ignored));
}

void check_bundle_flags(const CLI::App& app, const std::string& bundle) {
  CLI::App of_models;
  CompileFlags unused;
  add_model_flags(of_models, unused);
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--help") continue;
    const bool decided = std::any_of(std::begin(kDecided), std::end(kDecided),
                                     [&](const char* flag) { return option->check_name(flag); });
    if (!decided && of_models.get_option_no_throw(name) == nullptr) continue;
    throw CLI::ValidationError(fmt::format(
        "{}: {} is a bundle, whose model, loss, passes and optimizer stay; compile the model's file", name, bundle));
  }
  const std::string emitted = app.get_option("--emit")->as<std::string>();
  if (emitted == "onnx" || emitted == "stage-onnx") {
    throw CLI::ValidationError(fmt::format("--emit {} needs the model's ONNX file; {} is a bundle", emitted, bundle));
  }
  if (emitted == "bundle" && app.get_option("--output")->count() == 0)
    throw CLI::ValidationError(fmt::format("--output is missing: name the bundle to write; {} is kept", bundle));
}

Result<void> complete_flags(const PlannedBundle& bundle, const CLI::App& app, CompileFlags& flags, FormFlags& form) {
  if (app.get_option("--form")->count() == 0) form.form = runtime::str(bundle.form);
  flags.loops = bundle.loops;
  if (app.get_option("--cluster")->count() > 0) return {};
  for (const ir::PlanDevice& device : bundle.devices) {
    if (is_local_worker(device)) continue;
    return error({.file = flags.model},
                 fmt::format("was planned for {} ({}), not for workers of this machine: specify --cluster", device.name,
                             device.kind));
  }
  flags.cluster = fmt::format("local:{}", flags.devices.value_or(static_cast<uint32_t>(bundle.devices.size())));
  return {};
}

}  // namespace rannc::tools
