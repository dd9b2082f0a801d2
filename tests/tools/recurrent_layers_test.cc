// Recurrent layers, computed: as one task, and step by step.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/onnx/import.h"
#include "ir/op/op.h"
#include "runtime/aten/graph_run.h"
#include "runtime/aten/stored_tensor.h"
#include "tests/frontend/support/node_cases.h"
#include "tests/frontend/support/onnx_text.h"
#include "tests/frontend/support/recurrent_cases.h"

namespace rannc::test {
namespace {

struct Form {
  std::string op;
  int64_t directions = 1;
  std::string attributes;  ///< beside hidden_size
  std::string parts;       ///< as in RecurrentCase
  std::vector<int> lengths;
  std::string steps = "3", samples = "2";
  std::string dtype = "double";
  bool batch_first = false;
};

constexpr int64_t kHidden = 2, kFeatures = 2;

int64_t gates_of(const std::string& op) { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
bool has(const Form& form, char part) { return form.parts.find(part) != std::string::npos; }

/// Operands in order; an absent one has no name.
struct Operand {
  std::string name, type;
};

std::vector<Operand> operands_of(const Form& form) {
  const auto n = [](int64_t number) { return std::to_string(number); };
  const std::string d = n(form.directions), rows = n(gates_of(form.op) * kHidden), h = n(kHidden);
  const auto shaped = [&](const std::string& sizes) { return form.dtype + "[" + sizes + "]"; };
  const auto optional = [&](char part, const std::string& name, const std::string& sizes) {
    return has(form, part) ? Operand{name, shaped(sizes)} : Operand{};
  };
  const std::string x = form.batch_first ? form.samples + "," + form.steps : form.steps + "," + form.samples;
  const std::string state = form.batch_first ? form.samples + "," + d + "," + h : d + "," + form.samples + "," + h;
  std::vector<Operand> operands = {{"x", shaped(x + "," + n(kFeatures))},
                                   {"w", shaped(d + "," + rows + "," + n(kFeatures))},
                                   {"r", shaped(d + "," + rows + "," + h)},
                                   optional('b', "b", d + "," + n(2 * gates_of(form.op) * kHidden)),
                                   {form.lengths.empty() ? "" : "lens", "int32[" + form.samples + "]"},
                                   optional('h', "h0", state)};
  if (form.op == "LSTM") {
    operands.push_back(optional('c', "c0", state));
    operands.push_back(optional('p', "p", d + "," + n(3 * kHidden)));
  }
  return operands;
}

std::string text_of(const Form& form) {
  std::string inputs, names;
  for (const Operand& operand : operands_of(form)) {
    names += (names.empty() ? "" : ", ") + operand.name;
    if (!operand.name.empty()) inputs += (inputs.empty() ? "" : ", ") + operand.type + " " + operand.name;
  }
  const bool cell = form.op == "LSTM";
  const std::string attributes = "hidden_size = 2" + (form.attributes.empty() ? "" : ", " + form.attributes) +
                                 (form.batch_first ? ", layout = 1" : "");
  const std::string any = form.dtype + "[a, b, c]";
  return "agraph (" + inputs + ") => (" + form.dtype + "[a, b, c, d] y, " + any + " yh" +
         (cell ? ", " + any + " yc" : "") + ") { y, yh" + (cell ? ", yc" : "") + " = " + form.op + " <" + attributes +
         "> (" + names + ") }";
}

at::Tensor filled(const std::vector<int64_t>& sizes, double start) {
  return at::arange(c10::multiply_integers(sizes), at::kDouble).mul(0.7).add(start).sin().reshape(sizes);
}

struct Ran {
  std::vector<at::Tensor> outputs;
  size_t layers = 0;  ///< tasks of recurrent operators
};

std::vector<int64_t> sizes_of(const ir::Graph& graph, ValueId value, const ir::Bindings& symbols) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *graph.type(value).shape) sizes.push_back(dim.evaluate(symbols).value());
  return sizes;
}

Ran run(const Form& form, const ir::Bindings& symbols = {}) {
  frontend::ImportOptions options;
  if (form.samples == "batch") options.batch_symbol = form.samples;
  const auto graph = import_graph(text_of(form), 14, options);
  if (!graph.ok()) {
    ADD_FAILURE() << graph.diagnostic().str();
    return {};
  }
  runtime::GraphValues values(graph->value_count());
  const auto operands = operands_of(form);
  for (size_t i = 0; i < operands.size(); ++i) {
    const ValueId input = graph->find(operands[i].name);
    if (operands[i].name.empty() || !input.valid()) continue;
    const double start = 0.1 * static_cast<double>(i < 4 ? i + 1 : i);
    at::Tensor tensor = filled(sizes_of(*graph, input, symbols), start);
    if (form.batch_first && (i == 0 || i > 4))
      tensor = filled({tensor.size(1), tensor.size(0), tensor.size(2)}, start).transpose(0, 1);
    if (operands[i].name == "lens") tensor = at::tensor(form.lengths, at::kInt);
    if (form.dtype == "float" && tensor.is_floating_point()) tensor = tensor.to(at::kFloat);
    values[input.index()] = tensor;
  }
  const auto ran = runtime::run_graph(*graph, {.sizes = symbols}, values);
  if (!ran.ok()) ADD_FAILURE() << ran.diagnostic().str();
  Ran found;
  for (const TaskId task : graph->tasks()) found.layers += graph->op(task).family == "recurrent";
  for (const ValueId output : graph->outputs()) {
    if (ran.ok()) found.outputs.push_back(*values[output.index()]);
  }
  return found;
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(found, expected, tolerance, tolerance)) << found << "\ninstead of\n" << expected;
}

TEST(RecurrentLayers, AreThoseOfOnnxRuntime) {
  for (size_t i = 0; i < 2 * recurrent_cases().size(); ++i) {
    const RecurrentCase& c = recurrent_cases()[i / 2];
    SCOPED_TRACE(c.op + " <" + c.attributes + "> " + c.parts);
    const bool symbolic = i % 2 != 0;  // then what is no operator of its own is a loop
    const std::string steps = symbolic ? "time" : "3", samples = symbolic ? "batch" : "2";
    const Ran ran = run({c.op, c.directions, c.attributes, c.parts, c.lengths, steps, samples, "float"},
                        {{"time", 3}, {"batch", 2}});
    const auto as = [](const std::vector<double>& numbers, at::IntArrayRef sizes) {
      return at::tensor(numbers, at::kDouble).reshape(sizes);
    };
    ASSERT_EQ(ran.outputs.size(), c.op == "LSTM" ? 3U : 2U);
    expect_near(ran.outputs[0].to(at::kDouble), as(c.y, {3, c.directions, 2, kHidden}), 2e-6);
    expect_near(ran.outputs[1].to(at::kDouble), as(c.hidden, {c.directions, 2, kHidden}), 2e-6);
    if (c.op == "LSTM") expect_near(ran.outputs[2].to(at::kDouble), as(c.cell, {c.directions, 2, kHidden}), 5e-6);
  }
}

/// All that the operators know, by direction and what is absent.
std::vector<Form> known_forms() {
  std::vector<Form> forms;
  for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
    for (const std::string parts : {"", "b", "h", "bhc", "bc"}) {
      for (const std::vector<int>& lengths : {std::vector<int>(), std::vector<int>{2, 4, 1}}) {
        for (const std::string op : {"LSTM", "GRU", "RNN"}) {
          const std::string more = op == "GRU" ? ", linear_before_reset = 1" : "";
          const int64_t directions = direction == "bidirectional" ? 2 : 1;
          forms.push_back({op, directions, "direction = \"" + direction + "\"" + more, parts, lengths, "4", "3"});
        }
      }
    }
  }
  return forms;
}

std::string describe(const Form& form) { return text_of(form); }

// A clip that clips nothing is beyond the operators.
TEST(RecurrentLayers, OfTheOperatorAreThoseOfItsSteps) {
  for (const Form& form : known_forms()) {
    SCOPED_TRACE(describe(form));
    Form clipped = form;
    clipped.attributes += ", clip = 1e30";
    const Ran whole = run(form), steps = run(clipped);
    ASSERT_EQ(whole.outputs.size(), steps.outputs.size());
    EXPECT_EQ(whole.layers, form.lengths.empty() ? 1 : form.directions);
    EXPECT_EQ(steps.layers, 0U);
    clipped.steps = "time";
    clipped.samples = "batch";
    const Ran loop = run(clipped, {{"time", 4}, {"batch", 3}});
    ASSERT_EQ(loop.outputs.size(), steps.outputs.size());
    for (size_t i = 0; i < whole.outputs.size(); ++i) {
      expect_near(whole.outputs[i], steps.outputs[i], 1e-12);
      expect_near(loop.outputs[i], steps.outputs[i], 1e-14);
    }
  }
}

TEST(RecurrentLayers, OfSymbolicSizesAreThoseOfKnownOnes) {
  for (Form form : known_forms()) {
    SCOPED_TRACE(describe(form));
    const Ran known = run(form);
    form.steps = "time";
    form.samples = "batch";
    const Ran symbolic = run(form, {{"time", 4}, {"batch", 3}});
    ASSERT_EQ(known.outputs.size(), symbolic.outputs.size());
    for (size_t i = 0; i < known.outputs.size(); ++i) expect_near(symbolic.outputs[i], known.outputs[i], 1e-14);
  }
}

TEST(RecurrentLayers, WithSamplesFirstAreTheSameNumbers) {
  for (Form form : known_forms()) {
    SCOPED_TRACE(describe(form));
    const Ran time_first = run(form);
    form.batch_first = true;
    const Ran samples_first = run(form);
    ASSERT_EQ(time_first.outputs.size(), samples_first.outputs.size());
    expect_near(samples_first.outputs[0], time_first.outputs[0].permute({2, 0, 1, 3}), 1e-14);
    for (size_t i = 1; i < time_first.outputs.size(); ++i)
      expect_near(samples_first.outputs[i], time_first.outputs[i].transpose(0, 1), 1e-14);
  }
}

TEST(RecurrentLayers, LengthsThatAreAllStepsAreDropped) {
  const auto graph = import_graph(
      "agraph (float[3, 2, 2] x, float[1, 2, 2] w, float[1, 2, 2] r) => (float[a, b, c, d] y) "
      "<int32[2] lens = {3, 3}> { y = RNN <hidden_size = 2> (x, w, r, , lens) }",
      14);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_LE(graph->task_count(), 3U);
}

// ONNX's own cases.
TEST(RecurrentLayers, OfNodeTests) {
  const auto folders = node_case_folders(RANNC_ONNX_NODE_TESTS);
  if (folders.empty()) GTEST_SKIP() << "no conformance cases beside this ONNX";
  size_t computed = 0;
  for (const auto& folder : folders) {
    const std::string name = folder.filename().string();
    const auto begins = [&](const char* with) { return name.rfind(with, 0) == 0; };
    if (!begins("test_lstm") && !begins("test_gru") && !begins("test_rnn") && !begins("test_simple_rnn")) continue;
    SCOPED_TRACE(name);
    const NodeCase found = read_node_case(folder);
    const auto graph = frontend::import_onnx_bytes(found.model, folder / "model.onnx");
    ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
    runtime::GraphValues values(graph->value_count());
    for (const NamedTensor& input : read_case_data(found, "input")) {
      if (graph->find(input.name).valid())
        values[graph->find(input.name).index()] = runtime::to_tensor({input.type, input.data}).value();
    }
    for (const ValueId value : graph->values()) {
      const auto& stored = graph->value(value);
      if (stored.data.present()) values[value.index()] = runtime::to_tensor({stored.type, stored.data}).value();
    }
    const auto ran = runtime::run_graph(*graph, {}, values);
    ASSERT_TRUE(ran.ok()) << ran.diagnostic().str();
    for (const NamedTensor& output : read_case_data(found, "output"))
      expect_near(*values[graph->find(output.name).index()], runtime::to_tensor({output.type, output.data}).value(),
                  1e-5);
    ++computed;
  }
  EXPECT_EQ(computed, 12U);
}

}  // namespace
}  // namespace rannc::test
