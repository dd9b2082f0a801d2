// Types of imported values are those that ONNX's own inference finds, and those that the exporter wrote down.
#include "tests/frontend/support/onnx_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "frontend/onnx/import.h"
#include "tests/frontend/support/onnx_text.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::frontend {
namespace {

namespace fs = std::filesystem;
using ONNX_NAMESPACE::ModelProto;
using testing::ElementsAre;
using testing::IsEmpty;

ModelProto parsed(const std::string& bytes) {
  ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  return model;
}

class OnnxTypes : public testing::TestWithParam<fs::path> {};

TEST_P(OnnxTypes, AreThoseOfTheGraph) {
  const fs::path file = GetParam() / "model.onnx";
  const auto graph = import_onnx(file);
  if (!graph.ok()) return;  // models_test.cc says which may be refused
  EXPECT_THAT(test::faults_of_types(parsed(test::read_file(file)), *graph), IsEmpty());
}

TEST_P(OnnxTypes, LeaveNothingUnknown) {
  const auto graph = import_onnx(GetParam() / "model.onnx");
  if (!graph.ok()) return;
  std::set<std::string> bound;
  for (const ValueId input : graph->inputs()) {
    for (const ir::Dim& dim : graph->type(input).shape.value()) {
      if (dim.is_symbol()) bound.insert(dim.symbol_name());
    }
  }
  for (const ValueId value : graph->values()) {
    const std::string name(graph->value(value).name);
    ASSERT_TRUE(graph->type(value).shape.has_value()) << name;
    for (const ir::Dim& dim : *graph->type(value).shape) {
      std::set<std::string> used;
      dim.collect_symbols(used);
      for (const std::string& symbol : used) EXPECT_TRUE(bound.contains(symbol)) << name << " has " << dim.str();
    }
  }
}

TEST(OnnxTypesOfAFile, DifferInElementTypeRankNumberOrExpression) {
  const auto faults = [](const std::string& values) {
    const std::string text = test::onnx_model(
        "agraph (float[n, 4] x, float[4, m] w) => (float[k, l] y) <" + values + "> { h = Relu(x)\n y = MatMul(h, w) }",
        18);
    const auto graph = test::import_text(text, {.batch_symbol = "n"});
    EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
    return test::faults_of_types(parsed(test::onnx_bytes(text)), *graph);
  };
  EXPECT_THAT(faults("float[n, 4] h"), IsEmpty());
  EXPECT_THAT(faults("float[n, 5] h"), ElementsAre("h: 4 where 5 is expected"));
  EXPECT_THAT(faults("float[m, 4] h"), ElementsAre("h: n where m is expected"));
  EXPECT_THAT(faults("float[3, 4] h"), ElementsAre("h: n where 3 is expected"));
  EXPECT_THAT(faults("float[4] h"), ElementsAre("h: another rank"));
  EXPECT_THAT(faults("double[n, 4] h"), ElementsAre("h: another element type"));
  EXPECT_THAT(faults("float[named_after_nothing, 4] h"), IsEmpty());
  EXPECT_THAT(faults("float[n, 4] gone"), ElementsAre("gone: it is not in the graph"));
}

TEST(OnnxTypesOfAFile, MayLackWhatIsWithinASoftmaxOfHiddenRows) {
  const auto faults = [](const std::string& rows, const std::string& values) {
    const std::string text =
        test::onnx_model("agraph (float[n, 4] x) => (float[n, 4] y) <float zero = {0}, " + values +
                             "> { p = Softmax(x)\n b = IsNaN(p)\n y = Where(b, zero, " + rows + ") }",
                         18);
    const auto graph = test::import_text(text, {.batch_symbol = "n"});
    EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
    return test::faults_of_types(parsed(test::onnx_bytes(text)), *graph);
  };
  // The three nodes have one value in the graph.
  EXPECT_THAT(faults("p", "float[n, 4] p, bool[n, 4] b"), ElementsAre("only 1 values were compared"));
  EXPECT_THAT(faults("p", "float[n, 4] gone"), testing::Contains("gone: it is not in the graph"));
  EXPECT_THAT(faults("x", "float[n, 4] p, bool[n, 4] b"), IsEmpty());
}

TEST(PublishedTypes, AreThere) {
  if (!test::shared_models()) GTEST_SKIP() << "no ../shared/data/models and no RANNC_SHARED_DIR";
  EXPECT_GT(test::shared_model_folders().size(), 60U);
}

std::string folder_name(const testing::TestParamInfo<fs::path>& info) { return info.param.filename().string(); }

INSTANTIATE_TEST_SUITE_P(Small, OnnxTypes, testing::ValuesIn(test::small_model_folders()), folder_name);
INSTANTIATE_TEST_SUITE_P(Shared, OnnxTypes, testing::ValuesIn(test::shared_model_folders()), folder_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxTypes);

}  // namespace
}  // namespace rannc::frontend
