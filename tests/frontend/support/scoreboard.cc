#include "tests/frontend/support/scoreboard.h"

#include <algorithm>

#include "frontend/onnx/import.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "tests/codegen/stored_run.h"
#include "tests/frontend/support/compare.h"
#include "tests/frontend/support/node_cases.h"

namespace rannc::test {

namespace {

constexpr std::string_view kNames[] = {"passed", "outside", "refused", "not computed", "wrong"};
constexpr std::string_view kGradientNames[] = {"none", "as the tape", "by vjp", "cannot be made", "wrong"};

/// Whether a graph draws numbers that are not known: of such cases ONNX means the shape alone.
bool is_random(const ir::Graph& graph) {
  for (const ValueId value : graph.values()) {
    const ir::RandomInput* const draw = graph.random_input(value);
    if (draw && (draw->of != ir::RandomInput::Of::kBernoulli || draw->drop != 0)) return true;
  }
  return false;
}

/// The first thing that is not as ONNX says it; empty: all is.
std::string fault(const NodeCase& found, const ir::Graph& graph, const std::vector<ir::StoredTensor>& outputs) {
  for (size_t i = 0; i < found.declared.size(); ++i) {
    ir::ValueType type = graph.type(graph.outputs()[i]);
    if (found.declared[i].type.find('[') == std::string::npos) type.shape.reset();
    if (declared_form(type) != found.declared[i].type) {
      return found.declared[i].name + " is " + declared_form(type) + ", declared " + found.declared[i].type;
    }
  }
  for (const NamedTensor& expected : read_case_data(found, "output")) {
    for (size_t i = 0; i < found.declared.size(); ++i) {
      if (found.declared[i].name != expected.name) continue;
      const std::string wrong = difference(outputs[i], {expected.type, expected.data});
      if (!wrong.empty()) return expected.name + ": " + wrong;
    }
  }
  return "";
}

/// Gradients are compared in double precision, in which bits of floats mean something else.
bool reads_bits(const ir::Graph& graph) {
  for (const TaskId task : graph.tasks()) {
    if (&graph.op(task) == &ir::core("bitcast")) return true;
  }
  return false;
}

void compare_gradients(const ir::Graph& graph, const StoredInputs& inputs, Row& row) {
  if (reads_bits(graph)) return;
  const auto check = check_gradients(graph, inputs);
  if (!check.ok()) {
    row.gradient = GradientOutcome::kCannotBeMade;
    row.gradient_why = check.diagnostic().message;
  } else if (!check->fault.empty()) {
    row.gradient = GradientOutcome::kWrong;
    row.gradient_why = check->fault;
  } else if (check->differentiable > 0) {
    row.gradient = check->by_vjp > 0 ? GradientOutcome::kByVjp : GradientOutcome::kAsTheTape;
  }
}

/// The outcome with its reason.
Row& ends(Row& row, Outcome outcome, std::string why) {
  row.outcome = outcome;
  row.why = std::move(why);
  return row;
}

}  // namespace

std::string_view str(Outcome outcome) { return kNames[static_cast<size_t>(outcome)]; }
std::string_view str(GradientOutcome outcome) { return kGradientNames[static_cast<size_t>(outcome)]; }

Row run_case(const std::filesystem::path& folder) {
  const NodeCase found = read_node_case(folder);
  Row row{.name = folder.filename().string(), .op = found.op, .bound = found.bound};
  if (!found.outside.empty()) return ends(row, Outcome::kOutside, found.outside);
  auto imported = frontend::import_onnx_bytes(found.model, folder / "model.onnx");
  if (!imported.ok()) return ends(row, Outcome::kRefused, imported.diagnostic().message);
  const auto broken = ir::verify(*imported);
  if (!broken.empty()) return ends(row, Outcome::kWrong, broken[0].str());
  if (is_random(*imported)) return ends(row, Outcome::kOutside, "random numbers");
  const auto graph = planned(*std::move(imported));
  if (!graph.ok()) return ends(row, Outcome::kRefused, graph.diagnostic().message);
  StoredInputs inputs;
  for (const NamedTensor& input : read_case_data(found, "input")) inputs[input.name] = {input.type, input.data};
  const auto outputs = run_stored(*graph, inputs);
  if (!outputs.ok()) return ends(row, Outcome::kNotComputed, outputs.diagnostic().message);
  const std::string wrong = fault(found, *graph, *outputs);
  if (!wrong.empty()) return ends(row, Outcome::kWrong, wrong);
  compare_gradients(*graph, inputs, row);
  return row;
}

}  // namespace rannc::test
