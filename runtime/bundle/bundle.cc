// Names, digests and manifest of a bundle.
#include "runtime/bundle/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/state/state_bytes.h"
#include "runtime/bundle/internal/bundle_files.h"
#include "runtime/bundle/internal/compilation_json.h"

namespace rannc::runtime {

std::string source_file(StageId stage) { return fmt::format("stage{}.cc", stage.index()); }
std::string compiled_file(StageId stage) { return fmt::format("stage{}.so", stage.index()); }
std::string weights_file(StageId stage) { return fmt::format("stage{}.safetensors", stage.index()); }
std::string executable_file(StageId stage) { return fmt::format("stage{}", stage.index()); }
std::string model_file(StageId stage) { return fmt::format("stage{}.onnx", stage.index()); }
std::string Bundle::compiled_path(StageId stage) const { return path + "/" + compiled_file(stage); }

std::string_view str(BundleForm form) { return form == BundleForm::kNative ? "native" : "interpreted"; }

std::optional<BundleForm> parse_bundle_form(std::string_view text) {
  for (const BundleForm form : {BundleForm::kInterpreted, BundleForm::kNative}) {
    if (str(form) == text) return form;
  }
  return std::nullopt;
}

std::vector<std::string> stage_files(StageId stage, BundleForm form) {
  if (form == BundleForm::kNative) return {source_file(stage), compiled_file(stage), weights_file(stage)};
  return {weights_file(stage)};
}
bool is_compiled(const std::string& name, BundleForm form) {
  if (form != BundleForm::kNative) return false;
  return name.ends_with(".cc") || name.ends_with(".so") || name.find('.') == std::string::npos;
}
std::vector<std::string> optional_stage_files(StageId stage) { return {executable_file(stage)}; }
std::vector<std::string> model_files(StageId stage) { return {model_file(stage), model_file(stage) + ".data"}; }

bool HostedStages::contains(const ir::Plan& plan, StageId id) const {
  if (stage) return id == *stage;
  if (!device) return true;
  const auto& homes = plan.stages[id.index()].devices;
  return std::find(homes.begin(), homes.end(), *device) != homes.end();
}

std::set<ValueId> hosted_values(const Bundle& bundle) {
  std::set<ValueId> found;
  for (size_t stage = 0; stage < bundle.signatures.size(); ++stage) {
    if (!bundle.hosted.contains(bundle.plan, StageId::from(stage))) continue;
    const Signature& signature = bundle.signatures[stage];
    for (const auto* group : {&signature.parameters, &signature.buffers, &signature.constants}) {
      for (const Weight& weight : *group) found.insert(weight.value);
    }
  }
  if (bundle.hosted.need_state()) {
    for (const ValueId value : unread_state(bundle.plan)) found.insert(value);
  }
  return found;
}

namespace {

/// Returns the files in the folder of a bundle, except its manifest.
std::vector<std::string> files_in(const std::string& folder, size_t stages, BundleForm form) {
  std::vector<std::string> names = {kPlanFile};
  for (size_t stage = 0; stage < stages; ++stage) {
    for (std::string& name : stage_files(StageId::from(stage), form)) names.push_back(std::move(name));
    for (const auto list : {optional_stage_files, model_files}) {
      for (std::string& name : list(StageId::from(stage))) {
        if (std::filesystem::exists(folder + "/" + name)) names.push_back(std::move(name));
      }
    }
  }
  if (std::filesystem::exists(folder + "/" + kStateFile)) names.emplace_back(kStateFile);
  return names;
}

}  // namespace

std::vector<ValueId> unread_state(const ir::Plan& plan) {
  std::set<ValueId> found;
  for (const ir::StateTensor& tensor : ir::full_state(plan.graph).tensors) {
    for (const ir::StatePart& part : tensor.parts) {
      if (plan.graph.value(part.value).data.present()) found.insert(part.value);
    }
  }
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const Signature taken = signature(plan, StageId::from(stage));
    for (const auto* group : {&taken.parameters, &taken.buffers, &taken.constants}) {
      for (const Weight& weight : *group) found.erase(weight.value);
    }
  }
  return {found.begin(), found.end()};
}

std::string rebuild_advice(const std::string& bundle) {
  return fmt::format("`rannc-compile --rebuild {}` compiles the stages again", bundle);
}

Result<void> write_manifest(const std::string& folder, const ir::Plan& plan, const std::vector<Library>& libraries,
                            const std::optional<Compilation>& compiled) {
  const BundleForm form = compiled ? BundleForm::kNative : BundleForm::kInterpreted;
  nlohmann::ordered_json files = nlohmann::ordered_json::object();
  for (const std::string& name : files_in(folder, plan.stages.size(), form)) {
    const std::string path = folder + "/" + name;
    RANNC_ASSIGN(const std::string digest, file_digest(path));
    files[name] = {{"bytes", std::filesystem::file_size(path)}, {"digest", digest}};
  }
  nlohmann::ordered_json manifest = {
      {"format", "rannc.bundle"}, {"version", kBundleVersion}, {"stages", plan.stages.size()}, {"files", files}};
  if (compiled) {
    manifest["form"] = str(form);
    manifest[kCompiledEntry] = compilation_json(*compiled);
  }
  for (const Library& library : libraries)
    manifest["libraries"].push_back({{"path", library.path}, {"digest", library.digest}});
  const std::string path = folder + "/" + kManifestFile;
  std::ofstream out(path, std::ios::binary);
  out << manifest.dump(2) << "\n";
  out.close();
  if (!out) return error({.file = path}, std::string("cannot write: ") + std::strerror(errno));
  return {};
}

}  // namespace rannc::runtime
