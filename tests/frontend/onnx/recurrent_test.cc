// What recurrent layers become: one task of a core operator and tasks that read weights alone; else a chain of cells,
// or a task that runs one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/onnx/import.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "passes/parameters/recover_parameters.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ImportOptions by_batch() {
  ImportOptions options;
  options.batch_symbol = "batch";
  return options;
}

/// Parameters are inputs here, so that a text needs no numbers.
ir::Graph imported(std::string_view text, int opset = 14) {
  auto graph = test::import_graph(text, opset, by_batch());
  if (!graph.ok()) {
    ADD_FAILURE() << graph.diagnostic().str();
    return {};
  }
  for (const Diagnostic& wrong : ir::verify(*graph)) ADD_FAILURE() << wrong.str();
  return *std::move(graph);
}

std::string refusal(std::string_view text, int opset = 14) {
  const auto graph = test::import_graph(text, opset, by_batch());
  return graph.ok() ? "imported" : graph.diagnostic().str();
}

std::vector<std::string> ops(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) names.push_back(graph.op(task).name.substr(5));
  return names;
}

/// `f32[3,batch,2] samples 1`.
std::string type_of(const ir::Graph& graph, ValueId value) {
  const ir::ValueType& type = graph.type(value);
  const std::string samples = type.batch.has_batch() ? " samples " + std::to_string(type.batch.axis) : "";
  return std::string(ir::str(type.dtype)) + ir::str(*type.shape) + samples;
}

std::vector<std::string> outputs(const ir::Graph& graph) {
  std::vector<std::string> types;
  for (const ValueId output : graph.outputs()) types.push_back(type_of(graph, output));
  return types;
}

TaskId only(const ir::Graph& graph, std::string_view op) {
  TaskId found;
  for (const TaskId task : graph.tasks()) {
    if (graph.op(task).name != "core." + std::string(op)) continue;
    EXPECT_FALSE(found.valid()) << "two tasks of " << op;
    found = task;
  }
  EXPECT_TRUE(found.valid()) << "no task of " << op;
  return found;
}

TEST(Recurrent, LstmIsOneTaskWhateverTheSteps) {
  for (const int opset : {7, 14, 22}) {
    const ir::Graph graph = imported(
        "agraph (float[time, batch, 5] x, float[1, 12, 5] w, float[1, 12, 3] r, float[1, 24] b) => "
        "(float[s, t, u, v] y, float[s, t, u] yh, float[s, t, u] yc) { y, yh, yc = LSTM <hidden_size = 3> (x, w, r, b) "
        "}",
        opset);
    EXPECT_THAT(ops(graph), ElementsAre("split", "concat", "split", "concat", "split", "concat", "concat", "lstm",
                                        "unsqueeze", "identity", "identity", "identity"));
    EXPECT_THAT(outputs(graph),
                ElementsAre("f32[time,1,batch,3] samples 2", "f32[1,batch,3] samples 1", "f32[1,batch,3] samples 1"));
    EXPECT_EQ(type_of(graph, graph.outputs(only(graph, "lstm"))[0]), "f32[time,batch,3] samples 1");
  }
}

TEST(Recurrent, BothDirectionsAreOneTask) {
  const ir::Graph graph = imported(
      "agraph (float[time, batch, 5] x, float[2, 9, 5] w, float[2, 9, 3] r) => (float[s, t, u, v] y, float[s, t, u] "
      "yh) "
      "{ y, yh = GRU <hidden_size = 3, direction = \"bidirectional\", linear_before_reset = 1> (x, w, r) }");
  EXPECT_THAT(ops(graph),
              ElementsAre("split", "concat", "split", "concat", "gru", "reshape", "permute", "identity", "identity"));
  EXPECT_THAT(outputs(graph), ElementsAre("f32[time,2,batch,3] samples 2", "f32[2,batch,3] samples 1"));
}

TEST(Recurrent, ReverseTurnsTheStepsAround) {
  const ir::Graph graph = imported(
      "agraph (float[time, batch, 5] x, float[1, 3, 5] w, float[1, 3, 3] r) => (float[s, t, u, v] y) "
      "{ y = RNN <hidden_size = 3, direction = \"reverse\", activations = [\"Relu\"]> (x, w, r) }");
  EXPECT_THAT(ops(graph), ElementsAre("slice", "rnn", "slice", "unsqueeze", "identity"));
  EXPECT_EQ(graph.attributes(only(graph, "rnn")).text("activation"), "relu");
  EXPECT_THAT(outputs(graph), ElementsAre("f32[time,1,batch,3] samples 2"));
}

TEST(Recurrent, SamplesFirst) {
  const ir::Graph graph = imported(
      "agraph (float[batch, time, 5] x, float[1, 3, 5] w, float[1, 3, 3] r, float[batch, 1, 3] h) => "
      "(float[s, t, u, v] y, float[s, t, u] yh) { y, yh = RNN <hidden_size = 3, layout = 1> (x, w, r, , , h) }");
  EXPECT_THAT(outputs(graph), ElementsAre("f32[batch,time,1,3] samples 0", "f32[batch,1,3] samples 0"));
  only(graph, "rnn");
}

// Parameters keep their names and shapes; what puts their gates in ATen's order runs once a step.
TEST(Recurrent, GatesAreReorderedOnceAStep) {
  ir::Graph graph = imported(
      "agraph (float[time, batch, 1] x) => (float[s, t, u, v] y) "
      "<float[1, 4, 1] w = {1, 2, 3, 4}, float[1, 4, 1] r = {5, 6, 7, 8}, float[1, 8] b = {1, 2, 3, 4, 5, 6, 7, 8}> "
      "{ y = LSTM <hidden_size = 1> (x, w, r, b) }");
  for (const char* name : {"w", "r", "b"}) {
    ASSERT_TRUE(graph.find(name).valid()) << name;
    EXPECT_TRUE(graph.value(graph.find(name)).data.present());
    graph.set_kind(graph.find(name), ir::ValueKind::kParameter);
  }
  const auto often = ir::execution_frequency(graph);
  for (const TaskId task : graph.tasks()) {
    const std::string& op = graph.op(task).name;
    if (op != "core.split" && op != "core.concat") continue;
    EXPECT_EQ(often[task.index()], ir::Frequency::kStep) << op;
  }
  EXPECT_EQ(often[only(graph, "lstm").index()], ir::Frequency::kMicroBatch);
}

TEST(Recurrent, StatesOfZerosAreLeftOut) {
  const ir::Graph graph = imported(
      "agraph (float[3, batch, 2] x, float[1, 2, 2] w, float[1, 2, 2] r) => (float[s, t, u, v] y) "
      "<float zero = {0}, int64[1] n = {1}, int64[1] two = {2}> "
      "{ s = Shape <start = 1, end = 2> (x)\n shape = Concat <axis = 0> (n, s, two)\n h = Expand (zero, shape)\n "
      "y = RNN <hidden_size = 2> (x, w, r, , , h) }",
      15);
  EXPECT_EQ(graph.inputs(only(graph, "rnn")).size(), 3U);
}

TEST(Recurrent, StatesThatAreGivenAreKept) {
  const ir::Graph graph = imported(
      "agraph (float[3, batch, 2] x, float[1, 8, 2] w, float[1, 8, 2] r, float[1, batch, 2] c) => (float[s, t, u, v] "
      "y) "
      "{ y = LSTM <hidden_size = 2> (x, w, r, , , , c) }");
  const auto operands = graph.inputs(only(graph, "lstm"));
  ASSERT_EQ(operands.size(), 7U);
  EXPECT_FALSE(operands[5].valid());
  EXPECT_EQ(operands[6], graph.find("c"));
}

TEST(Recurrent, LengthsKeepSamplesApart) {
  const ir::Graph graph = imported(
      "agraph (float[time, batch, 5] x, float[2, 12, 5] w, float[2, 12, 3] r, int32[batch] lens) => "
      "(float[s, t, u, v] y, float[s, t, u] yh, float[s, t, u] yc) "
      "{ y, yh, yc = LSTM <hidden_size = 3, direction = \"bidirectional\"> (x, w, r, , lens) }");
  EXPECT_THAT(outputs(graph),
              ElementsAre("f32[time,2,batch,3] samples 2", "f32[2,batch,3] samples 1", "f32[2,batch,3] samples 1"));
  const auto names = ops(graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "lstm"), 2);
}

// Cells apart keep the samples' axis as well.
TEST(Recurrent, OtherFormsAreChainsOfCells) {
  const std::string lstm =
      "agraph (float[3, batch, 5] x, float[1, 12, 5] w, float[1, 12, 3] r, float[1, 9] p) => "
      "(float[s, t, u, v] y, float[s, t, u] yh, float[s, t, u] yc) ";
  const std::string gru =
      "agraph (float[3, batch, 5] x, float[1, 9, 5] w, float[1, 9, 3] r, int64[batch] lens) => "
      "(float[s, t, u, v] y, float[s, t, u] yh) ";
  for (const std::string& text : {lstm + "{ y, yh, yc = LSTM <hidden_size = 3> (x, w, r, , , , , p) }",
                                  lstm + "{ y, yh, yc = LSTM <hidden_size = 3, clip = 1.0> (x, w, r) }",
                                  lstm + "{ y, yh, yc = LSTM <hidden_size = 3, input_forget = 1> (x, w, r) }",
                                  gru + "{ y, yh = GRU <hidden_size = 3> (x, w, r) }"}) {
    SCOPED_TRACE(text);
    const ir::Graph graph = imported(text);
    for (const TaskId task : graph.tasks()) EXPECT_NE(graph.op(task).family, "recurrent");
    EXPECT_EQ(outputs(graph)[0], "f32[3,1,batch,3] samples 2");
    EXPECT_EQ(outputs(graph)[1], "f32[1,batch,3] samples 1");
  }
}

// Of more steps than a chain has, or of any number.
TEST(Recurrent, OtherFormsOfAnyNumberOfStepsRunABody) {
  for (const char* const each : {"time", "300"}) {
    const std::string steps = each;
    const ir::Graph graph = imported("agraph (float[" + steps +
                                     ", batch, 5] x, float[2, 9, 5] w, float[2, 9, 3] r, int64[batch] lens) => "
                                     "(float[s, t, u, v] y, float[s, t, u] yh) { y, yh = GRU <hidden_size = 3, "
                                     "direction = \"bidirectional\"> (x, w, r, , lens) }");
    const auto names = ops(graph);
    EXPECT_EQ(std::count(names.begin(), names.end(), "loop"), 2);
    EXPECT_LT(names.size(), 60U);
    EXPECT_THAT(outputs(graph), ElementsAre("f32[" + steps + ",2,batch,3] samples 2", "f32[2,batch,3] samples 1"));
  }
}

TEST(Recurrent, WhatIsRefused) {
  const auto rnn = [](const std::string& x, const std::string& attributes) {
    return "agraph (float[" + x + "] x, float[1, 3, 5] w, float[1, 3, 3] r) => (float[s, t, u, v] y) { y = RNN <" +
           attributes + "> (x, w, r) }";
  };
  EXPECT_THAT(refusal(rnn("batch, time, 5", "hidden_size = 3")), HasSubstr("would mix the samples of a micro-batch"));
  EXPECT_THAT(refusal(rnn("time, batch, 5", "hidden_size = 4")),
              HasSubstr("RNN of hidden_size 4 in 1 directions has R [1,3,3]"));
  EXPECT_THAT(refusal(rnn("time, batch, 5", "direction = \"bidirectional\"")),
              HasSubstr("RNN of hidden_size 3 in 2 directions has R [1,3,3]"));
  EXPECT_THAT(refusal(rnn("time, batch, 5", "direction = \"sideways\"")),
              HasSubstr("RNN has direction 'sideways'; expected forward, reverse or bidirectional"));
  EXPECT_THAT(refusal(rnn("time, batch, 5", "activations = [\"Tanh\", \"Tanh\"]")),
              HasSubstr("RNN has 2 activations; 1 directions need 1"));
  for (const char* const steps : {"4", "time"}) {
    EXPECT_THAT(refusal(rnn(std::string(steps) + ", batch, 5", "activations = [\"Sinh\"]")),
                HasSubstr("RNN has the activation 'sinh', which is not an ONNX activation"));
  }
  EXPECT_THAT(refusal(rnn("time, batch", "hidden_size = 3")), HasSubstr("rank 3"));
}

/// What recover-parameters makes of the constants of a model, by name.
std::string kind(const ir::Graph& graph, std::string_view name) {
  const ValueId value = graph.find(name);
  return value.valid() ? std::string(ir::str(graph.value(value).kind)) : "absent";
}

// Weights through the order of their gates; a state that is no number repeated.
/// A layer of 4 steps, 2 features and hidden size 3 with one operand more. `clip` makes it a chain of cells, whose
/// elementwise tasks would stretch a size of 1.
std::string layer_with(std::string_view op, int gates, std::string_view operands, std::string_view more,
                       std::string_view clip) {
  std::string text = "agraph (float[4, batch, 2] x, float[1, " + std::to_string(gates * 3) + ", 2] w, float[1, " +
                     std::to_string(gates * 3) + ", 3] r, " + std::string(more) +
                     ") => (float[4, 1, batch, 3] y) {\n y = " + std::string(op) + " <hidden_size = 3" +
                     std::string(clip) + "> (x, w, r, " + std::string(operands) + ")\n}";
  return text;
}

TEST(Recurrent, OperandsHaveTheSizesThatOnnxFixes) {
  struct Case {
    std::string_view operands, more, name;
  };
  const Case lstm[] = {{"\"\", \"\", h", "float[1, batch, 1] h", "initial_h 'h'"},
                       {"\"\", \"\", h", "float[1, 1, 3] h", "initial_h 'h'"},
                       {"\"\", \"\", h", "float[batch, 3] h", "initial_h 'h'"},
                       {"\"\", \"\", h", "float[batch, batch, 3] h", "initial_h 'h'"},
                       {"\"\", \"\", \"\", c", "float[1, batch, 1] c", "initial_c 'c'"},
                       {"\"\", \"\", \"\", c", "float[1, batch, 2] c", "initial_c 'c'"},
                       {"b", "float[1, 1] b", "B 'b'"},
                       {"b", "float[1, 12] b", "B 'b'"},
                       {"\"\", n", "int32[1] n", "sequence_lens 'n'"},
                       {"\"\", \"\", \"\", \"\", p", "float[1, 3] p", "P 'p'"}};
  for (const std::string_view clip : {"", ", clip = 2.0"}) {
    for (const Case& each : lstm) {
      EXPECT_THAT(refusal(layer_with("LSTM", 4, each.operands, each.more, clip)), HasSubstr(std::string(each.name)))
          << each.more << clip;
    }
    for (const auto& [op, gates] : {std::pair("GRU", 3), std::pair("RNN", 1)}) {
      EXPECT_THAT(refusal(layer_with(op, gates, "\"\", \"\", h", "float[1, batch, 1] h", clip)),
                  HasSubstr("initial_h 'h' of " + std::string(op)));
    }
    EXPECT_EQ(refusal(layer_with("LSTM", 4, "\"\", \"\", h", "float[1, batch, 3] h", clip)), "imported");
  }
}

TEST(Recurrent, AStateOfZerosHasTheHiddenSize) {
  EXPECT_THAT(
      refusal(R"(agraph (float[4, batch, 2] x, float[1, 12, 2] w, float[1, 12, 3] r) => (float[4, 1, batch, 3] y)
    <float[1, 1, 2] h = {0, 0}> { y = LSTM <hidden_size = 3> (x, w, r, "", "", h) })"),
      HasSubstr("initial_h 'h'"));
  EXPECT_EQ(refusal(R"(agraph (float[4, batch, 2] x, float[1, 12, 2] w, float[1, 12, 3] r) => (float[4, 1, batch, 3] y)
    <float[1, 1, 3] h = {0, 0, 0}> { y = LSTM <hidden_size = 3> (x, w, r, "", "", h) })"),
            "imported");
}

TEST(Recurrent, WeightsAndLearnedStatesAreParameters) {
  auto read = test::read_graph(
      "agraph (float[batch, 2, 1] steps) => (float[s, t, u, v] y) "
      "<float[1, 8, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[1, 8, 2] r = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, "
      "8}, "
      "float[1, 16] b = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}, float[1, 1, 2] learned = {0.5, 0.25}, "
      "float[1, 1, 2] ones = {1, 1}, int64[1] one = {1}> "
      "{ x = Transpose <perm = [1, 0, 2]> (steps)\n n = Shape <start = 0, end = 1> (steps)\n"
      "  shape = Concat <axis = 0> (one, n, one)\n h = Expand (learned, shape)\n c = Expand (ones, shape)\n"
      "  y = LSTM <hidden_size = 2> (x, w, r, b, , h, c) }",
      15);
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  passes::PassContext context;
  const passes::StoredFacts known{.file = std::move(read->notes.stored)};
  ASSERT_TRUE(passes::RecoverParameters(known).run(read->graph, context).ok());
  for (const char* name : {"w", "r", "b", "learned"}) EXPECT_EQ(kind(read->graph, name), "parameter") << name;
  EXPECT_EQ(kind(read->graph, "ones"), "constant");
}

// Into the body of a loop as well, past what cuts them.
TEST(Recurrent, WeightsOfALoopAreParameters) {
  auto read = test::read_graph(
      "agraph (float[batch, time, 1] steps) => (float[s, t, u, v] y) "
      "<float[1, 3, 1] w = {1, 2, 3}, float[1, 3, 1] r = {4, 5, 6}, float[1, 6] b = {1, 2, 3, 4, 5, 6}> "
      "{ x = Transpose <perm = [1, 0, 2]> (steps)\n y = GRU <hidden_size = 1> (x, w, r, b) }",
      15);
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  passes::PassContext context;
  const passes::StoredFacts known{.file = std::move(read->notes.stored)};
  ASSERT_TRUE(passes::RecoverParameters(known).run(read->graph, context).ok());
  for (const char* name : {"w", "r", "b"}) EXPECT_EQ(kind(read->graph, name), "parameter") << name;
}

}  // namespace
}  // namespace rannc::frontend
