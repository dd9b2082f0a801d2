// Joins the lowerings of tasks that call one gradient kernel.
#include "ir/op/merged_calls.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ir/op/op.h"

namespace rannc::ir {

namespace {

using aten::Argument;
using aten::Call;
using aten::Lowering;
using aten::Made;
using aten::Operand;
using Numbers = std::vector<uint32_t>;

/// A kernel with one gradient per mask bit. Argument 0 is the result's gradient.
struct GradientKernel {
  std::string_view schema;
  uint32_t mask;                         ///< position
  std::array<uint32_t, 2> shape_only;    ///< positions that some calls fill with a tensor of which only sizes count
  int bias_sizes = -1, bias_shape = -1;  ///< position that a wanted bias gradient needs: its sizes, or a tensor
};

constexpr std::array<GradientKernel, 4> kGradientKernels = {{
    {"aten::convolution_backward", 10, {1, 2}, 3, -1},
    {"aten::native_layer_norm_backward", 7, {5, 5}, -1, 6},
    {"aten::native_batch_norm_backward", 9, {2, 2}, -1, -1},
    {"aten::native_group_norm_backward", 9, {4, 4}, -1, -1},
}};

constexpr std::string_view kSumSchema = "aten::sum.dim_IntList", kCopySchema = "aten::contiguous";

const GradientKernel* kernel_of(const OpInfo& op) {
  const auto found = std::find_if(kGradientKernels.begin(), kGradientKernels.end(), [&](const GradientKernel& kernel) {
    return !op.aten.empty() && op.aten[0] == kernel.schema;
  });
  return found == kGradientKernels.end() ? nullptr : &*found;
}

std::optional<Lowering> lowering_of(const Graph& graph, TaskId task, DeviceType device = DeviceType::kCpu) {
  const auto in = type_list(graph, graph.inputs(task)), out = type_list(graph, graph.outputs(task));
  auto made = lowering({graph.op(task), in, out, graph.attributes(task), device});
  if (!made.ok()) return std::nullopt;
  return *std::move(made);
}

// --- numbers of operands and calls

/// `operands`: the new numbers; others become absent. `calls`: the new numbers.
void renumber_value(aten::Value& value, const Numbers& operands, const Numbers& calls) {
  if (auto* made = std::get_if<Made>(&value)) {
    made->call = calls[made->call];
  } else {
    auto& operand = std::get<Operand>(value);
    operand = operand.index < operands.size() ? Operand{operands[operand.index]} : aten::kAbsent;
  }
}

template <class Visit>
void for_each_value(Call& call, const Visit& visit) {
  for (Argument& argument : call.arguments) {
    if (auto* value = std::get_if<aten::Value>(&argument.value)) visit(*value);
    if (auto* values = std::get_if<std::vector<aten::Value>>(&argument.value))
      std::for_each(values->begin(), values->end(), visit);
  }
}

Call renumbered(Call call, const Numbers& operands, const Numbers& calls) {
  for_each_value(call, [&](aten::Value& value) { renumber_value(value, operands, calls); });
  return call;
}

Numbers ascending_numbers(size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// --- placeholders: memory without content

bool is_placeholder(const Lowering& lowering, const Argument& argument) {
  if (std::holds_alternative<aten::None>(argument.value)) return true;
  const auto* value = std::get_if<aten::Value>(&argument.value);
  if (value == nullptr) return false;
  const auto* made = std::get_if<Made>(value);
  if (made == nullptr) return std::get<Operand>(*value) == aten::kAbsent;
  const Call& call = lowering.calls[made->call];
  if (call.schema == "aten::new_empty") return true;
  return (call.schema == "aten::expand" || call.schema == "aten::empty_like") &&
         is_placeholder(lowering, call.arguments[0]);
}

void drop_unread_placeholders(Lowering& lowering) {
  std::vector<bool> read(lowering.calls.size());
  const auto mark = [&](const aten::Value& value) {
    if (const auto* made = std::get_if<Made>(&value)) read[made->call] = true;
  };
  std::for_each(lowering.results.begin(), lowering.results.end(), mark);
  for (size_t i = lowering.calls.size(); i-- > 0;) {
    read[i] = read[i] || !is_placeholder(lowering, Made{static_cast<uint32_t>(i)});
    if (read[i]) for_each_value(lowering.calls[i], mark);
  }
  Numbers calls(lowering.calls.size());
  std::exclusive_scan(read.begin(), read.end(), calls.begin(), 0U);
  std::vector<Call> kept;
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i]) kept.push_back(std::move(lowering.calls[i]));
  }
  lowering.calls = std::move(kept);
  for (Call& call : lowering.calls) {
    for_each_value(call, [&](aten::Value& value) {
      if (auto* made = std::get_if<Made>(&value)) made->call = calls[made->call];
    });
  }
  for (aten::Value& result : lowering.results) {
    if (auto* made = std::get_if<Made>(&result)) made->call = calls[made->call];
  }
}

// --- one call of a kernel and its tasks

struct KernelTasks {
  const GradientKernel* kernel = nullptr;
  uint32_t call = 0;              ///< number of the kernel's call
  std::vector<ValueId> operands;  ///< of the lowering
  MergedCall made;

  Call& kernel_call() { return made.lowering.calls[call]; }
  std::vector<bool>& mask() { return std::get<std::vector<bool>>(kernel_call().arguments[kernel->mask].value); }
};

/// Numbers of further operands: those of the same values before, where there are any.
Numbers numbers_of(const std::vector<ValueId>& before, std::span<const ValueId> more) {
  std::vector<ValueId> all = before;
  all.insert(all.end(), more.begin(), more.end());
  Numbers numbers;
  for (const ValueId value : more) {
    const auto first = std::find(all.begin(), all.end(), value);
    numbers.push_back(value.valid() ? static_cast<uint32_t>(first - all.begin()) : aten::kAbsent.index);
  }
  return numbers;
}

/// The call of one task; nothing if its lowering does not have one call of the kernel.
std::optional<KernelTasks> kernel_task(const Graph& graph, TaskId task, const GradientKernel& kernel,
                                       DeviceType device) {
  auto made = lowering_of(graph, task, device);
  if (!made) return std::nullopt;
  const auto is_kernel = [&](const Call& call) { return call.schema == kernel.schema; };
  if (std::count_if(made->calls.begin(), made->calls.end(), is_kernel) != 1) return std::nullopt;
  const auto inputs = graph.inputs(task);
  const Numbers operands = numbers_of({}, inputs), calls = ascending_numbers(made->calls.size());
  for (Call& call : made->calls) call = renumbered(std::move(call), operands, calls);
  for (aten::Value& result : made->results) renumber_value(result, operands, calls);
  const auto found = std::find_if(made->calls.begin(), made->calls.end(), is_kernel) - made->calls.begin();
  return KernelTasks{&kernel, static_cast<uint32_t>(found), {inputs.begin(), inputs.end()}, {{task}, *std::move(made)}};
}

/// The arguments of both calls, whose operands and calls have the same numbers; nothing if they do not fit.
std::optional<std::vector<Argument>> joined_arguments(const Lowering& lowering, const GradientKernel& kernel,
                                                      std::vector<Argument> one, const std::vector<Argument>& other) {
  for (uint32_t i = 0; i < one.size(); ++i) {
    if (i == kernel.mask) {
      auto& wanted = std::get<std::vector<bool>>(one[i].value);
      const auto& more = std::get<std::vector<bool>>(other[i].value);
      for (size_t k = 0; k < wanted.size(); ++k) {
        if (wanted[k] && more[k]) return std::nullopt;
        wanted[k] = wanted[k] || more[k];
      }
      continue;
    }
    if (one[i] == other[i]) continue;
    if (i != kernel.shape_only[0] && i != kernel.shape_only[1]) return std::nullopt;
    if (is_placeholder(lowering, one[i])) {
      one[i] = other[i];
    } else if (!is_placeholder(lowering, other[i])) {
      return std::nullopt;
    }
  }
  return one;
}

/// Adds the tasks of another call of the kernel. Calls that both make before are made once.
bool join_calls(KernelTasks& one, const KernelTasks& other) {
  const std::vector<Call>&mine = one.made.lowering.calls, &theirs = other.made.lowering.calls;
  const Numbers operands = ascending_numbers(one.operands.size()), more = numbers_of(one.operands, other.operands);
  Numbers calls(mine.size()), more_calls(theirs.size());
  Lowering all;
  const auto append = [&](Call call) {
    all.calls.push_back(std::move(call));
    return static_cast<uint32_t>(all.calls.size() - 1);
  };
  for (uint32_t i = 0; i < one.call; ++i) calls[i] = append(mine[i]);
  for (uint32_t i = 0; i < other.call; ++i) {
    Call call = renumbered(theirs[i], more, more_calls);
    const auto same = std::find(all.calls.begin(), all.calls.end(), call);
    more_calls[i] = same == all.calls.end() ? append(std::move(call)) : static_cast<uint32_t>(same - all.calls.begin());
  }
  Call kernel = mine[one.call];
  auto arguments =
      joined_arguments(all, *one.kernel, kernel.arguments, renumbered(theirs[other.call], more, more_calls).arguments);
  if (!arguments) return false;
  kernel.arguments = *std::move(arguments);
  const uint32_t number = append(std::move(kernel));
  calls[one.call] = more_calls[other.call] = number;
  for (uint32_t i = one.call + 1; i < mine.size(); ++i) calls[i] = append(renumbered(mine[i], operands, calls));
  for (uint32_t i = other.call + 1; i < theirs.size(); ++i)
    more_calls[i] = append(renumbered(theirs[i], more, more_calls));
  for (aten::Value result : one.made.lowering.results) {
    renumber_value(result, operands, calls);
    all.results.push_back(result);
  }
  for (aten::Value result : other.made.lowering.results) {
    renumber_value(result, more, more_calls);
    all.results.push_back(result);
  }
  one.call = number;
  one.operands.insert(one.operands.end(), other.operands.begin(), other.operands.end());
  one.made.tasks.insert(one.made.tasks.end(), other.made.tasks.begin(), other.made.tasks.end());
  one.made.lowering = std::move(all);
  return true;
}

// --- bias gradients

/// The gradient of the result, which may be copied first.
ValueId result_gradient(KernelTasks& tasks) {
  const auto* value = std::get_if<aten::Value>(&tasks.kernel_call().arguments[0].value);
  if (value == nullptr) return {};
  if (const auto* made = std::get_if<Made>(value)) {
    const Call& copy = tasks.made.lowering.calls[made->call];
    value = copy.schema == kCopySchema ? std::get_if<aten::Value>(&copy.arguments[0].value) : nullptr;
  }
  const auto* operand = value == nullptr ? nullptr : std::get_if<Operand>(value);
  return operand != nullptr && operand->index < tasks.operands.size() ? tasks.operands[operand->index] : ValueId();
}

/// Whether a task sums over everything but the axes of a bias: channels are axis 1, those of a layer normalization the
/// last ones.
bool is_bias_gradient(const Graph& graph, TaskId task, KernelTasks& of) {
  const auto sum = lowering_of(graph, task);
  if (!sum || sum->calls.size() != 1 || sum->calls[0].schema != kSumSchema) return false;
  const ValueType &from = graph.type(graph.inputs(task)[0]), &to = graph.type(graph.outputs(task)[0]);
  const auto* axes = std::get_if<Shape>(&sum->calls[0].arguments[1].value);
  if (!from.shape || !to.shape || axes == nullptr || from.dtype != to.dtype) return false;
  const size_t rank = from.shape->size(), kept = to.shape->size();
  if (kept + axes->size() != rank || kept == 0 || !(*to.shape)[0].is_constant()) return false;
  const bool of_rows = of.kernel->bias_shape >= 0;
  if (of_rows) {
    const auto* normalized = std::get_if<Shape>(&of.kernel_call().arguments[2].value);
    if (normalized == nullptr || normalized->size() != kept) return false;
  }
  Shape expected;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (of_rows ? axis < axes->size() : axis != 1) expected.emplace_back(static_cast<int64_t>(axis));
  }
  return *axes == expected;
}

/// Adds a task that sums the result's gradient, if that is the gradient of the bias.
bool join_sum(const Graph& graph, KernelTasks& one, TaskId task) {
  const ValueId gradient = graph.inputs(task)[0];
  if (!one.mask()[1] || one.mask()[2] || result_gradient(one) != gradient) return false;
  if (!is_bias_gradient(graph, task, one)) return false;
  std::vector<Argument>& arguments = one.kernel_call().arguments;
  if (one.kernel->bias_sizes >= 0)
    arguments[static_cast<size_t>(one.kernel->bias_sizes)] = Argument(*graph.type(graph.outputs(task)[0]).shape);
  if (one.kernel->bias_shape >= 0) {
    const Argument scale = arguments[one.kernel->shape_only[0]];
    if (!std::holds_alternative<aten::Value>(scale.value)) return false;
    arguments[static_cast<size_t>(one.kernel->bias_shape)] = scale;
  }
  one.mask()[2] = true;
  one.operands.push_back(gradient);
  one.made.tasks.push_back(task);
  one.made.lowering.results.emplace_back(Made{one.call, 2});
  return true;
}

/// One function.
class TaskMerger {
 public:
  TaskMerger(const Graph& graph, std::span<const TaskId> tasks, DeviceType device)
      : graph_(graph), device_(device), places_(graph.task_count()) {
    for (size_t i = 0; i < tasks.size(); ++i) places_[tasks[i].index()] = i + 1;
  }

  void add(TaskId task, bool apart) {
    const GradientKernel* kernel = apart ? nullptr : kernel_of(graph_.op(task));
    auto one = kernel == nullptr ? std::nullopt : kernel_task(graph_, task, *kernel, device_);
    if (joins(task, one)) return;
    if (one) by_gradient_[graph_.inputs(task)[0]].push_back(calls_.size());
    calls_.push_back({task, std::move(one)});
  }

  std::vector<MergedCall> calls() && {
    std::vector<MergedCall> made;
    for (auto& [first, kernel] : calls_) {
      if (!kernel || kernel->made.tasks.size() == 1) {
        made.push_back({{first}, {}});
      } else {
        drop_unread_placeholders(kernel->made.lowering);
        made.push_back(std::move(kernel->made));
      }
    }
    return made;
  }

 private:
  struct Entry {
    TaskId first;
    std::optional<KernelTasks> kernel;
  };

  bool joins(TaskId task, const std::optional<KernelTasks>& one) {
    const auto inputs = graph_.inputs(task);
    if (inputs.empty() || !inputs[0].valid() || (!one && inputs.size() != 1)) return false;
    const auto found = by_gradient_.find(inputs[0]);
    if (found == by_gradient_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](size_t entry) {
      KernelTasks& other = *calls_[entry].kernel;
      if (!exist_at(calls_[entry].first, inputs)) return false;
      return one ? one->kernel == other.kernel && join_calls(other, *one) : join_sum(graph_, other, task);
    });
  }

  /// Whether all values are made before a task.
  bool exist_at(TaskId task, std::span<const ValueId> values) const {
    return std::all_of(values.begin(), values.end(), [&](ValueId value) {
      const TaskId maker = value.valid() ? graph_.producer(value) : TaskId();
      return !maker.valid() || places_[maker.index()] < places_[task.index()];
    });
  }

  const Graph& graph_;
  const DeviceType device_;
  std::vector<size_t> places_;  ///< by task: 1 for the first one; 0: another function's
  std::vector<Entry> calls_;
  std::unordered_map<ValueId, std::vector<size_t>> by_gradient_;  ///< calls of kernels by the gradient of the result
};

}  // namespace

std::vector<MergedCall> merged_calls(const Graph& graph, std::span<const TaskId> tasks, std::span<const TaskId> apart,
                                     DeviceType device) {
  TaskMerger merger(graph, tasks, device);
  for (const TaskId task : tasks) merger.add(task, std::binary_search(apart.begin(), apart.end(), task));
  return std::move(merger).calls();
}

}  // namespace rannc::ir
