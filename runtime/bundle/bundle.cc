// Names, digests and manifest of a bundle.
#include "runtime/bundle/bundle.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/state/state_bytes.h"
#include "runtime/bundle/internal/bundle_files.h"

namespace rannc::runtime {

std::string program_file(StageId stage) { return fmt::format("stage{}.pt", stage.index()); }
std::string source_file(StageId stage) { return fmt::format("stage{}.cc", stage.index()); }
std::string compiled_file(StageId stage) { return fmt::format("stage{}.so", stage.index()); }
std::string weights_file(StageId stage) { return fmt::format("stage{}.safetensors", stage.index()); }
std::string Bundle::program_path(StageId stage) const { return path + "/" + program_file(stage); }
std::string Bundle::compiled_path(StageId stage) const { return path + "/" + compiled_file(stage); }

std::string_view str(BundleForm form) { return form == BundleForm::kNative ? "native" : "torchscript"; }

std::optional<BundleForm> parse_bundle_form(std::string_view text) {
  for (const BundleForm form : {BundleForm::kTorchScript, BundleForm::kNative}) {
    if (str(form) == text) return form;
  }
  return std::nullopt;
}

Result<std::string> file_digest(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return error({.file = path}, std::string("cannot read: ") + std::strerror(errno));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(1 << 20);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) return error({.file = path}, std::string("cannot read: ") + std::strerror(errno));
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::vector<std::string> bundle_files(size_t stages, BundleForm form) {
  std::vector<std::string> files = {kPlanFile};
  for (size_t i = 0; i < stages; ++i) {
    const auto stage = StageId::from(i);
    if (form == BundleForm::kNative) {
      files.push_back(source_file(stage));
      files.push_back(compiled_file(stage));
    } else {
      files.push_back(program_file(stage));
    }
    files.push_back(weights_file(stage));
  }
  return files;
}

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

Result<void> write_manifest(const std::string& folder, const ir::Plan& plan, const std::vector<Library>& libraries,
                            BundleForm form) {
  nlohmann::ordered_json files = nlohmann::ordered_json::object();
  std::vector<std::string> names = bundle_files(plan.stages.size(), form);
  if (std::filesystem::exists(folder + "/" + kStateFile)) names.emplace_back(kStateFile);
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    RANNC_ASSIGN(const std::string digest, file_digest(path));
    files[name] = {{"bytes", std::filesystem::file_size(path)}, {"digest", digest}};
  }
  nlohmann::ordered_json manifest = {
      {"format", "rannc.bundle"}, {"version", kBundleVersion}, {"stages", plan.stages.size()}, {"files", files}};
  if (form != BundleForm::kTorchScript) manifest["form"] = str(form);
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
