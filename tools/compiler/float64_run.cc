#include "tools/compiler/float64_run.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/op/op.h"
#include "passes/simplify/set_precision.h"
#include "runtime/aten/stored_tensor.h"

namespace rannc::tools {

namespace {

/// Returns a key that is equal for values that read the same bytes with the same type.
std::string place_of(const ir::ValueType& type, const ir::TensorData& data) {
  const std::string what = fmt::format("{} {}", ir::str(type.dtype), ir::str(*type.shape));
  if (data.in_file()) return fmt::format("{} {} {} {}", what, data.path(), data.offset(), data.size());
  return fmt::format("{} {}", what, fmt::ptr(data.bytes().data()));
}

double bytes_of(const ir::Graph& graph, ValueId value, const ir::Bindings& sizes) {
  const ir::ValueType& type = graph.type(value);
  const auto count = type.shape ? ir::element_count(*type.shape).evaluate(sizes) : std::nullopt;
  return static_cast<double>(count.value_or(0)) * ir::byte_size(type.dtype);
}

}  // namespace

Result<at::Tensor> WideTensors::of(const ir::ValueType& type, const ir::TensorData& data) {
  const std::string place = type.shape ? place_of(type, data) : "";
  if (const auto found = known_.find(place); found != known_.end()) return found->second;
  RANNC_ASSIGN(at::Tensor tensor, runtime::to_tensor({type, data}));
  if (ir::is_float(type.dtype)) tensor = tensor.to(at::kDouble);
  return known_.emplace(place, tensor).first->second;
}

Float64Run::Float64Run(ir::Graph graph)
    : graph_(std::move(graph)), last_(graph_.value_count()), kept_(graph_.value_count()) {
  for (const ValueId output : graph_.outputs()) kept_[output.index()] = true;
  for (const ir::LossTerm& term : graph_.losses()) kept_[term.numerator.index()] = true;
  for (const TaskId task : graph_.tasks()) {
    for (const ValueId operand : graph_.inputs(task)) {
      if (operand.valid()) last_[operand.index()] = task;
    }
  }
}

Result<Float64Run> Float64Run::load(const ir::Graph& graph, WideTensors& tensors) {
  Float64Run run(graph.clone());
  run.stored_.resize(graph.value_count());
  for (const ValueId id : graph.values()) {
    const ir::Graph::Value value = graph.value(id);
    if (!run.last_[id.index()].valid() && !run.kept_[id.index()]) continue;
    const bool holds = value.kind == ir::ValueKind::kParameter || value.kind == ir::ValueKind::kBuffer ||
                       value.kind == ir::ValueKind::kConstant;
    if (!holds) continue;
    if (!value.data.present()) return error(fmt::format("the weights of %{} are absent", value.name));
    RANNC_ASSIGN(run.stored_[id.index()], tensors.of(value.type, value.data));
    if (ir::is_float(value.type.dtype)) run.graph_.set_data(id, {});  // avoids widening it again
  }
  passes::PassContext context;
  RANNC_TRY(passes::SetPrecision(ir::DType::kF64).run(run.graph_, context));
  return run;
}

double Float64Run::peak_bytes(const ir::Bindings& sizes) const {
  double live = 0, peak = 0;
  for (const ValueId value : graph_.values()) {
    const bool given = !graph_.producer(value).valid() && !stored_[value.index()] && last_[value.index()].valid();
    if (given) live += bytes_of(graph_, value, sizes);
  }
  for (const TaskId task : graph_.tasks()) {
    for (const ValueId output : graph_.outputs(task)) live += bytes_of(graph_, output, sizes);
    peak = std::max(peak, live);
    std::set<ValueId> read;
    for (const ValueId input : graph_.inputs(task)) {
      if (input.valid() && read.insert(input).second && is_freed_after(task, input))
        live -= bytes_of(graph_, input, sizes);
    }
  }
  return peak;
}

bool Float64Run::is_freed_after(TaskId task, ValueId input) const {
  return graph_.producer(input).valid() && last_[input.index()] == task && !kept_[input.index()];
}

double Float64Run::flops(const ir::Bindings& sizes) const {
  double sum = 0;
  for (const TaskId task : graph_.tasks()) {
    if (!graph_.op(task).known()) continue;
    sum += static_cast<double>(ir::work_of(graph_, task).flops.evaluate(sizes).value_or(0));
  }
  return sum;
}

Result<runtime::GraphValues> Float64Run::run(const runtime::GraphValues& given, const ir::Bindings& sizes) const {
  const c10::NoGradGuard no_grad;
  const runtime::GraphRun how{.sizes = sizes, .training = false};
  runtime::GraphValues values = stored_;
  for (size_t i = 0; i < std::min(given.size(), values.size()); ++i) {
    if (given[i]) values[i] = given[i];
  }
  try {
    for (const TaskId task : graph_.tasks()) {
      RANNC_TRY(runtime::run_task(graph_, task, how, values));
      for (const ValueId output : graph_.outputs(task)) {
        if (!last_[output.index()].valid() && !kept_[output.index()]) values[output.index()].reset();
      }
      for (const ValueId input : graph_.inputs(task)) {
        if (input.valid() && is_freed_after(task, input)) values[input.index()].reset();
      }
    }
  } catch (const std::exception& failure) {
    return error(failure.what());
  }
  for (const ValueId value : graph_.values()) {
    if (!kept_[value.index()]) values[value.index()].reset();
  }
  return values;
}

}  // namespace rannc::tools
