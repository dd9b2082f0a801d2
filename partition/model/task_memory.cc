#include "partition/model/task_memory.h"

#include <algorithm>
#include <numeric>

#include "ir/program/stage_programs.h"

namespace rannc::partition {

namespace {

using Kind = ir::FunctionKind;

void add(ByteLine& to, const ByteLine& more) {
  to.per_sample += more.per_sample;
  to.fixed += more.fixed;
}

/// Returns sizes by type number.
Result<std::vector<ByteLine>> lines_of(const ir::Graph& graph, const ir::Bindings& assume) {
  std::vector<ByteLine> lines(graph.type_count());
  std::vector<bool> known(graph.type_count());
  for (const ValueId value : graph.values()) {
    const uint32_t type = graph.type_number(value);
    if (known[type]) continue;
    known[type] = true;
    RANNC_ASSIGN(lines[type], byte_line(graph, value, assume));
  }
  return lines;
}

/// Returns the inputs of a joint graph that are no seeds.
std::vector<ValueId> samples_of(const ir::Joint& joint) {
  std::vector<ValueId> samples = joint.graph.inputs(), seeds = joint.seeds;
  for (const ir::Joint::BorderGradient& output : joint.outputs) seeds.push_back(output.gradient);
  std::sort(seeds.begin(), seeds.end());
  std::erase_if(samples, [&](ValueId value) { return std::binary_search(seeds.begin(), seeds.end(), value); });
  return samples;
}

}  // namespace

Result<TaskMemory> TaskMemory::of(const ir::Graph& graph, const ir::Joint& joint, const ir::Bindings& assume,
                                  const Cluster& cluster, bool loops) {
  RANNC_CHECK(joint.forward_count() == graph.task_count()) << "the joint graph is of another model";
  TaskMemory memory(graph, joint);
  RANNC_ASSIGN(memory.lines_, lines_of(graph, assume));
  RANNC_ASSIGN(memory.joint_lines_, lines_of(joint.graph, assume));
  memory.needs_gradient_ = ir::needs_gradient(graph);
  const std::vector<bool> reached = ir::reached_by_gradients(graph);
  if (!graph.losses().empty()) {
    for (size_t v = 0; v < reached.size(); ++v) memory.needs_gradient_[v] = memory.needs_gradient_[v] && reached[v];
  }
  memory.assume_ = assume;
  memory.instructions_ = cluster.instruction_sets();
  memory.samples_ = samples_of(joint);
  ir::FunctionTable table;
  table.place = ir::function_places(joint);
  ir::LoweringOptions options{.device = cluster.kind_of(DeviceId(0)).type, .origins = joint.origins, .calls = false};
  options.loops = memory.has_loops_ = loops;
  options.resident = ir::resident_values(joint.graph, table);
  memory.place_ = std::move(table.place);
  memory.lowering_ = std::make_unique<ir::ProgramLowering>(joint.graph, std::move(options));
  memory.find_read();
  memory.add_saved();
  memory.order_backward();
  return memory;
}

void TaskMemory::find_read() {
  const ir::Graph& graph = joint_.graph;
  saved_.assign(graph.value_count(), false);
  stored_ = summed_ = saved_;
  for (const ir::Joint::ParameterGradient& part : joint_.gradients) summed_[part.gradient.index()] = true;
  for (const TaskId task : graph.tasks()) {
    const Kind place = place_[task.index()];
    if (place <= Kind::kStep) continue;
    each_operand(task, [&](ValueId operand) {
      if (place == Kind::kStepEnd) summed_[operand.index()] = true;
      const ValueId base = views().base(operand);
      const TaskId maker = graph.producer(base);
      if (maker.valid() && place_[maker.index()] <= Kind::kStep) stored_[base.index()] = true;
      const bool forward =
          maker.valid() ? place_[maker.index()] == Kind::kForward : graph.kind(base) == ir::ValueKind::kRandomInput;
      if (forward && is_backward(task)) saved_[base.index()] = true;
    });
  }
}

void TaskMemory::add_saved() {
  const ir::Graph& graph = joint_.graph;
  saved_bytes_.resize(graph_.task_count());
  for (const ValueId value : graph.values()) {
    if (!saved_[value.index()]) continue;
    TaskId task = graph.producer(value);
    if (!task.valid()) graph.any_use(value, [&](ir::Graph::Use first) { return task = first.task, true; });
    add(saved_bytes_[task.index()], joint_lines_[graph.type_number(value)]);
  }
}

void TaskMemory::order_backward() {
  const uint32_t first = graph_.task_count(), count = joint_.graph.task_count();
  first_backward_.assign(first + 1, 0);
  const auto origin = [&](uint32_t task) { return joint_.origins[task].task.index(); };
  for (uint32_t i = first; i < count; ++i) first_backward_[origin(i) + 1] += is_backward(TaskId(i)) ? 1 : 0;
  std::partial_sum(first_backward_.begin(), first_backward_.end(), first_backward_.begin());
  backward_.resize(first_backward_.back());
  std::vector<uint32_t> next = first_backward_;
  for (uint32_t i = first; i < count; ++i) {
    if (is_backward(TaskId(i))) backward_[next[origin(i)]++] = TaskId(i);
  }
}

ValueId TaskMemory::in_joint(ValueId result) const {
  const TaskId task = graph_.producer(result);
  const auto outputs = graph_.outputs(task);
  const auto at = std::find(outputs.begin(), outputs.end(), result) - outputs.begin();
  return joint_.graph.outputs(task)[static_cast<size_t>(at)];
}

}  // namespace rannc::partition
