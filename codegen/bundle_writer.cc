// Builds a bundle beside its final place and moves it there.
#include "codegen/bundle_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "codegen/stage_writer.h"
#include "ir/text.h"
#include "runtime/bundle.h"

namespace rannc::codegen {
namespace {

namespace fs = std::filesystem;

Diagnostic system_error(const std::string& path, const char* what, const std::error_code& code) {
  return error({.file = path}, fmt::format("cannot {}: {}", what, code.message()));
}

/// A folder beside `path` that vanishes unless it is moved there.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& path)
      : final_(path), temporary_(fmt::format("{}.partial-{}", path, ::getpid())) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!moved_) fs::remove_all(temporary_, ignored);
  }
  const std::string& path() const { return temporary_; }

  Result<void> create() {
    std::error_code code;
    fs::remove_all(temporary_, code);
    fs::create_directory(temporary_, code);
    if (code) return system_error(final_, "create", code);
    return {};
  }

  Result<void> move(bool replace) {
    std::error_code code;
    const std::string old = temporary_ + ".old";
    const bool exists = fs::exists(fs::symlink_status(final_, code));
    if (exists && replace) {
      fs::rename(final_, old, code);
      if (code) return system_error(final_, "replace", code);
    }
    fs::rename(temporary_, final_, code);
    if (code) {
      std::error_code ignored;
      if (exists && replace) fs::rename(old, final_, ignored);
      return system_error(final_, "write", code);
    }
    moved_ = true;
    if (exists && replace) fs::remove_all(old, code);
    return {};
  }

 private:
  std::string final_, temporary_;
  bool moved_ = false;
};

Result<void> check_target(const std::string& path, const BundleOptions& options) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(path, code))) return {};
  if (!options.replace) return error({.file = path}, "exists already; it is left as it is");
  if (fs::exists(path + "/" + runtime::kManifestFile, code)) return {};
  return error({.file = path}, "exists and is no bundle; it is left as it is");
}

Result<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return error({.file = path}, std::string("cannot write: ") + std::strerror(errno));
  return {};
}

/// The plan's text with every weight's bytes referred to where the bundle has them, so that the bundle needs nothing
/// outside and no number stands in it twice. Weights that no stage reads lose their bytes.
Result<std::string> plan_text(const ir::Plan& plan, const std::string& folder) {
  ir::Plan stored = plan.clone();
  for (ValueId value : stored.graph.values()) {
    if (stored.graph.value(value).data.present()) stored.graph.set_data(value, {});
  }
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const std::string name = runtime::weights_file(StageId::from(i));
    RANNC_ASSIGN(const auto file, runtime::SafetensorsFile::open(folder + "/" + name));
    for (const auto& entry : file.entries()) {
      stored.graph.set_data(stored.graph.find(entry.name),
                            ir::TensorData::in_file(name, entry.offset, entry.spec.bytes()));
    }
  }
  return ir::print(stored);
}

}  // namespace

Result<void> write_bundle(const ir::Plan& plan, const BundleOptions& options, const std::string& path) {
  if (!plan.schedule.lowered) return error("the plan's schedule has no transfers and steps: lower it first");
  RANNC_TRY(check_target(path, options));
  TemporaryFolder folder(path);
  RANNC_TRY(folder.create());
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    RANNC_TRY(write_stage(plan, StageId::from(stage), folder.path()));
  }
  RANNC_ASSIGN(const std::string text, plan_text(plan, folder.path()));
  RANNC_TRY(write_text(folder.path() + "/" + runtime::kPlanFile, text));
  RANNC_TRY(runtime::write_manifest(folder.path(), plan));
  return folder.move(options.replace);
}

}  // namespace rannc::codegen
