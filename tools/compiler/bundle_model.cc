#include "tools/compiler/bundle_model.h"

#include <filesystem>
#include <utility>

#include "ir/plan/fixed_samples.h"
#include "runtime/bundle/libraries.h"
#include "tools/compiler/form_atoms.h"

namespace rannc::tools {

namespace {

/// Paths as recorded, except for those that `given` replaces.
Result<std::vector<runtime::Library>> loaded_libraries(const runtime::Bundle& bundle,
                                                       const std::vector<std::string>& given) {
  RANNC_TRY(runtime::load_libraries(bundle, given));
  std::vector<runtime::Library> libraries = bundle.libraries;
  for (const std::string& path : given) {
    RANNC_ASSIGN(const runtime::Library loaded, runtime::load_library(path));
    for (runtime::Library& library : libraries) {
      if (library.digest == loaded.digest) library.path = loaded.path;
    }
  }
  return libraries;
}

}  // namespace

void PlannedBundle::apply(RequestedPlan& request) const {
  if (!request.options.mini_batch) request.options.mini_batch = mini_batch;
  request.planning.optimizer = optimizer;
  for (const auto& [symbol, size] : sizes) request.planning.assume.emplace(symbol, size);
  request.planning.seed = seed;
  request.options.kernels = compiler::Kernels::kDefault;
}

bool is_bundle(const std::string& path) {
  const std::filesystem::path folder(path);
  std::error_code ignored;
  return std::filesystem::is_directory(folder, ignored) &&
         (std::filesystem::exists(folder / runtime::kManifestFile, ignored) ||
          std::filesystem::exists(folder / runtime::kPlanFile, ignored));
}

Result<BundleModel> read_bundle(const std::string& path, const std::vector<std::string>& libraries) {
  RANNC_ASSIGN(runtime::Bundle bundle, runtime::open_bundle(path));
  BundleModel read;
  RANNC_ASSIGN(read.libraries, loaded_libraries(bundle, libraries));
  PreparedModel& model = read.model;
  model.graph = bundle.plan.graph.clone();
  model.digest = bundle.plan.model_digest;
  model.read.tasks = model.graph.task_count();
  if (ir::fixed_samples(model.graph))
    model.batching = {BatchKind::kWhole, error({.file = path}, "the model has a static batch size")};
  RANNC_TRY(form_atoms(model));
  const ir::Plan& plan = bundle.plan;
  read.planned = {.mini_batch = plan.mini_batch,
                  .optimizer = plan.optimizer,
                  .sizes = plan.sizes,
                  .seed = plan.seed,
                  .devices = plan.devices,
                  .form = bundle.form,
                  .loops = !bundle.compiled || bundle.compiled->has_loops()};
  return read;
}

}  // namespace rannc::tools
