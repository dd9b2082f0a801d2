// Real exports: which import, and which of their initializers are trained.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "frontend/onnx/import.h"
#include "ir/verify.h"
#include "passes/recover_parameters.h"
#include "tests/frontend/support/shared_models.h"

// GCC 12 sees an uninitialized variable in nlohmann's iterators.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace rannc::frontend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// What stands between a folder and its import: a part of the message that says so.
const std::map<std::string, std::string> kRefused = {
    {"gpt2_half_legacy", "LayerNormalization"},
};

class Models : public testing::TestWithParam<fs::path> {};

TEST_P(Models, ImportAndVerify) {
  const auto graph = import_onnx(GetParam() / "model.onnx");
  const auto refused = kRefused.find(GetParam().filename().string());
  if (refused != kRefused.end()) {
    ASSERT_FALSE(graph.ok());
    EXPECT_NE(graph.diagnostic().str().find(refused->second), std::string::npos) << graph.diagnostic().str();
    return;
  }
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  const auto wrong = ir::verify(*graph);
  EXPECT_TRUE(wrong.empty()) << wrong.front().str();
}

/// Names of tensors in a safetensors file.
std::set<std::string> tensor_names(const fs::path& path) {
  const std::string bytes = test::read_file(path);
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) return {};
  std::memcpy(&length, bytes.data(), sizeof(length));
  std::set<std::string> names;
  const json header = json::parse(bytes.substr(sizeof(length), length));
  for (const auto& [name, entry] : header.items()) names.insert(name);
  return names;
}

/// Initializers with a reference gradient of the original module are its parameters.
std::set<std::string> reference_parameters(const fs::path& folder, const ir::Graph& graph) {
  const auto names = tensor_names(folder / "reference.safetensors");
  std::set<std::string> parameters;
  for (const ValueId value : graph.values()) {
    const std::string name(graph.value(value).name);
    if (names.contains("grad.f64/" + name) || names.contains("grad.f64.norm/" + name)) parameters.insert(name);
  }
  return parameters;
}

TEST_P(Models, ParametersAreThoseOfTheOriginalModule) {
  auto graph = import_onnx(GetParam() / "model.onnx");
  if (kRefused.contains(GetParam().filename().string())) return;  // ImportAndVerify says by which message
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  passes::PassContext context;
  ASSERT_TRUE(passes::RecoverParameters().run(*graph, context).ok());
  const auto kind = [&](const std::string& name) {
    const ValueId value = graph->find(name);
    return value.valid() ? ir::str(graph->value(value).kind) : "absent";
  };
  const json card = json::parse(test::read_file(GetParam() / "card.json"));
  if (card["parameter_of_initializer"].is_object()) {
    for (const auto& [name, source] : card["parameter_of_initializer"].items()) {
      EXPECT_EQ(kind(name), "parameter") << name << " is " << source;
    }
  }
  for (const std::string& name : reference_parameters(GetParam(), *graph)) EXPECT_EQ(kind(name), "parameter") << name;
  // Folded weights of an export that pretends to train are listed as constants though they stand where weights stand.
  if (GetParam().filename() != "resnet_asked_training_dynamo") {
    for (const auto& [name, shape] : card["float_initializers_that_are_constants"].items()) {
      EXPECT_EQ(kind(name), "constant") << name << " " << shape;
    }
  }
  for (const std::string name : card["float_initializers_that_are_buffers"]) EXPECT_NE(kind(name), "parameter") << name;
}

std::string folder_name(const testing::TestParamInfo<fs::path>& info) { return info.param.filename().string(); }

INSTANTIATE_TEST_SUITE_P(Small, Models, testing::ValuesIn(test::small_model_folders()), folder_name);
INSTANTIATE_TEST_SUITE_P(Shared, Models, testing::ValuesIn(test::shared_model_folders()), folder_name);

TEST(ModelFolder, SmallOnesAreThere) { EXPECT_GE(test::small_model_folders().size(), 4u); }

TEST(ModelFolder, SharedOnesAreThere) {
  if (!test::shared_models()) GTEST_SKIP() << "no ../shared/data/models and no RANNC_SHARED_DIR";
  EXPECT_FALSE(test::shared_model_folders().empty());
}

}  // namespace
}  // namespace rannc::frontend
