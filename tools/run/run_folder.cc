#include "tools/run/run_folder.h"

#include <system_error>

#include "runtime/train/checkpoint.h"

namespace rannc::tools {

namespace fs = std::filesystem;

namespace {

constexpr int kRemovals = 100;  // attempts
constexpr const char* kReports[] = {"trace.json", "report.html", "profile.json"};

RunCheckpoints find_checkpoints(const fs::path& folder) {
  const std::string parent = checkpoints_of(folder).string();
  return {runtime::latest_checkpoint(parent), runtime::newer_damaged_checkpoints(parent)};
}

/// Returns a file of a previous run in the folder, or an empty path.
fs::path trace_of_run(const fs::path& folder, const RunCheckpoints& checkpoints) {
  if (!checkpoints.latest.empty()) return checkpoints.latest;
  if (!checkpoints.damaged.empty()) return checkpoints.damaged.front().where.file;
  std::error_code ignored;
  for (const char* name : kReports) {
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  return {};
}

Diagnostic file_error(const fs::path& path, const std::string& what) { return error({path.string(), 0, 0, {}}, what); }

}  // namespace

Result<FolderLock> FolderLock::take(const fs::path& folder, FolderPart part) {
  FolderLock taken;
  std::error_code failed, ignored;
  fs::path missing = fs::absolute(folder, failed).lexically_normal();
  if (!missing.has_filename()) missing = missing.parent_path();  // it ended in a slash
  for (; !fs::exists(missing, ignored) && missing.has_relative_path(); missing = missing.parent_path())
    taken.created_.insert(taken.created_.begin(), missing);
  fs::create_directories(folder, failed);
  if (failed) return file_error(folder, "cannot be created: " + failed.message());
  const fs::path file = folder / (part == FolderPart::kRun ? "run.lock" : "evaluation.lock");
  RANNC_ASSIGN(taken.lock_, OutputLock::take(file.string(), folder.string(), "rannc-run"));
  return taken;
}

FolderLock::~FolderLock() {
  lock_ = OutputLock();
  std::error_code kept;
  for (; !created_.empty() && fs::remove(created_.back(), kept); created_.pop_back()) continue;
}

fs::path checkpoints_of(const fs::path& folder) { return folder / "checkpoints"; }

Result<RunCheckpoints> check_run_folder(const fs::path& folder, RunFolderUse use) {
  RunCheckpoints checkpoints = find_checkpoints(folder);
  if (use == RunFolderUse::kResume) {
    if (!checkpoints.latest.empty()) return checkpoints;
    Diagnostic none = file_error(checkpoints_of(folder), "--resume: no finished checkpoint found");
    for (const Diagnostic& damaged : checkpoints.damaged) none.notes.push_back({damaged.where, damaged.message});
    return none;
  }
  const fs::path found = trace_of_run(folder, checkpoints);
  if (found.empty() || use == RunFolderUse::kReplace) return checkpoints;
  return file_error(
             folder,
             "contains a run already: use --resume to continue it, --replace to remove it, or -o for another folder")
      .note("a file of that run", {found.string(), 0, 0, {}});
}

Result<void> prepare_run_folder(const fs::path& folder, RunFolderUse use) {
  std::error_code failed;
  if (use == RunFolderUse::kReplace) {
    // Another worker may remove the same files at the same time: then the rest is still to be removed.
    for (int i = 0; i < kRemovals && (i == 0 || failed == std::errc::no_such_file_or_directory); ++i) {
      fs::remove_all(checkpoints_of(folder), failed);
      for (const char* name : kReports) {
        if (!failed) fs::remove(folder / name, failed);
      }
    }
    if (failed && !trace_of_run(folder, find_checkpoints(folder)).empty())
      return file_error(folder, "the previous run cannot be removed: " + failed.message());
  }
  fs::create_directories(checkpoints_of(folder), failed);
  if (failed) return file_error(folder, "cannot be created: " + failed.message());
  return {};
}

}  // namespace rannc::tools
