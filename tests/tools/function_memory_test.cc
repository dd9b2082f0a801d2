// What a plan predicts for each pass of a stage is what the pass allocates.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/train/process.h"
#include "tests/frontend/support/shared_models.h"
#include "tests/tools/model_runs.h"
#include "tools/check/reference.h"

namespace rannc::test {
namespace {

TEST(FunctionMemory, Explore) {
  runtime::set_threads(1);
  const char* wanted = std::getenv("MODELS");
  auto folders = shared_model_folders();
  for (const auto& each : small_model_folders()) folders.push_back(each);
  for (const auto& path : folders) {
    const std::string name = path.filename().string();
    if (wanted && name.find(wanted) == std::string::npos) continue;
    const auto folder = tools::read_model_folder(path.string());
    if (!folder.ok() || folder->loss.empty()) continue;
    try {
      const ModelRuns runs({name, folder->model, folder->loss, folder->batch, folder->samples});
      const uint32_t count = runs.has_batch_symbol() ? 2 : 1;
      for (const uint32_t stages : {1U, 2U}) {
        for (const char* schedule : {"gpipe", "zb-h1"}) {
          for (const char* recompute : {"never", "always"}) {
            RunCut cut{std::vector<uint32_t>(stages, 1), count, false, schedule, recompute};
            for (const PassMemory& pass : runs.memory(cut)) {
              const double off = 100.0 * static_cast<double>(pass.predicted - pass.measured) /
                                 static_cast<double>(std::max<int64_t>(pass.measured, 1));
              fmt::print("{} {:30} {} {} {:6} {:6} measured {:9} predicted {:9} {:+7.2f} %\n",
                         std::abs(pass.predicted - pass.measured) < 0.02 * static_cast<double>(pass.measured) + 1024
                             ? "OK "
                             : "BAD",
                         name, stages, schedule, recompute, pass.pass, pass.measured, pass.predicted, off);
            }
          }
        }
      }
    } catch (const std::exception& failure) {
      fmt::print("FAIL {} {}\n", name, failure.what());
    }
  }
}

}  // namespace
}  // namespace rannc::test
