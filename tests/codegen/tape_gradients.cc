#include "tests/codegen/tape_gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace rannc::test {

Result<Taped> gradients_by_tape(const ir::Graph& graph, const ir::Bindings& sizes, runtime::GraphValues values,
                                const std::vector<double>& seeds) {
  std::vector<at::Tensor> parameters, losses, factors;
  std::vector<std::string> names;
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    values[value.index()] = values[value.index()]->clone().set_requires_grad(true);
    parameters.push_back(*values[value.index()]);
    names.emplace_back(graph.value(value).name);
  }
  RANNC_TRY(runtime::run_graph(graph, {.sizes = sizes}, values));
  Taped taped;
  for (size_t i = 0; i < seeds.size(); ++i) {
    const at::Tensor& numerator = taped.numerators.emplace_back(*values[graph.losses()[i].numerator.index()]);
    if (!numerator.requires_grad()) continue;
    losses.push_back(numerator);
    factors.push_back(at::full_like(numerator, seeds[i]));
  }
  if (losses.empty() || parameters.empty()) return taped;
  const auto found = torch::autograd::grad(losses, parameters, factors, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined()) taped.gradients[names[i]] = found[i];
  }
  return taped;
}

}  // namespace rannc::test
