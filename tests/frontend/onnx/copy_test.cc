// Copies of ONNX files with other numbers: nothing else differs, and what a file cannot hold is refused.
#include "frontend/onnx/copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "frontend/onnx/import.h"
#include "ir/graph/constant.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
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
using Numbers = std::vector<double>;

class Copies : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("rannc-copy-" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path write(const ModelProto& model, const std::string& name = "model.onnx") const {
    std::ofstream(root_ / name, std::ios::binary) << model.SerializeAsString();
    return root_ / name;
  }
  static ModelProto parsed(const std::string& graph) {
    ModelProto model;
    model.ParseFromString(test::onnx_bytes(test::onnx_model(graph, 17)));
    return model;
  }
  static ModelProto read(const fs::path& path) {
    ModelProto model;
    EXPECT_TRUE(model.ParseFromString(test::read_file(path)));
    return model;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path root_;
};

/// An imported model whose stored values get other numbers.
class Changed {
 public:
  explicit Changed(const fs::path& path) : path_(path), graph_(import_onnx(path).value()) { remember(); }

  ir::Graph& graph() { return graph_; }
  void set(const char* name, const Numbers& numbers) {
    const ValueId value = graph_.find(name);
    ASSERT_TRUE(value.valid()) << name;
    graph_.set_data(value, ir::encode_numbers(graph_.type(value).dtype, numbers));
  }
  /// Task `task` reads a copy of what it read as operand `operand`, under a name of its own; the file knows nothing.
  void part(uint32_t task, size_t operand, const char* name) {
    ir::Rewriter rewriter(graph_);
    for (const TaskId old : graph_.tasks()) {
      if (old.index() != task) {
        rewriter.copy(old);
        continue;
      }
      std::vector<ValueId> inputs(graph_.inputs(old).begin(), graph_.inputs(old).end());
      const auto stored = graph_.value(inputs[operand]);
      for (ValueId& input : inputs) input = rewriter.map(input);
      inputs[operand] = rewriter.graph().add_value(ir::ValueKind::kParameter, name, stored.type, stored.data);
      const std::vector<std::string> names = {std::string(graph_.value(graph_.outputs(old)[0]).name)};
      const TaskId made =
          rewriter.graph().add_task(graph_.op(old), inputs, graph_.attributes(old), names, graph_.location(old));
      rewriter.graph().set_type(rewriter.graph().outputs(made)[0], graph_.type(graph_.outputs(old)[0]));
      rewriter.replace(graph_.outputs(old)[0], rewriter.graph().outputs(made)[0]);
    }
    graph_ = std::move(rewriter).finish();
    remember();
  }
  /// Task `task` reads the transpose of a value in place of what it read, which goes.
  void tie(uint32_t task, size_t operand, const char* first, const char* node = nullptr) {
    std::vector<bool> keep(graph_.value_count(), true);
    keep[graph_.inputs(TaskId(task))[operand].index()] = false;
    ir::Rewriter rewriter(graph_, keep);
    const ValueId turned = rewriter.graph().add(ir::core("permute"), {rewriter.map(graph_.find(first))},
                                                {{"dims", ir::Shape{1, 0}}}, "turned.tied");
    rewriter.graph().set_type(turned, graph_.type(graph_.find(first)));
    rewriter.replace(graph_.inputs(TaskId(task))[operand], turned);
    for (const TaskId old : graph_.tasks()) {
      if (old.index() != task || node == nullptr) {
        rewriter.copy(old);
        continue;
      }
      const TaskId moved =
          rewriter.graph().add_task(graph_.op(old), std::vector<ValueId>{turned}, graph_.attributes(old),
                                    std::vector<std::string>(1), {path_.string(), 0, 0, node});
      rewriter.replace(graph_.outputs(old)[0], rewriter.graph().outputs(moved)[0]);
    }
    graph_ = std::move(rewriter).finish();
    remember();
  }
  /// The last task gets a bias of zeros, which the file has not.
  void add_bias(const char* name) {
    ir::Rewriter rewriter(graph_);
    for (const TaskId old : graph_.tasks()) {
      std::vector<ValueId> inputs;
      for (const ValueId input : graph_.inputs(old)) inputs.push_back(rewriter.map(input));
      if (old.index() + 1 == graph_.task_count()) {
        const ir::ValueType type = {.dtype = ir::DType::kF32, .shape = ir::Shape{2}};
        inputs.resize(2);
        inputs.push_back(rewriter.graph().add_value(ir::ValueKind::kParameter, name, type,
                                                    ir::encode_numbers(ir::DType::kF32, Numbers{0, 0})));
      }
      rewriter.copy(old, inputs);
    }
    graph_ = std::move(rewriter).finish();
    remember();
  }
  /// What an Identity called `lost` is a value of its own, as `kept` is.
  void name_apart(const char* lost, const char* kept) {
    ir::Rewriter rewriter(graph_);
    const ValueId old = graph_.find(lost);
    const auto stored = graph_.value(graph_.find(kept));
    rewriter.replace(old, rewriter.graph().add_value(ir::ValueKind::kParameter, lost, stored.type, stored.data));
    for (const TaskId task : graph_.tasks()) {
      if (graph_.producer(old) != task) rewriter.copy(task);
    }
    graph_ = std::move(rewriter).finish();
    remember();
  }
  Result<CopyReport> copy(const fs::path& to, bool replace = false) const {
    return copy_onnx({path_, to, graph_, before_, replace});
  }

 private:
  void remember() {
    before_.clear();
    for (const ValueId value : graph_.values()) {
      if (graph_.value(value).data.present()) before_.emplace(value, graph_.value(value).data);
    }
  }
  fs::path path_;
  ir::Graph graph_;
  std::map<ValueId, ir::TensorData> before_;
};

Numbers numbers(const fs::path& path, const char* name) {
  const ir::Graph graph = import_onnx(path).value();
  const ValueId value = graph.find(name);
  EXPECT_TRUE(value.valid()) << name;
  return ir::decode_numbers(graph.type(value), graph.value(value).data, 1000).value();
}

const char* const kTwo = R"(agraph (float[N, 2] x) => (float[N, 2] y)
  <float[2] a = {1, 2}, float[2] b = {3, 4}> { [first] h = Add (x, a) [second] y = Mul (h, b) })";

TEST_F(Copies, DifferInTheNumbersAlone) {
  const fs::path from = write(parsed(kTwo));
  Changed changed(from);
  changed.set("a", {5, 6});
  const CopyReport report = changed.copy(root_ / "copy.onnx").value();
  EXPECT_EQ(report.replaced, 1U);
  EXPECT_THAT(report.added, ElementsAre());
  EXPECT_THAT(numbers(root_ / "copy.onnx", "a"), ElementsAre(5, 6));
  EXPECT_THAT(numbers(root_ / "copy.onnx", "b"), ElementsAre(3, 4));
  ModelProto expected = read(from);
  TensorProto& tensor = *expected.mutable_graph()->mutable_initializer(0);
  tensor.clear_float_data();
  const float values[] = {5, 6};
  tensor.set_raw_data(values, sizeof(values));
  EXPECT_EQ(test::read_file(root_ / "copy.onnx").size(), expected.SerializeAsString().size());
  EXPECT_EQ(read(root_ / "copy.onnx").SerializeAsString(), expected.SerializeAsString());
}

TEST_F(Copies, OfWhatDidNotChangeAreTheSameBytes) {
  for (const fs::path& folder : test::small_model_folders()) {
    SCOPED_TRACE(folder);
    const Changed same(folder / "model.onnx");
    const CopyReport report = same.copy(root_ / "copy.onnx", true).value();
    EXPECT_EQ(report.replaced, 0U);
    EXPECT_EQ(test::read_file(root_ / "copy.onnx"), test::read_file(folder / "model.onnx"));
  }
}

TEST_F(Copies, HaveEveryElementType) {
  const fs::path from = write(parsed(R"(agraph (float[N, 2] x) => (float[N, 2] y, double[2] d)
      <float16[2] h = {1, 2}, double[2] c = {3, 4}>
      { f = Cast <to = 1> (h) y = Add (x, f) d = Neg (c) })"));
  Changed changed(from);
  changed.set("h", {0.5, -3});
  changed.set("c", {0.1, 1e300});
  EXPECT_TRUE(changed.copy(root_ / "copy.onnx").ok());
  EXPECT_THAT(numbers(root_ / "copy.onnx", "h"), ElementsAre(0.5, -3));
  EXPECT_THAT(numbers(root_ / "copy.onnx", "c"), ElementsAre(0.1, 1e300));
}

TEST_F(Copies, ReachConstantNodes) {
  const fs::path from = write(
      parsed("agraph (float[N, 2] x) => (float[N, 2] y) { w = Constant <value = float[2] {1, 2}> () y = Add (x, w) }"));
  Changed changed(from);
  changed.set("w", {5, 6});
  EXPECT_EQ(changed.copy(root_ / "copy.onnx").value().replaced, 1U);
  EXPECT_THAT(numbers(root_ / "copy.onnx", "w"), ElementsAre(5, 6));
}

const char* const kMerged = R"(agraph (float[N, 2] x) => (float[N, 2] y)
  <float[2] a = {0, 0}> { [first] h = Add (x, a) [second] g = Tanh (h) [third] y = Add (g, a) })";

TEST_F(Copies, PartParametersThatWereOne) {
  const fs::path from = write(parsed(kMerged));
  Changed changed(from);
  changed.part(2, 1, "third.bias");
  changed.set("a", {5, 6});
  changed.set("third.bias", {7, 8});
  const CopyReport report = changed.copy(root_ / "copy.onnx").value();
  EXPECT_THAT(report.added, ElementsAre("third.bias"));
  const ModelProto copy = read(root_ / "copy.onnx");
  EXPECT_EQ(copy.graph().node(0).input(1), "a");
  EXPECT_EQ(copy.graph().node(2).input(1), "third.bias");
  EXPECT_THAT(numbers(root_ / "copy.onnx", "a"), ElementsAre(5, 6));
  EXPECT_THAT(numbers(root_ / "copy.onnx", "third.bias"), ElementsAre(7, 8));
}

TEST_F(Copies, KeepOneWhereTheyAreEqualStill) {
  const fs::path from = write(parsed(kMerged));
  Changed changed(from);
  changed.part(2, 1, "third.bias");
  changed.set("a", {5, 6});
  changed.set("third.bias", {5, 6});
  EXPECT_THAT(changed.copy(root_ / "copy.onnx").value().added, ElementsAre());
  EXPECT_EQ(read(root_ / "copy.onnx").graph().initializer_size(), 1);
}

TEST_F(Copies, PartWhatKeptItsNumbersToo) {
  const fs::path from = write(parsed(kMerged));
  Changed changed(from);
  changed.part(2, 1, "g");  // a name that the file has otherwise: the graph makes it g.1
  changed.set("a", {5, 6});
  EXPECT_THAT(changed.copy(root_ / "copy.onnx").value().added, ElementsAre("g.1"));
  EXPECT_THAT(numbers(root_ / "copy.onnx", "g.1"), ElementsAre(0, 0));
}

TEST_F(Copies, PutInitializersInThePlaceOfRenamings) {
  const fs::path from = write(parsed(R"(agraph (float[N, 2] x) => (float[N, 2] y)
      <float[2] a = {0, 0}> { lost = Identity (a) h = Add (x, a) y = Mul (h, lost) })"));
  Changed changed(from);
  changed.name_apart("lost", "a");
  changed.set("lost", {7, 8});
  EXPECT_THAT(changed.copy(root_ / "copy.onnx").value().added, ElementsAre("lost"));
  const ModelProto copy = read(root_ / "copy.onnx");
  EXPECT_EQ(copy.graph().node_size(), 2);
  EXPECT_THAT(numbers(root_ / "copy.onnx", "a"), ElementsAre(0, 0));
  EXPECT_THAT(numbers(root_ / "copy.onnx", "lost"), ElementsAre(7, 8));
}

TEST_F(Copies, GetBiasesThatTheExporterLeftOut) {
  const struct {
    std::string node;
    bool has_place;
  } cases[] = {{"y = Gemm (x, w)", true}, {"y = Gemm <beta = 2.0> (x, w)", false}, {"y = MatMul (x, w)", false}};
  for (const auto& [node, has_place] : cases) {
    SCOPED_TRACE(node);
    const fs::path from = write(
        parsed("agraph (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { [only] " + node + " }"));
    Changed changed(from);
    changed.add_bias("only.bias");
    EXPECT_EQ(changed.copy(root_ / "copy.onnx", true).value().added.size(), 0U) << "zeros need no place";
    changed.set("only.bias", {7, 8});
    const auto copy = changed.copy(root_ / "copy.onnx", true);
    if (!has_place) {
      ASSERT_FALSE(copy.ok());
      EXPECT_THAT(copy.diagnostic().str(), HasSubstr("only.bias (read by only)"));
      continue;
    }
    EXPECT_THAT(copy->added, ElementsAre("only.bias"));
    const ModelProto written = read(root_ / "copy.onnx");
    const auto& made = written.graph().node(0);
    ASSERT_EQ(made.input_size(), 3);
    EXPECT_EQ(made.input(2), "only.bias");
    EXPECT_THAT(numbers(root_ / "copy.onnx", "only.bias"), ElementsAre(7, 8));
  }
}

TEST_F(Copies, KeepTransposedCopiesOfOneParameter) {
  const fs::path from = write(parsed(R"(agraph (float[N, 2] x) => (float[N, 2] y)
      <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] turned = {1, 3, 2, 4}>
      { [first] h = MatMul (x, w) [second] y = MatMul (h, turned) })"));
  Changed changed(from);
  changed.tie(1, 1, "w");
  EXPECT_EQ(changed.copy(root_ / "copy.onnx").value().replaced, 0U);
  changed.set("w", {5, 6, 7, 8});
  EXPECT_EQ(changed.copy(root_ / "copy.onnx", true).value().replaced, 2U);
  EXPECT_THAT(numbers(root_ / "copy.onnx", "w"), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(numbers(root_ / "copy.onnx", "turned"), ElementsAre(5, 7, 6, 8));
}

TEST_F(Copies, AreRefusedWhereACopyOfAParameterIsNotFound) {
  const fs::path from = write(parsed(R"(agraph (float[N, 2] x) => (float[N, 2] y)
      <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] turned = {1, 3, 2, 4}>
      { [first] h = MatMul (x, w) [second] t = Relu (turned) [third] y = MatMul (h, t) })"));
  Changed changed(from);
  changed.tie(1, 0, "w", "elsewhere");
  changed.set("w", {5, 6, 7, 8});
  const auto refused = changed.copy(root_ / "copy.onnx");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("turned (a copy of w)"));
}

TEST_F(Copies, AreRefusedWhereTheFileHasNoPlace) {
  const fs::path from = write(parsed(R"(agraph (float[N, 2] x) => (float[N, 2] y)
      <float[2] a = {0, 0}, float[2] b = {1, 1}> { [first] y = Add (x, a) })"));
  Changed changed(from);
  changed.part(0, 1, "first.bias");
  ir::Graph& graph = changed.graph();
  // A reader that is no node of the file.
  const ir::Graph::Value bias = graph.value(graph.find("first.bias"));
  const ValueId other = graph.add_value(ir::ValueKind::kParameter, "other.bias", bias.type, bias.data);
  graph.add(*graph.task(TaskId(0)).op, {graph.inputs(TaskId(0))[0], other}, {}, "z",
            {from.string(), 0, 0, "no such node"});
  changed.set("other.bias", {1, 2});
  const auto refused = changed.copy(root_ / "copy.onnx");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("1 changed tensors are in places where the file can't hold them: "
                                                    "other.bias (read by no such node)"));
  EXPECT_THAT(files(), ElementsAre("model.onnx"));
}

TEST_F(Copies, AreRefusedWhereANodeReadsTheTensorTwice) {
  const fs::path from =
      write(parsed("agraph (float[N, 2] x) => (float[N, 2] y) <float[2] a = {0, 0}> { [only] s = Add "
                   "(a, a) [last] y = Add (x, s) }"));
  Changed changed(from);
  changed.part(0, 1, "second");
  changed.set("a", {1, 2});
  const auto refused = changed.copy(root_ / "copy.onnx");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("second (read by only)"));
}

TEST_F(Copies, AreRefusedOverOtherFiles) {
  const fs::path from = write(parsed(kTwo));
  Changed changed(from);
  changed.set("a", {5, 6});
  const auto refused = [&](const fs::path& to, bool replace, const char* message) {
    const auto copy = changed.copy(to, replace);
    ASSERT_FALSE(copy.ok()) << to;
    EXPECT_THAT(copy.diagnostic().str(), HasSubstr(message));
    EXPECT_THAT(copy.diagnostic().str(), HasSubstr(to.string()));
  };
  refused(from, true, "is the model that is copied");
  refused(root_ / "no" / "copy.onnx", false, "is no folder");
  refused(root_, true, "is a folder");
  EXPECT_TRUE(changed.copy(root_ / "copy.onnx").ok());
  refused(root_ / "copy.onnx", false, "exists already; --replace writes over it");
  EXPECT_TRUE(changed.copy(root_ / "copy.onnx", true).ok());
}

TEST_F(Copies, AreRefusedWhereTheFormatIsTooOldForMoreTensors) {
  ModelProto model = parsed(kMerged);
  model.set_ir_version(3);
  auto* const input = model.mutable_graph()->add_input();
  *input = model.graph().input(0);
  input->set_name("a");
  input->mutable_type()->mutable_tensor_type()->mutable_shape()->clear_dim();
  input->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
  Changed changed(write(model));
  changed.part(2, 1, "third.bias");
  changed.set("a", {5, 6});
  const auto refused = changed.copy(root_ / "copy.onnx");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("has version 3 of the format"));
}

/// `kMerged` or the like with all initializers in `weights.bin`, behind 4 bytes that are nobody's.
ModelProto external(ModelProto model, const fs::path& folder) {
  std::ofstream file(folder / "weights.bin", std::ios::binary);
  file << "none";
  uint64_t offset = 4;
  for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    const std::string bytes(reinterpret_cast<const char*>(tensor.float_data().data()),
                            static_cast<size_t>(tensor.float_data_size()) * sizeof(float));
    file << bytes;
    tensor.clear_float_data();
    tensor.set_data_location(TensorProto::EXTERNAL);
    for (const auto& [key, value] : std::map<std::string, std::string>{{"location", "weights.bin"},
                                                                       {"offset", std::to_string(offset)},
                                                                       {"length", std::to_string(bytes.size())}}) {
      auto* const entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    offset += bytes.size();
  }
  return model;
}

TEST_F(Copies, HaveExternalTensorsInAFileOfTheirOwn) {
  const fs::path from = write(external(parsed(kTwo), root_));
  const std::string weights = test::read_file(root_ / "weights.bin");
  Changed changed(from);
  changed.set("a", {5, 6});
  const CopyReport report = changed.copy(root_ / "copy.onnx").value();
  EXPECT_EQ(report.data_file, (root_ / "copy.onnx.data").string());
  EXPECT_THAT(files(), ElementsAre("copy.onnx", "copy.onnx.data", "model.onnx", "weights.bin"));
  EXPECT_EQ(test::read_file(root_ / "weights.bin"), weights);
  fs::create_directory(root_ / "elsewhere");
  for (const char* name : {"copy.onnx", "copy.onnx.data"}) fs::rename(root_ / name, root_ / "elsewhere" / name);
  EXPECT_THAT(numbers(root_ / "elsewhere" / "copy.onnx", "a"), ElementsAre(5, 6));
  EXPECT_THAT(numbers(root_ / "elsewhere" / "copy.onnx", "b"), ElementsAre(3, 4));
}

TEST_F(Copies, PartExternalTensors) {
  const fs::path from = write(external(parsed(kMerged), root_));
  Changed changed(from);
  changed.part(2, 1, "third.bias");
  changed.set("third.bias", {7, 8});
  EXPECT_TRUE(changed.copy(root_ / "copy.onnx").ok());
  EXPECT_THAT(numbers(root_ / "copy.onnx", "a"), ElementsAre(0, 0));
  EXPECT_THAT(numbers(root_ / "copy.onnx", "third.bias"), ElementsAre(7, 8));
  EXPECT_TRUE(read(root_ / "copy.onnx").graph().initializer(1).has_data_location());
}

TEST_F(Copies, NeverWriteOverTheTensorsTheyAreMadeFrom) {
  ModelProto model = external(parsed(kTwo), root_);
  fs::rename(root_ / "weights.bin", root_ / "copy.onnx.data");
  for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    for (auto& entry : *tensor.mutable_external_data()) {
      if (entry.key() == "location") entry.set_value("copy.onnx.data");
    }
  }
  const Changed changed(write(model));
  const auto refused = changed.copy(root_ / "copy.onnx", true);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("give it another name"));
}

}  // namespace
}  // namespace rannc::frontend
