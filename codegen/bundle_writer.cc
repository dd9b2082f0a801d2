// Assembles a bundle in a sibling folder and renames that.
#include "codegen/bundle_writer.h"

#include <filesystem>
#include <utility>

#include "codegen/internal/compile_stages.h"
#include "codegen/stage_writer.h"
#include "ir/base/replacement.h"
#include "ir/text/text.h"
#include "runtime/bundle/bundle.h"

namespace rannc::codegen {
namespace {

namespace fs = std::filesystem;

Result<void> check_target(const std::string& path, const BundleOptions& options) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(path, code))) return {};
  if (!options.replace) return error({.file = path}, "exists already and is not replaced");
  if (fs::exists(path + "/" + runtime::kManifestFile, code)) return {};
  return error({.file = path}, "exists but is not a bundle; it is not replaced");
}

ir::Plan without_data(const ir::Plan& plan) {
  ir::Plan bare = plan.clone();
  for (ValueId value : bare.graph.values()) {
    if (bare.graph.value(value).data.present()) bare.graph.set_data(value, {});
  }
  return bare;
}

/// A plan whose text a run would refuse is a defect of rannc, which must not wait for the run.
void check_text(const ir::Plan& bare) {
  const Result<ir::Plan> read = ir::parse_plan(ir::print(bare), runtime::kPlanFile);
  RANNC_CHECK(read.ok()) << "a run would refuse this plan: " << read.diagnostic().str();
}

/// Returns the plan's text with references to the bundle's weights files, so that the bundle is self-contained and
/// stores all data once. Weights that belong neither to a stage nor to the state lose their data.
Result<std::string> plan_text(ir::Plan stored, const std::string& folder) {
  std::vector<std::string> names;
  for (size_t i = 0; i < stored.stages.size(); ++i) names.push_back(runtime::weights_file(StageId::from(i)));
  if (fs::exists(fs::path(folder) / runtime::kStateFile)) names.emplace_back(runtime::kStateFile);
  for (const std::string& name : names) {
    RANNC_ASSIGN(const auto file, runtime::SafetensorsFile::open((fs::path(folder) / name).string()));
    for (const auto& entry : file.entries()) {
      stored.graph.set_data(stored.graph.find(entry.name),
                            ir::TensorData::in_file(name, entry.offset, entry.spec.bytes()));
    }
  }
  return ir::print(stored);
}

}  // namespace

Result<void> write_bundle(const ir::Plan& plan, const BundleOptions& options, const std::string& path) {
  if (!plan.schedule.lowered) return error("the plan's schedule is not lowered");
  RANNC_TRY(check_target(path, options));
  ir::Plan bare = without_data(plan);
  check_text(bare);
  Replacement bundle(path);
  const std::string& folder = bundle.temporary();
  std::error_code failed;
  fs::remove_all(folder, failed);
  if (!fs::create_directory(folder, failed)) return error({.file = path}, "cannot be created: " + failed.message());
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const auto stage = StageId::from(i);
    if (options.native) RANNC_TRY(write_native_source(plan, stage, options.native->options, folder));
    RANNC_TRY(write_weights(plan, stage, folder));
  }
  if (options.native) RANNC_TRY(compile_stages(*options.native, plan.stages.size(), folder));
  RANNC_TRY(write_unread_state(plan, folder));
  RANNC_TRY(write_executables(options.stage_program, plan.stages.size(), folder));
  RANNC_ASSIGN(const std::string text, plan_text(std::move(bare), folder));
  RANNC_TRY(write_file(folder + "/" + runtime::kPlanFile, options.comment ? options.comment(text) : text));
  if (options.add_files) RANNC_TRY(options.add_files(folder));
  std::optional<runtime::Compilation> compiled;
  if (options.native) compiled = options.native->compiler.compilation(options.native->options.loops);
  RANNC_TRY(runtime::write_manifest(folder, plan, options.libraries, compiled));
  RANNC_TRY(check_target(path, options));  // the target may have changed in the meantime
  return bundle.commit();
}

}  // namespace rannc::codegen
