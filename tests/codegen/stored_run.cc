#include "tests/codegen/stored_run.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "ir/base/split_mix.h"
#include "ir/gradient/vjp.h"
#include "ir/op/op.h"
#include "passes/evaluator.h"
#include "passes/pipeline.h"
#include "passes/training/differentiate.h"
#include "runtime/aten/evaluate.h"
#include "runtime/aten/stored_tensor.h"
#include "tests/codegen/joint_run.h"
#include "tests/codegen/tape_gradients.h"
#include "tests/ir/op/op_cases.h"

namespace rannc::test {

using ir::Graph;
using ir::ValueKind;
using runtime::GraphValues;

namespace {

constexpr double kTolerance = 1e-10;  // of doubles, relative to the largest element of all gradients

class Evaluator final : public passes::Evaluator {
 public:
  Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op,
                                                 std::span<const ir::StoredTensor* const> operands,
                                                 const ir::Attributes& attributes) const override {
    return runtime::evaluate(op, operands, attributes);
  }
};

Result<void> run_passes(Graph& graph, std::string_view spelling) {
  const Evaluator evaluator;
  passes::PassContext context;
  context.evaluator = &evaluator;
  RANNC_ASSIGN(const passes::PassManager manager, passes::make_passes(spelling));
  const passes::RunReport report = manager.run(graph, context);
  if (report.failure) return Diagnostic(*report.failure);
  return {};
}

/// Sizes of the symbols that stand alone in shapes of inputs.
Result<ir::Bindings> sizes_of(const Graph& graph, const StoredInputs& inputs) {
  ir::Bindings sizes;
  for (const auto& [name, tensor] : inputs) {
    const ValueId value = graph.find(name);
    if (!value.valid() || !graph.type(value).shape) continue;
    const ir::Shape& shape = *graph.type(value).shape;
    if (shape.size() != tensor.type.shape->size()) return error(name + " has another rank than the graph says");
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!shape[i].is_symbol()) continue;
      const int64_t size = (*tensor.type.shape)[i].constant();
      const auto known = sizes.emplace(shape[i].symbol_name(), size).first;
      if (known->second != size) return error("sizes of " + shape[i].str() + " differ");
    }
  }
  return sizes;
}

/// What stands for random numbers; nothing where their number depends on a symbol.
std::optional<at::Tensor> one_halves(const ir::ValueType& type) {
  const auto count = ir::static_count(type);
  if (!count) return std::nullopt;
  const std::vector<double> numbers(static_cast<size_t>(*count), 0.5);
  const auto tensor = runtime::to_tensor({type, ir::encode_numbers(type.dtype, numbers)});
  return tensor.ok() ? std::optional(*tensor) : std::nullopt;
}

/// Tensors of inputs, of stored values, and of draws; floats as doubles where asked.
Result<GraphValues> leaves(const Graph& graph, const StoredInputs& inputs, bool as_doubles) {
  GraphValues values(graph.value_count());
  for (const ValueId value : graph.values()) {
    if (graph.producer(value).valid()) continue;
    const auto given = inputs.find(std::string(graph.value(value).name));
    const auto& data = graph.value(value).data;
    if (graph.kind(value) == ValueKind::kRandomInput) values[value.index()] = one_halves(graph.type(value));
    if (given == inputs.end() && !data.present()) continue;
    RANNC_ASSIGN(at::Tensor tensor,
                 runtime::to_tensor(data.present() ? ir::StoredTensor{graph.type(value), data} : given->second));
    const bool widen = as_doubles && ir::is_float(graph.type(value).dtype);
    values[value.index()] = widen ? tensor.to(at::kDouble) : tensor;
  }
  return values;
}

/// Whether it stands where LibTorch has no derivative, as running statistics and weights of classes do.
bool is_given(const Graph& graph, ValueId value) {
  return graph.any_use(value, [&](const Graph::Use& use) {
    const ir::OpInfo& op = graph.op(use.task);
    return op.known() && !ir::testing::has_derivative(op, use.operand);
  });
}

/// What an input is in a graph that trains: floats without samples are parameters, but for those that stay what they
/// are.
ValueKind kind_in_training(const Graph& graph, ValueId value) {
  const ir::ValueType& type = graph.type(value);
  if (graph.kind(value) != ValueKind::kInput || !ir::is_float(type.dtype) || type.batch.has_batch()) {
    return graph.kind(value);
  }
  return is_given(graph, value) ? ValueKind::kConstant : ValueKind::kParameter;
}

/// A copy in which inputs are what they are in training.
Graph with_parameters(const Graph& graph) {
  Graph made;
  made.set_batch_symbol(graph.batch_symbol());
  std::vector<ValueId> copies(graph.value_count());
  for (const ValueId value : graph.values()) {
    const Graph::Value& old = graph.value(value);
    if (old.producer.valid()) continue;
    const ir::RandomInput* const draw = graph.random_input(value);
    copies[value.index()] = draw ? made.add_random_input(old.name, old.type, *draw)
                                 : made.add_value(kind_in_training(graph, value), old.name, old.type, old.data);
  }
  for (const ValueId input : graph.inputs()) {
    if (made.kind(copies[input.index()]) == ValueKind::kInput) made.add_input(copies[input.index()]);
  }
  for (const TaskId task : graph.tasks()) {
    std::vector<ValueId> operands;
    for (const ValueId operand : graph.inputs(task)) {
      operands.push_back(operand.valid() ? copies[operand.index()] : ValueId());
    }
    std::vector<std::string> names;
    for (const ValueId output : graph.outputs(task)) names.emplace_back(graph.value(output).name);
    const TaskId copy = made.add_task(graph.op(task), operands, graph.attributes(task), names, graph.location(task));
    for (size_t i = 0; i < names.size(); ++i) copies[graph.outputs(task)[i].index()] = made.outputs(copy)[i];
  }
  for (const ValueId output : graph.outputs()) made.add_output(copies[output.index()]);
  return made;
}

ValueId add(Graph& graph, std::string_view op, std::initializer_list<ValueId> operands) {
  return graph.add(ir::core(op), operands, {}, "loss." + std::string(op));
}

/// What each element of a sum of outputs counts.
enum class Weights { kOnes, kDistinct };

/// A number between 1/2 and 1 for each element of an output, the same for all samples.
ValueId add_factors(Graph& graph, const ir::Shape& of, uint64_t& seed) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const ir::Dim& dim : of) {
    shape.push_back(dim.is_constant() ? dim.constant() : 1);
    count *= shape.back();
  }
  std::vector<double> factors(static_cast<size_t>(count));
  for (double& factor : factors) factor = 0.5 + 0.5 * static_cast<double>(ir::split_mix(++seed) >> 11) * 0x1p-53;
  return ir::add_constant(graph, "loss.factors", ir::DType::kF64, shape, std::span<const double>(factors));
}

/// A loss term for each float output: the sum of its elements, each times its weight.
Result<void> add_losses(Graph& graph, Weights weights) {
  uint64_t seed = 0;
  std::vector<ValueId> done;
  for (const ValueId output : std::vector<ValueId>(graph.outputs())) {
    const ir::ValueType& type = graph.type(output);
    if (!ir::is_float(type.dtype) || std::find(done.begin(), done.end(), output) != done.end()) continue;
    done.push_back(output);
    if (!type.shape) return error("an output has no shape");
    const ValueId terms = weights == Weights::kOnes
                              ? output
                              : add(graph, "mul", {output, add_factors(graph, ir::Shape(*type.shape), seed)});
    graph.add_loss({.numerator = add(graph, "sum", {terms})});
  }
  return {};
}

Result<Graph> trained(const Graph& graph, Weights weights) {
  Graph made = with_parameters(graph);
  // Types of activations are inferred anew: nothing may keep what the file's precision said.
  for (const ValueId value : made.values()) {
    if (made.producer(value).valid()) made.set_type(value, {});
  }
  RANNC_TRY(run_passes(made, "set-precision{f64},infer-shapes"));
  RANNC_TRY(add_losses(made, weights));
  RANNC_TRY(run_passes(made, "infer-shapes"));
  return made;
}

using Gradients = std::map<std::string, at::Tensor>;

/// Sample `index` of each input that has samples; everything of a graph without.
JointRun::MicroBatch part(const Graph& graph, const ir::Joint& joint, const GraphValues& all, ir::Bindings sizes,
                          int64_t index) {
  JointRun::MicroBatch made{GraphValues(joint.graph.value_count()), std::move(sizes)};
  if (!graph.batch_symbol().empty()) made.sizes[graph.batch_symbol()] = 1;
  for (const ValueId value : graph.values()) {
    const bool drawn = graph.kind(value) == ValueKind::kRandomInput && all[value.index()];
    if (graph.kind(value) != ValueKind::kInput && !drawn) continue;
    const int64_t axis = graph.type(value).batch.axis;
    const at::Tensor& tensor = *all[value.index()];
    made.inputs[joint.graph.find(graph.value(value).name).index()] =
        axis < 0 ? tensor : tensor.slice(axis, index, index + 1);
  }
  return made;
}

Result<Gradients> by_tasks(const Graph& graph, const ir::Joint& joint, const ir::Bindings& sizes,
                           const GraphValues& all, const std::vector<double>& seeds) {
  GraphValues stored(joint.graph.value_count());
  for (const ValueId value : graph.values()) {
    const bool of_micro_batch = graph.kind(value) == ValueKind::kInput || graph.kind(value) == ValueKind::kRandomInput;
    if (graph.producer(value).valid() || of_micro_batch || !all[value.index()]) continue;
    stored[joint.graph.find(graph.value(value).name).index()] = all[value.index()];
  }
  RANNC_ASSIGN(JointRun run, JointRun::load(joint, std::move(stored)));
  const auto batch = sizes.find(graph.batch_symbol());
  std::vector<JointRun::MicroBatch> parts;
  const int64_t samples = batch == sizes.end() ? 1 : batch->second;
  for (int64_t i = 0; i < samples; ++i) parts.push_back(part(graph, joint, all, sizes, i));
  RANNC_ASSIGN(const JointRun::Step step, run.step(parts, seeds));
  Gradients sums;
  for (size_t i = 0; i < joint.gradients.size(); ++i) {
    at::Tensor& sum = sums[std::string(joint.graph.value(joint.gradients[i].parameter).name)];
    sum = sum.defined() ? sum + step.gradients[i] : step.gradients[i];
  }
  return sums;
}

double largest(const Gradients& gradients) {
  double scale = 1;
  for (const auto& [name, gradient] : gradients) {
    const at::Tensor finite = gradient.masked_select(gradient.isfinite()).abs();
    if (finite.numel() > 0) scale = std::max(scale, finite.max().item<double>());
  }
  return scale;
}

std::string first_fault(const Gradients& found, const Gradients& expected) {
  const double scale = largest(expected);
  for (const auto& [name, gradient] : expected) {
    const auto ours = found.find(name);
    if (ours == found.end()) {
      if (gradient.count_nonzero().item<int64_t>() != 0) return name + " has no gradient";
    } else if (!ours->second.sizes().equals(gradient.sizes())) {
      return "the gradient of " + name + " has another shape";
    } else if (!at::allclose(ours->second, gradient, kTolerance, kTolerance * scale, /*equal_nan=*/true)) {
      return fmt::format("the gradient of {} differs by {}", name,
                         (ours->second - gradient).abs().max().item<double>());
    }
  }
  for (const auto& [name, gradient] : found) {
    if (!expected.contains(name) && gradient.count_nonzero().item<int64_t>() != 0) return name + " has a gradient";
  }
  return "";
}

}  // namespace

Result<Graph> planned(Graph graph) {
  RANNC_TRY(run_passes(graph, "infer-shapes,fold-constants,infer-shapes"));
  return graph;
}

Result<std::vector<ir::StoredTensor>> run_stored(const Graph& graph, const StoredInputs& inputs) {
  RANNC_ASSIGN(const ir::Bindings sizes, sizes_of(graph, inputs));
  RANNC_ASSIGN(GraphValues values, leaves(graph, inputs, false));
  RANNC_TRY(runtime::run_graph(graph, {.sizes = sizes}, values));
  std::vector<ir::StoredTensor> outputs;
  for (const ValueId output : graph.outputs()) {
    const auto& value = values[output.index()];
    if (!value) return error(std::string(graph.value(output).name) + " has no value");
    RANNC_ASSIGN(ir::StoredTensor stored, runtime::to_stored(*value, graph.type(output)));
    const auto& said = graph.type(output).shape;
    for (size_t i = 0; said && i < said->size(); ++i) {
      const auto size = (*said)[i].evaluate(sizes);
      if (said->size() == stored.type.shape->size() && (!size || ir::Dim(*size) == (*stored.type.shape)[i])) continue;
      return error(fmt::format("the run made {}, the type rule said {}", ir::str(*stored.type.shape), ir::str(*said)));
    }
    outputs.push_back(std::move(stored));
  }
  return outputs;
}

Result<TapeCheck> check_gradients(const Graph& graph, const StoredInputs& inputs) {
  RANNC_ASSIGN(const ir::Bindings sizes, sizes_of(graph, inputs));
  RANNC_ASSIGN(const Graph planning, trained(graph, Weights::kDistinct));
  TapeCheck check;
  if (planning.losses().empty()) return check;
  RANNC_ASSIGN(const GraphValues all, leaves(planning, inputs, true));
  const std::vector<double> seeds(planning.losses().size(), 1.0);
  RANNC_ASSIGN(const Taped taped, gradients_by_tape(planning, sizes, all, seeds));
  RANNC_ASSIGN(const ir::Joint joint, passes::differentiate(planning));
  RANNC_ASSIGN(const Gradients found, by_tasks(planning, joint, sizes, all, seeds));
  check.differentiable = taped.gradients.size();
  for (const TaskId task : joint.graph.tasks()) check.by_vjp += ir::vjp_of(joint.graph, task).has_value();
  check.fault = first_fault(found, taped.gradients);
  return check;
}

Result<StoredInputs> gradients_of(const Graph& graph, const StoredInputs& inputs) {
  RANNC_ASSIGN(const ir::Bindings sizes, sizes_of(graph, inputs));
  RANNC_ASSIGN(const Graph planning, trained(graph, Weights::kOnes));
  RANNC_ASSIGN(const GraphValues all, leaves(planning, inputs, true));
  RANNC_ASSIGN(const ir::Joint joint, passes::differentiate(planning));
  const std::vector<double> seeds(planning.losses().size(), 1.0);
  RANNC_ASSIGN(const Gradients found, by_tasks(planning, joint, sizes, all, seeds));
  StoredInputs stored;
  for (const auto& [name, gradient] : found) {
    RANNC_ASSIGN(stored[name], runtime::to_stored(gradient, planning.type(planning.find(name))));
  }
  return stored;
}

}  // namespace rannc::test
