// The compiler library: what it reports while it works, and that its results do not change.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "rannc/compiler.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::compiler {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kModel = RANNC_SOURCE_DIR "/tests/data/small_mlp/model.onnx";
const std::string kLoss = "cross_entropy(output=logits,labels=y)";

/// Records the phases, and stops the search when it begins.
struct Recorder {
  Progress progress() {
    Progress progress;
    progress.phase = [this](Phase phase) {
      phases.push_back(phase);
      if (phase == Phase::kSearching && stops) stop.request_stop();
    };
    progress.stop = stop.get_token();
    return progress;
  }
  std::vector<Phase> phases;
  std::stop_source stop;
  bool stops = false;
};

PlanOptions analytic() { return {.stages = 2, .costs = Costs::kAnalytic}; }

TEST(Compiler, ModelsInMemoryAreThoseOfTheirFiles) {
  const ReadOptions options{.loss = kLoss, .mini_batch = 16};
  const Model file = read(kModel, options).value();
  std::ifstream stream(kModel, std::ios::binary);
  const auto content =
      std::make_shared<const std::string>(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  const auto source = [&](const std::string& name) {
    return ModelSource{name, {{content, reinterpret_cast<const std::byte*>(content->data())}, content->size()}};
  };
  const Model memory = read(source(kModel), options).value();
  EXPECT_EQ(compiler::plan(memory, analytic()).value().text(), compiler::plan(file, analytic()).value().text());
  EXPECT_THAT(read(source("net.pt2"), options).diagnostic().str(), HasSubstr("net.pt2"));
  ModelSource with_tensors = source("net.onnx");
  with_tensors.tensors["w"] = with_tensors.content;
  EXPECT_THAT(read(with_tensors, options).diagnostic().str(), HasSubstr("only programs of torch.export"));
}

TEST(Compiler, ReadsPlansAndWrites) {
  Recorder recorder;
  const Model model = read(kModel, {.loss = kLoss, .mini_batch = 16}, recorder.progress()).value();
  EXPECT_TRUE(model.trains());
  EXPECT_GT(model.parameters(), 0U);
  EXPECT_THAT(model.report(), HasSubstr("model.onnx: "));
  const Plan plan = compiler::plan(model, analytic(), recorder.progress()).value();
  const PlanFacts& facts = plan.facts();
  EXPECT_EQ(facts.mini_batch, 16U) << "that of the model";
  ASSERT_EQ(facts.stages.size(), 2U);
  uint64_t tasks = 0;
  for (const StageFacts& stage : facts.stages) {
    EXPECT_FALSE(stage.first_task.empty());
    EXPECT_GT(stage.forward_ns, 0);
    EXPECT_GT(stage.peak_bytes, 0U);
    EXPECT_GE(stage.memory_bytes, stage.peak_bytes);
    EXPECT_EQ(stage.devices.size(), 1U);
    tasks += stage.tasks;
  }
  EXPECT_GE(tasks, model.tasks()) << "constant tasks may be in both";
  EXPECT_FALSE(facts.measured);
  ASSERT_TRUE(facts.gap);
  EXPECT_GE(*facts.gap, 0);
  const fs::path bundle = fs::path(testing::TempDir()) / "public_api_test.rannc";
  fs::remove_all(bundle);
  ASSERT_TRUE(write(plan, bundle, {}, recorder.progress()).ok());
  EXPECT_TRUE(fs::exists(bundle / "plan.rir"));
  EXPECT_FALSE(write(plan, bundle).ok()) << "it exists";
  EXPECT_TRUE(write(plan, bundle, {.replace = true}).ok());
  const auto native =
      write(plan, bundle, {.replace = true, .programs = {.form = Form::kNative, .cxx = "/nowhere/c++"}});
  EXPECT_THAT(native.diagnostic().str(), HasSubstr("/nowhere/c++")) << "the compiler is used";
  fs::remove_all(bundle);
  EXPECT_THAT(recorder.phases, ElementsAre(Phase::kReading, Phase::kPricing, Phase::kSearching, Phase::kWriting));
}

TEST(Compiler, AModelMayBePlannedAgain) {
  const Model model = read(kModel, {.loss = kLoss}).value();
  const std::string before = model.text();
  const std::string first = compiler::plan(model, analytic()).value().text();
  EXPECT_EQ(compiler::plan(model, {.cluster = "local:3", .costs = Costs::kAnalytic})->facts().mini_batch, 32U);
  EXPECT_EQ(compiler::plan(model, {.mini_batch = 8, .costs = Costs::kAnalytic})->facts().mini_batch, 8U);
  EXPECT_EQ(compiler::plan(model, analytic()).value().text(), first);
  EXPECT_EQ(model.text(), before);
}

TEST(Compiler, AStopEndsTheSearchWithAPlan) {
  Recorder recorder;
  recorder.stops = true;
  const Model model = read(kModel, {.loss = kLoss}).value();
  const Plan plan = compiler::plan(model, analytic(), recorder.progress()).value();
  EXPECT_THAT(plan.facts().warnings, testing::Contains(HasSubstr("the search was interrupted")));
}

TEST(Compiler, ErrorsNameThePlace) {
  EXPECT_THAT(read("none.onnx").diagnostic().str(), HasSubstr("none.onnx: error: "));
  const Model model = read(kModel, {.loss = kLoss}).value();
  const Result<Plan> plan = compiler::plan(model, {.memory_bytes = 1024, .costs = Costs::kAnalytic});
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.diagnostic().str(), HasSubstr("there is no plan: "));
}

TEST(Compiler, GraphsOfPassesAreShown) {
  std::vector<std::string> passes;
  Progress progress;
  progress.graph = [&](std::string_view pass, const std::string&) { passes.emplace_back(pass); };
  ASSERT_TRUE(read(kModel, {.loss = kLoss, .print_after = {"attach-loss"}}, progress).ok());
  EXPECT_THAT(passes, ElementsAre("attach-loss"));
}

/// The samples of a mini-batch meet in the loss, so the model is compiled once more as a whole batch.
TEST(Compiler, AttemptsDoNotReadTheFilesAgain) {
  const fs::path folder = fs::path(testing::TempDir()) / "public_api_test_attempts";
  fs::create_directories(folder);
  const auto write_onnx = [&](const char* name, const std::string& graph) {
    std::ofstream(folder / name, std::ios::binary) << test::onnx_bytes(test::onnx_model(graph, 17));
    return (folder / name).string();
  };
  const std::string model = write_onnx(
      "model.onnx",
      "agraph (float[batch, 2] x) => (float[batch, 2] h) <float[2, 2] table = {1, 2, 3, 4}> { h = MatMul (x, table) }");
  ReadOptions options;
  options.print_after = {"drop-unread"};
  options.loss_graph.emplace().file = write_onnx("loss.onnx",
                                                 "agraph (float[batch, 2] h) => (float loss) {"
                                                 "t = Transpose <perm = [1, 0]> (h) \n p = MatMul (h, t) \n "
                                                 "loss = ReduceMean <keepdims = 0> (p) }");
  const std::string expected = read(model, options).value().text();
  size_t attempts = 0;
  Progress progress;
  progress.graph = [&](std::string_view, const std::string&) {
    ++attempts;
    fs::remove_all(folder);
  };
  const Result<Model> made = read(model, options, progress);
  ASSERT_TRUE(made.ok()) << made.diagnostic().str();
  EXPECT_GT(attempts, 1U);
  EXPECT_EQ(made->text(), expected);
}

}  // namespace
}  // namespace rannc::compiler
