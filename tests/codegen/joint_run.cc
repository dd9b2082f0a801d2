#include "tests/codegen/joint_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "ir/graph/views.h"
#include "ir/op/op.h"
#include "runtime/aten/torch_types.h"

namespace rannc::test {

namespace {

using ir::Frequency;
using ir::FunctionKind;
using ir::Phase;

bool is_gradient(const ir::Joint& joint, TaskId task) { return joint.origins[task.index()].phase != Phase::kForward; }

/// Whether a value is provided, generated or computed per micro-batch.
bool comes_per_micro_batch(const ir::Graph& graph, const std::vector<Frequency>& often, ValueId value) {
  const TaskId maker = graph.producer(value);
  if (maker.valid()) return often[maker.index()] == Frequency::kMicroBatch;
  return graph.kind(value) == ir::ValueKind::kInput || graph.kind(value) == ir::ValueKind::kRandomInput;
}

/// Returns the first term of a sum in the sum's type. Tensors may be doubles regardless of the graph.
at::Tensor first_term(const at::Tensor& part) {
  return (part.is_sparse() ? part.to_dense() : part).to(runtime::sum_type(part.scalar_type()));
}

/// Per value: whether it exists per micro-batch before the first gradient task and is read by one. Random inputs are
/// regenerated instead.
std::vector<bool> kept_values(const ir::Joint& joint, const std::vector<Frequency>& often) {
  const ir::Graph& graph = joint.graph;
  std::vector<bool> kept(graph.value_count(), false);
  for (const TaskId task : graph.tasks()) {
    if (!is_gradient(joint, task)) continue;
    for (const ValueId input : graph.inputs(task)) {
      if (!input.valid() || graph.kind(input) == ir::ValueKind::kRandomInput) continue;
      const TaskId maker = graph.producer(input);
      const bool forward = !maker.valid() || !is_gradient(joint, maker);
      kept[input.index()] = kept[input.index()] || (forward && comes_per_micro_batch(graph, often, input));
    }
  }
  for (const ValueId seed : joint.seeds) {
    if (seed.valid()) kept[seed.index()] = false;
  }
  return kept;
}

}  // namespace

JointRun::JointRun(const ir::Joint& joint, runtime::GraphValues leaves)
    : joint_(&joint),
      often_(ir::execution_frequency(joint.graph)),
      place_(ir::function_places(joint)),
      kept_(kept_values(joint, often_)),
      is_total_(joint.graph.value_count(), false),
      loaded_(std::move(leaves)),
      sums_(joint.graph.value_count()),
      calls_(joint.graph.task_count(), 0) {
  loaded_.resize(joint.graph.value_count());
  for (const TaskId task : joint.graph.tasks()) {
    if (joint.graph.op(task).makes_whole()) is_total_[joint.graph.inputs(task)[0].index()] = true;
  }
}

Result<JointRun> JointRun::load(const ir::Joint& joint, runtime::GraphValues leaves) {
  JointRun made(joint, std::move(leaves));
  RANNC_TRY(made.run({FunctionKind::kLoad}, {}, made.loaded_));
  return made;
}

Result<void> JointRun::run(std::initializer_list<FunctionKind> functions, const runtime::GraphRun& with,
                           runtime::GraphValues& values) {
  const at::NoGradGuard no_tape;
  for (const TaskId task : joint_->graph.tasks()) {
    if (std::find(functions.begin(), functions.end(), place_[task.index()]) == functions.end()) continue;
    RANNC_TRY(runtime::run_task(joint_->graph, task, with, values));
    ++calls_[task.index()];
  }
  return {};
}

int64_t JointRun::drop_all_but_kept(runtime::GraphValues& values) const {
  int64_t bytes = 0;
  std::set<const void*> counted;
  for (const ValueId value : joint_->graph.values()) {
    std::optional<at::Tensor>& tensor = values[value.index()];
    if (!tensor || !comes_per_micro_batch(joint_->graph, often_, value)) continue;
    if (!kept_[value.index()]) {
      tensor.reset();
    } else if (counted.insert(tensor->storage().unsafeGetStorageImpl()).second) {
      bytes += static_cast<int64_t>(tensor->storage().nbytes());
    }
  }
  return bytes;
}

void JointRun::add_up(const runtime::GraphValues& values, Step& step) {
  const ir::Graph& graph = joint_->graph;
  for (const ValueId value : graph.values()) {
    if (!is_total_[value.index()]) continue;
    std::optional<at::Tensor>& sum = sums_[value.index()];
    sum = sum ? *sum + *values[value.index()] : first_term(*values[value.index()]);
  }
  for (size_t i = 0; i < joint_->gradients.size(); ++i) {
    const ValueId gradient = joint_->gradients[i].gradient;
    const std::optional<at::Tensor>& part = values[gradient.index()];
    if (!part) continue;
    at::Tensor& sum = step.gradients[i];
    sum = sum.defined() ? sum + *part : first_term(*part);
  }
}

Result<void> JointRun::micro_batch(const MicroBatch& micro_batch, const std::vector<double>& seeds, Step& step) {
  const ir::Graph& graph = joint_->graph;
  runtime::GraphValues values = of_step_;
  for (size_t i = 0; i < micro_batch.inputs.size(); ++i) {
    if (micro_batch.inputs[i]) values[i] = micro_batch.inputs[i];
  }
  const runtime::GraphRun with{.sizes = micro_batch.sizes};
  RANNC_TRY(run({FunctionKind::kForward}, with, values));
  std::vector<at::Tensor> numerators;
  for (const ir::LossTerm& term : graph.losses()) numerators.push_back(*values[term.numerator.index()]);
  step.kept_bytes = std::max(step.kept_bytes, drop_all_but_kept(values));
  for (size_t i = 0; i < micro_batch.inputs.size(); ++i) {
    if (graph.kind(ValueId::from(i)) == ir::ValueKind::kRandomInput) values[i] = micro_batch.inputs[i];
  }
  for (size_t term = 0; term < numerators.size(); ++term) {
    const at::Tensor& numerator = numerators[term];
    step.numerators[term] = step.numerators[term].defined() ? step.numerators[term] + numerator : numerator;
    if (joint_->seeds[term].valid())
      values[joint_->seeds[term].index()] = at::full({}, seeds[term], numerator.options());
  }
  numerators.clear();
  RANNC_TRY(run({FunctionKind::kInput, FunctionKind::kWeight}, with, values));
  add_up(values, step);
  return {};
}

Result<JointRun::Step> JointRun::step(std::span<const MicroBatch> micro_batches, const std::vector<double>& seeds) {
  Step step;
  step.numerators.resize(joint_->graph.losses().size());
  step.gradients.resize(joint_->gradients.size());
  of_step_ = loaded_;
  sums_.assign(joint_->graph.value_count(), std::nullopt);
  const runtime::GraphRun with{.sizes = micro_batches.empty() ? ir::Bindings() : micro_batches[0].sizes};
  RANNC_TRY(run({FunctionKind::kStep}, with, of_step_));
  for (const MicroBatch& each : micro_batches) RANNC_TRY(micro_batch(each, seeds, step));
  runtime::GraphValues values = of_step_;
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (!sums_[i]) continue;
    const c10::ScalarType type = runtime::scalar_type(joint_->graph.type(ValueId::from(i)).dtype);
    values[i] = sums_[i]->scalar_type() == runtime::sum_type(type) ? sums_[i]->to(type) : sums_[i];
  }
  RANNC_TRY(run({FunctionKind::kStepEnd}, with, values));
  for (size_t i = 0; i < joint_->gradients.size(); ++i) {
    const std::optional<at::Tensor>& part = values[joint_->gradients[i].gradient.index()];
    if (!step.gradients[i].defined() && part) step.gradients[i] = first_term(*part);
  }
  return step;
}

Result<int64_t> kept_bytes(const ir::Joint& joint, const ir::Bindings& sizes) {
  const std::vector<bool> kept = kept_values(joint, ir::execution_frequency(joint.graph));
  const ir::Views views(joint.graph);
  std::set<uint32_t> counted;
  int64_t bytes = 0;
  for (const ValueId value : joint.graph.values()) {
    if (!kept[value.index()]) continue;
    const ValueId base = views.base(value);
    if (!counted.insert(base.index()).second) continue;
    const ir::ValueType& type = joint.graph.type(base);
    const auto count = ir::element_count(*type.shape).evaluate(sizes);
    if (!count) return error("the size of %" + std::string(joint.graph.value(base).name) + " is not known");
    bytes += *count * static_cast<int64_t>(ir::byte_size(type.dtype));
  }
  return bytes;
}

}  // namespace rannc::test
