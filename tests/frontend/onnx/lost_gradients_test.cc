// Gradients that ONNX has no word for: what the metadata of an export say of them, and what a user does.
#include "passes/training/lost_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/internal/model/traced_call.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "ir/verify.h"
#include "passes/parameters/recover_parameters.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ir::Dim;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kOpset = 18;

ONNX_NAMESPACE::NodeProto traced(const std::string& text) {
  ONNX_NAMESPACE::NodeProto node;
  auto* const entry = node.add_metadata_props();
  entry->set_key("pkg.torch.onnx.fx_node");
  entry->set_value(text);
  return node;
}

const std::string kCall = "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (";

TEST(TracedCalls, AreReadFromMetadata) {
  const auto node = traced(kCall + "%p_w, %x, 2), kwargs = {})");
  const auto call = traced_call(node);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->target, "aten.embedding.default");
  EXPECT_TRUE(call->is("aten.embedding"));
  EXPECT_FALSE(call->is("aten.embed"));
  EXPECT_THAT(call->values(), ElementsAre("p_w", "x"));
  EXPECT_EQ(call->number(2), 2);
  EXPECT_FALSE(call->number(0).has_value());
  EXPECT_FALSE(call->number(3).has_value());
}

TEST(TracedCalls, ListsAreOneArgument) {
  const auto node = traced(kCall + "[%a, %detach_1], -1), kwargs = {dim: (1, 2)})");
  const auto call = traced_call(node);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->arguments.size(), 2U);
  EXPECT_THAT(call->values(), ElementsAre("a", "detach_1"));
}

TEST(TracedCalls, OddTextsAreNone) {
  for (const std::string text : {"", "%x : placeholder", "call_function[target=torch.ops.aten.relu", "](args = (%x"}) {
    EXPECT_FALSE(traced_call(traced(text)).has_value()) << text;
  }
  const auto open = traced(kCall + "%x, ((");
  EXPECT_THAT(traced_call(open)->values(), ElementsAre("x"));
  EXPECT_EQ(ir::traced_op("detach"), "detach");
  EXPECT_EQ(ir::traced_op("detach_12"), "detach");
  for (const char* other : {"detach_", "detached", "detach_x", "x"}) EXPECT_EQ(ir::traced_op(other), other);
}

// Tasks of an operator, by what they make.
std::vector<std::string> made_by(const ir::Graph& graph, std::string_view op) {
  std::vector<std::string> made;
  for (const TaskId task : graph.tasks()) {
    if (graph.op(task).name == "core." + std::string(op)) made.emplace_back(graph.value(graph.outputs(task)[0]).name);
  }
  return made;
}

TEST(ExportedModels, SayWhatOnnxCannot) {
  const auto imported = read_onnx(std::string(RANNC_SOURCE_DIR) + "/tests/data/small_lost_gradients/model.onnx");
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  const ir::Graph& graph = imported->graph;
  EXPECT_THAT(made_by(graph, "stop_gradient"), ElementsAre("linear.detached", "sigmoid.detached"));
  const auto attributes = [&](const char* value) { return graph.attributes(graph.producer(graph.find(value))); };
  EXPECT_TRUE(attributes("relu6").flag("strict"));
  EXPECT_TRUE(attributes("hardtanh").flag("strict"));
  EXPECT_FALSE(attributes("clamp").flag("strict"));
  EXPECT_EQ(attributes("embedding").integer("padding_index", -1), 2);
  std::string remarks;
  for (const Note& remark : imported->notes.remarks) remarks += remark.message + "\n";
  EXPECT_EQ(imported->notes.remarks.size(), 6U) << remarks;
  for (const char* said : {"row 2 of %words.weight takes no gradient",
                           "no gradient flows to %linear:", "no gradient flows to %sigmoid:", "bounds of relu6",
                           "bounds of hardtanh", "the first of equal elements"}) {
    EXPECT_THAT(remarks, HasSubstr(said));
  }
}

// --- detached values

const std::string kLayers = "p_v: PARAMETER target='v'\np_w: PARAMETER target='w'\n";
const std::string kHead =
    "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] v = {1, 2, 3, 4}, float[2, 2] "
    "w = {5, 6, 7, 8}> {\n";
const std::string kProducts = "  a = MatMul (x, v)\n  b = MatMul (x, w)\n";
const std::vector<std::string> kProductCalls = {"%a = aten.matmul.default](args = (%x, %p_v)",
                                                "%b = aten.matmul.default](args = (%x, %p_w)"};

frontend::Imported read_traced(const std::string& nodes, std::vector<std::string> calls) {
  calls.insert(calls.begin(), kProductCalls.begin(), kProductCalls.end());
  auto imported =
      read_onnx_bytes(test::traced_model(kHead + kProducts + nodes + "}", kOpset, calls, kLayers), "test.onnx");
  RANNC_CHECK(imported.ok()) << imported.diagnostic().str();
  return *std::move(imported);
}

TEST(Detached, AnIdentityStopsGradients) {
  const auto model =
      read_traced("  detach = Identity (b)\n  c = Mul (a, detach)\n  y = Add (c, b)\n",
                  {"%detach = aten.detach.default](args = (%b,)", "%c = aten.mul.Tensor](args = (%a, %detach)",
                   "%y = aten.add.Tensor](args = (%c, %b)"});
  EXPECT_THAT(made_by(model.graph, "stop_gradient"), ElementsAre("b.detached"));
  EXPECT_EQ(model.graph.inputs(model.graph.producer(model.graph.find("y")))[1], model.graph.find("b"));
  EXPECT_THAT(model.notes.warnings, IsEmpty());
}

TEST(Detached, AnIdentityWithoutThatCallDoesNot) {
  const auto model =
      read_traced("  alias = Identity (b)\n  y = Mul (a, alias)\n",
                  {"%alias = aten.alias.default](args = (%b,)", "%y = aten.mul.Tensor](args = (%a, %alias)"});
  EXPECT_THAT(made_by(model.graph, "stop_gradient"), IsEmpty());
}

TEST(Detached, AParameterMayBeDetached) {
  const auto model =
      read_traced("  c = Add (a, b)\n  y = MatMul (c, w)\n",
                  {"%c = aten.add.Tensor](args = (%a, %b)", "%y = aten.matmul.default](args = (%c, %detach)"});
  EXPECT_THAT(made_by(model.graph, "stop_gradient"), ElementsAre("w.detached"));
  EXPECT_THAT(model.notes.warnings, IsEmpty());
}

/// `linear(x, w.detach())` of three axes, whose weight the exporter stores transposed, as another layer reads it.
TEST(Detached, ATensorFoldedFromAParameterMayBeDetached) {
  ONNX_NAMESPACE::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(test::traced_model(
      "agraph (float[batch, 3, 2] x) => (float[batch, 3, 2] y) <float[2, 2] val_0 = {1, 2, 3, 4}> {\n"
      "  a = MatMul (x, val_0)\n  y = MatMul (a, val_0)\n}",
      kOpset, {"%a = aten.linear.default](args = (%x, %p_w)", "%y = aten.linear.default](args = (%a, %detach)"},
      "p_w: PARAMETER target='w'\n")));
  auto* const value = model.mutable_graph()->add_value_info();
  value->set_name("val_0");
  auto* const record = value->add_metadata_props();
  record->set_key("pkg.onnxscript.optimizer.folded_from");
  record->set_value("['w']");
  const auto imported = read_onnx_bytes(model.SerializeAsString(), "test.onnx");
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  const ir::Graph& graph = imported->graph;
  ASSERT_THAT(made_by(graph, "stop_gradient"), ElementsAre("val_0.detached"));
  EXPECT_EQ(graph.inputs(graph.producer(graph.find("a")))[1], graph.find("val_0"));
}

TEST(Detached, AnOperandThatIsNotFoundIsAWarning) {
  const auto model =
      read_traced("  c = Add (a, b)\n  y = Mul (c, a)\n",
                  {"%c = aten.add.Tensor](args = (%e, %f)", "%y = aten.mul.Tensor](args = (%detach, %detach_1, %f)"});
  ASSERT_EQ(model.notes.warnings.size(), 0U) << "both operands are detached";
  const auto open =
      read_traced("  c = Add (a, b)\n  y = Mul (c, a)\n",
                  {"%c = aten.add.Tensor](args = (%a, %b)", "%y = aten.mul.Tensor](args = (%e, %f, %detach)"});
  ASSERT_EQ(open.notes.warnings.size(), 1U);
  EXPECT_THAT(open.notes.warnings[0].message, HasSubstr("%detach of the exported program"));
  EXPECT_THAT(open.notes.warnings[0].message, HasSubstr("--stop-gradient"));
}

/// The program has `sub_1 = detach(a) - b` beside `sub = a - detach(b)`.
TEST(Detached, MergedValuesAreAWarningThatNamesBoth) {
  const std::string nodes = "  s = Sub (a, b)\n  p = Mul (s, s)\n  q = Neg (s)\n  y = Add (p, q)\n";
  const auto model =
      read_traced(nodes, {"%sub = aten.sub.Tensor](args = (%a, %detach)", "%mul = aten.mul.Tensor](args = (%sub, %sub)",
                          "%neg = aten.neg.default](args = (%sub_1,)", "%add = aten.add.Tensor](args = (%mul, %neg)"});
  EXPECT_THAT(made_by(model.graph, "stop_gradient"), ElementsAre("b.detached"));
  ASSERT_EQ(model.notes.warnings.size(), 1U);
  EXPECT_THAT(model.notes.warnings[0].message, HasSubstr("(%sub_1 with %sub)"));
  EXPECT_THAT(model.notes.warnings[0].message, HasSubstr("optimize=False"));
}

/// A copy, and a view of the same shape, are the value itself. Numbers of the code carry no gradient.
TEST(Detached, ValuesThatAreCopiesAreNotMerged) {
  const std::string nodes = "  s = Sub (a, b)\n  p = Relu (s)\n  q = Neg (s)\n  y = Add (p, q)\n";
  const auto model = read_traced(
      nodes, {"%sub = aten.sub.Tensor](args = (%a, %b)", "%relu = aten.relu.default](args = (%clone,)",
              "%neg = aten.neg.default](args = (%clone_1,)", "%add = aten.add.Tensor](args = (%relu, %neg)"});
  EXPECT_THAT(model.notes.warnings, IsEmpty());
  EXPECT_THAT(made_by(model.graph, "stop_gradient"), IsEmpty());
}

// --- said by a user

Result<ir::Graph> lost(std::string_view text, std::string_view how) {
  RANNC_ASSIGN(ir::Graph graph, test::import_graph(text, kOpset));
  RANNC_ASSIGN(passes::LostGradients parsed, passes::parse_lost_gradients(how));
  passes::PassContext context;
  RANNC_TRY(passes::LoseGradients(std::move(parsed)).run(graph, context));
  RANNC_TRY(ir::as_result(ir::verify(graph)));
  return graph;
}

const char* const kText =
    "agraph (int64[batch, 3] ids) => (float[batch, 3, 2] y, float[batch, 3, 2] e) <float[4,2] table = "
    "{1,2,3,4,5,6,7,8},"
    "float low = {0}, float high = {6}> { same = Identity (table)\n e = Gather (same, ids)\n c = Clip (e, low, high)\n"
    "f = Add (c, e)\n y = Tanh (f) }";

TEST(LostGradients, AreSaidByName) {
  const auto graph = lost(kText, "padding=table:-1,stop=e,strict=c");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(graph->attributes(graph->producer(graph->find("e"))).integer("padding_index", -1), 3);
  EXPECT_TRUE(graph->attributes(graph->producer(graph->find("c"))).flag("strict"));
  EXPECT_THAT(made_by(*graph, "stop_gradient"), ElementsAre("e.stopped"));
  const auto reads = [&](const char* value) { return graph->inputs(graph->producer(graph->find(value))); };
  EXPECT_EQ(reads("c")[0], graph->find("e.stopped"));
  EXPECT_EQ(reads("f")[1], graph->find("e.stopped"));
  EXPECT_EQ(graph->outputs()[1], graph->find("e")) << "what the model gives out is what it was";
}

// A table that is read through a stop alone is no parameter.
TEST(LostGradients, WhatIsStoppedIsNotTrained) {
  for (const auto& [how, kind] : {std::pair<std::string, ir::ValueKind>{"", ir::ValueKind::kParameter},
                                  {"stop=table", ir::ValueKind::kConstant}}) {
    std::string text = kText;
    text.replace(text.find("Gather (same"), 12, "Gather (table");
    auto graph = lost(text, how);
    ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
    passes::PassContext context;
    ASSERT_TRUE(passes::RecoverParameters().run(*graph, context).ok());
    EXPECT_EQ(graph->kind(graph->find("table")), kind) << how;
  }
}

TEST(LostGradients, ErrorsNameWhatIsNotThere) {
  const std::pair<std::string, std::string> faults[] = {
      {"padding=none:0", "%none, which the model does not have"},
      {"padding=table:4", "a padding index 4 of %table, which is [4,2]"},
      {"padding=table:-5", "a padding index -5"},
      {"padding=low:0", "a row of a table of rank 2"},
      {"strict=y", "%y, which is not the result of a clamp"},
      {"strict=ids", "%ids, which is not the result of a clamp"},
      {"stop=none", "%none, which the model does not have"},
      {"stop=ids", "%ids, which is i64 and has no gradient"}};
  for (const auto& [how, named] : faults) {
    const auto graph = lost(kText, how);
    ASSERT_FALSE(graph.ok()) << how;
    EXPECT_THAT(graph.diagnostic().str(), HasSubstr(named));
  }
}

}  // namespace
}  // namespace rannc::frontend
