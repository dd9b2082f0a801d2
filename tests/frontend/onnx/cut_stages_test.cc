// Stage files of ONNX models: which nodes and tensors each one has, that ONNX's checker accepts them with full shape
// inference, and where a cut goes that the file doesn't have.
#include "frontend/onnx/cut_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "frontend/onnx/import.h"
#include "ir/op/op.h"
#include "onnx/checker.h"
#include "onnx/onnx_pb.h"
#include "tests/frontend/support/onnx_text.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::frontend {
namespace {

namespace fs = std::filesystem;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::TensorProto;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Names = std::vector<std::string>;

/// A graph and, per stage but the last, the value whose task ends it.
struct Planned {
  ir::Graph graph;
  Names ends;

  WantedCut cut() const {
    WantedCut wanted{graph, static_cast<uint32_t>(ends.size() + 1), {}, {}};
    size_t stage = 0;
    for (const TaskId task : graph.tasks()) {
      wanted.stage_of.push_back(StageId::from(stage));
      for (const ValueId output : graph.outputs(task)) {
        if (stage < ends.size() && graph.value(output).name == ends[stage]) ++stage;
      }
    }
    EXPECT_EQ(stage, ends.size()) << "every value that ends a stage exists";
    for (const ValueId value : graph.values()) {
      if (!graph.producer(value).valid()) continue;
      const StageId from = wanted.stage_of[graph.producer(value).index()];
      std::vector<bool> to(ends.size() + 1);
      for (const auto& use : graph.uses(value)) to[wanted.stage_of[use.task.index()].index()] = true;
      for (size_t i = from.index() + 1; i < to.size(); ++i) {
        if (to[i]) wanted.sent.push_back({value, from, StageId::from(i)});
      }
    }
    return wanted;
  }
};

class CutStages : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("rannc-cut-" + std::to_string(::getpid()));
    fs::create_directories(root_ / "cut");
  }
  void TearDown() override { fs::remove_all(root_); }

  static ModelProto parsed(const std::string& text) {
    ModelProto model;
    EXPECT_TRUE(model.ParseFromString(test::onnx_bytes(text.starts_with('<') ? text : test::onnx_model(text, 17))));
    return model;
  }
  fs::path write(const ModelProto& model) const {
    std::ofstream(root_ / "model.onnx", std::ios::binary) << model.SerializeAsString();
    return root_ / "model.onnx";
  }
  fs::path write(const std::string& text) const { return write(parsed(text)); }

  /// Cuts the model behind tasks that produce `ends`, and checks the files.
  std::vector<StageModel> cut(const fs::path& model, const Names& ends) {
    return cut(model, Planned{import_onnx(model).value(), ends});
  }
  std::vector<StageModel> cut(const fs::path& model, const Planned& planned) {
    auto stages = cut_stages(model, planned.cut(), root_ / "cut").value();
    std::set<std::string> known;
    const ModelProto whole = read(model);
    for (const auto& input : whole.graph().input()) known.insert(input.name());
    for (const StageModel& stage : stages) {
      if (stage.file.empty()) continue;
      EXPECT_NO_THROW(ONNX_NAMESPACE::checker::check_model((root_ / "cut" / stage.file).string(), true)) << stage.file;
      for (const std::string& input : stage.inputs) EXPECT_TRUE(known.contains(input)) << stage.file << " " << input;
      known.insert(stage.outputs.begin(), stage.outputs.end());
    }
    for (const auto& output : whole.graph().output()) EXPECT_TRUE(known.contains(output.name())) << output.name();
    return stages;
  }
  static ModelProto read(const fs::path& path) {
    ModelProto model;
    EXPECT_TRUE(model.ParseFromString(test::read_file(path)));
    return model;
  }
  ModelProto stage(int number) const { return read(root_ / "cut" / ("stage" + std::to_string(number) + ".onnx")); }
  static Names made(const ModelProto& model) {
    Names names;
    for (const auto& node : model.graph().node()) names.insert(names.end(), node.output().begin(), node.output().end());
    return names;
  }
  static Names initializers(const ModelProto& model) {
    Names names;
    for (const auto& tensor : model.graph().initializer()) names.push_back(tensor.name());
    return names;
  }

  fs::path root_;
};

TEST_F(CutStages, ChainByNameAndKeepSymbols) {
  const auto stages = cut(
      write("agraph (float[batch, seq] x) => (float[batch, seq] z) { a = Relu (x) b = Tanh (a) z = Neg (b) }"), {"a"});
  EXPECT_THAT(stages[0].inputs, ElementsAre("x"));
  EXPECT_THAT(stages[0].outputs, ElementsAre("a"));
  EXPECT_THAT(stages[1].inputs, ElementsAre("a"));
  EXPECT_THAT(stages[1].outputs, ElementsAre("z"));
  for (const StageModel& stage : stages) {
    EXPECT_THAT(stage.unsent, IsEmpty());
    EXPECT_THAT(stage.added, IsEmpty());
  }
  EXPECT_THAT(made(stage(0)), ElementsAre("a"));
  EXPECT_THAT(made(stage(1)), ElementsAre("b", "z"));
  const ModelProto second = stage(1);
  const auto& shape = second.graph().input(0).type().tensor_type().shape();
  ASSERT_EQ(shape.dim_size(), 2);
  EXPECT_EQ(shape.dim(0).dim_param(), "batch");
  EXPECT_EQ(shape.dim(1).dim_param(), "seq");
}

TEST_F(CutStages, PassAValueOverAStageThatDoesNotReadIt) {
  const auto stages = cut(write(R"(agraph (float[N, 2] x) => (float[N, 2] z) {
    a = Relu (x) b = Tanh (a) c = Neg (b) d = Abs (c) z = Add (d, a) })"),
                          {"a", "c"});
  EXPECT_THAT(stages[0].outputs, ElementsAre("a"));
  EXPECT_THAT(stages[1].inputs, ElementsAre("a"));
  EXPECT_THAT(stages[1].outputs, ElementsAre("c"));
  EXPECT_THAT(stages[2].inputs, ElementsAre("a", "c"));
  EXPECT_THAT(stages[2].unsent, IsEmpty());
}

TEST_F(CutStages, RepeatStoredTensorsAndWhatIsMadeOfThem) {
  const auto stages = cut(write(R"(agraph (float[N, 2] x) => (float[N, 2] z)
      <float[2] w = {1, 2}, float[2] first = {3, 4}, float[2] unread = {5, 6}> {
    c = Constant <value = float[2] {7, 8}> () v = Add (w, c)
    a = Mul (x, v) b = Add (a, first) z = Mul (b, v) })"),
                          {"b"});
  EXPECT_THAT(made(stage(0)), ElementsAre("c", "v", "a", "b"));
  EXPECT_THAT(made(stage(1)), ElementsAre("c", "v", "z"));
  EXPECT_THAT(initializers(stage(0)), ElementsAre("w", "first"));
  EXPECT_THAT(initializers(stage(1)), ElementsAre("w"));
  EXPECT_THAT(stages[1].inputs, ElementsAre("b"));
}

TEST_F(CutStages, DrawRandomNumbersOnce) {
  const auto stages = cut(write(R"(agraph (float[3, 2] x) => (float[3, 2] z) {
    r = RandomNormal <shape = [3, 2], dtype = 1> () a = Add (x, r) b = Tanh (a) z = Add (b, r) })"),
                          {"b"});
  EXPECT_THAT(made(stage(0)), ElementsAre("r", "a", "b"));
  EXPECT_THAT(made(stage(1)), ElementsAre("z"));
  EXPECT_THAT(stages[1].inputs, UnorderedElementsAre("b", "r"));
}

TEST_F(CutStages, RunOperatorsOfOtherDomainsOnce) {
  const fs::path model = write(R"(<ir_version: 8, opset_import: ["" : 17, "other" : 1]>
    agraph (float[N, 2] x) => (float[N, 2] z) <float[2] u> { u = other.Draw () a = Add (x, u) z = Mul (a, u) })");
  auto graph = test::import_graph(R"(agraph (float[N, 2] x) => (float[N, 2] z) {
    u = RandomNormal <shape = [2], dtype = 1> () a = Add (x, u) z = Mul (a, u) })",
                                  17);
  const auto stages = cut(model, {std::move(graph).value(), {"a"}});
  EXPECT_THAT(stages[1].inputs, UnorderedElementsAre("u", "a"));
}

TEST_F(CutStages, InventNoSymbols) {
  const fs::path model = write("agraph (float[N, 2] x) => (float[A, B] z) { a = NonZero (x) z = Cast <to = 1> (a) }");
  auto graph = test::import_graph("agraph (float[N, 2] x) => (float[N, 2] z) { a = Neg (x) z = Tanh (a) }", 17);
  cut(model, {std::move(graph).value(), {"a"}});
  const ModelProto second = stage(1);
  const auto& shape = second.graph().input(0).type().tensor_type().shape();
  ASSERT_EQ(shape.dim_size(), 2);
  EXPECT_EQ(shape.dim(0).dim_value(), 2);
  EXPECT_EQ(shape.dim(1).dim_param(), "");
}

TEST_F(CutStages, PassWhatBodiesRead) {
  const auto stages = cut(write(R"(agraph (float[N, 2] x, bool c) => (float[N, 2] z) <float[2] w = {1, 2}> {
    a = Relu (x) b = Tanh (a)
    z = If (c) <then_branch = one () => (float[N, 2] t) { t = Mul (a, w) },
                else_branch = two () => (float[N, 2] e) { f = Neg (b) e = Add (f, a) }> })"),
                          {"b"});
  EXPECT_THAT(stages[0].outputs, UnorderedElementsAre("a", "b"));
  EXPECT_THAT(stages[1].inputs, UnorderedElementsAre("a", "b", "c"));
  EXPECT_THAT(initializers(stage(0)), IsEmpty());
  EXPECT_THAT(initializers(stage(1)), ElementsAre("w"));
}

TEST_F(CutStages, MoveOutOfAFusedTaskAndNameItsValue) {
  const fs::path model =
      write(R"(agraph (float[N, 2] x) => (float[N, 2] z) <float[2, 2] w = {1, 2, 3, 4}, float[2] v = {5, 6}> {
    a = Relu (x) m = MatMul (a, w) y = Add (m, v) z = Tanh (y) })");
  // Passes made one task of the product and the sum, and another value of what they send.
  auto graph = test::import_graph(
      R"(agraph (float[N, 2] x) => (float[N, 2] z) <float[2, 2] w = {1, 2, 3, 4}, float[2] v = {5, 6}> {
    a = Relu (x) other = Neg (a) y = Gemm (other, w, v) z = Tanh (y) })",
      17);
  const auto stages = cut(model, {std::move(graph).value(), {"other"}});
  EXPECT_THAT(stages[1].inputs, ElementsAre("a"));
  EXPECT_THAT(made(stage(1)), ElementsAre("m", "y", "z"));
  ASSERT_EQ(stages[1].unsent.size(), 1U);
  EXPECT_EQ(stages[1].unsent[0].name, "other");
  EXPECT_FALSE(stages[1].unsent[0].in_file);
  EXPECT_THAT(stages[1].added, ElementsAre("a"));
}

TEST_F(CutStages, MoveOutOfANodeToTheSideOfMostOfItsTasks) {
  const fs::path model =
      write("agraph (float[N, 2] x) => (float[N, 2] z) { a = Relu (x) y = Mean (a, x, a, x) z = Tanh (y) }");
  Names sums;
  {
    const ir::Graph graph = import_onnx(model).value();
    for (const TaskId task : graph.tasks()) {
      if (graph.op(task).name == "core.add") sums.emplace_back(graph.value(graph.outputs(task)[0]).name);
    }
  }
  ASSERT_EQ(sums.size(), 3U) << "the node is several tasks";
  auto stages = cut(model, {sums.front()});
  EXPECT_THAT(made(stage(1)), ElementsAre("y", "z"));
  ASSERT_EQ(stages[1].unsent.size(), 1U);
  EXPECT_EQ(stages[1].unsent[0].name, sums.front());
  stages = cut(model, {sums.back()});
  EXPECT_THAT(made(stage(0)), ElementsAre("a", "y"));
  EXPECT_THAT(stages[1].added, ElementsAre("y"));
}

TEST_F(CutStages, SendTheFewestBytes) {
  // Between `wide` and `z` the plan's tasks decide nothing: `narrow` is the smallest tensor.
  const fs::path model = write(R"(agraph (float[N, 4] x) => (float[9, N, 4] z) {
    wide = Expand (x, s) narrow = ReduceSum <keepdims = 1> (wide) again = Expand (narrow, s) z = Add (again, x)
    s = Constant <value = int64[3] {9, 1, 4}> () })");  // out of order, too
  auto graph = test::import_graph(R"(agraph (float[N, 4] x) => (float[N, 4] z) {
    wide = Neg (x) z = Add (wide, x) })",
                                  17);
  const auto stages = cut(model, {std::move(graph).value(), {"wide"}});
  EXPECT_THAT(stages[1].added, ElementsAre("narrow"));
  ASSERT_EQ(stages[1].unsent.size(), 1U);
  EXPECT_EQ(stages[1].unsent[0].name, "wide");
  EXPECT_TRUE(stages[1].unsent[0].in_file);
}

TEST_F(CutStages, NeverReadALaterStage) {
  // The graph computes `b` without the shape of `a`, which the file reads.
  const fs::path model = write(R"(agraph (float[N, 2] x) => (float[M] y, float[M] z) {
    a = Relu (x) s = Shape (a) b = Reshape (x, s) y0 = Tanh (b) z0 = Neg (a)
    flat = Constant <value = int64[1] {-1}> () y = Reshape (y0, flat) z = Reshape (z0, flat) })");
  auto graph = test::import_graph(R"(agraph (float[N, 2] x) => (float[N, 2] y0, float[N, 2] z0) {
    b = Abs (x) y0 = Tanh (b) a = Relu (x) z0 = Neg (a) })",
                                  17);
  const auto stages = cut(model, {std::move(graph).value(), {"y0"}});
  EXPECT_THAT(stages[0].inputs, ElementsAre("x"));
}

TEST_F(CutStages, TakeFunctionsAlong) {
  const fs::path model = write(R"(<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    agraph (float[N, 2] x) => (float[N, 2] z) { a = own.outer (x) b = Tanh (a) z = own.other (b) }
    <domain: "own", opset_import: ["" : 17, "own" : 1]> outer (p) => (q) { r = own.inner (p) q = Relu (r) }
    <domain: "own", opset_import: ["" : 17]> inner (p) => (q) { q = Neg (p) }
    <domain: "own", opset_import: ["" : 17]> other (p) => (q) { q = Abs (p) })");
  cut(model, {"b"});
  const auto functions = [](const ModelProto& model) {
    Names names;
    for (const auto& function : model.functions()) names.push_back(function.name());
    return names;
  };
  EXPECT_THAT(functions(stage(0)), UnorderedElementsAre("outer", "inner"));
  EXPECT_THAT(functions(stage(1)), ElementsAre("other"));
}

TEST_F(CutStages, SplitAModelWhoseInitializersAreInputs) {
  ModelProto model =
      parsed("agraph (float[N, 2] x) => (float[N, 2] z) <float[2] w = {1, 2}> { a = Add (x, w) z = Mul (a, w) }");
  model.set_ir_version(3);
  *model.mutable_graph()->add_input() = [] {
    ONNX_NAMESPACE::ValueInfoProto input;
    input.set_name("w");
    input.mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
    input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
    return input;
  }();
  const auto stages = cut(write(model), {"a"});
  EXPECT_THAT(stages[1].inputs, ElementsAre("w", "a"));
  EXPECT_THAT(initializers(stage(1)), ElementsAre("w"));
}

TEST_F(CutStages, SortNodesAndLeaveOutWhatNothingNeeds) {
  cut(write(R"(agraph (float[N, 2] x) => (float[N, 2] z) {
    z = Neg (b) b = Tanh (a) lost = Abs (b) a = Relu (x) c = Cos (x) })"),
      {"a"});
  EXPECT_THAT(made(stage(0)), ElementsAre("a"));
  EXPECT_THAT(made(stage(1)), ElementsAre("b", "z"));
}

TEST_F(CutStages, CopyExternalTensorsOfEachStage) {
  ModelProto model = parsed(R"(agraph (float[N, 2] x) => (float[N, 2] z) <float[2] w = {1, 2}, float[2] v = {3, 4}> {
    a = Add (x, w) z = Mul (a, v) })");
  std::ofstream data(root_ / "data", std::ios::binary);
  for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    const std::vector<float> numbers(tensor.float_data().begin(), tensor.float_data().end());
    for (const auto& [key, value] : {std::pair("location", std::string("data")), std::pair("length", std::string("8")),
                                     std::pair("offset", std::to_string(static_cast<int>(data.tellp())))}) {
      auto* const entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    tensor.clear_float_data();
    tensor.set_data_location(TensorProto::EXTERNAL);
    data.write(reinterpret_cast<const char*>(numbers.data()), 8);
  }
  data.close();
  const auto stages = cut(write(model), {"a"});
  EXPECT_EQ(stages[0].data, "stage0.onnx.data");
  EXPECT_EQ(stages[1].data, "stage1.onnx.data");
  const std::string bytes = test::read_file(root_ / "cut" / "stage1.onnx.data");
  const float expected[2] = {3, 4};
  EXPECT_EQ(bytes, std::string(reinterpret_cast<const char*>(expected), 8));
  fs::remove(root_ / "data");
  const auto refused = cut_stages(
      root_ / "model.onnx", Planned{import_onnx(root_ / "model.onnx", {.missing_weights = true}).value(), {"a"}}.cut(),
      root_ / "cut");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("data"));
}

TEST_F(CutStages, HaveNoFileWithoutANode) {
  // The last stage has only the loss, which the file lacks.
  const fs::path model = write("agraph (float[N, 2] x) => (float[N, 2] y) { a = Relu (x) y = Tanh (a) }");
  auto graph = test::import_graph(R"(agraph (float[N, 2] x) => (float[N, 2] loss) {
    a = Relu (x) y = Tanh (a) loss = Abs (y) })",
                                  17);
  const auto stages = cut(model, {std::move(graph).value(), {"a", "y"}});
  EXPECT_THAT(stages[1].outputs, ElementsAre("y"));
  EXPECT_EQ(stages[2].file, "");
  EXPECT_FALSE(fs::exists(root_ / "cut" / "stage2.onnx"));
}

TEST_F(CutStages, OfEveryPublishedExportPassTheChecker) {
  if (test::shared_model_folders().empty()) GTEST_SKIP() << "no published exports";
  for (const fs::path& folder : test::shared_model_folders()) {
    SCOPED_TRACE(folder.filename().string());
    const auto imported = import_onnx(folder / "model.onnx", {.batching = {.kind = BatchKind::kWhole}});
    if (!imported.ok()) continue;
    Planned planned{imported->clone(), {}};
    for (const uint32_t third : {1U, 2U}) {
      const TaskId task(planned.graph.task_count() * third / 3);
      planned.ends.emplace_back(planned.graph.value(planned.graph.outputs(task)[0]).name);
    }
    cut(folder / "model.onnx", planned);
  }
}

}  // namespace
}  // namespace rannc::frontend
