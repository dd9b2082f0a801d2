#include "runtime/aten/graph_run.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include "ir/gradient/vjp.h"
#include "ir/op/op.h"
#include "runtime/aten/aten_call.h"
#include "runtime/aten/internal/operator_tape.h"
#include "runtime/aten/torch_types.h"

namespace rannc::runtime {

namespace {

using Operands = std::vector<std::optional<at::Tensor>>;

/// Returns the results of an operator, recorded by autograd if an operand requires a gradient.
Result<std::vector<at::Tensor>> run_operator(const ir::LowerCall& call, const Operands& operands, const GraphRun& run) {
  RANNC_ASSIGN(const ir::aten::Lowering lowering, ir::lowering(call));
  return run_lowering(lowering,
                      {.operands = operands, .sizes = run.sizes, .device = run.device, .training = run.training});
}

/// Bytes of a tape, which are those of its type.
int64_t bytes_of(const ir::ValueType& type, const GraphRun& run) {
  return ir::element_count(*type.shape).evaluate(run.sizes).value_or(0);
}

/// Makes the wanted operands leaves.
std::vector<at::Tensor> detach_wanted(Operands& operands, const std::vector<uint32_t>& wanted) {
  std::vector<at::Tensor> leaves;
  for (const uint32_t operand : wanted) {
    operands[operand] = operands[operand]->detach().set_requires_grad(true);
    leaves.push_back(*operands[operand]);
  }
  return leaves;
}

/// Runs the operator of a `taped` task and keeps its tape.
Result<std::vector<at::Tensor>> run_taped(const ir::Graph& graph, TaskId task, const ir::Taped& taped,
                                          Operands operands, const GraphRun& run) {
  const auto inputs = ir::type_list(graph, graph.inputs(task)), outputs = ir::type_list(graph, taped.results);
  const ir::LowerCall call{*taped.op, inputs, outputs, taped.attributes, device_type(run.device)};
  if (!run.records) {
    RANNC_ASSIGN(std::vector<at::Tensor> made, run_operator(call, operands, run));
    made.emplace_back();
    return made;
  }
  const c10::AutoGradMode with_tape(true);
  OperatorTape tape{detach_wanted(operands, taped.wanted), {}};
  RANNC_ASSIGN(std::vector<at::Tensor> made, run_operator(call, operands, run));
  for (at::Tensor& each : made) {
    tape.results.push_back(each.requires_grad() ? torch::autograd::impl::gradient_edge(each) : torch::autograd::Edge());
    each = each.detach();
  }
  made.push_back(carry(std::move(tape), bytes_of(graph.type(taped.tape), run)));
  return made;
}

/// Runs the tape that the forward task has kept.
Result<std::vector<at::Tensor>> run_kept_tape(const ir::Vjp& vjp, const Operands& given) {
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < vjp.gradients.size(); ++i) gradients.push_back(given[i].value_or(at::Tensor()));
  return run_tape(*given[vjp.gradients.size()], gradients);
}

/// Reruns the forward pass and differentiates only that.
Result<std::vector<at::Tensor>> run_vjp(const ir::Graph& graph, const ir::Vjp& vjp, const Operands& given,
                                        const GraphRun& run) {
  Operands operands(given.begin() + static_cast<std::ptrdiff_t>(vjp.gradients.size()), given.end());
  const std::vector<const ir::ValueType*> inputs = ir::type_list(graph, vjp.operands);
  std::vector<const ir::ValueType*> outputs;
  RANNC_ASSIGN(const std::vector<ir::ValueType> types,
               ir::types_of({*vjp.op, inputs, vjp.attributes, graph.batch_symbol(),
                             static_cast<uint32_t>(vjp.gradients.size())}));
  for (const ir::ValueType& type : types) outputs.push_back(&type);
  std::vector<at::Tensor> results, seeds;
  const std::vector<at::Tensor> leaves = detach_wanted(operands, vjp.wanted);
  const c10::AutoGradMode with_tape(true);
  RANNC_ASSIGN(const std::vector<at::Tensor> made,
               run_operator({*vjp.op, inputs, outputs, vjp.attributes, device_type(run.device)}, operands, run));
  for (size_t i = 0; i < vjp.gradients.size(); ++i) {
    if (!given[i] || !made[i].requires_grad()) continue;
    results.push_back(made[i]);
    seeds.push_back(*given[i]);
  }
  auto gradients = results.empty() ? torch::autograd::variable_list(leaves.size())
                                   : torch::autograd::grad(results, leaves, seeds, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(leaves[i]);
  }
  return gradients;
}

/// Grad mode without a tape. oneDNN's recurrent layers return what their gradient reads in grad mode only.
struct GradModeWithoutTape {
  c10::AutoGradMode mode{true};
  at::AutoDispatchBelowADInplaceOrView below;
};

}  // namespace

Result<std::vector<at::Tensor>> run_on(const ir::Graph& graph, TaskId task, const GraphRun& run,
                                       const std::vector<std::optional<at::Tensor>>& operands) {
  const auto inputs = ir::type_list(graph, graph.inputs(task)), outputs = ir::type_list(graph, graph.outputs(task));
  const auto vjp = ir::vjp_of(graph, task);
  if (const auto taped = ir::taped_of(graph, task)) return run_taped(graph, task, *taped, operands, run);
  if (vjp && vjp->tape.valid()) return run_kept_tape(*vjp, operands);
  std::optional<GradModeWithoutTape> in_grad_mode;
  const bool has_auxiliary = !vjp && outputs.size() > graph.op(task).min_results();
  if (has_auxiliary && !c10::GradMode::is_enabled()) in_grad_mode.emplace();
  return vjp ? run_vjp(graph, *vjp, operands, run)
             : run_operator({graph.op(task), inputs, outputs, graph.attributes(task), device_type(run.device)},
                            operands, run);
}

Result<void> run_task(const ir::Graph& graph, TaskId task, const GraphRun& run, GraphValues& values) {
  Operands operands;
  for (const ValueId input : graph.inputs(task)) {
    operands.emplace_back();
    if (!input.valid()) continue;
    operands.back() = values[input.index()];
    if (operands.back()) continue;
    return error(graph.location(task),
                 "the run reads %" + std::string(graph.value(input).name) + ", which has no value");
  }
  const auto located = [&](const std::string& what) {
    return error(graph.location(task), graph.op(task).name + ": " + what);
  };
  try {
    const auto made = run_on(graph, task, run, operands);
    if (!made.ok()) return located(made.diagnostic().message);
    for (size_t i = 0; i < graph.outputs(task).size(); ++i) values[graph.outputs(task)[i].index()] = (*made)[i];
  } catch (const c10::Error& failure) {
    return located(failure.what_without_backtrace());
  }
  return {};
}

Result<void> run_graph(const ir::Graph& graph, const GraphRun& run, GraphValues& values) {
  values.resize(graph.value_count());
  for (const TaskId task : graph.tasks()) RANNC_TRY(run_task(graph, task, run, values));
  return {};
}

}  // namespace rannc::runtime
