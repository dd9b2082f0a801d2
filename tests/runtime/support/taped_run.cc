// Runs whole models under LibTorch's autograd.
#include "tests/runtime/support/taped_run.h"

#include <c10/core/GradMode.h>

#include "ir/op/op.h"
#include "runtime/aten/aten_call.h"
#include "runtime/aten/stored_tensor.h"
#include "runtime/engine/internal/torch_random.h"
#include "runtime/engine/load_options.h"
#include "runtime/execute/program.h"
#include "runtime/execute/signature.h"

namespace rannc::testing {

namespace {

using Values = std::vector<std::optional<at::Tensor>>;

bool is_trained(const ir::Graph& graph, ValueId value) {
  return graph.kind(value) == ir::ValueKind::kParameter && ir::is_float(graph.type(value).dtype);
}

/// Adds the inputs and the random inputs of the samples of a micro-batch.
void add_inputs(const ir::Plan& plan, const std::map<std::string, at::Tensor>& batch, const runtime::At& at,
                const ir::Bindings& sizes, Values& values) {
  for (const ValueId input : plan.graph.inputs()) {
    const at::Tensor& whole = batch.at(std::string(plan.graph.value(input).name));
    values[input.index()] = whole.narrow(plan.graph.type(input).batch.axis, static_cast<int64_t>(at.first_sample),
                                         static_cast<int64_t>(at.samples));
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const runtime::RandomValue& draw : runtime::signature(plan, StageId::from(s)).random_inputs)
      values[draw.value.index()] = runtime::make_random_input(draw, at, sizes, runtime::cpu()).value();
  }
}

}  // namespace

TapedGraph::TapedGraph(const ir::Graph& graph) : graph_(graph) {
  for (const TaskId task : graph.tasks()) {
    const auto inputs = ir::type_list(graph, graph.inputs(task)), outputs = ir::type_list(graph, graph.outputs(task));
    calls_.push_back(
        ir::lowering({graph.op(task), inputs, outputs, graph.attributes(task), ir::DeviceType::kCpu}).value());
  }
}

void TapedGraph::run(const ir::Bindings& sizes, bool training, Values& values) const {
  const c10::AutoGradMode with_tape(training);
  for (const TaskId task : graph_.tasks()) {
    Values operands;
    for (const ValueId input : graph_.inputs(task)) {
      operands.push_back(input.valid() ? values[input.index()] : std::nullopt);
    }
    const auto made =
        runtime::run_lowering(calls_[task.index()], {.operands = operands, .sizes = sizes, .training = training})
            .value();
    for (size_t i = 0; i < graph_.outputs(task).size(); ++i) values[graph_.outputs(task)[i].index()] = made[i];
  }
}

Values stored_tensors(const ir::Graph& graph, bool training) {
  Values values(graph.value_count());
  for (const ValueId value : graph.values()) {
    if (!graph.value(value).data.present()) continue;
    values[value.index()] = runtime::to_tensor({graph.type(value), graph.value(value).data}).value();
    if (training && is_trained(graph, value)) values[value.index()]->requires_grad_();
  }
  return values;
}

Numbers run_taped(const ir::Plan& plan, const std::map<std::string, at::Tensor>& batch,
                  const std::vector<double>& denominators, const RunOptions& options) {
  const ir::Graph& graph = plan.graph;
  const TapedGraph taped(graph);
  const Values stored = stored_tensors(graph, options.training);
  Numbers numbers;
  std::map<std::string, std::vector<at::Tensor>> outputs;
  uint64_t first = 0;
  for (const uint32_t samples : plan.micro_batches) {
    const runtime::At at{.first_sample = first,
                         .samples = samples,
                         .step = options.step,
                         .seed = options.seed,
                         .training = options.training};
    const ir::Bindings sizes{{std::string(graph.batch_symbol()), samples}};
    Values values = stored;
    add_inputs(plan, batch, at, sizes, values);
    taped.run(sizes, options.training, values);
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (size_t term = 0; term < denominators.size(); ++term) {
      const ir::LossTerm& each = graph.losses()[term];
      loss = loss + *values[each.numerator.index()] * (each.weight / denominators[term]);
    }
    numbers.loss += loss.item<double>();
    if (loss.requires_grad()) loss.backward();
    for (const ValueId output : graph.outputs()) {
      if (!graph.producer(output).valid()) continue;  // an input, which no stage returns
      outputs[std::string(graph.value(output).name)].push_back(values[output.index()]->detach());
    }
    first += samples;
  }
  for (auto& [name, parts] : outputs) {
    numbers.outputs[name] = at::cat(parts, graph.type(graph.find(name)).batch.axis);
  }
  for (const ValueId value : graph.values()) {
    if (!options.training || !is_trained(graph, value)) continue;
    const at::Tensor& leaf = *stored[value.index()];
    numbers.gradients[std::string(graph.value(value).name)] =
        leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf.detach());
  }
  return numbers;
}

}  // namespace rannc::testing
