// Import and passes take time near linear in a model's tasks.
//
// Processor time of the fastest of several rounds, at two sizes in one run: a ratio, which a busy or slow machine
// changes little. Quadratic work would take sixteen times as long on four times the tasks; ten is what a step may take,
// which leaves room for what sorts or misses the caches.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>

#include "frontend/onnx/import.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "passes/training/differentiate.h"
#include "tests/frontend/support/deepened.h"

namespace rannc::test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSmall = 4000, kLarge = 4 * kSmall;
constexpr double kMostGrowth = 10;
constexpr double kNoise = 0.002;  // seconds: what a step at the small size is taken to need at least

/// Seconds by step; the least of all rounds.
using Times = std::map<std::string, double>;

void measure(const fs::path& model, Times& times) {
  const auto timed = [&](const std::string& step, const auto& body) {
    const std::clock_t start = std::clock();
    body();
    const double taken = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const auto known = times.emplace(step, taken).first;
    known->second = std::min(known->second, taken);
  };
  frontend::Imported imported;
  timed("import", [&] { imported = frontend::read_onnx(model).value(); });
  ir::Graph& graph = imported.graph;
  timed("verify", [&] { ir::as_result(ir::verify(graph)).value(); });
  passes::PipelineOptions options;
  options.losses = passes::parse_losses("cross_entropy(output=logits,labels=targets)").value();
  options.stored.file = std::move(imported.notes.stored);
  passes::PassContext context;
  const passes::PassManager manager = passes::standard_pipeline(options);
  for (const auto& pass : manager.passes()) {
    timed(std::string(pass->name()), [&] { pass->run(graph, context).value(); });
  }
  ir::Joint joint;
  timed("differentiate", [&] { joint = passes::differentiate(graph).value(); });
  timed("verify both", [&] { ir::as_result(ir::verify(joint, graph)).value(); });
}

class Scale : public testing::TestWithParam<LayerWeights> {
 protected:
  Times times_of(uint64_t nodes) const {
    const fs::path folder = fs::path(testing::TempDir()) / ("rannc-scale-" + std::to_string(::getpid()));
    fs::create_directories(folder);
    const fs::path model = folder / "model.onnx";
    write_deepened(fs::path(RANNC_SOURCE_DIR) / "tests" / "data" / "small_gpt" / "model.onnx", nodes, model, GetParam())
        .value();
    Times times;
    for (int round = 0; round < 3; ++round) measure(model, times);
    fs::remove_all(folder);
    return times;
  }
};

TEST_P(Scale, FourTimesTheTasksTakeAboutFourTimesAsLong) {
  const Times small = times_of(kSmall), large = times_of(kLarge);
  for (const auto& [step, taken] : large) {
    const double before = std::max(small.at(step), kNoise);
    EXPECT_LE(taken, kMostGrowth * before)
        << step << " takes " << taken << " s, " << small.at(step) << " s of " << kSmall << " nodes";
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, Scale, testing::Values(LayerWeights::kOwn, LayerWeights::kShared),
                         [](const auto& info) {
                           return info.param == LayerWeights::kOwn ? "OwnWeights" : "SharedWeights";
                         });

TEST(Deepened, LayersFollowEachOther) {
  const fs::path model = fs::path(testing::TempDir()) / ("rannc-deepened-" + std::to_string(::getpid()) + ".onnx");
  write_deepened(fs::path(RANNC_SOURCE_DIR) / "tests" / "data" / "small_gpt" / "model.onnx", 500, model).value();
  ir::Graph graph = frontend::import_onnx(model).value();
  fs::remove(model);
  fs::remove(model.string() + ".weights");
  EXPECT_GE(graph.task_count(), 400U);
  const uint32_t tasks = graph.task_count();
  passes::PassContext context;
  passes::make_pass("remove-dead").value()->run(graph, context).value();
  EXPECT_EQ(graph.task_count(), tasks) << "a repetition that nothing reads is no layer";
}

}  // namespace
}  // namespace rannc::test
