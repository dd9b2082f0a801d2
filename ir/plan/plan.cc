#include "ir/plan/plan.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "ir/graph/byte_count.h"
#include "ir/op/op.h"
#include "ir/plan/buckets.h"
#include "ir/plan/function_memory.h"
#include "ir/plan/functions.h"
#include "ir/plan/held_samples.h"
#include "ir/plan/optimizer_shares.h"
#include "ir/plan/parameter_updates.h"
#include "ir/plan/step_copies.h"
#include "ir/program/allocator_blocks.h"
#include "ir/schedule/schedule_memory.h"

namespace rannc::ir {

std::vector<InstructionSet> instruction_sets(const PlanBody& plan, StageId stage) {
  std::set<InstructionSet> found;
  for (const DeviceId device : plan.stages[stage.index()].devices) {
    if (device.index() < plan.devices.size()) found.insert(plan.devices[device.index()].instructions);
  }
  if (found.empty()) found.insert(kDefaultInstructions);
  return {found.begin(), found.end()};
}

std::vector<uint32_t> split_mini_batch(uint32_t mini_batch, uint32_t count) {
  count = std::min(count, mini_batch);
  std::vector<uint32_t> sizes(count);
  for (uint32_t i = 0; i < count; ++i) sizes[i] = mini_batch / count + (i < mini_batch % count ? 1 : 0);
  return sizes;
}

Bindings bindings_of(const Plan& plan, uint32_t samples) {
  Bindings sizes = plan.sizes;
  if (!plan.graph.batch_symbol().empty()) sizes[plan.graph.batch_symbol()] = samples;
  return sizes;
}

std::vector<StageId> stage_of_tasks(const Plan& plan) {
  std::vector<StageId> stage_of(plan.graph.task_count());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const TaskId task : plan.stages[s].tasks) {
      if (task.index() < plan.atoms.constant.size() && !plan.atoms.constant[task.index()]) {
        stage_of[task.index()] = StageId::from(s);
      }
    }
  }
  return stage_of;
}

std::vector<bool> needs_gradient(const Graph& graph, std::span<const ValueId> sources) {
  std::vector<bool> needed(graph.value_count());
  for (const ValueId id : graph.values()) needed[id.index()] = graph.kind(id) == ValueKind::kParameter;
  for (const ValueId id : sources) needed[id.index()] = true;
  for (const TaskId task : graph.tasks()) {
    bool upstream = false;
    for (const ValueId input : graph.inputs(task)) upstream = upstream || (input.valid() && needed[input.index()]);
    for (const ValueId output : graph.outputs(task)) {
      needed[output.index()] = upstream && is_float(graph.type(output).dtype);
    }
  }
  return needed;
}

bool passes_gradients(const Graph& graph, TaskId task, const std::vector<bool>& reached) {
  static const Ops kStops{"stop_gradient"};
  const auto outputs = graph.outputs(task);
  const bool any = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return reached[v.index()]; });
  return any && !kStops.contains(graph.op(task));
}

std::vector<bool> reached_by_gradients(const Graph& graph, std::span<const ValueId> seeds) {
  std::vector<bool> reached(graph.value_count());
  for (const LossTerm& term : graph.losses()) reached[term.numerator.index()] = true;
  for (const ValueId value : seeds) reached[value.index()] = true;
  for (uint32_t i = graph.task_count(); i-- > 0;) {
    if (!passes_gradients(graph, TaskId(i), reached)) continue;
    for (const ValueId input : graph.inputs(TaskId(i))) {
      if (input.valid()) reached[input.index()] = true;
    }
  }
  return reached;
}

namespace {

// Bytes of the gradient sum of a parameter of `bytes` bytes.
int64_t sum_bytes(int64_t bytes, DType dtype) { return bytes / byte_size(dtype) * byte_size(sum_dtype(dtype)); }

// Largest integer number of bytes per sample that covers every micro-batch of the plan.
int64_t bytes_per_sample(const Plan& plan, const Dim& bytes) {
  int64_t most = 0;
  uint32_t before = 0;
  for (const uint32_t samples : plan.micro_batches) {
    if (samples == before || samples == 0) continue;
    before = samples;
    const auto value = bytes.evaluate(bindings_of(plan, samples));
    if (value) most = std::max(most, *value / samples + (*value % samples != 0 ? 1 : 0));
  }
  return most;
}

// A parameter of a stage. Each task that reads it has a separate gradient.
struct HeldParameter {
  ValueId value;
  int64_t bytes = 0, sum_bytes = 0;  // of the parameter, of a gradient sum
  int64_t element_bytes = 1;
  int64_t readings = 0;
  int64_t elements() const { return bytes / element_bytes; }
};

// Bytes of the leaf values that a stage reads. Random inputs are excluded: they exist only while tasks need them.
struct Weights {
  std::vector<HeldParameter> parameters;  // ascending
  int64_t others = 0;                     // buffers and constants, in blocks
  int64_t samples = 0;                    // inputs of the graph, per sample

  int64_t parameter_bytes(DeviceType device) const {
    int64_t total = 0;
    for (const HeldParameter& held : parameters) total += block_bytes(held.bytes, device);
    return total;
  }
  int64_t gradient_bytes(DeviceType device) const {
    int64_t total = 0;
    for (const HeldParameter& held : parameters) total += block_bytes(held.sum_bytes, device) * held.readings;
    return total;
  }
  uint32_t index_of(ValueId parameter) const {
    const auto found = std::lower_bound(parameters.begin(), parameters.end(), parameter,
                                        [](const HeldParameter& held, ValueId value) { return held.value < value; });
    return static_cast<uint32_t>(found - parameters.begin());
  }
  /// Bytes of the optimizer state of the largest share of the parameters, which are divided bucket by bucket.
  int64_t state_bytes(const ParameterUpdates& updates, const std::vector<std::vector<ValueId>>& buckets,
                      size_t replicas, DeviceType device) const {
    std::vector<ParameterExtent> extents;
    for (const HeldParameter& held : parameters)
      extents.push_back({held.elements(), updates.of(held.value).divisible()});
    std::vector<ParameterBucket> indices;
    for (const std::vector<ValueId>& bucket : buckets) {
      ParameterBucket& own = indices.emplace_back();
      for (const ValueId parameter : bucket) own.push_back(index_of(parameter));
    }
    const OptimizerShares shares = optimizer_shares(extents, std::move(indices), replicas);
    int64_t most = 0;
    for (size_t r = 0; r < replicas; ++r) {
      int64_t bytes = 0;
      for (const ParameterSlice& slice : share_of_replica(shares, r)) {
        const HeldParameter& held = parameters[slice.parameter];
        const int64_t own = (slice.last - slice.first) * held.element_bytes,
                      states = updates.state_elements(held.value, slice.first, slice.last) * held.element_bytes;
        bytes += states + (own > 0 ? states / own * (block_bytes(own, device) - own) : 0);
      }
      most = std::max(most, bytes);
    }
    return most;
  }
  /// Bytes of the copies of an optimizer step: of narrow parameters and their states in the type of the gradient sums,
  /// in slices, or of one tensor that is updated as a whole.
  int64_t copied_bytes(const ParameterUpdates& updates, DeviceType device) const {
    int64_t sliced = 0, whole = 0;
    for (const HeldParameter& held : parameters) {
      const StoredUpdate& stored = updates.of(held.value);
      const bool narrow = held.sum_bytes > held.bytes;
      if (narrow && !stored.runs.empty()) sliced += held.sum_bytes * static_cast<int64_t>(1 + stored.states.size());
      const bool copies = std::any_of(stored.runs.begin(), stored.runs.end(), [&](const UpdateRun& run) {
        return updates.groups()[run.group].rule.kind == OptimizerKind::kLion;
      });
      if (copies) sliced += held.sum_bytes;
      if (stored.wholes.empty() || held.elements() == 0) continue;
      const int64_t sum = held.sum_bytes / held.elements();
      whole = std::max(whole, updates.whole_copies(held.value, held.element_bytes, sum));
    }
    // A GPU has a kernel for element-wise rules.
    return device == DeviceType::kCuda ? whole : std::max(whole, std::min(sliced, step_copy_bytes(device)));
  }
};

/// Peak bytes of the sums of buckets over replicas, of which two run at once.
int64_t bytes_of_sums(const Plan& plan, StageId stage) {
  int64_t most = 0, before = 0;
  for (const int64_t bytes : sum_bytes_of_buckets(plan, stage)) {
    most = std::max(most, before + bytes);
    before = bytes;
  }
  return most;
}

// Weights of each stage. A value counts once, however many tasks read it.
std::vector<Weights> weights_of_stages(const Plan& plan) {
  const Graph& graph = plan.graph;
  std::vector<std::optional<int64_t>> of_type(graph.type_count());
  std::vector<StageId> counted(graph.value_count());  // the last stage in which a value was counted
  std::vector<int64_t> readings(graph.value_count());
  std::vector<Weights> weights(plan.stages.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const TaskId task : plan.stages[s].tasks) {
      for (const ValueId input : graph.inputs(task)) {
        if (!input.valid() || graph.producer(input).valid() || graph.kind(input) == ValueKind::kRandomInput) continue;
        const bool again = std::exchange(counted[input.index()], StageId::from(s)) == StageId::from(s);
        readings[input.index()] = again ? readings[input.index()] + 1 : 1;
        if (again) continue;
        if (graph.kind(input) == ValueKind::kInput) {
          weights[s].samples += bytes_per_sample(plan, byte_count(graph.type(input)));
          continue;
        }
        std::optional<int64_t>& known = of_type[graph.type_number(input)];
        if (!known) known = byte_count(graph.type(input)).evaluate(plan.sizes).value_or(0);
        if (graph.kind(input) == ValueKind::kParameter) {
          const DType dtype = graph.type(input).dtype;
          weights[s].parameters.push_back(
              {input, *known, sum_bytes(*known, dtype), static_cast<int64_t>(byte_size(dtype)), 0});
        } else {
          weights[s].others += block_bytes(*known, device_type(plan));
        }
      }
    }
    std::sort(weights[s].parameters.begin(), weights[s].parameters.end(),
              [](const HeldParameter& a, const HeldParameter& b) { return a.value < b.value; });
    for (HeldParameter& held : weights[s].parameters) held.readings = readings[held.value.index()];
  }
  return weights;
}

// Adds what training holds beside the passes: optimizer state, gradients, and the end of a step.
void take_training(const Plan& plan, StageId stage, const ParameterUpdates& updates, const Weights& weights,
                   StageShape& shape) {
  const size_t replicas = shape.devices.size();
  const bool shares = shape.sharded && replicas > 0;
  const DeviceType device = device_type(plan);
  shape.fixed_bytes += weights.state_bytes(updates, plan.stages[stage.index()].buckets, shares ? replicas : 1, device);
  shape.gradient_bytes = weights.gradient_bytes(device);
  shape.sum_bytes = bytes_of_sums(plan, stage);
  shape.step_bytes = weights.copied_bytes(updates, device);
}

// Converts bytes of a whole share in `time` to bytes per sample, rounded up.
int64_t per_sample(const StageTime& time, uint64_t bytes) {
  return static_cast<int64_t>((bytes + time.samples - 1) / time.samples);
}

void take_passes(const StageTime& time, StageShape& shape) {
  const auto raise = [&](int64_t& to, uint64_t bytes) { to = std::max(to, per_sample(time, bytes)); };
  raise(shape.saved_bytes, time.stashed_bytes);
  raise(shape.kept_bytes, time.kept_bytes);
  raise(shape.pending_bytes, time.pending_bytes);
  const auto add = [&](ByProgram<SizedBytes>& to, const ByProgram<uint64_t>& peaks, bool zero_is_known) {
    for (size_t i = 0; i < kProgramKinds; ++i) {
      const uint64_t bytes = peaks.items[i];
      if (bytes > 0 || zero_is_known) to.items[i].push_back({time.samples, static_cast<int64_t>(bytes)});
    }
  };
  add(shape.peaks.usual, time.peaks.usual, time.of_functions());
  add(shape.peaks.first, time.peaks.first, false);
  add(shape.peaks.last, time.peaks.last, false);
}

int64_t largest_share(uint32_t mini_batch, size_t devices) {
  const auto replicas = static_cast<int64_t>(std::max<size_t>(devices, 1));
  return (int64_t{mini_batch} + replicas - 1) / replicas;
}

// A device holds its samples of the whole mini-batch during the whole step, however few are in flight. They do not
// count towards the memory of a micro-batch or its passes.
void hold_samples(int64_t bytes, uint32_t mini_batch, StageShape& shape) {
  shape.fixed_bytes += bytes * largest_share(mini_batch, shape.devices.size());
  for (int64_t* part : {&shape.saved_bytes, &shape.kept_bytes}) *part = std::max<int64_t>(0, *part - bytes);
  for (const ProgramKind kind : {ProgramKind::kEvaluate, ProgramKind::kForward, ProgramKind::kBegin}) {
    for (PassBytes& pass : shape.peaks.usual[kind])
      pass.bytes = std::max<int64_t>(0, pass.bytes - bytes * pass.samples);
  }
}

// Whether the memory of the plan's times is that of its functions.
bool counts_functions(const Plan& plan) {
  return plan.functions.size() == plan.stages.size() &&
         std::any_of(plan.stage_times.begin(), plan.stage_times.end(),
                     [](const StageTime& time) { return time.of_functions(); });
}

// Adds what the functions of the stages hold beside the times of their passes.
void add_functions(const Plan& plan, PipelineShape& shape) {
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    FunctionFollower follower(plan, StageId::from(s));
    const StepMemory step = follower.step(plan.sizes);
    StageShape& entry = shape.stages[s];
    entry.fixed_bytes += step.fixed;
    if (!plan.training) continue;
    entry.gradient_bytes += step.totals - step.late;
    const int64_t late = std::max<int64_t>(0, step.late - step.totals);
    if (entry.sum_bytes > 0) entry.sum_bytes += late;
    entry.step_bytes = std::max(step.end, entry.step_bytes + late);
    for (size_t r = 0; r < plan.routes.size(); ++r) {
      const Route& route = plan.routes[r];
      if (route.from.index() != s && route.to.index() != s) continue;
      const ValueId value = plan.functions[s]->joint.graph.find(plan.graph.value(route.value).name);
      const bool sends = route.from.index() == s;
      (sends ? shape.routes[r].saved : shape.routes[r].consumer_saves) = follower.is_saved(value);
      (sends ? shape.routes[r].kept : shape.routes[r].consumer_keeps) = follower.is_kept(value);
    }
  }
}

// A stage that reads a value.
struct Reader {
  StageId stage;
  bool returns = false;  // a gradient to the value
};

// Finds the stages that read a value.
class Readers {
 public:
  Readers(const Plan& plan, const std::vector<StageId>& stage_of)
      : graph_(plan.graph), stage_of_(stage_of), reached_(reached_by_gradients(plan.graph)) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      for (const TaskId task : plan.stages[s].tasks) {
        if (!stage_of[task.index()].valid()) clones_[task].push_back(StageId::from(s));
      }
    }
  }

  // Ascending; valid until the next call.
  const std::vector<Reader>& of(ValueId value) {
    found_.clear();
    graph_.for_each_use(value, [&](Graph::Use use) {
      const StageId stage = stage_of_[use.task.index()];
      if (stage.valid()) return add({stage, passes_gradients(graph_, use.task, reached_)});
      const auto clones = clones_.find(use.task);
      if (clones != clones_.end())
        std::for_each(clones->second.begin(), clones->second.end(), [&](StageId s) { add({s, false}); });
    });
    std::sort(found_.begin(), found_.end(), [](const Reader& a, const Reader& b) {
      return std::pair(a.stage, b.returns) < std::pair(b.stage, a.returns);  // those that return a gradient first
    });
    const auto same = [](const Reader& a, const Reader& b) { return a.stage == b.stage; };
    found_.erase(std::unique(found_.begin(), found_.end(), same), found_.end());
    return found_;
  }

 private:
  void add(const Reader& reader) {
    const bool repeats =
        !found_.empty() && found_.back().stage == reader.stage && found_.back().returns == reader.returns;
    if (!repeats) found_.push_back(reader);
  }

  const Graph& graph_;
  const std::vector<StageId>& stage_of_;
  const std::vector<bool> reached_;
  std::unordered_map<TaskId, std::vector<StageId>> clones_;  // stages of the constant tasks
  std::vector<Reader> found_;
};

}  // namespace

Crossings crossings(const Plan& plan) {
  Crossings found;
  const Graph& graph = plan.graph;
  const std::vector<StageId> stage_of = stage_of_tasks(plan);
  const std::vector<bool> gradient = needs_gradient(graph);
  Readers readers(plan, stage_of);
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) == ValueKind::kParameter) {
      const std::vector<Reader>& stages = readers.of(value);
      if (stages.size() < 2) continue;
      SharedParameter& shared = found.shared.emplace_back(SharedParameter{value, stages.front().stage, {}});
      for (size_t i = 1; i < stages.size(); ++i) shared.others.push_back(stages[i].stage);
      continue;
    }
    const TaskId producer = graph.producer(value);
    if (!producer.valid()) continue;
    const StageId from = stage_of[producer.index()];
    if (!from.valid()) continue;  // from a constant task, which every reading stage holds itself
    for (const Reader& to : readers.of(value)) {
      if (to.stage == from) continue;
      const bool returns = plan.training && gradient[value.index()] && (to.returns || graph.losses().empty());
      found.routes.push_back({value, from, to.stage, byte_count(graph.type(value)), returns});
    }
  }
  return found;
}

void derive_routes(Plan& plan) {
  Crossings found = crossings(plan);
  plan.routes = std::move(found.routes);
  plan.shared = std::move(found.shared);
}

int64_t held_sample_bytes(const Plan& plan, StageId stage) {
  return weights_of_stages(plan)[stage.index()].samples *
         largest_share(plan.mini_batch, plan.stages[stage.index()].devices.size());
}

PipelineShape pipeline_shape(const Plan& plan) {
  PipelineShape shape;
  shape.micro_batches = plan.micro_batches;
  shape.devices = static_cast<uint32_t>(plan.devices.size());
  shape.training = plan.training;
  for (const PlanDevice& device : plan.devices) shape.memory_bytes.push_back(static_cast<int64_t>(device.memory_bytes));
  const std::vector<Weights> weights = weights_of_stages(plan);
  std::optional<ParameterUpdates> updates;
  if (plan.training) {
    auto found = ParameterUpdates::of(plan.graph, plan.optimizer);
    if (found.ok()) updates = *std::move(found);  // else P14 does not hold
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    StageShape entry;
    entry.devices = stage.devices;
    entry.recompute = stage.recompute;
    entry.sharded = stage.sharded;
    entry.fixed_bytes = weights[s].parameter_bytes(device_type(plan)) + weights[s].others;
    entry.sums = static_cast<uint32_t>(std::max<size_t>(1, stage.buckets.size()));
    if (updates) take_training(plan, StageId::from(s), *updates, weights[s], entry);
    shape.stages.push_back(std::move(entry));
  }
  for (const StageTime& time : plan.stage_times) {
    if (time.stage.index() >= shape.stages.size() || time.samples == 0) continue;
    take_passes(time, shape.stages[time.stage.index()]);
  }
  const bool cut = counts_functions(plan);
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    StageShape& entry = shape.stages[s];
    // From absolute bytes to the change.
    if (cut || entry.pending_bytes > 0) entry.pending_bytes -= entry.saved_bytes;
    hold_samples(weights[s].samples, plan.mini_batch, entry);
  }
  for (const Route& route : plan.routes) {
    const int64_t bytes = bytes_per_sample(plan, route.bytes);
    shape.routes.push_back({route.from, route.to, bytes, route.gradient});
    if (cut) continue;
    // A tape keeps all that its stage sends. Recompute keeps all that the stage receives.
    shape.routes.back().saved = shape.stages[route.from.index()].saved_bytes > 0;
    if (route.to.index() < shape.stages.size()) shape.stages[route.to.index()].kept_bytes += bytes;
  }
  if (cut) add_functions(plan, shape);
  for (const SharedParameter& shared : plan.shared) {
    SharedShape entry;
    entry.stages.push_back(shared.owner);
    entry.stages.insert(entry.stages.end(), shared.others.begin(), shared.others.end());
    const ValueType& type = plan.graph.type(shared.parameter);
    entry.bytes = sum_bytes(byte_count(type).evaluate({}).value_or(0), type.dtype);
    shape.shared.push_back(std::move(entry));
  }
  return shape;
}

Plan Plan::clone() const {
  Plan copy;
  static_cast<PlanBody&>(copy) = *this;
  copy.graph = graph.clone();
  copy.functions = functions;
  return copy;
}

bool equal(const Plan& a, const Plan& b) {
  const auto same = [](const auto& f, const auto& g) { return f == g || equal(*f, *g); };
  return equal(a.graph, b.graph) && static_cast<const PlanBody&>(a) == static_cast<const PlanBody&>(b) &&
         std::equal(a.functions.begin(), a.functions.end(), b.functions.begin(), b.functions.end(), same);
}

}  // namespace rannc::ir
