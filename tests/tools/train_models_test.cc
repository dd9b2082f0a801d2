// Models of usual kinds and sizes train under every cut as one process does, under the allocator of rannc-run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "frontend/zoo/bert.h"
#include "frontend/zoo/gnmt.h"
#include "frontend/zoo/resnet.h"
#include "frontend/zoo/unet.h"
#include "frontend/zoo/vgg.h"
#include "runtime/train/process.h"
#include "tests/frontend/support/shared_models.h"
#include "tests/tools/model_runs.h"
#include "tools/check/reference.h"
#include "tools/measure/memory_gauge.h"

namespace rannc::test {
namespace {

namespace fs = std::filesystem;
namespace zoo = frontend::zoo;

constexpr uint32_t kSteps = 3;
// Of float32 (requirements: losses equal one process).
constexpr double kRelative = 1e-5;

class TrainModels : public testing::Test {
 public:
  static void SetUpTestSuite() {
    static const bool once = [] {
      runtime::set_threads(1);
      tools::MemoryGauge::install();
      return true;
    }();
    ASSERT_TRUE(once);
  }
};

void expect_equal(const RunNumbers& found, const RunNumbers& one, const std::string& what) {
  ASSERT_EQ(found.losses.size(), one.losses.size()) << what;
  for (size_t step = 0; step < one.losses.size(); ++step) {
    ASSERT_TRUE(std::isfinite(one.losses[step])) << what;
    EXPECT_NEAR(found.losses[step], one.losses[step], kRelative * std::abs(one.losses[step]))
        << what << ", step " << step;
  }
  ASSERT_EQ(found.outputs.size(), one.outputs.size()) << what;
  for (const auto& [name, values] : one.outputs) {
    const std::vector<double>& own = found.outputs.at(name);
    ASSERT_EQ(own.size(), values.size()) << what << ", output " << name;
    double norm = 0, distance = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      norm += values[i] * values[i];
      distance += (own[i] - values[i]) * (own[i] - values[i]);
    }
    EXPECT_LE(std::sqrt(distance), kRelative * std::sqrt(norm)) << what << ", output " << name;
  }
}

// One process passes the same slices: normalisation over a slice sees the same samples. Replica r of two owns every
// other slice of four.
void train_with_batch(const ModelRuns& runs, bool trains) {
  std::map<uint32_t, RunNumbers> one;
  for (const uint32_t slices : {2U, 4U}) one[slices] = runs.run({{1}, slices, false}, kSteps);
  for (const bool gloo : {false, true}) {
    if (gloo && !trains) continue;  // outputs stay where they are made
    for (const RunCut& cut : {RunCut{{1, 1}, 2, gloo}, RunCut{{2}, 2, gloo}}) {
      expect_equal(runs.run(cut, kSteps), one.at(cut.replicas[0] * 2), cut.str());
    }
    expect_equal(runs.run({{1}, 2, gloo}, kSteps), one.at(2), "one worker");
  }
}

void train_baked(const ModelRuns& runs) {
  const RunNumbers one = runs.run({}, kSteps);
  for (const bool gloo : {false, true}) expect_equal(runs.run({{1, 1}, 1, gloo}, kSteps), one, gloo ? "gloo" : "local");
}

/// `reference`: the loss of the first step over the whole mini-batch, of somebody else.
void train(const RunModel& model, std::optional<double> reference) {
  SCOPED_TRACE(model.name);
  try {
    const ModelRuns runs(model);
    if (reference) {
      const double loss = runs.run({}, 1).losses.at(0);
      EXPECT_NEAR(loss, *reference, kRelative * std::abs(*reference)) << "the reference's loss";
    }
    if (runs.has_batch_symbol()) {
      train_with_batch(runs, !model.loss.empty());
    } else {
      train_baked(runs);
    }
  } catch (const Error& failure) {
    ADD_FAILURE() << failure.what();
  }
  EXPECT_GT(tools::MemoryGauge::peak_bytes(), 0U) << "the allocator of rannc-run is in place";
}

void train_folder(const fs::path& path) {
  const auto folder = tools::read_model_folder(path.string());
  ASSERT_TRUE(folder.ok()) << folder.diagnostic().str();
  std::optional<double> reference;
  if (fs::exists(path / "reference.safetensors")) {
    const auto checked = tools::read_check_folder(path.string());
    ASSERT_TRUE(checked.ok()) << checked.diagnostic().str();
    // What the file says, in whatever precision its weights and constants were written; else what the module said.
    for (const char* tag : {"f32", "file64"}) {
      if (const auto found = checked->losses.find(tag); found != checked->losses.end()) reference = found->second;
    }
  }
  train({path.filename().string(), folder->model, folder->loss, folder->batch, folder->samples}, reference);
}

template <class Config>
void train_zoo(const std::string& name, Result<void> (*write)(zoo::OnnxWriter&, const Config&), const Config& config,
               const std::string& loss) {
  const tools::Scratch scratch;
  const std::string file = scratch.path() + "/" + name + ".onnx";
  zoo::OnnxWriter writer(name, {});
  ASSERT_TRUE(write(writer, config).ok());
  ASSERT_TRUE(writer.save(file).ok());
  train({name, file, loss, {}, 4}, std::nullopt);
}

// Wide enough that convolutions and GELU go to LibTorch's oneDNN kernels, which toy sizes never reach.
TEST_F(TrainModels, ZooResNet) {
  train_zoo("resnet", zoo::write_resnet, {.depth = 50, .width = 1, .image = 32, .classes = 10, .base = 16},
            "cross_entropy(output=logits,labels=y)");
}
TEST_F(TrainModels, ZooBert) {
  train_zoo("bert", zoo::write_bert, {.layers = 2, .width = 128, .sequence = 64, .vocabulary = 200},
            "cross_entropy(output=logits,labels=y)+cross_entropy(output=next_sentence,labels=z)");
}
TEST_F(TrainModels, ZooUNet) {
  train_zoo("unet", zoo::write_unet, {.blocks = 1, .channels = 16, .image = 64}, "mse(output=mask,labels=y)");
}
TEST_F(TrainModels, ZooVgg) {
  train_zoo("vgg", zoo::write_vgg, {.image = 32, .classes = 10, .base = 16, .hidden = 128},
            "cross_entropy(output=logits,labels=y)");
}
TEST_F(TrainModels, ZooGnmt) {
  train_zoo("gnmt", zoo::write_gnmt, {.layers = 2, .width = 64, .sequence = 12, .vocabulary = 200},
            "cross_entropy(output=logits,labels=y)");
}

TEST_F(TrainModels, SmallFolders) {
  for (const char* name : {"small_mlp", "small_gpt", "small_conv", "small_regression", "small_recurrent"})
    train_folder(fs::path(RANNC_SOURCE_DIR) / "tests" / "data" / name);
}

TEST_F(TrainModels, WithoutALossEvaluatedAlike) {
  const fs::path folder = fs::path(RANNC_SOURCE_DIR) / "tests" / "data" / "small_conv";
  train({"small_conv", (folder / "model.onnx").string(), "", (folder / "batch.safetensors").string(), 8}, std::nullopt);
}

// Convolutions, GELU, recurrent layers, normalisation over samples, shared parameters, dropout, baked batches.
TEST_F(TrainModels, PublishedExports) {
  const auto models = shared_models();
  if (!models)
    GTEST_SKIP() << "no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone";
  for (const char* name : {"vit_dynamo_dyn", "bert_dropout_dynamo", "resnet_train_legacy", "lstm_legacy_dyn",
                           "unet_train_legacy", "gpt2_dynamo_dyn", "t5_dynamo_dyn", "gpt2_dynamo_b8"})
    train_folder(*models / name);
}

// Of all that lie there, those that the importer refuses, and why. In tier full.
const std::map<std::string, std::string> kRefused = {
    {"gpt2_half_legacy", "LayerNormalization of two element types, as the exporter wrote it: the file is invalid"},
};

TEST_F(TrainModels, EveryPublishedExport) {
  const auto folders = shared_model_folders();
  if (folders.empty())
    GTEST_SKIP() << "no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone";
  for (const fs::path& folder : folders) {
    if (!kRefused.contains(folder.filename().string())) {
      train_folder(folder);
      continue;
    }
    const auto read = tools::read_model_folder(folder.string());
    ASSERT_TRUE(read.ok()) << read.diagnostic().str();
    EXPECT_THROW(ModelRuns({folder.filename().string(), read->model, read->loss, read->batch, read->samples}), Error)
        << folder;
  }
}

}  // namespace
}  // namespace rannc::test
