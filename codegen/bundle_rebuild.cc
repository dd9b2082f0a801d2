// Compares the compiled files of a bundle with those of this build and replaces them.
#include "codegen/bundle_rebuild.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "codegen/internal/compile_stages.h"
#include "codegen/stage_writer.h"
#include "ir/base/replacement.h"

namespace rannc::codegen {

namespace {

namespace fs = std::filesystem;

std::string bytes_of(const std::string& path) {
  const Result<std::string> bytes = read_file(path);
  return bytes.ok() ? *bytes : std::string();
}

/// Compares a bundle with what this build would write.
class Comparison {
 public:
  Comparison(const runtime::StaleBundle& opened, const RebuildOptions& options, runtime::Compilation now)
      : opened_(opened), options_(options), now_(std::move(now)) {
    for (const Diagnostic& fault : opened.stale) {
      const std::string name = fs::path(fault.where.file).filename().string();
      damaged_.insert(name);
      reasons_.push_back(name + ": " + fault.message);
    }
  }

  /// `folder` contains the sources of this build.
  Result<std::vector<std::string>> reasons(const std::string& folder) {
    if (opened_.bundle.compiled) compare_record(*opened_.bundle.compiled);
    for (size_t i = 0; i < opened_.bundle.plan.stages.size(); ++i) compare_source(StageId::from(i), folder);
    // What is known to be damaged may crash the process that loads it.
    for (size_t i = 0; i < opened_.bundle.plan.stages.size() && reasons_.empty(); ++i)
      RANNC_TRY(compare_compiled(StageId::from(i)));
    if (opened_.has_executables) RANNC_TRY(compare_executable());
    return std::move(reasons_);
  }

 private:
  std::string at(const std::string& name) const { return opened_.bundle.path + "/" + name; }

  void compare_record(const runtime::Compilation& then) {
    if (then.torch_version != now_.torch_version)
      add(runtime::kManifestFile, "the stages were compiled for LibTorch {}; this build has {}", then.torch_version,
          now_.torch_version);
    if (then.interface_version != now_.interface_version)
      add(runtime::kManifestFile,
          "the stages were compiled for version {} of the interface of stages; this build has version {}",
          then.interface_version, now_.interface_version);
    if (!options_.same_compiler) return;
    if (then.compiler_version != now_.compiler_version) {
      add(runtime::kManifestFile, "the stages were compiled by {}; --cxx is {}", then.compiler_version,
          now_.compiler_version);
    } else if (then.function_flags != now_.function_flags || then.loop_flags != now_.loop_flags ||
               then.instruction_sets != now_.instruction_sets) {
      add(runtime::kManifestFile, "the stages were compiled with other flags");
    }
  }

  void compare_source(StageId stage, const std::string& folder) {
    const std::string name = runtime::source_file(stage);
    if (damaged_.contains(name) || bytes_of(at(name)) == bytes_of(folder + "/" + name)) return;
    add(name, "is not the source that this build writes for the plan");
  }

  Result<void> compare_compiled(StageId stage) {
    if (!options_.load) return {};
    const std::string name = runtime::compiled_file(stage);
    const auto found = options_.load(at(name));
    if (!found.ok()) {
      reasons_.push_back(name + ": " + found.diagnostic().message);
      return {};
    }
    RANNC_ASSIGN(const auto expected,
                 native_fingerprints(opened_.bundle.plan, stage, {.loops = opened_.bundle.compiled->has_loops()}));
    if (*found != expected) add(name, "has other functions than the plan");
    return {};
  }

  Result<void> compare_executable() {
    const std::string name = runtime::executable_file(StageId(0));
    if (damaged_.contains(name)) return {};
    RANNC_ASSIGN(const std::string then, runtime::file_digest(at(name)));
    RANNC_ASSIGN(const std::string now, runtime::file_digest(options_.stage_program));
    if (then != now) add(name, "is rannc-stage of another build");
    return {};
  }

  template <class... Args>
  void add(const std::string& file, fmt::format_string<Args...> text, Args&&... args) {
    reasons_.push_back(file + ": " + fmt::format(text, std::forward<Args>(args)...));
  }

  const runtime::StaleBundle& opened_;
  const RebuildOptions& options_;
  const runtime::Compilation now_;
  std::set<std::string> damaged_;
  std::vector<std::string> reasons_;
};

/// Files share their bytes with the old bundle where the file system has hard links.
Result<void> keep_others(const runtime::StaleBundle& opened, const std::string& folder) {
  std::set<std::string> rewritten = {runtime::kManifestFile};
  for (size_t i = 0; i < opened.bundle.plan.stages.size(); ++i) {
    const auto stage = StageId::from(i);
    rewritten.insert(runtime::source_file(stage));
    rewritten.insert(runtime::compiled_file(stage));
    if (opened.has_executables) rewritten.insert(runtime::executable_file(stage));
  }
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(opened.bundle.path, failed)) {
    const std::string name = entry.path().filename().string();
    if (rewritten.contains(name)) continue;
    const fs::path copy = fs::path(folder) / name;
    constexpr auto kWhole = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
    fs::copy(entry.path(), copy, kWhole | fs::copy_options::create_hard_links, failed);
    if (failed) fs::copy(entry.path(), copy, kWhole | fs::copy_options::overwrite_existing, failed);
    if (failed) return error({.file = copy.string()}, "cannot be written: " + failed.message());
  }
  if (failed) return error({.file = opened.bundle.path}, "cannot be read: " + failed.message());
  return {};
}

Result<runtime::StaleBundle> open(const std::string& path) {
  std::error_code failed;
  const fs::path whole = fs::canonical(path, failed);  // a symbolic link to a bundle stays one
  return runtime::open_to_rebuild(failed ? path : whole.string());
}

}  // namespace

Result<std::vector<std::string>> rebuild_bundle(const std::string& path, const RebuildOptions& options) {
  RANNC_ASSIGN(const runtime::StaleBundle opened, open(path));
  const runtime::Bundle& bundle = opened.bundle;
  if (options.prepare) RANNC_TRY(options.prepare(bundle));
  NativeForm form = options.form;
  form.options.loops = !bundle.compiled || bundle.compiled->has_loops();
  const runtime::Compilation compilation = form.compiler.compilation(form.options.loops);
  Replacement copy(bundle.path);
  const std::string& folder = copy.temporary();
  std::error_code failed;
  fs::remove_all(folder, failed);
  if (!fs::create_directory(folder, failed)) return error({.file = path}, "cannot be created: " + failed.message());
  const size_t stages = bundle.plan.stages.size();
  for (size_t i = 0; i < stages; ++i)
    RANNC_TRY(write_native_source(bundle.plan, StageId::from(i), form.options, folder));
  RANNC_ASSIGN(std::vector<std::string> stale, Comparison(opened, options, compilation).reasons(folder));
  if (stale.empty()) return stale;
  RANNC_TRY(compile_stages(form, stages, folder));
  RANNC_TRY(write_executables(opened.has_executables ? options.stage_program : "", stages, folder));
  RANNC_TRY(keep_others(opened, folder));
  RANNC_TRY(runtime::write_manifest(folder, bundle.plan, bundle.libraries, compilation));
  RANNC_TRY(copy.commit());
  return stale;
}

}  // namespace rannc::codegen
