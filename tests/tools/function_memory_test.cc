// What a plan predicts for each pass of a stage is what the pass allocates.
#include <ATen/Version.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "runtime/train/process.h"
#include "tests/frontend/support/shared_models.h"
#include "tests/tools/model_runs.h"
#include "tools/check/reference.h"

namespace rannc::test {
namespace {

namespace fs = std::filesystem;

// A prediction leaves out buffers of single threads and statistics of layers: a kilobyte in models of this size.
constexpr double kLimit = 0.02, kBuffers = 1024;

enum class Passes { kAll, kBackward };

void expect_close(const PassMemory& pass, Passes which) {
  if (which == Passes::kBackward && !pass.pass.starts_with("B")) return;
  const auto measured = static_cast<double>(pass.measured), predicted = static_cast<double>(pass.predicted);
  EXPECT_NEAR(predicted, measured, kLimit * measured + kBuffers) << pass.pass;
}

/// Trains a folder's model in up to so many stages, with and without recompute. Returns the number of passes.
size_t follow(const fs::path& path, Passes which, uint32_t most_stages = 2) {
  const std::string name = path.filename().string();
  const auto folder = tools::read_model_folder(path.string()).value();
  const ModelRuns runs({name, folder.model, folder.loss, folder.batch, folder.samples});
  size_t passes = 0;
  for (uint32_t stages = 1; stages <= most_stages; ++stages) {
    for (const char* schedule : {"gpipe", "zb-h1"}) {
      for (const auto recompute : {compiler::Recompute::kNever, compiler::Recompute::kAlways}) {
        SCOPED_TRACE(
            fmt::format("{}, {} stages, {}, recompute {}", name, stages, schedule, static_cast<int>(recompute)));
        const uint32_t count = runs.has_batch_symbol() ? 2 : 1;
        const RunCut cut{std::vector<uint32_t>(stages, 1), count, false, schedule, recompute};
        for (const PassMemory& pass : runs.memory(cut)) {
          expect_close(pass, which);
          ++passes;
        }
      }
    }
  }
  return passes;
}

TEST(FunctionMemory, OfSmallModels) {
  runtime::set_threads(1);
  const fs::path folder = fs::path(RANNC_SOURCE_DIR) / "tests" / "data";
  for (const char* name : {"small_mlp", "small_regression"}) EXPECT_GT(follow(folder / name, Passes::kAll), 20U);
  for (const char* name : {"small_gpt", "small_conv"}) EXPECT_GT(follow(folder / name, Passes::kBackward), 20U);
}

TEST(FunctionMemory, OfPublishedExports) {
  runtime::set_threads(1);
  const auto models = shared_models();
  if (!models) GTEST_SKIP() << "no folder of published models";
  EXPECT_GT(follow(*models / "bert_mlm_legacy_dynseq", Passes::kAll), 20U);
  for (const char* name : {"gpt2_dynamo_dyn", "bert_dropout_dynamo"})
    EXPECT_GT(follow(*models / name, Passes::kBackward), 20U);
  // Sequences and patches that lie first in memory, gradients of RMS normalizations and attention.
  for (const char* name : {"vit_dynamo_dyn", "llama_unoptimized_dynamo_b8"})
    EXPECT_GT(follow(*models / name, Passes::kAll, 1), 6U);
}

TEST(FunctionMemory, OfConvolutions) {
  runtime::set_threads(1);
  const auto models = shared_models();
  if (!models) GTEST_SKIP() << "no folder of published models";
  for (const char* name : {"vgg_dynamo_dyn", "unet_folded_dynamo"})
    EXPECT_GT(follow(*models / name, Passes::kBackward), 20U);
}

}  // namespace
}  // namespace rannc::test
