// Prints which versions of ONNX's operators are imported, run and differentiated: frontend/onnx/OPERATORS.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "tests/codegen/stored_run.h"
#include "tests/frontend/onnx/opset_cases.h"
#include "tests/frontend/support/node_cases.h"
#include "tests/frontend/support/older_models.h"

namespace rannc::test {
namespace {

/// What a model of one operator comes to, the better the higher.
struct Reached {
  bool imports = false, runs = false;
  enum Gradient : uint8_t { kMissing, kNotNeeded, kHas } gradient = kMissing;
  bool all() const { return imports && runs && gradient == kHas; }
  auto operator<=>(const Reached&) const = default;
};

Reached run(const Result<ir::Graph>& imported, const std::function<StoredInputs(const ir::Graph&)>& inputs_of) {
  Reached reached;
  if (!imported.ok()) return reached;
  const auto graph = planned(imported->clone());
  reached.imports = graph.ok();
  if (!graph.ok()) return reached;
  const StoredInputs inputs = inputs_of(*graph);
  reached.runs = run_stored(*graph, inputs).ok();
  if (!reached.runs) return reached;
  const auto check = check_gradients(*graph, inputs);
  if (!check.ok() || !check->fault.empty()) return reached;
  reached.gradient = check->differentiable > 0 ? Reached::kHas : Reached::kNotNeeded;
  return reached;
}

Reached run_case(const NodeCase& found, int opset) {
  const auto model = at_opset(found, opset);
  if (!model) return {};
  return run(frontend::import_onnx_bytes(*model, found.folder / "model.onnx"), [&](const ir::Graph& graph) {
    StoredInputs inputs;
    for (const NamedTensor& input : read_case_data(found, "input")) {
      if (graph.find(input.name).valid()) inputs[input.name] = {input.type, input.data};
    }
    return inputs;
  });
}

Reached run_by_hand(const OpsetCase& c) {
  const auto ran = run_onnx(c.graph, c.opset, c.inputs);
  return run(import_graph(c.graph, c.opset), [&](const ir::Graph&) { return ran.ok() ? ran->inputs : StoredInputs(); });
}

class Table {
 public:
  explicit Table(const std::filesystem::path& folder) {
    for (const auto& one : node_case_folders(folder)) {
      NodeCase found = read_node_case(one);
      if (found.outside.empty() && found.operators.size() == 1) cases_[found.op].push_back(std::move(found));
    }
    for (auto* cases : {shape_cases, layer_cases}) {
      for (OpsetCase& c : cases()) by_hand_[c.op].push_back(std::move(c));
    }
  }

  void print() {
    std::cout << kHead;
    for (const VersionsOfOperator& each : operator_versions()) print_row(each);
    if (!unseen_.empty()) std::cout << fmt::format("\nNot covered by any test model: {}.\n", fmt::join(unseen_, ", "));
  }

 private:
  static constexpr std::string_view kHead = R"(# ONNX operators
Support of the operators in ONNX's default domain, for operator sets 7 to 27. `tests/frontend/onnx/operator-table` generates this page.
Do not edit it. [Operator notes](operator-notes.md) describes semantics and limits.

| column | meaning |
|---|---|
| versions | operator sets in which the operator changed |
| imports | versions for which a model of one node is translated |
| runs | versions for which that model computes its results |
| gradient | versions whose gradient is LibTorch's; `·` if LibTorch has none |

`all` means every listed version, `–` none.

| operator | versions | imports | runs | gradient |
|---|---|---|---|---|
)";

  Reached reached(const VersionsOfOperator& each, size_t version) {
    const int opset = each.opsets[version];
    const int next = version + 1 < each.opsets.size() ? each.opsets[version + 1] : INT32_MAX;
    Reached best;
    for (const OpsetCase& c : by_hand_[each.op]) {
      if (c.opset >= opset && c.opset < next && !best.all()) best = std::max(best, run_by_hand(c));
    }
    for (const NodeCase& found : cases_[each.op]) {
      if (!best.all()) best = std::max(best, run_case(found, opset));
    }
    return best;
  }

  void print_row(const VersionsOfOperator& each) {
    if (!cases_.contains(each.op) && !by_hand_.contains(each.op) && has_translation(each)) {
      unseen_.push_back(each.op);
      return;
    }
    std::vector<int> imports, runs, gradients, needed;
    for (size_t i = 0; i < each.opsets.size(); ++i) {
      const int opset = each.opsets[i];
      const Reached found = reached(each, i);
      if (found.imports) imports.push_back(opset);
      if (found.runs) runs.push_back(opset);
      if (found.runs && found.gradient != Reached::kNotNeeded) needed.push_back(opset);
      if (found.gradient == Reached::kHas) gradients.push_back(opset);
    }
    const std::string gradient = needed.empty() && !runs.empty() ? "·" : part(gradients, needed);
    std::cout << fmt::format("| {} | {} | {} | {} | {} |\n", each.op, fmt::join(each.opsets, " "),
                             part(imports, each.opsets), part(runs, each.opsets), gradient);
  }

  static bool has_translation(const VersionsOfOperator& each) {
    return std::any_of(each.opsets.begin(), each.opsets.end(),
                       [&](int opset) { return frontend::find_translator(each.op, opset) != nullptr; });
  }

  static std::string part(const std::vector<int>& some, const std::vector<int>& all) {
    if (some.empty()) return "–";
    return some == all ? "all" : fmt::format("{}", fmt::join(some, " "));
  }

  std::map<std::string, std::vector<NodeCase>> cases_;
  std::map<std::string, std::vector<OpsetCase>> by_hand_;
  std::vector<std::string> unseen_;
};

}  // namespace
}  // namespace rannc::test

int main() {
  rannc::test::Table(RANNC_ONNX_NODE_TESTS).print();
  return 0;
}
