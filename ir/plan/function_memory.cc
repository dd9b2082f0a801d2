// Follows the tasks of a function and the memory of their values.
#include "ir/plan/function_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/gradient/vjp.h"
#include "ir/graph/byte_count.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/kernel_scratch.h"
#include "ir/op/matrix_product.h"
#include "ir/op/merged_calls.h"
#include "ir/op/op.h"
#include "ir/op/op_memory.h"

namespace rannc::ir {

namespace {

using Ids = std::vector<ValueId>;
using Kind = FunctionKind;

bool contains(const Ids& sorted, ValueId value) { return std::binary_search(sorted.begin(), sorted.end(), value); }

Ids sorted(Ids values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

Ids sample_inputs(const Plan& plan, const Graph& joint) {
  Ids found;
  for (const ValueId value : joint.values()) {
    if (joint.kind(value) != ValueKind::kInput) continue;
    const ValueId given = plan.graph.find(joint.value(value).name);
    if (given.valid() && plan.graph.kind(given) == ValueKind::kInput) found.push_back(value);
  }
  return found;
}

FunctionFollower::FunctionFollower(const Plan& plan, StageId stage)
    : stage_(*plan.functions[stage.index()]),
      table_(function_table(stage_)),
      views_(stage_.joint.graph),
      samples_(sample_inputs(plan, stage_.joint.graph)),
      device_(device_type(plan)),
      instructions_(instruction_sets(plan, stage)) {
  const Graph& graph = stage_.joint.graph;
  const size_t count = graph.value_count();
  fixed_.assign(count, false);
  for (const ValueId value : graph.values()) {
    const TaskId task = graph.producer(value);
    const ValueKind kind = graph.kind(value);
    const bool leaf = !task.valid() && kind != ValueKind::kInput && kind != ValueKind::kRandomInput;
    const bool early =
        task.valid() && (table_.place[task.index()] == Kind::kLoad || table_.place[task.index()] == Kind::kStep);
    fixed_[value.index()] = leaf || early;
  }
  for (const ValueId value : samples_) fixed_[value.index()] = true;
  saved_.assign(count, false);
  kept_.assign(count, false);
  for (const ValueId value : table_.saved) saved_[views_.base(value).index()] = true;
  for (const ValueId value : table_.recompute) kept_[views_.base(value).index()] = true;
}

/// One run of one function.
class FunctionWalk {
 public:
  struct Function {
    std::vector<TaskId> tasks;
    Ids arguments;   ///< held before; freed by their last reader
    Ids results;     ///< held to the end
    Ids added = {};  ///< sorted: terms of sums
    bool creates_sums = false;
  };

  FunctionWalk(const FunctionFollower& follower, const Bindings& sizes)
      : f_(follower), graph_(follower.stage_.joint.graph), sizes_(sizes), bytes_of_(graph_.value_count()) {}

  int64_t peak(const Function& function) {
    function_ = &function;
    held_.clear();
    made_.clear();
    readers_.clear();
    live_ = peak_ = 0;
    select();
    for (const ValueId value : sorted(function.arguments)) hold(value);
    live_ = peak_ = 0;
    for (const ValueId value : function.added) {
      if (contains(arguments_, value)) add(value);
    }
    for (const MergedCall& call : merged_calls(graph_, tasks_)) step(call.tasks);
    return peak_;
  }

  /// Bytes of the memory of values, each once.
  int64_t held(const Ids& values) {
    std::set<ValueId> bases;
    int64_t total = 0;
    for (const ValueId value : values) {
      const ValueId base = f_.views_.base(value);
      if (!f_.fixed_[base.index()] && bases.insert(base).second) total += bytes(base);
    }
    return total;
  }

  int64_t bytes(ValueId value) {
    std::optional<int64_t>& known = bytes_of_[value.index()];
    if (!known) known = measured(value);
    return *known;
  }

  int64_t sum_bytes(ValueId value) {
    ValueType type = graph_.type(value);
    type.dtype = sum_dtype(type.dtype);
    return byte_count(type).evaluate(sizes_).value_or(0);
  }

 private:
  /// A gradient of rows has the rows that were looked up and their numbers.
  int64_t measured(ValueId value) {
    const ValueType& type = graph_.type(value);
    const TaskId task = graph_.producer(value);
    if (type.rows && task.valid()) {
      int64_t total = 0;
      for (const ValueId operand : graph_.inputs(task)) total += operand.valid() ? bytes(operand) : 0;
      return total;
    }
    return byte_count(type).evaluate(sizes_).value_or(0);
  }

  /// Leaves out tasks that no result and no sum needs, and finds the readers of each value.
  void select() {
    const Function& f = *function_;
    arguments_ = sorted(f.arguments);
    results_ = sorted(f.results);
    tasks_.clear();
    std::set<ValueId> needed(f.results.begin(), f.results.end());
    needed.insert(f.added.begin(), f.added.end());
    for (size_t i = f.tasks.size(); i-- > 0;) {
      const TaskId task = f.tasks[i];
      const auto outputs = graph_.outputs(task);
      if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId v) { return needed.contains(v); })) continue;
      tasks_.push_back(task);
      for (const ValueId operand : operands(task)) {
        needed.insert(operand);
        ++readers_[operand];
      }
    }
    std::reverse(tasks_.begin(), tasks_.end());
  }

  /// The operands whose numbers a task reads, each once.
  std::set<ValueId> operands(TaskId task) const {
    std::set<ValueId> found;
    const auto inputs = graph_.inputs(task);
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (reads_operand(graph_, task, k)) found.insert(inputs[k]);
    }
    return found;
  }

  TaskId origin(TaskId task) const { return f_.stage_.joint.origins[task.index()].task; }

  // --- memory

  void grow(int64_t bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }
  void hold(ValueId value) {
    const ValueId base = f_.views_.base(value);
    if (f_.fixed_[base.index()] || ++held_[base] > 1) return;
    grow(bytes(base));
  }
  void drop(ValueId value) {
    const ValueId base = f_.views_.base(value);
    if (f_.fixed_[base.index()] || --held_[base] > 0) return;
    live_ -= bytes(base);
  }

  /// Frees a value that a task has read or made, unless it leaves the function or is read later.
  void drop_if_unread(ValueId value) {
    if (contains(results_, value) || !exists(value)) return;
    const auto readers = readers_.find(value);
    if (readers == readers_.end() || readers->second == 0) drop(value);
  }
  /// Whether a value is held by this run: an argument, or made by one of its tasks.
  bool exists(ValueId value) const { return contains(arguments_, value) || made_.contains(value); }

  /// Runs tasks that one call computes.
  void step(const std::vector<TaskId>& tasks) {
    const TaskId first = tasks[0];
    for (const TaskId task : tasks) random_input(task);
    const int64_t copies = replace_copied(first);
    const bool in_sum = is_product_into_sum(first);
    if (!in_sum) {
      for (const TaskId task : tasks) make(task);
    }
    const int64_t transient = scratch(tasks);
    grow(transient);
    live_ -= transient;
    if (in_sum && function_->creates_sums) grow(sum_bytes(graph_.outputs(first)[0]));  // while the factors are there
    live_ -= copies;
    for (const TaskId task : tasks) {
      for (const ValueId operand : operands(task)) {
        if (--readers_[operand] == 0 && !replaced_.contains(operand)) drop_if_unread(operand);
      }
    }
    replaced_.clear();
    if (in_sum) return;
    for (const TaskId task : tasks) {
      for (const ValueId output : graph_.outputs(task)) {
        if (contains(function_->added, output)) add(output);
        drop_if_unread(output);
      }
    }
  }

  void random_input(TaskId task) {
    for (const ValueId operand : operands(task)) {
      if (graph_.kind(operand) != ValueKind::kRandomInput || exists(operand)) continue;
      made_.insert(operand);
      hold(operand);
    }
  }

  void make(TaskId task) {
    for (const ValueId output : graph_.outputs(task)) {
      if (is_unread(output) && is_tape(graph_, output)) continue;  // not recorded
      made_.insert(output);
      hold(output);
    }
  }

  bool is_unread(ValueId value) const { return !readers_.contains(value) && !contains(results_, value); }

  /// Copies operands, and frees those that nothing else reads. Returns the bytes of the copies.
  int64_t replace_copied(TaskId task) {
    if (graph_.op(task).copied == nullptr) return 0;
    int64_t total = 0;
    for (const uint32_t index : graph_.op(task).copied(MemoryCall(graph_, task, f_.views_, f_.device_))) {
      const ValueId operand = graph_.inputs(task)[index];
      grow(bytes(operand));
      total += bytes(operand);
      const bool last = readers_[operand] == 1 && !contains(results_, operand) && exists(operand);
      if (last && replaced_.insert(operand).second) drop(operand);
    }
    return total;
  }

  /// A product of matrices is added to its sum without memory of its own, if nothing else reads it.
  bool is_product_into_sum(TaskId task) const {
    const auto outputs = graph_.outputs(task);
    if (outputs.size() != 1 || !contains(function_->added, outputs[0])) return false;
    if (readers_.contains(outputs[0]) || contains(results_, outputs[0])) return false;
    return is_matrix_product(graph_, task);
  }

  /// The first term becomes the sum if nothing else holds its memory; else it is copied.
  void add(ValueId value) {
    const ValueType& type = graph_.type(value);
    const int64_t sum = sum_bytes(value);
    if (!function_->creates_sums) {
      // LibTorch widens a term before it adds it.
      if (sum_dtype(type.dtype) != type.dtype) peak_ = std::max(peak_, live_ + sum);
      return;
    }
    const bool own = f_.views_.base(value) == value && !readers_.contains(value) && !contains(results_, value) &&
                     sum_dtype(type.dtype) == type.dtype && !type.rows;
    if (own) {
      live_ += sum;  // in the place of the term, which is dropped next
    } else {
      grow(sum);
    }
  }

  // --- memory that kernels need for themselves

  int64_t scratch(const std::vector<TaskId>& tasks) {
    const TaskId task = tasks[0];
    const OpInfo& op = graph_.op(task);
    uint64_t wanted = 0;
    for (const TaskId each : tasks) wanted |= convolution_gradient(graph_.op(each));
    if (wanted != 0 && has_kernel_scratch(graph_.op(origin(task)))) {
      // A call for one gradient gets an empty tensor in the place of the other operand.
      const int64_t placeholder = wanted == 3 ? 0 : bytes(graph_.outputs(task)[0]);
      return placeholder + packed(tasks) +
             kernel_scratch(graph_, origin(task), wanted, sizes_, f_.instructions_).backward;
    }
    if (has_kernel_scratch(op))
      return packed(tasks) + kernel_scratch(graph_, task, 0, sizes_, f_.instructions_).forward;
    if (const auto vjp = vjp_of(graph_, task))
      return vjp->tape.valid() ? workspace(origin(task)) : repeated(origin(task));
    const auto taped = taped_of(graph_, task);
    const auto temporary = taped ? taped->op->temporary : op.temporary;
    if (temporary == nullptr) return 0;
    return temporary(MemoryCall(graph_, task, f_.views_, f_.device_)).evaluate(sizes_).value_or(0);
  }

  /// The copies of operands of convolutions that are not contiguous.
  int64_t packed(const std::vector<TaskId>& tasks) {
    std::set<ValueId> copied;
    for (const TaskId task : tasks) {
      for (const ValueId operand : operands(task)) {
        if (operand.valid() && f_.views_.is_scattered(operand)) copied.insert(operand);
      }
    }
    int64_t total = 0;
    for (const ValueId operand : copied) total += bytes(operand);
    return total;
  }

  /// What the gradient of a task on its tape allocates.
  int64_t workspace(TaskId task) const {
    const auto taped = taped_of(graph_, task);
    return taped ? tape_use(graph_, *taped, task).workspace_bytes.evaluate(sizes_).value_or(0) : 0;
  }

  /// What the tape of one repeated task holds.
  int64_t repeated(TaskId task) {
    int64_t total = 0;
    for (const ValueId output : graph_.outputs(task)) total += bytes(output);
    if (!graph_.op(task).tape) return total;
    const TapeUse use = tape_use(graph_, task, ~uint64_t{0});
    return total + use.own_bytes.evaluate(sizes_).value_or(0) + use.workspace_bytes.evaluate(sizes_).value_or(0);
  }

  const FunctionFollower& f_;
  const Graph& graph_;
  const Bindings& sizes_;
  std::vector<std::optional<int64_t>> bytes_of_;
  const Function* function_ = nullptr;
  Ids arguments_, results_;  ///< sorted
  std::vector<TaskId> tasks_;
  std::set<ValueId> made_;
  std::set<ValueId> replaced_;           ///< operands whose copies the current task reads
  std::map<ValueId, uint32_t> readers_;  ///< tasks to come
  std::map<ValueId, uint32_t> held_;     ///< by base: number of values
  int64_t live_ = 0, peak_ = 0;
};

FunctionMemory FunctionFollower::follow(const Bindings& sizes) const {
  const Joint& joint = stage_.joint;
  FunctionWalk walk(*this, sizes);
  int64_t samples = 0;
  for (const ValueId value : samples_) samples += walk.bytes(value);
  const StageFunction& forward = table_[Kind::kForward];
  Ids inputs, seeds, gradients;
  for (const ValueId value : forward.arguments) {
    if (joint.graph.kind(value) == ValueKind::kInput) inputs.push_back(value);
  }
  for (const auto& output : joint.outputs) seeds.push_back(output.gradient);
  for (const auto& input : joint.inputs) gradients.push_back(input.gradient);
  const auto outputs = joint.graph.outputs();
  const Ids returned(outputs.begin(), outputs.end());
  FunctionMemory memory;
  memory.evaluate = samples + walk.peak({forward.tasks, inputs, returned});
  if (stage_.joint.outputs.empty() && table_.saved.empty() && joint.gradients.empty()) return memory;
  const Ids results = forward.results;
  memory.saved = samples + walk.held(table_.saved);
  memory.forward = samples + walk.peak({forward.tasks, inputs, joined(results, table_.saved)});
  memory.kept = samples + walk.held(table_.recompute);
  memory.begin = memory.forward;
  if (stage_.kept) {
    memory.begin = samples + walk.peak({forward.tasks, inputs, joined(results, table_.recompute)});
    const StageFunction& rebuild = table_[Kind::kRebuild];
    memory.rebuild = walk.peak({rebuild.tasks, table_.recompute, joined(table_.recompute, table_.rebuilt)});
  }
  const Ids arguments = joined(table_.saved, seeds);
  const StageFunction &input = table_[Kind::kInput], &weight = table_[Kind::kWeight], &both = table_[Kind::kBackward];
  memory.pending = samples + walk.held(weight.arguments);
  memory.input = walk.peak({input.tasks, arguments, joined(gradients, weight.arguments), sorted(input.added)});
  for (const bool first : {false, true}) {
    (first ? memory.first_weight : memory.weight) =
        walk.peak({weight.tasks, weight.arguments, {}, sorted(weight.added), first});
    (first ? memory.first_backward : memory.backward) =
        walk.peak({both.tasks, arguments, gradients, sorted(both.added), first});
  }
  return memory;
}

StepMemory FunctionFollower::step(const Bindings& sizes) const {
  const Graph& graph = stage_.joint.graph;
  FunctionWalk walk(*this, sizes);
  StepMemory memory;
  std::set<ValueId> counted;
  for (const Kind kind : {Kind::kLoad, Kind::kStep}) {
    for (const TaskId task : table_[kind].tasks) {
      for (const ValueId output : graph.outputs(task)) {
        const bool used = graph.any_use(output, [&](Graph::Use use) {
          const Kind reader = table_.place[use.task.index()];
          return reader != Kind::kLoad && reader != Kind::kStep;
        });
        const ValueId base = views_.base(output);
        if (used && graph.producer(base).valid() && counted.insert(base).second) memory.fixed += walk.bytes(base);
      }
    }
  }
  const StageFunction& end = table_[Kind::kStepEnd];
  for (const ValueId total : end.arguments) memory.totals += walk.sum_bytes(total);
  for (const ValueId part : end.results) memory.late += walk.sum_bytes(part);
  memory.end = walk.peak({end.tasks, end.arguments, {}, sorted(end.results), true});
  return memory;
}

}  // namespace rannc::ir
