// Real exports: which import, and which of their initializers are trained.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "frontend/onnx/import.h"
#include "ir/graph/assumptions.h"
#include "ir/state/state_bytes.h"
#include "ir/verify.h"
#include "passes/parameters/recover_parameters.h"
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

/// What a folder's graph takes for granted; every other folder's graph takes nothing.
const std::map<std::string, std::vector<std::string>> kAssumptions = {
    {"bert_mlm_dynamo_dynseq", {"min(40, sequence) equals sequence"}},
    {"bert_mlm_legacy_dynseq", {"min(40, sequence) equals sequence"}},
};

TEST_P(Models, AssumeOnlyWhatTheFileLeavesOpen) {
  const auto graph = import_onnx(GetParam() / "model.onnx");
  if (!graph.ok()) return;  // see ImportAndVerify
  std::vector<std::string> assumed;
  for (const ir::Assumption& assumption : graph->assumptions()) assumed.push_back(ir::str(assumption));
  const auto expected = kAssumptions.find(GetParam().filename().string());
  EXPECT_EQ(assumed, expected == kAssumptions.end() ? std::vector<std::string>{} : expected->second);
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

/// Names that the card gives under `field`, be it a list or an object.
std::set<std::string> names_of(const json& card, const char* field) {
  std::set<std::string> names;
  if (card[field].is_object()) {
    for (const auto& [name, entry] : card[field].items()) names.insert(name);
  }
  if (card[field].is_array()) {
    for (const std::string name : card[field]) names.insert(name);
  }
  return names;
}

struct RecoveredFolder {
  ir::Graph graph;
  std::set<std::string> literals, parameters;
  passes::PassContext context;
};

/// Nothing where the folder does not import.
std::optional<RecoveredFolder> recover(const fs::path& folder) {
  auto imported = read_onnx(folder / "model.onnx");
  if (!imported.ok()) return std::nullopt;
  RecoveredFolder found{std::move(imported->graph), imported->notes.stored.literals, {}, {}};
  ir::StoredNotes stored = std::move(imported->notes.stored);
  stored.folded.clear();  // what the exporter computed is computed again only where an evaluator is given
  const passes::RecoverParameters pass({.file = std::move(stored)});
  EXPECT_TRUE(pass.run(found.graph, found.context).ok());
  for (const ValueId value : found.graph.values()) {
    if (found.graph.value(value).kind == ir::ValueKind::kParameter) {
      found.parameters.emplace(found.graph.value(value).name);
    }
  }
  return found;
}

/// Folded weights of an export that pretends to train are listed as constants though they stand where weights stand.
constexpr const char* kPretends = "resnet_asked_training_dynamo";

TEST_P(Models, ParametersAreThoseOfTheOriginalModule) {
  const auto model = recover(GetParam());
  if (kRefused.contains(GetParam().filename().string())) return;  // ImportAndVerify says by which message
  ASSERT_TRUE(model.has_value());
  const json card = json::parse(test::read_file(GetParam() / "card.json"));
  std::set<std::string> expected = reference_parameters(GetParam(), model->graph);
  const bool complete = !expected.empty();
  expected.merge(names_of(card, "parameter_of_initializer"));
  std::set<std::string> tied;  // copies of one parameter, of which the first is trained
  const json ties = card.value("tied", json::object());
  for (const auto& [parameter, copies] : ties.items()) {
    for (const std::string copy : copies) tied.insert(copy);
    EXPECT_TRUE(std::any_of(copies.begin(), copies.end(), [&](const json& copy) {
      return model->parameters.contains(copy.get<std::string>());
    })) << parameter;
  }
  for (const std::string& name : expected) {
    EXPECT_TRUE(model->parameters.contains(name) || tied.contains(name)) << name << " is not trained";
  }
  for (const std::string& name : model->literals) EXPECT_FALSE(model->parameters.contains(name)) << name;
  if (GetParam().filename() == kPretends) return;
  for (const char* field : {"float_initializers_that_are_constants", "float_initializers_that_are_buffers"}) {
    for (const std::string& name : names_of(card, field)) EXPECT_FALSE(model->parameters.contains(name)) << name;
  }
  if (!complete) return;  // structure only: the card lists renamed parameters alone
  expected.merge(names_of(card, "parameters_without_initializer"));
  for (const std::string& name : model->parameters) EXPECT_TRUE(expected.contains(name)) << name << " is trained";
}

TEST_P(Models, NothingThatIsMergedStaysSo) {
  const auto model = recover(GetParam());
  if (kRefused.contains(GetParam().filename().string())) return;  // ImportAndVerify says by which message
  ASSERT_TRUE(model.has_value());
  static const std::map<std::string, std::string> kWarned = {
      {"bert_fresh_legacy", "only row 0 of 'bert.embeddings.word_embeddings.weight' is all zeros"},
      {"t5_dynamo_dyn", "parameters of the exported program are not in the file"}};
  const auto warned = kWarned.find(GetParam().filename().string());
  const size_t expected = warned == kWarned.end() ? 0 : 1;
  EXPECT_EQ(model->context.warnings.size(), expected);
  for (const Note& warning : model->context.warnings) {
    EXPECT_TRUE(expected == 1 && warning.message.starts_with(warned->second)) << warning.message;
  }
  const bool fresh = GetParam().filename().string().find("fresh") != std::string::npos;
  EXPECT_EQ(!model->context.parted.empty(), fresh);
}

/// Where a tensor of PyTorch's `state_dict` is: axes of the stored tensor, per part; its own is one under its name.
std::map<std::string, std::vector<std::vector<int64_t>>> axes_by_name(const ir::Graph& graph) {
  std::map<std::string, std::vector<std::vector<int64_t>>> found;
  for (const ir::StateTensor& tensor : ir::full_state(graph).tensors) {
    for (const ir::StatePart& part : tensor.parts) found[tensor.name].push_back(part.axes);
  }
  return found;
}

/// The card says of each initializer whose name is not PyTorch's which parameter it is, and how it lies in it.
TEST_P(Models, ParametersAreKnownByTheNamesOfTheirModule) {
  const auto model = recover(GetParam());
  if (kRefused.contains(GetParam().filename().string())) return;
  ASSERT_TRUE(model.has_value());
  const json card = json::parse(test::read_file(GetParam() / "card.json"));
  if (!card["parameter_of_initializer"].is_object()) return;  // they have PyTorch's names
  // Weights that a normalisation was folded into are no parameters of the module.
  if (GetParam().filename().string().find("_folded_") != std::string::npos) return;
  const auto found = axes_by_name(model->graph);
  using Axes = std::vector<std::vector<int64_t>>;
  for (const auto& [initializer, entry] : card["parameter_of_initializer"].items()) {
    const std::string transform = entry["transform"];
    const json names = entry["state_dict"].is_array() ? entry["state_dict"] : json::array({entry["state_dict"]});
    for (const std::string name : names) {
      SCOPED_TRACE(initializer + " is " + name + ", " + transform);
      // The rows are not the parameter: it has another shape.
      if (transform.starts_with("rows") && found.contains(initializer)) continue;
      ASSERT_TRUE(found.contains(name));
      const bool tied = !model->graph.find(initializer).valid();  // to one in another form
      if (transform == "transpose" && !tied) EXPECT_EQ(found.at(name), (Axes{{1, 0}}));
      if (transform == "lstm_gates") EXPECT_EQ(found.at(name), Axes(4, {0, 1, 2}));
      if (transform == "lstm_bias") EXPECT_EQ(found.at(name), Axes(4, {0, 1}));
    }
  }
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
