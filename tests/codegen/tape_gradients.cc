#include "tests/codegen/tape_gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace rannc::test {

Result<std::map<std::string, at::Tensor>> gradients_by_tape(const ir::Graph& graph, const ir::Bindings& sizes,
                                                            runtime::GraphValues values) {
  std::vector<at::Tensor> parameters, losses;
  std::vector<std::string> names;
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    values[value.index()] = values[value.index()]->clone().set_requires_grad(true);
    parameters.push_back(*values[value.index()]);
    names.emplace_back(graph.value(value).name);
  }
  RANNC_TRY(runtime::run_graph(graph, {.sizes = sizes}, values));
  std::map<std::string, at::Tensor> gradients;
  for (const ir::LossTerm& term : graph.losses()) {
    if (values[term.numerator.index()]->requires_grad()) losses.push_back(*values[term.numerator.index()]);
  }
  if (losses.empty() || parameters.empty()) return gradients;
  const auto found = torch::autograd::grad(losses, parameters, {}, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined()) gradients[names[i]] = found[i];
  }
  return gradients;
}

}  // namespace rannc::test
