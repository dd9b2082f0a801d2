// TorchScript modules of real models: which import, and what of them is trained.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "frontend/torchscript/import.h"
#include "ir/verify.h"
#include "passes/parameters/recover_parameters.h"
#include "tests/frontend/support/shared_models.h"

// GCC 12 sees an uninitialized variable in nlohmann's iterators.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace rannc::frontend {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json card_of(const fs::path& folder) { return Json::parse(test::read_file(folder / "card.json")); }

/// What the card says of the inputs, in the spelling of `--input`.
std::vector<std::string> inputs_of(const Json& card) {
  const std::map<std::string, std::string> types = {{"FLOAT", "f32"}, {"INT64", "i64"}, {"BOOL", "bool"}};
  std::vector<std::string> inputs;
  for (const auto& [name, entry] : card["inputs"].items()) {
    std::string text = name + "=" + types.at(entry[0].get<std::string>()) + "[";
    for (size_t i = 1; i < entry.size(); ++i)
      text += (i > 1 ? "," : "") +
              (entry[i].is_string() ? entry[i].get<std::string>() : std::to_string(entry[i].get<int64_t>()));
    inputs.push_back(text + "]");
  }
  return inputs;
}

std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  for (const fs::path& folder : test::shared_model_folders()) {
    if (fs::exists(folder / "model.pt")) found.push_back(folder);
  }
  return found;
}

class TorchScriptModels : public testing::TestWithParam<fs::path> {};

TEST_P(TorchScriptModels, ImportAndVerify) {
  const Json card = card_of(GetParam());
  auto imported = read_torch(GetParam() / "model.pt", {.inputs = inputs_of(card)});
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  const auto wrong = ir::verify(imported->graph);
  EXPECT_TRUE(wrong.empty()) << wrong.front().str();
}

/// What state_dict calls parameters, of which the notes list all and no more; each stays in the archive if it is large.
TEST_P(TorchScriptModels, ParametersAreThoseOfTheModule) {
  const Json card = card_of(GetParam());
  auto imported = read_torch(GetParam() / "model.pt", {.inputs = inputs_of(card)});
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  ir::Graph& graph = imported->graph;
  passes::PassContext context;
  ASSERT_TRUE(passes::RecoverParameters({.file = imported->notes.stored}).run(graph, context).ok());
  std::set<std::string> trained, listed;
  for (const ValueId value : graph.values()) {
    const auto& found = graph.value(value);
    if (found.kind != ir::ValueKind::kParameter) continue;
    trained.emplace(found.name);
    EXPECT_EQ(found.data.in_file(), found.data.size() > 256) << found.name;
  }
  for (const auto& [name, kind] : imported->notes.stored.listed) {
    if (kind == ir::ValueKind::kParameter) listed.insert(name);
  }
  EXPECT_EQ(trained, listed);
  EXPECT_FALSE(trained.empty());
}

INSTANTIATE_TEST_SUITE_P(Folders, TorchScriptModels, testing::ValuesIn(folders()),
                         [](const auto& info) { return info.param.filename().string(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TorchScriptModels);

}  // namespace
}  // namespace rannc::frontend
