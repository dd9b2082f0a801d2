// Finds and lowers gradient tasks that one call of a kernel computes.
#include "ir/op/merged_calls.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ir/match/match.h"
#include "ir/op/backward/gradient_kernels.h"

namespace rannc::ir {

namespace ops {

std::optional<aten::Value> KernelCall::operand(std::string_view name) const {
  for (size_t k = 0; k < 2; ++k) {
    for (uint32_t i = 0; wants(k) && i < tasks[k]->inputs.size(); ++i) {
      if (tasks[k]->has(i) && tasks[k]->op.operand(i).name == name) return aten::Operand{first[k] + i};
    }
  }
  return std::nullopt;
}

aten::Argument or_none(const std::optional<aten::Value>& value) {
  return value ? aten::Argument(*value) : aten::Argument(aten::None{});
}

}  // namespace ops

namespace {

constexpr size_t kScale = 1, kBias = 2;

struct Kernel {
  ops::KernelRule rule;
  std::array<ops::LowerRule, 2> operators;  ///< lowering rules of the operators for the first two gradients
  bool of_rows = false;                     ///< the bias has the last axes, else axis 1
};

template <ops::KernelRule rule>
constexpr Kernel kernel(bool of_rows = false) {
  return {rule, {ops::one_gradient<rule, 0>, ops::one_gradient<rule, kScale>}, of_rows};
}

constexpr Kernel kKernels[] = {kernel<ops::convolution_backward>(), kernel<ops::layer_norm_backward>(true),
                               kernel<ops::batch_norm_backward>(), kernel<ops::group_norm_backward>()};

/// The gradient that an operator computes. A sum, which may be that of a bias, belongs to no kernel alone.
struct Member {
  const Kernel* kernel;
  size_t gradient;
};

std::optional<Member> member_of(const OpInfo& op) {
  static const Ops kSum{"sum"};
  if (kSum.contains(op)) return Member{nullptr, kBias};
  for (const Kernel& kernel : kKernels) {
    const auto& [input, scale] = kernel.operators;
    if (op.lower == input || op.lower == scale) return Member{&kernel, op.lower == scale ? kScale : 0};
  }
  return std::nullopt;
}

/// Whether operands and attributes of the same names are equal.
bool agree(const Graph& graph, TaskId a, TaskId b) {
  const OpInfo &one = graph.op(a), &other = graph.op(b);
  const auto inputs = graph.inputs(a), others = graph.inputs(b);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t k = 0; k < others.size(); ++k) {
      if (one.operand(i).name == other.operand(k).name && inputs[i] != others[k]) return false;
    }
  }
  const OpAttributes given(one, graph.attributes(a)), more(other, graph.attributes(b));
  return std::all_of(one.attributes.begin(), one.attributes.end(), [&](const AttributeInfo& attribute) {
    if (!more.declares(attribute.name)) return true;
    const Attribute *here = given.find(attribute.name), *there = more.find(attribute.name);
    return here == nullptr || there == nullptr ? here == there : *here == *there;
  });
}

/// Whether a task sums over all axes but those of the bias. `scale`: the gradient of a weight or scale.
bool sums_to_bias(const Graph& graph, TaskId task, const Kernel& kernel, TaskId scale) {
  const size_t rank = graph.type(graph.inputs(task)[0]).shape->size();
  const size_t kept = kernel.of_rows ? graph.type(graph.outputs(scale)[0]).shape->size() : 1;
  const size_t first = kernel.of_rows ? rank - kept : 1;
  Shape others;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (axis < first || axis >= first + kept) others.emplace_back(static_cast<int64_t>(axis));
  }
  const OpAttributes attributes(graph.op(task), graph.attributes(task));
  const Shape* axes = attributes.list("axes");
  return axes != nullptr && *axes == others && !attributes.flag("keepdim");
}

/// One function.
class TaskMerger {
 public:
  TaskMerger(const Graph& graph, std::span<const Joint::Origin> origins, std::span<const TaskId> tasks)
      : graph_(graph), origins_(origins), places_(graph.task_count()) {
    for (size_t i = 0; i < tasks.size(); ++i) places_[tasks[i].index()] = i + 1;
  }

  void add(TaskId task, bool apart) {
    if (apart || !joins(task)) calls_.push_back({{task}});
  }

  std::vector<MergedCall> calls() && { return std::move(calls_); }

 private:
  struct Group {
    const Kernel* kernel = nullptr;
    size_t call = 0;              ///< number in `calls_`
    std::array<TaskId, 3> tasks;  ///< by gradient
  };

  /// Adds a task to the call of its origin, or begins one for tasks to come.
  bool joins(TaskId task) {
    const auto member = origins_.empty() ? std::nullopt : member_of(graph_.op(task));
    if (!member) return false;
    const TaskId origin = origins_[task.index()].task;
    const auto found = groups_.find(origin);
    const bool fits = found != groups_.end() && takes(found->second, task, *member);
    if (!fits && member->kernel == nullptr) return false;
    Group& group = fits ? found->second : groups_[origin] = {member->kernel, calls_.size(), {}};
    group.tasks[member->gradient] = task;
    if (fits) calls_[group.call].tasks.push_back(task);
    return fits;
  }

  bool takes(const Group& group, TaskId task, Member member) const {
    const TaskId first = calls_[group.call].tasks[0], scale = group.tasks[kScale];
    if (group.tasks[member.gradient].valid() || !exist_at(first, graph_.inputs(task))) return false;
    if (member.kernel != nullptr) return member.kernel == group.kernel && agree(graph_, first, task);
    return scale.valid() && graph_.inputs(task)[0] == graph_.inputs(first)[0] &&
           sums_to_bias(graph_, task, *group.kernel, scale);
  }

  /// Whether all values are made before a task.
  bool exist_at(TaskId task, std::span<const ValueId> values) const {
    return std::all_of(values.begin(), values.end(), [&](ValueId value) {
      const TaskId maker = value.valid() ? graph_.producer(value) : TaskId();
      return !maker.valid() || places_[maker.index()] < places_[task.index()];
    });
  }

  const Graph& graph_;
  const std::span<const Joint::Origin> origins_;
  std::vector<size_t> places_;  ///< by task: 1 for the first one; 0: another function's
  std::vector<MergedCall> calls_;
  std::unordered_map<TaskId, Group> groups_;  ///< the last one of each origin
};

}  // namespace

std::vector<MergedCall> merged_calls(const Graph& graph, std::span<const Joint::Origin> origins,
                                     std::span<const TaskId> tasks, std::span<const TaskId> apart) {
  TaskMerger merger(graph, origins, tasks);
  for (const TaskId task : tasks) merger.add(task, std::binary_search(apart.begin(), apart.end(), task));
  return std::move(merger).calls();
}

Result<aten::Lowering> lowering(const Graph& graph, const MergedCall& call, DeviceType device) {
  std::vector<std::vector<const ValueType*>> types;
  std::vector<LowerCall> tasks;
  std::vector<Member> members;
  types.reserve(2 * call.tasks.size());
  tasks.reserve(call.tasks.size());
  ops::KernelCall kernel;
  uint32_t operands = 0;
  for (const TaskId task : call.tasks) {
    const auto& in = types.emplace_back(type_list(graph, graph.inputs(task)));
    const auto& out = types.emplace_back(type_list(graph, graph.outputs(task)));
    tasks.emplace_back(graph.op(task), in, out, graph.attributes(task), device);
    members.push_back(member_of(graph.op(task)).value());
    kernel.tasks[members.back().gradient] = &tasks.back();
    kernel.first[members.back().gradient] = operands;
    operands += static_cast<uint32_t>(in.size());
  }
  const Kernel* of = members[0].kernel;
  RANNC_CHECK(of != nullptr) << "no gradient kernel computes " << graph.op(call.tasks[0]).name;
  RANNC_ASSIGN(aten::Lowering made, of->rule(kernel));
  const std::vector<aten::Value> all = std::exchange(made.results, {});
  for (const Member& member : members) made.results.push_back(all[member.gradient]);
  return made;
}

}  // namespace rannc::ir
