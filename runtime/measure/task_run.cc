// Cuts tasks out of their graph and creates operands for them.
#include "runtime/measure/internal/task_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "ir/graph/memory_format.h"
#include "ir/op/op.h"
#include "runtime/aten/torch_types.h"
#include "runtime/measure/internal/own_random.h"

namespace rannc::runtime {

using ir::ProgramKind;

namespace {

constexpr double kWeightScale = 0.05;                 // keeps long runs of random weights finite
constexpr size_t kMostStoredBytes = size_t{1} << 26;  // larger constants are synthetic
constexpr double kSeed = 1e-3;

}  // namespace

class TaskRunBuilder {
 public:
  TaskRunBuilder(const ir::Graph& graph, std::span<const TaskId> tasks, const GraphFacts& facts,
                 const ir::Bindings& bindings, const TaskRunOptions& options)
      : graph_(graph),
        tasks_(tasks.begin(), tasks.end()),
        facts_(facts),
        bindings_(bindings),
        options_(options),
        device_(options.device != nullptr ? at::Device(options.device->address()) : at::Device(at::kCPU)) {}

  Result<std::unique_ptr<TaskRun>> build() {
    std::unique_ptr<TaskRun> run(new TaskRun);
    std::vector<ir::StageOutput> returned = outputs();
    ir::StageGraph stage = ir::stage_graph(graph_, tasks_, returned, sources(), weights());
    stage.device = kernels().type;
    RANNC_ASSIGN(run->functions_, options_.cut(stage));
    run->functions_.kept = ir::kept_by_whole_recompute(run->functions_.joint);
    run->tasks_ = tasks_;
    const ir::Graph& joint = run->functions_.joint.graph;
    run->fixed_.resize(joint.value_count());
    for (const ValueId value : stage.graph.values()) {
      if (stage.graph.producer(value).valid()) continue;
      RANNC_ASSIGN(run->fixed_[joint.find(stage.graph.value(value).name).index()],
                   leaf(graph_.find(stage.graph.value(value).name)));
    }
    for (ir::StageOutput& output : returned) output.value = joint.find(graph_.value(output.value).name);
    RANNC_TRY(run->build_programs(returned, bindings_, device_, kernels()));
    return run;
  }

 private:
  /// Values that are read outside, losses and graph outputs, or all results if there are none. A gradient arrives for
  /// those that are read, or for all if none is.
  std::vector<ir::StageOutput> outputs() const {
    std::set<ValueId> losses, moments;
    for (const ir::Statistics& each : graph_.statistics()) moments.insert({each.mean, each.variance});
    for (const ir::LossTerm& loss : graph_.losses()) losses.insert(loss.numerator);
    const std::set<ValueId> graph_outputs(graph_.outputs().begin(), graph_.outputs().end());
    std::vector<ValueId> made, read, left;
    for (const TaskId task : tasks_) {
      for (const ValueId value : graph_.outputs(task)) {
        if (!value.valid() || moments.contains(value)) continue;
        made.push_back(value);
        const bool is_read = losses.contains(value) || graph_.any_use(value, [&](ir::Graph::Use use) {
          return !std::binary_search(tasks_.begin(), tasks_.end(), use.task);
        });
        if (is_read) read.push_back(value);
        if (is_read || graph_outputs.contains(value)) left.push_back(value);
      }
    }
    if (left.empty()) left = made;
    std::sort(left.begin(), left.end());
    std::vector<ir::StageOutput> found;
    for (const ValueId value : left) {
      const bool seeded = read.empty() || std::find(read.begin(), read.end(), value) != read.end();
      found.push_back({value, seeded && facts_.needs_gradient[value.index()]});
    }
    return found;
  }

  /// Activations from outside whose gradient is sent back, ascending.
  std::vector<ValueId> sources() const { return activations(ir::GradientRole::kSample); }

  /// Results of other once-per-step tasks whose gradient is summed, ascending.
  std::vector<ValueId> weights() const { return activations(ir::GradientRole::kWeight); }

  /// Activations from outside.
  std::vector<ValueId> activations(ir::GradientRole role) const {
    std::set<ValueId> found;
    for (const TaskId task : tasks_) {
      for (const ValueId input : graph_.inputs(task)) {
        if (!input.valid() || facts_.roles[input.index()] != role) continue;
        if (graph_.kind(input) != ir::ValueKind::kActivation) continue;
        if (!std::binary_search(tasks_.begin(), tasks_.end(), graph_.producer(input))) found.insert(input);
      }
    }
    return {found.begin(), found.end()};
  }

  /// Returns the tensor of a value that no task of the run computes.
  Result<at::Tensor> leaf(ValueId value) {
    bool channels_last = false;
    Location place = graph_.location(tasks_.front());
    for (const TaskId task : tasks_) {
      const std::span<const ValueId> inputs = graph_.inputs(task);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != value) continue;
        place = graph_.location(task);
        channels_last = channels_last || ir::reads_channels_last(graph_, facts_.channels_last, task, i);
      }
    }
    RANNC_ASSIGN(const at::Tensor tensor, make(value, place));
    return channels_last ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor;
  }

  Result<std::vector<int64_t>> sizes(const ir::ValueType& type, const Location& place) const {
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
      const auto size = dim.evaluate(bindings_);
      if (!size) return error(place, "the size " + dim.str() + " is not known");
      sizes.push_back(*size);
    }
    return sizes;
  }

  Result<at::Tensor> make(ValueId id, const Location& place) {
    const ir::Graph::Value& value = graph_.value(id);
    RANNC_ASSIGN(const std::vector<int64_t> extents, sizes(value.type, place));
    const auto options = at::TensorOptions().dtype(scalar_type(value.type.dtype)).device(device_);
    if (value.kind == ir::ValueKind::kRandomInput) return at::ones(extents, options);
    if (value.kind != ir::ValueKind::kParameter && value.data.present()) {
      at::Tensor stored = at::empty(extents, options.device(at::kCPU));
      if (stored.nbytes() <= kMostStoredBytes) {
        RANNC_ASSIGN(const std::vector<std::byte> bytes, value.data.read());
        if (bytes.size() == stored.nbytes()) {
          if (!bytes.empty()) std::memcpy(stored.mutable_data_ptr(), bytes.data(), bytes.size());
          return stored.to(device_);
        }
      }
    }
    if (!ir::is_float(value.type.dtype)) {
      return random_.integers(value.type.dtype == ir::DType::kBool ? 2 : index_limit(id), extents,
                              scalar_type(value.type.dtype));
    }
    at::Tensor made = random_.normal(extents, scalar_type(value.type.dtype));
    if (facts_.roles[id.index()] == ir::GradientRole::kWeight && extents.size() > 1) made.mul_(kWeightScale);
    return value.kind == ir::ValueKind::kBuffer ? made.abs_() : made;
  }

  ir::DeviceKernels kernels() const {
    return options_.device != nullptr ? options_.device->kernels() : ir::DeviceKernels();
  }

  /// Returns the minimum extent that the run's tasks may index with `value`.
  int64_t index_limit(ValueId value) const {
    int64_t limit = std::numeric_limits<int32_t>::max();
    for (const TaskId id : tasks_) {
      const ir::Graph::Task task = graph_.task(id);
      if (std::find(task.inputs.begin(), task.inputs.end(), value) == task.inputs.end()) continue;
      if (!task.inputs[0].valid() || !graph_.type(task.inputs[0]).shape) return 1;
      const ir::Shape& shape = *graph_.type(task.inputs[0]).shape;
      const auto extent = [&](int64_t axis) {
        axis = axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis;
        return std::max<int64_t>(1, shape[static_cast<size_t>(axis)].evaluate(bindings_).value_or(1));
      };
      if (shape.empty()) return 1;
      if (task.attributes.has("axis")) {
        limit = std::min(limit, extent(task.attributes.integer("axis")));
        continue;
      }
      for (size_t axis = 0; axis < shape.size(); ++axis) limit = std::min(limit, extent(static_cast<int64_t>(axis)));
    }
    return limit;
  }

  const ir::Graph& graph_;
  const std::vector<TaskId> tasks_;
  const GraphFacts& facts_;
  const ir::Bindings& bindings_;
  const TaskRunOptions& options_;
  const at::Device device_;
  OwnRandom random_{device_};
};

Result<std::unique_ptr<TaskRun>> TaskRun::build(const ir::Graph& graph, std::span<const TaskId> tasks,
                                                const GraphFacts& facts, const ir::Bindings& bindings,
                                                const TaskRunOptions& options) {
  RANNC_CHECK(!tasks.empty()) << "a run of no tasks";
  return TaskRunBuilder(graph, tasks, facts, bindings, options).build();
}

Result<void> TaskRun::build_programs(const std::vector<ir::StageOutput>& outputs, const ir::Bindings& bindings,
                                     at::Device device, ir::DeviceKernels kernels) {
  const ir::Joint& joint = functions_.joint;
  for (const ir::StageOutput& output : outputs) {
    places_.outputs.push_back(output.value);
    seeded_.push_back(output.gradient);
  }
  for (const ir::Statistics& each : joint.graph.statistics()) {
    places_.moments.push_back(each.mean);
    places_.moments.push_back(each.variance);
  }
  for (; places_.sum_count < joint.gradients.size(); ++places_.sum_count) places_.sums.push_back(places_.sum_count);
  table_ = ir::function_table(functions_);
  has_input_ = !table_[ir::FunctionKind::kInput].tasks.empty() || !joint.inputs.empty();
  const ir::StageFunction& weight = table_[ir::FunctionKind::kWeight];
  has_weight_ = !weight.tasks.empty() || !weight.added.empty();
  RANNC_ASSIGN(programs_,
               runtime::build_programs({joint, functions_.kept.has_value(), table_, places_, {}, device, kernels},
                                       sizes_, load_sizes_));
  sums_.resize(places_.sum_count + programs_.totals.size());
  for (at::Tensor& sum : sums_) sum_places_.push_back(&sum);
  for (const ir::Joint::ParameterGradient& part : joint.gradients) {
    const at::Tensor& parameter = fixed_[part.parameter.index()];
    sums_[static_cast<size_t>(&part - joint.gradients.data())] =
        at::zeros_like(parameter, sum_type(parameter.scalar_type()));
  }
  RANNC_TRY(sizes_.bind(bindings));
  RANNC_TRY(load_sizes_.bind(bindings));
  RANNC_ASSIGN(Tensors loaded, call(programs_[ProgramKind::kLoad], {}));
  for (size_t i = 0; i < loaded.size(); ++i) fixed_[programs_.loaded[i].index()] = std::move(loaded[i]);
  return {};
}

Result<TaskRun::Tensors> TaskRun::call(FlatProgram& program, Tensors arguments) {
  FlatRun with{.fixed = fixed_, .sums = sum_places_};
  with.random_input = [this](ValueId value) { return Result<at::Tensor>(fixed_[value.index()]); };
  return program.run(std::move(arguments), with);
}

Result<void> TaskRun::begin() {
  RANNC_ASSIGN(Tensors stepped, call(programs_[ProgramKind::kStep], {}));
  for (size_t i = 0; i < stepped.size(); ++i) fixed_[programs_.stepped[i].index()] = std::move(stepped[i]);
  return {};
}

Result<TaskRun::Forward> TaskRun::forward() {
  Tensors inputs;
  for (const ValueId value : programs_.inputs) inputs.push_back(fixed_[value.index()]);
  RANNC_ASSIGN(Tensors results, call(programs_[ProgramKind::kForward], std::move(inputs)));
  const auto outputs = static_cast<ptrdiff_t>(places_.outputs.size());
  const auto saved = results.begin() + outputs + static_cast<ptrdiff_t>(places_.moments.size());
  Forward made;
  made.saved.assign(std::make_move_iterator(saved), std::make_move_iterator(results.end()));
  made.outputs.assign(std::make_move_iterator(results.begin()), std::make_move_iterator(results.begin() + outputs));
  return made;
}

Result<void> TaskRun::rebuild() {
  Tensors kept;
  for (const ValueId value : programs_.rebuild_from) kept.push_back(fixed_[value.index()]);
  RANNC_TRY(call(programs_[ProgramKind::kRebuild], std::move(kept)));
  return {};
}

std::vector<TaskId> TaskRun::rebuilt() const {
  std::vector<TaskId> tasks;
  for (const TaskId task : table_[ir::FunctionKind::kRebuild].tasks) {
    tasks.push_back(tasks_[functions_.joint.origins[task.index()].task.index()]);
  }
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

void TaskRun::prepare(const Forward& forward) {
  for (const auto& [output, seed] : functions_.joint.outputs) {
    const auto place = std::find(places_.outputs.begin(), places_.outputs.end(), output) - places_.outputs.begin();
    seeds_.push_back(at::full_like(forward.outputs[static_cast<size_t>(place)], kSeed));
  }
}

TaskRun::Tensors TaskRun::with_seeds(Tensors saved) const {
  saved.insert(saved.end(), seeds_.begin(), seeds_.end());
  return saved;
}

Result<void> TaskRun::end() {
  if (!programs_.has_end) return {};
  Tensors totals;
  for (size_t i = places_.sum_count; i < sums_.size(); ++i) totals.push_back(std::exchange(sums_[i], {}));
  if (std::any_of(totals.begin(), totals.end(), [](const at::Tensor& total) { return !total.defined(); })) return {};
  RANNC_TRY(call(programs_[ProgramKind::kEnd], std::move(totals)));
  return {};
}

Result<void> TaskRun::backward(Tensors saved) {
  RANNC_TRY(call(programs_[ProgramKind::kBackward], with_seeds(std::move(saved))));
  return {};
}

Result<TaskRun::Tensors> TaskRun::input(Tensors saved) {
  RANNC_ASSIGN(Tensors results, call(programs_[ProgramKind::kInput], with_seeds(std::move(saved))));
  results.erase(results.begin(), results.begin() + static_cast<ptrdiff_t>(functions_.joint.inputs.size()));
  return results;
}

Result<void> TaskRun::weight(Tensors arguments) {
  RANNC_TRY(call(programs_[ProgramKind::kWeight], std::move(arguments)));
  return {};
}

}  // namespace rannc::runtime
