// Which stored tensors of small models are trained, and why.
#include "passes/parameters/recover_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ir/op/op.h"
#include "ir/state/state_bytes.h"
#include "ir/verify.h"
#include "onnx/onnx_pb.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::passes {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Pair;

struct Recovered {
  ir::Graph graph;
  PassContext context;
  std::string kind(std::string_view name) const {
    const ValueId value = graph.find(name);
    return value.valid() ? std::string(ir::str(graph.value(value).kind)) : "absent";
  }
};

void expect_kinds(const Recovered& model, const std::vector<std::pair<std::string_view, std::string>>& kinds) {
  for (const auto& [name, kind] : kinds) EXPECT_EQ(model.kind(name), kind) << name;
}

size_t trained(const ir::Graph& graph) {
  size_t count = 0;
  for (const ValueId value : graph.values()) count += graph.kind(value) == ir::ValueKind::kParameter ? 1 : 0;
  return count;
}

Recovered recovered(Result<frontend::Imported> imported, std::map<std::string, ir::ValueKind> kinds) {
  RANNC_CHECK(imported.ok()) << imported.diagnostic().str();
  Recovered result{std::move(imported->graph), {}};
  const StoredFacts known{std::move(kinds), std::move(imported->notes.stored)};
  const auto outcome = RecoverParameters(known).run(result.graph, result.context);
  EXPECT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  EXPECT_TRUE(ir::verify(result.graph).empty());
  return result;
}

Recovered recover(std::string_view text, std::map<std::string, ir::ValueKind> kinds = {}) {
  return recovered(test::read_graph(text, 17), std::move(kinds));
}

/// Of a model whose nodes have scopes in their metadata, and whose graph lists its state, as torch.onnx.export writes
/// them with dynamo=True.
Recovered recover_exported(std::string_view text, const std::vector<std::string>& scopes, const std::string& list) {
  ONNX_NAMESPACE::ModelProto model;
  RANNC_CHECK(model.ParseFromString(test::onnx_bytes(test::onnx_model(text, 17))));
  for (size_t i = 0; i < scopes.size(); ++i) {
    auto* const entry = model.mutable_graph()->mutable_node(static_cast<int>(i))->add_metadata_props();
    entry->set_key("pkg.torch.onnx.name_scopes");
    entry->set_value(scopes[i]);
  }
  if (!list.empty()) {
    auto* const entry = model.mutable_graph()->add_metadata_props();
    entry->set_key("pkg.torch.export.ExportedProgram.graph_signature");
    entry->set_value("\n# inputs\n" + list + "x: USER_INPUT\n\n# outputs\ny: USER_OUTPUT\n");
  }
  return recovered(frontend::read_onnx_bytes(model.SerializeAsString(), "test.onnx"), {});
}

/// Of a model whose exporter records what it computed tensors from.
Recovered recover_made_of(std::string_view text, const std::string& list,
                          const std::map<std::string, std::vector<std::string>>& made) {
  ONNX_NAMESPACE::ModelProto model;
  RANNC_CHECK(model.ParseFromString(test::onnx_bytes(test::onnx_model(text, 17))));
  auto* const entry = model.mutable_graph()->add_metadata_props();
  entry->set_key("pkg.torch.export.ExportedProgram.graph_signature");
  entry->set_value("\n# inputs\n" + list + "x: USER_INPUT\n\n# outputs\ny: USER_OUTPUT\n");
  for (const auto& [name, from] : made) {
    auto* const value = model.mutable_graph()->add_value_info();
    value->set_name(name);
    auto* const record = value->add_metadata_props();
    record->set_key("pkg.onnxscript.optimizer.folded_from");
    record->set_value("['" +
                      std::accumulate(from.begin() + 1, from.end(), from[0],
                                      [](auto all, const auto& each) { return all + "', '" + each; }) +
                      "']");
  }
  const std::string bytes = model.SerializeAsString();
  auto imported = frontend::read_onnx_bytes(bytes, "test.onnx");
  RANNC_CHECK(imported.ok() && imported->notes.stored.folded.size() == made.size());
  Recovered result{std::move(imported->graph), {}};
  const StoredFacts known{.file = std::move(imported->notes.stored)};
  EXPECT_TRUE(RecoverParameters(known).run(result.graph, result.context).ok());
  EXPECT_TRUE(ir::verify(result.graph).empty());
  return result;
}

Result<Outcome> strictly(frontend::Imported& imported) {
  StoredFacts known{.file = imported.notes.stored};
  known.merged = StoredFacts::Merged::kRefused;
  PassContext context;
  return RecoverParameters(known).run(imported.graph, context);
}

/// Names under which `state_dict` has what is trained.
std::set<std::string> state_names(const ir::Graph& graph) {
  std::set<std::string> names;
  for (const ir::StateTensor& tensor : ir::full_state(graph).tensors) names.insert(tensor.name);
  return names;
}

Recovered recover_with_scopes(std::string_view text, const std::vector<std::string>& scopes) {
  return recover_exported(text, scopes, "");
}

Recovered recover_with_list(std::string_view text, const std::string& list) { return recover_exported(text, {}, list); }

TEST(RecoverParameters, WeightsByTheirPlace) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x, int64[batch] i) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] b = "
      "{0, 0},"
      " float[3, 2] table = {1, 2, 3, 4, 5, 6}, float[2] scale = {1, 1}, float[2, 2] m = {5, 6, 7, 8}, float half = "
      "{0.5}> {\n"
      "  e = Gather (table, i)\n  a = Gemm (x, w, b)\n  s = Add (a, e)\n  n = LayerNormalization (s, scale)\n"
      "  p = MatMul (n, m)\n  y = Mul (p, half)\n}");
  for (const char* const name : {"w", "b", "table", "scale", "m"}) EXPECT_EQ(model.kind(name), "parameter") << name;
  expect_kinds(model, {{"half", "constant"}, {"x", "input"}});
}

TEST(RecoverParameters, OneNumberInAWeightsPlaceCounts) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 1] y) <float[2, 1] w = {1, 2}, float[1] b = {3}, float[1] c = {4}>"
      " { a = Gemm (x, w, b)\n y = Mul (a, c) }");
  expect_kinds(model, {{"b", "parameter"}, {"c", "constant"}});
}

/// Learned queries are multiplied by the root of their length before they meet a key.
TEST(RecoverParameters, OneNumberThatScalesOrFillsAWeightIsNone) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 2] x) => (float[batch, 3, 2] y) <float[3, 2] query = {1, 2, 3, 4, 5, 6}, float scale = "
      "{0.5}, float zero = {0}, int64[1] two = {2}, float[2, 2] w = {1, 2, 3, 4}> {\n"
      "  q = Mul (query, scale)\n  s = MatMul (q, x)\n  bias = Expand (zero, two)\n  p = Add (s, bias)\n"
      "  y = MatMul (p, w)\n}");
  expect_kinds(model, {{"query", "parameter"}, {"scale", "constant"}, {"zero", "constant"}});
  const Recovered conv = recover(
      "agraph (float[batch, 1, 4] x) => (float[batch, 2, 4] y) <float[2, 1, 1] k = {1, 2}, float zero = {0}, int64[1] "
      "two = {2}> { bias = Expand (zero, two)\n y = Conv (x, k, bias) }");
  expect_kinds(conv, {{"k", "parameter"}, {"zero", "constant"}});
}

/// ONNX's text syntax has no names with dots.
TEST(RecoverParameters, OneNumberWithTheNameOfAParameterCounts) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float gain = {2}, float logit_scale = {0.5}, float bare = "
      "{3}> {\n  a = Mul (x, gain)\n  e = Exp (logit_scale)\n  b = Mul (a, e)\n  y = Mul (b, bare)\n}";
  ONNX_NAMESPACE::ModelProto named;
  RANNC_CHECK(named.ParseFromString(test::onnx_bytes(test::onnx_model(text, 17))));
  named.mutable_graph()->mutable_initializer(0)->set_name("block.0.gain");
  named.mutable_graph()->mutable_node(0)->set_input(1, "block.0.gain");
  const Recovered model = recovered(frontend::read_onnx_bytes(named.SerializeAsString(), "test.onnx"), {});
  expect_kinds(model, {{"block.0.gain", "parameter"}, {"logit_scale", "parameter"}, {"bare", "constant"}});
}

/// Whatever its name: a layer with one output has a bias of one element.
TEST(RecoverParameters, TheBiasOfOneOutputIsAWeight) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 1] y) <float[2, 1] w = {1, 2}, float[1] row = {0.5}, "
      "float number = {0.5}> { a = MatMul (x, w)\n b = Add (row, a)\n y = Add (b, number) }");
  expect_kinds(model, {{"w", "parameter"}, {"row", "parameter"}, {"number", "constant"}});
}

TEST(RecoverParameters, SlopesAreWeights) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 3] x) => (float[batch, 2, 3] y) <float[1] slope = {0.25}, float[1, 1, 1] other = {0.5}> "
      "{"
      " a = PRelu (x, slope)\n y = PRelu (a, other) }");
  expect_kinds(model, {{"slope", "parameter"}, {"other", "parameter"}});
}

/// What the exporter computed a tensor from counts, wherever it stands: in a weight's place, added to scores, one
/// number.
TEST(RecoverParameters, WhatATensorWasComputedFromIsBelieved) {
  const std::string text =
      "agraph (float[batch, 2, 2] x) => (float[batch, 2, 2] y) <float[2, 2] grid = {1, 2, 3, 4}, float exp = {2}, "
      "float[2, 2] scores = {1, 2, 3, 4}, float val_3 = {0.5}, float[2, 2] w = {4, 3, 2, 1}> {\n"
      "  a = Add (x, grid)\n  b = Mul (a, exp)\n  c = MatMul (b, w)\n  d = Mul (c, val_3)\n  e = Add (d, scores)\n"
      "  y = Softmax (e)\n}";
  const std::string list =
      "p_scale: PARAMETER target='scale'\np_table: PARAMETER target='table'\n"
      "p_weight: PARAMETER target='weight'\nb_a: BUFFER target='adjacency' persistent=True\n";
  const std::map<std::string, std::vector<std::string>> made = {
      {"exp", {"scale"}}, {"scores", {"index", "table"}}, {"grid", {"arange", "val_7"}}, {"w", {"adjacency", "mul"}}};
  Recovered model = recover_made_of(text, list, made);
  expect_kinds(
      model,
      {{"grid", "constant"}, {"exp", "parameter"}, {"scores", "parameter"}, {"val_3", "constant"}, {"w", "constant"}});
  EXPECT_THAT(model.context.warnings,
              ElementsAre(Field(&Note::message, AllOf(HasSubstr("'exp' for 'scale'"), HasSubstr("'scores' for 'table'"),
                                                      HasSubstr("optimize=False")))));
}

/// The exporter computed one tensor, which layers alike read: it is no merge of theirs.
TEST(RecoverParameters, WhatWasComputedOnceIsOneTensor) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2] exp = {1, 2}> {\n"
      "  [\"/layers/layers.0/Add\"] a = Add (x, exp)\n  [\"/layers/layers.1/Add\"] y = Add (a, exp)\n}";
  const Recovered model = recover_made_of(text, "p_scale: PARAMETER target='scale'\n", {{"exp", {"scale"}}});
  EXPECT_EQ(trained(model.graph), 1U);
  EXPECT_THAT(model.context.parted, IsEmpty());
  EXPECT_THAT(model.context.warnings, ElementsAre(Field(&Note::message, HasSubstr("'exp' for 'scale'"))));
}

/// Without an evaluator nothing is computed again.
TEST(RecoverParameters, WhatFollowsFromAParameterOfTheFileIsReported) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] weight = {1, -2, 3, 4}, float[2, 2] abs_1 = {1, "
      "2, "
      "3, 4}> {\n  a = MatMul (x, weight)\n  y = MatMul (a, abs_1)\n}";
  const Recovered model = recover_made_of(text, "p_weight: PARAMETER target='weight'\n", {{"abs_1", {"weight"}}});
  EXPECT_THAT(
      model.context.warnings,
      Contains(Field(&Note::message, AllOf(HasSubstr("'abs_1'"), HasSubstr("'weight'"), HasSubstr("optimize=False")))));
}

TEST(RecoverParameters, WhatIsTrainedByItsUseAloneIsCounted) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {1, 2}>"
      " { y = Gemm (x, w, b) }");
  EXPECT_THAT(model.context.remarks,
              Contains(Field(&Note::message, "2 tensors are trained because of their use alone (b, w)")));
}

/// A learned bias of scores and a mask are added alike.
TEST(RecoverParameters, WhatIsInDoubtIsAWarningWithoutNamesOfModules) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 2] x) => (float[batch, 2, 2] y) <float[1, 2, 2] rb = {1, 2, 3, 4}, float[2, 2] w ="
      " {1, 2, 3, 5}> { a = MatMul (x, w)\n b = Add (a, rb)\n y = Softmax (b) }");
  EXPECT_THAT(model.context.warnings,
              Contains(Field(&Note::message, HasSubstr("are not trained because of their use alone (rb): --train"))));
}

TEST(RecoverParameters, AListOfTheProgramsStateIsBelieved) {
  const std::string text =
      "agraph (float[batch, 2, 2] x) => (float[batch, 2, 2] y) <float temperature = {2}, float[2, 2] gate = {1, 2, 3, "
      "4}, float[2, 2] positions = {1, 2, 3, 4}, float val_3 = {0.5}, float[2, 2] w = {4, 3, 2, 1}> {\n"
      "  a = Mul (x, temperature)\n  b = Mul (a, gate)\n  c = Add (b, positions)\n  d = Mul (c, val_3)\n"
      "  y = MatMul (d, w)\n}";
  const std::string list =
      "p_temperature: PARAMETER target='temperature'\np_gate: PARAMETER target='gate'\n"
      "b_positions: BUFFER target='positions' persistent=True\n";
  const Recovered told = recover_with_list(text, list), untold = recover(text);
  expect_kinds(told,
               {{"temperature", "parameter"}, {"gate", "parameter"}, {"positions", "constant"}, {"val_3", "constant"}});
  EXPECT_EQ(told.kind("w"), "constant") << "the file has all that is listed, so that it was made of no parameter";
  const Recovered lost = recover_with_list(text, list + "p_v: PARAMETER target='v'\n");
  expect_kinds(lost, {{"w", "parameter"}, {"val_3", "constant"}});
  expect_kinds(untold, {{"temperature", "constant"}, {"gate", "constant"}, {"positions", "parameter"}});
}

/// A table of biases that is looked up by constant places is in the file as what was found there.
TEST(RecoverParameters, ParametersThatTheExporterComputedOnAreOpen) {
  const std::string text =
      "agraph (float[batch, 2, 2] x) => (float[batch, 2, 2] y) <float[2, 2] val_1 = {1, 2, 3, 4}, float[2, 2] index = "
      "{4, 3, 2, 1}> {\n  k = MatMul (x, val_1)\n  t = Transpose <perm = [0, 2, 1]> (x)\n  s = MatMul (k, t)\n"
      "  a = Add (s, index)\n  p = Softmax (a)\n  y = MatMul (p, x)\n}";
  const auto scopes = [](const std::string& of_sum) {
    return std::vector<std::string>{"['', 'attn.key', 'linear']", "['', 'attn', 'transpose']", "['', 'attn', 'matmul']",
                                    "['', '" + of_sum + "', 'add']"};
  };
  const std::string weights =
      "p_attn_key_weight: PARAMETER target='attn.key.weight'\np_pool_weight: PARAMETER target='pool.weight'\n"
      "p_attn_norm_weight: PARAMETER target='attn.norm.weight'\n"
      "b_attn_norm_running_mean: BUFFER target='attn.norm.running_mean' persistent=True\n";
  const std::string biases = "p_attn_biases: PARAMETER target='attn.biases'\n";
  const auto computed = Contains(Field(&Note::message, AllOf(HasSubstr("(attn.biases)"), HasSubstr("(index)"))));
  const Recovered told = recover_exported(text, scopes("attn"), weights + biases);
  expect_kinds(told, {{"val_1", "parameter"}, {"index", "constant"}});
  EXPECT_THAT(told.context.warnings, computed);
  // Also where a module of its own holds the table; not where another module reads the constant, or nothing is lost.
  const std::string deeper = "p_attn_biases: PARAMETER target='attn.relative.biases'\n";
  EXPECT_THAT(recover_exported(text, scopes("attn"), weights + deeper).context.warnings,
              Contains(Field(&Note::message, HasSubstr("(attn.relative.biases)"))));
  EXPECT_THAT(recover_exported(text, scopes("other"), weights + biases).context.warnings, IsEmpty());
  EXPECT_THAT(recover_exported(text, scopes("attn"), weights).context.warnings, IsEmpty());
}

TEST(RecoverParameters, ThroughTasksThatDependOnNoInput) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 3] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[3, 1] g = {1, 2, "
      "3},"
      " double[3] b = {1, 2, 3}> {\n"
      "  v = Mul (w, g)\n  t = Transpose (v)\n  p = MatMul (x, t)\n  f = Cast <to = 1> (b)\n  y = Add (p, f)\n}");
  for (const char* const name : {"w", "g", "b"}) EXPECT_EQ(model.kind(name), "parameter") << name;
}

TEST(RecoverParameters, RatesOfDecayAndTablesOfMatrices) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 1] x, int64[batch, 1] i) => (float[batch, 2, 2] y) <float[2, 2] rate = {1, 2, 3, 4},"
      " float[2, 2] mask = {0, 1, 2, 3}, float[3, 2, 2] each = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {\n"
      "  r = Exp (rate)\n  n = Neg (r)\n  a = Mul (x, n)\n  m = Mul (a, mask)\n  e = GatherND (each, i)\n  y = Add (m, "
      "e)\n}");
  expect_kinds(model, {{"rate", "parameter"}, {"mask", "constant"}, {"each", "parameter"}});
}

TEST(RecoverParameters, WindowsOfSpectraAndWeightsOfClassesAreConstants) {
  const Recovered spectrum = recover(
      "agraph (float[batch, 16, 1] x) => (float[batch, 4, 3, 2] y) <int64 step = {4}, float[4] window = {0, 0.5, 1, "
      "0.5}> { y = STFT (x, step, window) }");
  EXPECT_EQ(spectrum.kind("window"), "constant");
  EXPECT_EQ(trained(spectrum.graph), 0U);
  const Recovered loss = recover(
      "agraph (float[batch, 3] x, int64[batch] c) => (float y) <float[3] weight = {1, 2, 3}>"
      " { y = SoftmaxCrossEntropyLoss (x, c, weight) }");
  EXPECT_EQ(loss.kind("weight"), "constant");
  EXPECT_EQ(trained(loss.graph), 0U);
}

/// The same numbers as initializers are trained: a GELU's scalar of rank 1, a factor, a kernel, a table.
TEST(RecoverParameters, OutputsOfConstantNodesAreConstants) {
  const std::string body =
      "  s = Mul (x, gain)\n  a = Add (s, shift)\n  p = MatMul (a, w)\n  c = Concat <axis = 0> (p, token)\n"
      "  y = MatMul (c, twice)\n}";
  const std::string inside =
      "agraph (float[1, 2] x) => (float[2, 2] y) {\n  gain = Constant <value = float[2] {1, 2}> ()\n"
      "  shift = Constant <value_floats = [3.0, 4.0]> ()\n  w = Constant <value = float[2, 2] {1, 2, 3, 4}> ()\n"
      "  token = Constant <value = float[1, 2] {1, 2}> ()\n  twice = Identity (w)\n" +
      body;
  const std::string outside =
      "agraph (float[1, 2] x) => (float[2, 2] y) <float[2] gain = {1, 2}, float[2] shift = {3, 4},"
      " float[2, 2] w = {1, 2, 3, 4}, float[1, 2] token = {1, 2}> {\n  twice = Identity (w)\n" +
      body;
  const Recovered numbers = recover(inside), tensors = recover(outside);
  const Recovered told = recover(inside, {{"w", ir::ValueKind::kParameter}});
  for (const char* const name : {"gain", "shift", "w", "token"}) {
    EXPECT_EQ(tensors.kind(name), "parameter") << name;
    EXPECT_EQ(numbers.kind(name), "constant") << name;
  }
  EXPECT_EQ(tensors.kind("twice"), "parameter") << "apart again";
  EXPECT_EQ(numbers.kind("twice"), "activation");
  expect_kinds(told, {{"w", "parameter"}, {"gain", "constant"}});
  EXPECT_THAT(
      numbers.context.warnings,
      Contains(Field(&Note::message, AllOf(HasSubstr("numbers of the model's code are in places of weights and are "
                                                     "not trained ("),
                                           HasSubstr("shift"), HasSubstr("w)")))));
}

TEST(RecoverParameters, ConstantNodesInsideFunctionsAreConstants) {
  auto imported = frontend::read_onnx_bytes(
      test::onnx_bytes("<ir_version: 8, opset_import: [\"\" : 17, \"own\" : 1]>\n"
                       "agraph (float[N, 2] x) => (float[N, 2] y) { [call] y = own.scaled (x) }\n"
                       "<domain: \"own\", opset_import: [\"\" : 17]> scaled (a) => (b) {\n"
                       "  factor = Constant <value = float[2] {1, 2}> ()\n  b = Mul (a, factor)\n}"),
      "test.onnx");
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  PassContext context;
  ASSERT_TRUE(RecoverParameters({.file = imported->notes.stored}).run(imported->graph, context).ok());
  const ValueId factor = imported->graph.find("call/factor");
  ASSERT_TRUE(factor.valid());
  EXPECT_EQ(imported->graph.value(factor).kind, ir::ValueKind::kConstant);
}

TEST(RecoverParameters, RunningStatisticsAreBuffers) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 3] x) => (float[batch, 2, 3] y) <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = "
      "{0, 1},"
      " float[2] v = {1, 1}> { y = BatchNormalization <training_mode = 1> (x, s, b, m, v) }");
  expect_kinds(model, {{"s", "parameter"}, {"b", "parameter"}, {"m", "buffer"}, {"v", "buffer"}});
  const ir::Graph& graph = model.graph;
  const ir::Statistics expected{graph.find("y.mean"), graph.find("y.variance"), graph.find("m"), graph.find("v")};
  EXPECT_EQ(graph.statistics(), std::vector<ir::Statistics>{expected});
  EXPECT_TRUE(ir::verify(graph).empty());
}

TEST(RecoverParameters, RunningStatisticsThatNobodyReadsAreBuffersToo) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 3] x) => (float[batch, 2, 3] y) <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = "
      "{0, 1}, "
      "float[2] v = {1, 1}> { y, next_m, next_v = BatchNormalization <training_mode = 1> (x, s, b, m, v) }");
  expect_kinds(model, {{"m", "buffer"}, {"v", "buffer"}});
  EXPECT_EQ(model.graph.statistics().size(), 1U);
}

/// A convolution's bias of as many zeros as its weight has channels, which a module without a bias is given.
TEST(RecoverParameters, AZeroBiasThatIsComputedIsNone) {
  const Recovered model = recover(
      "agraph (float[batch, 1, 4] x) => (float[batch, 2, 4] y) <float[2, 1, 1] w = {1, 2}> {\n"
      "  channels = Shape <start = 0, end = 1> (w)\n  none = Constant <value = float {0}> ()\n  zero = CastLike (none, "
      "x)\n"
      "  bias = Expand (zero, channels)\n  y = Conv (x, w, bias)\n}");
  for (const ValueId value : model.graph.values()) {
    const auto& each = model.graph.value(value);
    EXPECT_EQ(each.kind == ir::ValueKind::kParameter, each.name == "w") << each.name;
  }
}

TEST(RecoverParameters, MasksAndAttentionBiasesAreConstants) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 2] x) => (float[batch, 2, 2] y) <float[2, 2] bias = {1, 2, 3, 4}, float[2] mask = {0, "
      "-65504},"
      " float[1, 2, 2] positions = {1, 2, 3, 4}> {\n"
      "  p = Add (x, positions)\n  q = MatMul (p, p)\n  s = Add (q, bias)\n  m = Add (s, mask)\n  y = Softmax (m)\n}");
  expect_kinds(model, {{"positions", "parameter"}, {"bias", "constant"}, {"mask", "constant"}});
}

TEST(RecoverParameters, RotaryTablesAreConstants) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 2] x, float[batch, 1, 2] t) => (float[batch, 2, 2] y) <float[1, 2, 2] table = {1, 2, 3, "
      "4},"
      " float[1, 2, 1] frequencies = {1, 2}, float[2] gain = {1, 2}> {\n"
      "  a = Mul (x, table)\n  f = MatMul (frequencies, t)\n  c = Cos (f)\n  b = Mul (a, c)\n  y = Mul (b, gain)\n}");
  expect_kinds(model, {{"table", "constant"}, {"frequencies", "constant"}, {"gain", "parameter"}});
}

/// The tables are looked up as an embedding is. What they are computed from may be trained.
TEST(RecoverParameters, TablesOfRotaryEmbeddingAreConstants) {
  const std::string head =
      "agraph (float[batch, 3, 4] x, int64[batch, 3] at) => (float[batch, 3, 4] y) <float[4, 4] w = {1, 2, 3, 4, 5, 6, "
      "7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, float[5, 2] cos = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2}, float[5, 2] sin = {0, "
      "0, 0, 0, 0, 0, 0, 0, 0, 2}> {\n  u = MatMul (x, w)\n";
  const std::string tail = "  y = RotaryEmbedding <num_heads = 1> (u, c, s, at)\n}";
  const auto of = [&](const std::string& tables) { return recovered(test::read_graph(head + tables + tail, 23), {}); };
  const Recovered stored = of("  c = Identity (cos)\n  s = Identity (sin)\n");
  expect_kinds(stored, {{"w", "parameter"}, {"cos", "constant"}, {"sin", "constant"}});
  const Recovered computed = of("  c = Cos (cos)\n  s = Sin (sin)\n");
  expect_kinds(computed, {{"w", "parameter"}, {"cos", "parameter"}});
}

/// Both branches of `torch.cond` read one layer. Of another one the exporter omitted the bias of zeros.
TEST(RecoverParameters, ALayerInTwoBranchesIsOne) {
  const std::string text =
      "agraph (float[batch, 2] x, bool flag) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {5, "
      "6}, "
      "float[2, 2] v = {7, 8, 9, 1}> {\n  y = If (flag) <\n"
      "    then_branch = first () => (float[batch, 2] p) { k = Gemm <transB = 1> (x, v)\n p = Gemm <transB = 1> (k, w, "
      "b) },\n"
      "    else_branch = second () => (float[batch, 2] q) { q = Gemm <transB = 1> (x, w, b) }>\n}";
  ONNX_NAMESPACE::ModelProto model;
  RANNC_CHECK(model.ParseFromString(test::traced_model(
      text, 17, {},
      "p_w: PARAMETER target='w'\np_b: PARAMETER target='b'\np_v: PARAMETER target='v'\np_z: PARAMETER target='z'\n")));
  for (auto& branch : *model.mutable_graph()->mutable_node(0)->mutable_attribute()) {
    for (auto& node : *branch.mutable_g()->mutable_node()) {
      auto* const entry = node.add_metadata_props();
      entry->set_key("pkg.torch.onnx.fx_node");
      const std::string names = node.input(1) == "v" ? "%p_v, %p_z" : "%p_w, %p_b";
      entry->set_value("%n : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, " + names +
                       "), kwargs = {})");
    }
  }
  auto imported = frontend::read_onnx_bytes(model.SerializeAsString(), "test.onnx");
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  const auto outcome = strictly(*imported);
  ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  EXPECT_THAT(state_names(imported->graph), ElementsAre("b", "v", "w", "z"));
  EXPECT_EQ(trained(imported->graph), 4U);
}

TEST(RecoverParameters, MergedTensorsComeApart) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] kept = {0, 0}> {\n"
      "  lost = Identity (kept)\n  a = Gemm (x, w, kept)\n  y = Gemm (a, w, lost)\n}");
  expect_kinds(model, {{"kept", "parameter"}, {"lost", "parameter"}});
  EXPECT_EQ(model.graph.task_count(), 2u);
}

/// ONNX's text syntax has no names with colons, so the graph is built by hand.
TEST(RecoverParameters, IdentitiesBetweenGeneratedNamesAreTies) {
  ir::Graph graph;
  const ir::ValueType square{ir::DType::kF32, ir::Shape{2, 2}, {}, {}};
  const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", square);
  graph.add_input(x);
  const ValueId first = graph.add_value(ir::ValueKind::kConstant, "onnx::MatMul_1", square);
  const std::string second_name[] = {"onnx::MatMul_2"};
  const ValueId operands[] = {first};
  const TaskId identity = graph.add_task(ir::core("identity"), operands, {}, second_name);
  const ValueId second = graph.outputs(identity)[0];
  const ValueId product = graph.add(ir::core("matmul"), {x, first});
  graph.add_output(graph.add(ir::core("matmul"), {product, second}));
  for (const TaskId task : graph.tasks()) ASSERT_TRUE(ir::infer_types(graph, task).ok());
  PassContext context;
  ASSERT_TRUE(RecoverParameters().run(graph, context).ok());
  EXPECT_EQ(graph.task_count(), 2u);
  EXPECT_EQ(trained(graph), 1u);
}

TEST(RecoverParameters, TiesAreReported) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] a = {1, 2, 3, 4}, float[2, 2] same = {1, 2, 3, "
      "4},"
      " float[2, 2] turned = {1, 3, 2, 4}, float[2] zero = {0, 0}, float[2] also = {0, 0}> {\n"
      "  p = Gemm (x, a, zero)\n  q = Gemm (p, same, also)\n  y = MatMul (q, turned)\n}");
  EXPECT_THAT(model.context.warnings,
              Contains(Field(&Note::message, HasSubstr("'a' and 'same' have the same values:"))));
  EXPECT_THAT(model.context.warnings,
              Contains(Field(&Note::message, HasSubstr("'a' and 'turned' have the same values, transposed"))));
  EXPECT_THAT(model.context.warnings, Not(Contains(Field(&Note::message, HasSubstr("'also'")))));
}

const std::string kFreshHead = "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] v = {1, 2, 3, 4}, ";
const std::string kFreshValues = "float[2, 2] w = {5, 6, 7, 8}, float[2] zero = {0, 0}> {\n";
const std::string kFreshLayers = "  a = Gemm (x, v, zero)\n  y = Gemm (a, w, zero)\n}";

/// Two layers of a fresh model, by names as the legacy exporter gives them and by metadata as the new one does.
TEST(RecoverParameters, MergedInitialValuesComeApartByTheirModules) {
  const Recovered named = recover(kFreshHead + kFreshValues +
                                  "  [\"/layers/layers.0/Gemm\"] a = Gemm (x, v, zero)\n"
                                  "  [\"/layers/layers.1/Gemm\"] b = Gemm (a, w, zero)\n"
                                  "  [\"/norm/Add\"] y = Add (b, zero)\n}");
  EXPECT_THAT(named.context.warnings, IsEmpty());
  EXPECT_THAT(state_names(named.graph), IsSupersetOf({"layers.0.bias", "layers.1.bias", "norm.bias"}));
  EXPECT_EQ(trained(named.graph), 5U);
  EXPECT_THAT(named.context.parted, ElementsAre(Pair("layers.1.bias", "zero"), Pair("norm.bias", "zero")));
  const Recovered described = recover_with_scopes(kFreshHead + kFreshValues + kFreshLayers,
                                                  {"['', 'first', 'linear']", "['', 'second', 'linear_1']"});
  EXPECT_THAT(state_names(described.graph), IsSupersetOf({"first.bias", "second.bias"}));
}

TEST(RecoverParameters, WhatNothingTellsApartIsAWarningOrRefused) {
  const std::string text = kFreshHead + kFreshValues + kFreshLayers;
  const Recovered nameless = recover(text);
  EXPECT_THAT(
      nameless.context.warnings,
      ElementsAre(Field(&Note::message, AllOf(HasSubstr("'zero' is read by 2 modules"), HasSubstr("trained as one")))));
  auto imported = test::read_graph(text, 17);
  StoredFacts strict{.file = imported->notes.stored};
  strict.merged = StoredFacts::Merged::kRefused;
  PassContext context;
  const auto refused = RecoverParameters(strict).run(imported->graph, context);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), AllOf(HasSubstr("1 parameters of the file"),
                                                HasSubstr("'zero' is read by 2 modules"), HasSubstr("--allow-merged")));
}

/// The call that a node was made from names the tensors of the program.
TEST(RecoverParameters, MergedInitialValuesComeApartByTheirCalls) {
  const std::string list =
      "p_a_weight: PARAMETER target='a.weight'\np_a_bias: PARAMETER target='a.bias'\n"
      "p_b_weight: PARAMETER target='b.weight'\np_b_bias: PARAMETER target='b.bias'\n"
      "p_n_weight: PARAMETER target='n.weight'\np_n_bias: PARAMETER target='n.bias'\n";
  const std::vector<std::string> calls = {"aten.linear.default](args = (%x, %p_a_weight, %p_a_bias)",
                                          "aten.linear.default](args = (%x, %p_a_weight, %p_a_bias)",
                                          "aten.linear.default](args = (%a, %p_b_weight, %p_b_bias)",
                                          "aten.layer_norm.default](args = (%b, [2], %p_n_weight, %p_n_bias, 1e-05)"};
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] val_1 = {1, 2, 3, 4}, float[2] zero = {0, 0}> {\n"
      "  p = MatMul (x, val_1)\n  a = Add (p, zero)\n  b = Gemm <transB = 1> (a, val_1)\n"
      "  y = LayerNormalization (b, zero, zero)\n}";
  const Recovered model =
      recovered(frontend::read_onnx_bytes(test::traced_model(text, 17, calls, list), "test.onnx"), {});
  EXPECT_THAT(state_names(model.graph), ElementsAre("a.bias", "a.weight", "b.bias", "b.weight", "n.bias", "n.weight"));
  EXPECT_EQ(trained(model.graph), 6U) << "the bias that the exporter left out among them";
  EXPECT_EQ(model.kind("b.bias"), "parameter");
  const auto turned = [&](const std::string& name) {
    for (const ir::StateTensor& tensor : model.graph.state()) {
      if (tensor.name == name) return tensor.parts[0].axes;
    }
    return std::vector<int64_t>{};
  };
  EXPECT_EQ(turned("a.weight"), (std::vector<int64_t>{1, 0})) << "the product reads its transpose";
  EXPECT_EQ(model.kind("b.weight"), "parameter") << "as it is, under its own name";
  // Without the list the same file says nothing of who reads what but by its modules.
  EXPECT_NE(trained(recover(text).graph), 6U);
}

/// An embedding and the weight of a head are one, which the head's product reads transposed. No node reads the third
/// name of it.
TEST(RecoverParameters, TiedTensorsHaveTheirShapesUnderAllNames) {
  const std::string text =
      "agraph (int64[batch, 2] x) => (float[batch, 2, 3] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2, 3] val_1 = "
      "{1, 3, 5, 2, 4, 6}> {\n  h = Gather (w, x)\n  y = MatMul (h, val_1)\n}";
  const std::string list =
      "p_shared: PARAMETER target='shared.w'\np_w: PARAMETER target='w'\np_head: PARAMETER "
      "target='top.head.weight'\n"
      "b_mask: BUFFER target='mask' persistent=True\nb_ids: BUFFER target='ids' persistent=False\n";
  const std::vector<std::string> calls = {"%h = aten.embedding.default](args = (%p_w, %x)",
                                          "%y = aten.linear.default](args = (%h, %p_w)"};
  auto imported =
      frontend::read_onnx_bytes(test::traced_model(text, 17, calls, list, {"words", "top.head"}), "test.onnx");
  const Recovered model = recovered(std::move(imported), {});
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ir::StateTensor& tensor : ir::full_state(model.graph).tensors) shapes[tensor.name] = tensor.shape;
  const std::vector<int64_t> rows = {3, 2};
  EXPECT_EQ(shapes["w"], rows);
  EXPECT_EQ(shapes["top.head.weight"], rows);
  EXPECT_EQ(shapes["shared.w"], rows);
  EXPECT_THAT(
      model.context.open,
      Contains(Field(&Note::message, AllOf(HasSubstr("1 buffers"), HasSubstr("(mask)"), HasSubstr("strict=False")))));
}

/// The exporter writes `chunk` as a Split without metadata. It shows what it reads by the module that reads the chunks.
struct Chunks {
  std::string nodes;
  std::vector<std::string> calls, scopes;
  std::string more_state;
};

frontend::Imported read_chunks(const Chunks& chunks) {
  std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[4] bias = {0, 0, 0, 0}> {\n" + chunks.nodes + "}";
  std::string list = "p_bias: PARAMETER target='bias'\n" + chunks.more_state;
  ONNX_NAMESPACE::ModelProto model;
  RANNC_CHECK(model.ParseFromString(test::traced_model(text, 17, chunks.calls, list, chunks.scopes)));
  const auto rename = [](std::string& name) {
    if (name == "bias") name = "a.bias";
  };
  for (auto& tensor : *model.mutable_graph()->mutable_initializer()) rename(*tensor.mutable_name());
  for (auto& node : *model.mutable_graph()->mutable_node()) {
    for (std::string& input : *node.mutable_input()) rename(input);
  }
  for (auto& entry : *model.mutable_graph()->mutable_metadata_props()) {
    const size_t at = entry.value().find("p_bias: PARAMETER target='bias'");
    if (at != std::string::npos) entry.mutable_value()->replace(at, 31, "p_a_bias: PARAMETER target='a.bias'");
  }
  auto imported = frontend::read_onnx_bytes(model.SerializeAsString(), "test.onnx");
  RANNC_CHECK(imported.ok()) << imported.diagnostic().str();
  return *std::move(imported);
}

const std::string kOfA = "  s, t = Split (bias)\n  c = Add (x, s)\n  d = Mul (c, t)\n",
                  kOfB = "  u, v = Split (bias)\n  e = Add (d, u)\n  y = Mul (e, v)\n";
const std::vector<std::string> kChunkCalls = {
    "", "%add = aten.add.Tensor](args = (%x, %getitem)",       "%mul = aten.mul.Tensor](args = (%add, %getitem_1)",
    "", "%add_1 = aten.add.Tensor](args = (%mul, %getitem_2)", "%mul_1 = aten.mul.Tensor](args = (%add_1, %getitem_3)"};

TEST(RecoverParameters, ChunksAreOfTheModuleThatReadsThem) {
  auto imported =
      read_chunks({kOfA + kOfB, kChunkCalls, {"", "a", "a", "", "b", "b"}, "p_b_bias: PARAMETER target='b.bias'\n"});
  ASSERT_TRUE(strictly(imported).ok());
  EXPECT_THAT(state_names(imported.graph), ElementsAre("a.bias", "b.bias"));
  EXPECT_EQ(trained(imported.graph), 2U);
}

/// One parameter, chunked twice by its own module, or by another one that has none.
TEST(RecoverParameters, ChunksOfOneParameterAreOne) {
  for (const std::string second : {"a", "b"}) {
    auto imported = read_chunks({kOfA + kOfB, kChunkCalls, {"", "a", "a", "", second, second}, ""});
    ASSERT_TRUE(strictly(imported).ok());
    EXPECT_EQ(trained(imported.graph), 1U);
  }
}

TEST(RecoverParameters, ChunksThatNothingTellsApartAreRefused) {
  const std::string merged = "p_a_other: PARAMETER target='a.other'\n",
                    both = "p_b_bias: PARAMETER target='b.bias'\np_b_other: PARAMETER target='b.other'\n";
  for (const auto& [second, state] : {std::pair{std::string("a"), merged}, std::pair{std::string("b"), both}}) {
    auto imported = read_chunks({kOfA + kOfB, kChunkCalls, {"", "a", "a", "", second, second}, state});
    const auto refused = strictly(imported);
    ASSERT_FALSE(refused.ok()) << second;
    EXPECT_THAT(
        refused.diagnostic().str(),
        AllOf(HasSubstr("'a.bias'"), HasSubstr(second == "a" ? "a.other" : "b.bias"), HasSubstr("--allow-merged")));
  }
}

/// Where chunks of equal parameters were equal too, one Split is left for both.
TEST(RecoverParameters, MergedChunksAreRefused) {
  auto imported = read_chunks({kOfA + "  e = Add (d, s)\n  y = Mul (e, t)\n",
                               {kChunkCalls[0], kChunkCalls[1], kChunkCalls[2], kChunkCalls[4], kChunkCalls[5]},
                               {"", "a", "a", "b", "b"},
                               "p_b_bias: PARAMETER target='b.bias'\n"});
  const auto refused = strictly(imported);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(),
              AllOf(HasSubstr("'a.bias'"), HasSubstr("b.bias"), HasSubstr("--allow-merged")));
}

/// A model with traced calls that records what the exporter computed its tensors from.
struct Folded {
  std::string nodes, stored;
  std::vector<std::string> calls, scopes;
  std::string list;
  std::map<std::string, std::string> made;  ///< the record as it stands in the file
};

frontend::Imported read_folded(const Folded& folded) {
  const std::string text =
      "agraph (float[batch, 2, 3] x) => (float[batch, a, b] y) <" + folded.stored + "> {\n" + folded.nodes + "}";
  ONNX_NAMESPACE::ModelProto model;
  RANNC_CHECK(model.ParseFromString(test::traced_model(text, 17, folded.calls, folded.list, folded.scopes)));
  for (const auto& [name, from] : folded.made) {
    auto* const value = model.mutable_graph()->add_value_info();
    value->set_name(name);
    auto* const record = value->add_metadata_props();
    record->set_key("pkg.onnxscript.optimizer.folded_from");
    record->set_value(from);
  }
  auto imported = frontend::read_onnx_bytes(model.SerializeAsString(), "test.onnx");
  RANNC_CHECK(imported.ok()) << imported.diagnostic().str();
  return *std::move(imported);
}

std::vector<int64_t> shape_of(const ir::Graph& graph, const std::string& name) {
  for (const ir::StateTensor& tensor : ir::full_state(graph).tensors) {
    if (tensor.name == name) return tensor.shape;
  }
  return {};
}

const std::string kGammas = "p_a_gamma: PARAMETER target='a.gamma'\np_b_gamma: PARAMETER target='b.gamma'\n";

/// Fresh ConvNeXts: `gamma.view(1, -1, 1)` of two blocks is one stored tensor.
TEST(RecoverParameters, MergedViewsAreOfTheModulesThatReadThem) {
  auto imported =
      read_folded({"  a = Mul (x, view)\n  y = Mul (a, view)\n",
                   "float[1, 2, 1] view = {0.5, 0.5}",
                   {"%mul = aten.mul.Tensor](args = (%x, %view)", "%y = aten.mul.Tensor](args = (%mul, %view_1)"},
                   {"a", "b"},
                   kGammas,
                   {{"view", "['a.gamma', 'val_1']"}}});
  ASSERT_TRUE(strictly(imported).ok());
  EXPECT_EQ(trained(imported.graph), 2U);
  EXPECT_THAT(state_names(imported.graph), ElementsAre("a.gamma", "b.gamma"));
  EXPECT_EQ(shape_of(imported.graph, "a.gamma"), std::vector<int64_t>{2});
  EXPECT_EQ(shape_of(imported.graph, "b.gamma"), std::vector<int64_t>{2});
}

/// `1 + weight` of two normalizations, as in Gemma: their numbers are not those of the parameters.
TEST(RecoverParameters, MergedResultsAreTrainedApart) {
  const Folded sums = {"  a = Mul (x, add_1)\n  y = Mul (a, add_1)\n",
                       "float[3] add_1 = {1, 1, 1}",
                       {"%mul = aten.mul.Tensor](args = (%x, %add_1)", "%y = aten.mul.Tensor](args = (%mul, %add_2)"},
                       {"a", "b"},
                       kGammas,
                       {{"add_1", "['a.gamma', 'val_1']"}}};
  auto imported = read_folded(sums);
  ASSERT_TRUE(strictly(imported).ok());
  EXPECT_EQ(trained(imported.graph), 2U);
  EXPECT_THAT(state_names(imported.graph), ElementsAre("add_1", "add_2"));
  // Nothing shows what a module without a parameter of that name reads.
  Folded elsewhere = sums;
  elsewhere.scopes[1] = "c";
  elsewhere.list = kGammas + "p_c_scale: PARAMETER target='c.scale'\n";
  auto open = read_folded(elsewhere);
  EXPECT_FALSE(strictly(open).ok());
}

/// `cat([cls.expand(…), distillation.expand(…)])` of equal tokens reads one value twice.
TEST(RecoverParameters, AValueReadTwiceMayBeTwo) {
  Folded tokens = {"  a = Mul (x, cls)\n  y = Concat <axis = 1> (a, a)\n",
                   "float[1, 1, 3] cls = {0, 0, 0}",
                   {"%mul = aten.mul.Tensor](args = (%x, %p_cls)", "%y = aten.cat.default](args = ([%mul, %mul_1], 1)"},
                   {"", ""},
                   "p_cls: PARAMETER target='cls'\np_dist: PARAMETER target='dist'\n",
                   {}};
  auto merged = read_folded(tokens);
  const auto refused = strictly(merged);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), AllOf(HasSubstr("'cls'"), HasSubstr("dist"), HasSubstr("--allow-merged")));
  tokens.calls[1] = "%y = aten.cat.default](args = ([%mul, %mul], 1)";
  auto one = read_folded(tokens);
  EXPECT_TRUE(strictly(one).ok());
}

/// The ones and zeros of normalizations without weights, and of groups, may have been merged with fresh parameters.
TEST(RecoverParameters, NumbersOfNormalizationsAreNoParameters) {
  const std::string norm = "%y = aten.instance_norm.default](args = (%t, %p_w, %p_b, None, None, True)";
  for (const std::string call : {"%t = aten.instance_norm.default](args = (%x, None, None, None, None, True)",
                                 "%t = aten.group_norm.default](args = (%x, 3, %p_g_weight, %p_g_bias)"}) {
    const Folded model = {"  t = InstanceNormalization (x, w, b)\n  y = InstanceNormalization (t, w, b)\n",
                          "float[2] w = {1, 1}, float[2] b = {0, 0}",
                          {call, norm},
                          {"n", "m"},
                          "p_w: PARAMETER target='w'\np_b: PARAMETER target='b'\n"
                          "p_g_weight: PARAMETER target='g.weight'\np_g_bias: PARAMETER target='g.bias'\n",
                          {}};
    auto imported = read_folded(model);
    ASSERT_TRUE(strictly(imported).ok());
    EXPECT_EQ(trained(imported.graph), 2U) << call;
    const ValueId y = imported.graph.outputs()[0];
    const auto read = imported.graph.inputs(imported.graph.producer(y));
    EXPECT_NE(std::find(read.begin(), read.end(), imported.graph.find("w")), read.end()) << call;
    EXPECT_THAT(state_names(imported.graph), ElementsAre("b", "w"));
  }
}

/// Two normalizations of one value that begin equal, as in Falcon, each before a folded factor.
TEST(RecoverParameters, MergedNormalizationsAreRefused) {
  const std::string stored =
      "float[3] w = {1, 1, 1}, float[3] b = {0, 0, 0}, float[3, 3] permute = {1, 2, 3, 4, 5, 6, 7, 8, 9}, "
      "float[3, 3] permute_1 = {1, 2, 3, 4, 5, 6, 7, 8, 8}";
  const std::string list = "p_w: PARAMETER target='w'\np_b: PARAMETER target='b'\n";
  for (const std::string second : {"%layer_norm_1", "%layer_norm"}) {
    const auto imported = read_folded(
        {"  n = LayerNormalization (x, w, b)\n  p = MatMul (n, permute)\n  q = MatMul (n, permute_1)\n  y = Add (p, "
         "q)\n",
         stored,
         {"%layer_norm = aten.layer_norm.default](args = (%x, [3], %p_w, %p_b, 1e-05)",
          "%p = aten.matmul.default](args = (%layer_norm, %permute)",
          "%q = aten.matmul.default](args = (" + second + ", %permute_1)", "%y = aten.add.Tensor](args = (%p, %q)"},
         {},
         list,
         {}});
    const bool merged = second.ends_with("_1");
    EXPECT_EQ(imported.notes.warnings.size(), merged ? 1U : 0U);
    if (merged) EXPECT_THAT(imported.notes.warnings[0].message, HasSubstr("%layer_norm_1 with %layer_norm"));
  }
}

/// Rows behind a slice of the positions are not the whole table.
TEST(RecoverParameters, APartOfATableDoesNotHaveItsName) {
  for (const auto& [from, whole] : {std::pair{"['a.table', 'arange', 'unsqueeze', 'val_1']", true},
                                    std::pair{"['a.table', 'ids', 'slice_1', 'val_1']", false},
                                    std::pair{"['a.table', 'add', 'add_1', 'arange']", false}}) {
    auto imported = read_folded({"  y = Add (x, embedding)\n",
                                 "float[1, 2, 3] embedding = {1, 2, 3, 4, 5, 6}",
                                 {"%y = aten.add.Tensor](args = (%x, %embedding)"},
                                 {"a"},
                                 "p_table: PARAMETER target='a.table'\nb_ids: BUFFER target='ids' persistent=False\n",
                                 {{"embedding", from}}});
    ASSERT_TRUE(strictly(imported).ok());
    EXPECT_EQ(trained(imported.graph), 1U);
    EXPECT_THAT(state_names(imported.graph), ElementsAre(whole ? "a.table" : "embedding"));
  }
}

/// The exporter omits products with a parameter that is 1.
TEST(RecoverParameters, AParameterOfAnOmittedProductIsAWarning) {
  const std::string list = "p_b: PARAMETER target='b'\np_scale: PARAMETER target='scale'\n";
  Folded model = {"  a = Add (x, b)\n  t = Tanh (a)\n  y = Neg (t)\n",
                  "float[3] b = {1, 2, 3}",
                  {"%add = aten.add.Tensor](args = (%x, %p_b)", "%tanh = aten.tanh.default](args = (%mul,)",
                   "%y = aten.neg.default](args = (%tanh,)"},
                  {},
                  list,
                  {}};
  const auto warned = Contains(Field(&Note::message, AllOf(HasSubstr("'scale'"), HasSubstr("%mul "))));
  EXPECT_THAT(read_folded(model).notes.warnings, warned);
  model.list = "p_b: PARAMETER target='b'\n";
  EXPECT_THAT(read_folded(model).notes.warnings, IsEmpty()) << "a number of the code";
  model.list = list;
  model.calls[1] = "%tanh = aten.tanh.default](args = (%add,)";
  EXPECT_THAT(read_folded(model).notes.warnings, IsEmpty()) << "an unused parameter";
}

/// A model whose values have names that ONNX's text syntax cannot spell, as torch.onnx.export with dynamo=False gives
/// them.
Recovered recover_named(std::string_view text, const std::map<std::string, std::string>& names) {
  ONNX_NAMESPACE::ModelProto model;
  RANNC_CHECK(model.ParseFromString(test::onnx_bytes(test::onnx_model(text, 17))));
  const auto rename = [&](std::string* name) {
    const auto found = names.find(*name);
    if (found != names.end()) *name = found->second;
  };
  auto* const graph = model.mutable_graph();
  for (auto& tensor : *graph->mutable_initializer()) rename(tensor.mutable_name());
  for (auto& node : *graph->mutable_node()) {
    for (std::string& input : *node.mutable_input()) rename(&input);
    for (std::string& output : *node.mutable_output()) rename(&output);
  }
  return recovered(frontend::read_onnx_bytes(model.SerializeAsString(), "test.onnx"), {});
}

const std::string kTwoProducts =
    "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {\n  lost = Identity (w)\n";

TEST(RecoverParameters, AnIdentityBetweenMadeUpNamesIsToldByModules) {
  const std::map<std::string, std::string> names = {{"w", "onnx::MatMul_1"}, {"lost", "onnx::MatMul_2"}};
  const Recovered copied = recover_named(
      kTwoProducts +
          "  [\"/layers/layers.0/MatMul\"] a = MatMul (x, w)\n  [\"/layers/layers.1/MatMul\"] y = MatMul (a, lost)\n}",
      names);
  EXPECT_EQ(trained(copied.graph), 2U);
  EXPECT_THAT(state_names(copied.graph), ElementsAre("layers.0.weight", "layers.1.weight"));
  // The second call of a module has a number behind its path.
  const Recovered repeated = recover_named(
      kTwoProducts + "  [\"/query/MatMul\"] a = MatMul (x, w)\n  [\"/query_1/MatMul\"] y = MatMul (a, lost)\n}", names);
  EXPECT_EQ(trained(repeated.graph), 1U);
  EXPECT_THAT(state_names(repeated.graph), ElementsAre("query.weight"));
}

/// Parts of a container have its name in theirs, also where the container lies in a module of that name.
TEST(RecoverParameters, PartsOfContainersAreToldByStoredNames) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {1, 2}, float[2] "
      "g = "
      "{3, 4}> {\n  [\"/layers/layers.0/first/MatMul\"] p = MatMul (x, w)\n"
      "  [\"/layers/layers.0/norm/Add\"] q = Add (p, b)\n  [\"/layers/layers.0/norm/Mul\"] y = Mul (q, g)\n}";
  const auto named = [&](const std::string& bias) {
    return state_names(recover_named(text, {{"w", "onnx::MatMul_1"}, {"b", bias}, {"g", "gain"}}).graph);
  };
  EXPECT_THAT(named("layers.0.norm.bias"), Contains("layers.0.first.weight"));
  EXPECT_THAT(named("layers.layers.0.norm.bias"), Contains("layers.layers.0.first.weight"));
}

/// Modules `a` and `a_1`, of which the first is called again: the bias beside the product decides.
TEST(RecoverParameters, ABiasBesideAProductNamesItsWeight) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {5, 6, 7, 8}, "
      "float[2] b = {1, 2}, float[2] c = {3, 4}> {\n  again = Identity (w)\n"
      "  [\"/a/MatMul\"] p = MatMul (x, w)\n  [\"/a/Add\"] q = Add (p, b)\n"
      "  [\"/a_1/MatMul\"] r = MatMul (q, v)\n  [\"/a_1/Add\"] s = Add (r, c)\n"
      "  [\"/a_1/MatMul_1\"] t = MatMul (s, again)\n  [\"/a_1/Add_1\"] y = Add (t, b)\n}";
  const Recovered model = recover_named(text, {{"w", "onnx::MatMul_1"},
                                               {"v", "onnx::MatMul_2"},
                                               {"again", "onnx::MatMul_3"},
                                               {"b", "a.bias"},
                                               {"c", "a_1.bias"}});
  EXPECT_THAT(state_names(model.graph), ElementsAre("a.bias", "a.weight", "a_1.bias", "a_1.weight"));
  EXPECT_EQ(trained(model.graph), 4U);
  const Recovered attention = recover_named(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 6] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "
      "float[6] b "
      "= {1, 2, 3, 4, 5, 6}, float[6, 2] o = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[2] c = {1, 2}> {\n"
      "  [\"/attn/MatMul\"] p = MatMul (x, w)\n  [\"/attn/Add\"] q = Add (b, p)\n"
      "  [\"/attn/MatMul_1\"] r = MatMul (q, o)\n  [\"/attn/Add_1\"] y = Add (c, r)\n}",
      {{"w", "onnx::MatMul_1"}, {"b", "attn.in_proj_bias"}, {"o", "onnx::MatMul_2"}, {"c", "attn.out_proj.bias"}});
  EXPECT_THAT(state_names(attention.graph),
              ElementsAre("attn.in_proj_bias", "attn.in_proj_weight", "attn.out_proj.bias", "attn.out_proj.weight"));
}

/// Three products of one module: nothing says which of its tensors they read.
TEST(RecoverParameters, ProductsOfOneModuleWithoutBiasesHaveNoName) {
  const Recovered model = recover_named(
      kTwoProducts + "  [\"/attn/MatMul\"] a = MatMul (x, w)\n  [\"/attn/MatMul_1\"] y = MatMul (a, lost)\n}",
      {{"w", "onnx::MatMul_1"}, {"lost", "onnx::MatMul_2"}});
  EXPECT_THAT(state_names(model.graph), ElementsAre("onnx::MatMul_1"));
}

TEST(RecoverParameters, WeightsOfCopiedLayersComeApart) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {\n"
      "  [\"/layers.0/MatMul\"] a = MatMul (x, w)\n  [\"/layers.1/MatMul\"] y = MatMul (a, w)\n}");
  EXPECT_THAT(model.context.warnings, IsEmpty());
  EXPECT_EQ(trained(model.graph), 2U);
}

TEST(RecoverParameters, UntiedEachModuleHasItsOwn) {
  const char* const text =
      "agraph (int64[batch] i) => (float[batch, 3] y) <float[3, 2] table = {1, 2, 3, 4, 5, 6}> {\n"
      "  [\"/words/Gather\"] e = Gather (table, i)\n  [\"/head/Gemm\"] y = Gemm <transB = 1> (e, table)\n}";
  EXPECT_EQ(trained(recover(text).graph), 1U);
  auto imported = test::read_graph(text, 17);
  PassContext context;
  ASSERT_TRUE(
      RecoverParameters({.file = imported->notes.stored, .untied = {"tab*"}}).run(imported->graph, context).ok());
  EXPECT_EQ(trained(imported->graph), 2U);
}

/// A copy that the exporter made has a synthetic name. Of two tensors with the program's names, values prove nothing.
TEST(RecoverParameters, AnEmbeddingAndACopyOfItInAHeadAreOne) {
  const char* const text =
      "agraph (int64[batch] i) => (float[batch, 3] y) <float[3, 2] table = {1, 2, 3, 4, 5, 6}, float[2, 3] val_1 = {1, "
      "3, 5, 2, 4, 6}> {\n"
      "  [\"/words/Gather\"] e = Gather (table, i)\n  [\"/head/MatMul\"] y = MatMul (e, val_1)\n}";
  const Recovered model = recover(text);
  EXPECT_EQ(trained(model.graph), 1U);
  EXPECT_THAT(model.context.remarks, Contains(Field(&Note::message, HasSubstr("'table' and 'val_1' are one"))));
  EXPECT_THAT(state_names(model.graph), testing::Not(Contains("val_1"))) << "the copy has no name of the program";
  const Recovered named = recover_named(text, {{"val_1", "turned"}});
  EXPECT_EQ(trained(named.graph), 2U);
  EXPECT_THAT(named.context.warnings,
              Contains(Field(&Note::message, HasSubstr("'table' and 'turned' have the same values, transposed"))));
  auto imported = test::read_graph(text, 17);
  PassContext context;
  ASSERT_TRUE(
      RecoverParameters({.file = imported->notes.stored, .untied = {"val_1"}}).run(imported->graph, context).ok());
  EXPECT_EQ(trained(imported->graph), 2U);
}

TEST(RecoverParameters, PatternsSayWhatIsTrained) {
  const char* const text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] body = {1, 2, 3, 4}, float[2, 2] head = {1, 2, "
      "3, "
      "4}, float[2, 2] other = {1, 2, 3, 5}> { a = MatMul (x, body)\n b = MatMul (a, head)\n y = MatMul (b, other) }";
  const auto run = [&](StoredFacts facts, PassContext& context) {
    auto imported = test::read_graph(text, 17);
    facts.file = imported->notes.stored;
    const auto outcome = RecoverParameters(facts).run(imported->graph, context);
    return outcome.ok() ? Result<ir::Graph>(std::move(imported->graph)) : outcome.diagnostic();
  };
  PassContext context;
  const auto frozen =
      run({.patterns = {{"*", ir::ValueKind::kBuffer}, {"h*,oth?r", ir::ValueKind::kParameter}}}, context);
  ASSERT_TRUE(frozen.ok()) << frozen.diagnostic().str();
  EXPECT_EQ(frozen->kind(frozen->find("body")), ir::ValueKind::kBuffer);
  EXPECT_EQ(trained(*frozen), 2U);
  const auto tied = run({.tied = {"body,head"}}, context);
  ASSERT_TRUE(tied.ok()) << tied.diagnostic().str();
  EXPECT_EQ(trained(*tied), 2U);
  const auto absent = run({.patterns = {{"neck*", ir::ValueKind::kBuffer}}}, context);
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(absent.diagnostic().message, HasSubstr("'neck*'"));
  const auto unequal = run({.tied = {"body,other"}}, context);
  ASSERT_FALSE(unequal.ok());
  EXPECT_THAT(unequal.diagnostic().message, HasSubstr("'body,other'"));
}

TEST(RecoverParameters, ATiedHeadAndAModuleCalledTwiceAreNoWarning) {
  const Recovered model = recover(
      "agraph (int64[batch] i) => (float[batch, 3] y) <float[3, 2] table = {1, 2, 3, 4, 5, 6}, float[2] zero = {0, 0},"
      " float[2, 2] w = {1, 2, 3, 4}> {\n"
      "  [\"/words.0/Gather\"] e = Gather (table, i)\n  [\"/mix/Gemm\"] a = Gemm (e, w, zero)\n"
      "  [\"/mix/Gemm_1\"] b = Gemm (a, w, zero)\n  [\"/words.1/Gemm\"] y = Gemm <transB = 1> (b, table)\n}");
  EXPECT_THAT(model.context.warnings, IsEmpty());
  EXPECT_THAT(model.context.remarks,
              Contains(Field(&Note::message, HasSubstr("'table' is read by 2 modules (words.0, words.1): one tied"))));
}

TEST(RecoverParameters, TensorsThatComeApartAreNoWarning) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {5, 6, 7, 8},"
      " float[2] kept = {0, 0}> {\n  lost = Identity (kept)\n"
      "  [\"/first/Gemm\"] a = Gemm (x, w, kept)\n  [\"/second/Gemm\"] y = Gemm (a, v, lost)\n}");
  EXPECT_THAT(model.context.warnings, IsEmpty());
}

TEST(RecoverParameters, OverridesAreTakenAtTheirWord) {
  const char* const text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float half = {0.5}, int64[1] n "
      "= {1}>"
      " { p = MatMul (x, w)\n y = Mul (p, half) }";
  const Recovered model = recover(text, {{"w", ir::ValueKind::kConstant}, {"half", ir::ValueKind::kParameter}});
  expect_kinds(model, {{"w", "constant"}, {"half", "parameter"}});
  auto graph = test::import_graph(text, 17);
  PassContext context;
  for (const auto& [name, kind] : std::map<std::string, ir::ValueKind>{
           {"absent", ir::ValueKind::kParameter}, {"n", ir::ValueKind::kParameter}, {"x", ir::ValueKind::kConstant}}) {
    const auto outcome = RecoverParameters({.kinds = {{name, kind}}}).run(*graph, context);
    ASSERT_FALSE(outcome.ok()) << name;
    EXPECT_THAT(outcome.diagnostic().message, HasSubstr("'" + name + "'"));
  }
}

TEST(RecoverParameters, ASecondRunChangesNothing) {
  Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] kept = {0, 0}> {\n"
      "  lost = Identity (kept)\n  a = Gemm (x, w, kept)\n  y = Gemm (a, w, lost)\n}");
  const auto again = RecoverParameters().run(model.graph, model.context);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->changed);
}

}  // namespace
}  // namespace rannc::passes
