// Compiles all stages of a bundle and copies their program.
#include "codegen/internal/compile_stages.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

namespace rannc::codegen {

namespace fs = std::filesystem;

Result<void> compile_stages(const NativeForm& form, size_t stages, const std::string& folder) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t done = 0;
  std::optional<Diagnostic> failure;
  const auto work = [&] {
    for (size_t i = next++; i < stages; i = next++) {
      const auto stage = StageId::from(i);
      const Result<void> compiled = form.compiler.compile(folder + "/" + runtime::source_file(stage),
                                                          folder + "/" + runtime::compiled_file(stage));
      const std::lock_guard lock(mutex);
      if (!compiled.ok() && !failure) failure = compiled.diagnostic();
      if (failure) return;
      ++done;
      if (form.progress) form.progress(done);
    }
  };
  if (form.progress) form.progress(0);
  const size_t count = std::min<size_t>(stages, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) return *failure;
  return {};
}

Result<void> write_executables(const std::string& program, size_t stages, const std::string& folder) {
  if (program.empty()) return {};
  const fs::path first = fs::path(folder) / runtime::executable_file(StageId(0));
  std::error_code failed;
  fs::copy_file(program, first, failed);
  if (failed) return error({.file = program}, "cannot be copied into the bundle: " + failed.message());
  for (size_t stage = 1; stage < stages; ++stage) {
    const fs::path other = fs::path(folder) / runtime::executable_file(StageId::from(stage));
    fs::create_hard_link(first, other, failed);
    if (failed) fs::copy_file(first, other, failed);
    if (failed) return error({.file = other.string()}, "cannot be written: " + failed.message());
  }
  return {};
}

}  // namespace rannc::codegen
