// Loads compiled stages and binds their functions.
#include "runtime/engine/internal/compiled_stage.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "runtime/aten/vector_math.h"
#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

namespace {

Diagnostic stale(const std::string& path, const std::string& what) {
  return error({.file = path}, what, "B10")
      .note(rebuild_advice(std::filesystem::path(path).parent_path().string()) +
            "; --engine explicit runs without them");
}

}  // namespace

Result<CompiledStage> CompiledStage::open(const std::string& path) {
  resolve_vector_math();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return stale(path, fmt::format("cannot be loaded: {}", dlerror()));
  const auto entry = reinterpret_cast<native::StageEntry>(dlsym(library, native::kStageEntry));
  if (entry == nullptr) return stale(path, fmt::format("is no compiled stage: it lacks `{}`", native::kStageEntry));
  const native::Stage& stage = *entry();
  if (stage.interface_version != native::kInterfaceVersion) {
    return stale(path, fmt::format("was compiled for version {} of the interface of stages; this build has version {}",
                                   stage.interface_version, native::kInterfaceVersion));
  }
  if (std::string_view(stage.torch_version) != TORCH_VERSION) {
    return stale(path,
                 fmt::format("was compiled for LibTorch {}; this build has {}", stage.torch_version, TORCH_VERSION));
  }
  return CompiledStage(path, stage);
}

CompiledStageFacts CompiledStage::facts() const {
  CompiledStageFacts found{.instruction_set = stage_->instruction_set};
  for (uint32_t i = 0; i < stage_->function_count; ++i)
    found.fingerprints[stage_->functions[i].name] = stage_->functions[i].fingerprint;
  return found;
}

Result<void> CompiledStage::bind(StagePrograms& programs) const {
  for (const auto& [name, program] : named_programs(programs)) {
    const native::NamedFunction* const end = stage_->functions + stage_->function_count;
    const auto* const found = std::find_if(
        stage_->functions, end, [&, wanted = name](const native::NamedFunction& each) { return wanted == each.name; });
    if (found == end) return stale(path_, fmt::format("lacks function {} of the plan", name));
    if (program->fingerprint() != found->fingerprint) {
      return stale(path_, fmt::format("has another function {} than the plan: fingerprint {}, expected {}", name,
                                      found->fingerprint, program->fingerprint()));
    }
    program->use(found->function);
  }
  return {};
}

Result<CompiledStageFacts> compiled_stage_facts(const std::string& path) {
  RANNC_ASSIGN(const CompiledStage stage, CompiledStage::open(path));
  return stage.facts();
}

}  // namespace rannc::runtime
