// Lowers tasks to instructions and finds the last reader of each value.
#include "ir/program/lower_program.h"

#include <algorithm>
#include <set>

#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/foreign.h"
#include "ir/op/matrix_product.h"
#include "ir/op/merged_calls.h"
#include "ir/op/op.h"
#include "ir/program/internal/loop_of_group.h"
#include "ir/program/internal/text_program.h"

namespace rannc::ir {

class ProgramBuilder {
 public:
  using Kind = Instruction::Kind;

  ProgramBuilder(ProgramLowering& shared, const ProgramSpec& spec)
      : shared_(shared),
        spec_(spec),
        graph_(shared.graph_),
        requested_(spec.results.begin(), spec.results.end()),
        sums_(spec.adds.begin(), spec.adds.end()) {
    program_.name = spec.name;
    program_.graph = &graph_;
    program_.device = shared.options_.device;
    for (const auto& [value, sum] : spec.adds) {
      if (sum >= awaited_.size()) awaited_.resize(sum + 1);
      ++awaited_[sum];
    }
  }

  Result<Program> build() {
    select_tasks();
    for (const ValueId value : spec_.arguments) places_[value] = slot_of(new_slot(value));
    program_.arguments = static_cast<uint32_t>(program_.slots.size());
    for (const auto& [value, sum] : spec_.adds) {
      if (places_.contains(value) || !made_.contains(value)) add_to_sum(value, sum, {});
    }
    pass_marks();
    RANNC_TRY(lower_tasks());
    for (const ValueId value : spec_.results) random_input(value, {});
    std::vector<ProgramOperand> results;
    for (const ValueId value : spec_.results) results.push_back(place(value));
    add({.kind = Kind::kReturn, .operands = std::move(results)});
    find_last_readers();
    return std::move(program_);
  }

 private:
  /// Leaves out tasks that no result and no sum needs.
  void select_tasks() {
    std::set<ValueId> needed = requested_;
    for (const auto& [value, sum] : spec_.adds) needed.insert(value);
    for (size_t i = spec_.tasks.size(); i-- > 0;) {
      const auto outputs = graph_.outputs(spec_.tasks[i]);
      if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId v) { return needed.contains(v); })) continue;
      tasks_.push_back(spec_.tasks[i]);
      made_.insert(outputs.begin(), outputs.end());
      const auto inputs = graph_.inputs(spec_.tasks[i]);
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (!reads_operand(graph_, spec_.tasks[i], k)) continue;
        needed.insert(inputs[k]);
        ++readers_[inputs[k]];
      }
    }
    for (const ValueId value : spec_.results) ++readers_[value];
    for (const auto& [value, sum] : spec_.adds) ++readers_[value];
    std::reverse(tasks_.begin(), tasks_.end());
  }

  // --- slots

  uint32_t new_slot(ValueId value) {
    const ValueId memory = shared_.views_.base(value);
    program_.slots.push_back({value, shared_.is_resident(memory) ? ValueId() : memory});
    return static_cast<uint32_t>(program_.slots.size() - 1);
  }
  static ProgramOperand slot_of(uint32_t slot) { return {ProgramOperand::Kind::kSlot, false, slot}; }

  ProgramOperand place(ValueId value) const {
    if (!value.valid()) return {};
    const auto found = places_.find(value);
    if (found != places_.end()) return found->second;
    RANNC_CHECK(!made_.contains(value)) << "%" << graph_.value(value).name << " is read before it is made";
    return {ProgramOperand::Kind::kFixed, false, value.index()};
  }

  /// Appends an instruction that makes these values.
  void add(Instruction instruction, std::span<const ValueId> makes = {}) {
    instruction.first_result = static_cast<uint32_t>(program_.slots.size());
    instruction.results = static_cast<uint32_t>(makes.size());
    for (const ValueId value : makes) places_[value] = slot_of(new_slot(value));
    program_.instructions.push_back(std::move(instruction));
  }

  std::vector<ProgramOperand> operands_of(const std::vector<TaskId>& tasks) const {
    std::vector<ProgramOperand> operands;
    for (const TaskId task : tasks) {
      const auto inputs = graph_.inputs(task);
      for (size_t i = 0; i < inputs.size(); ++i) {
        operands.push_back(reads_operand(graph_, task, i) ? place(inputs[i]) : ProgramOperand{});
      }
    }
    return operands;
  }

  // --- random inputs and sums

  bool awaits_random_input(ValueId value) const {
    return value.valid() && graph_.kind(value) == ValueKind::kRandomInput && !places_.contains(value);
  }

  /// Makes a random input that is read for the first time.
  void random_input(ValueId value, std::vector<TaskId> reader) {
    if (!awaits_random_input(value)) return;
    add({.kind = Kind::kRandomInput, .tasks = std::move(reader), .number = value.index()}, {&value, 1});
  }

  void read_random_operands(TaskId task) {
    const auto inputs = graph_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (reads_operand(graph_, task, i)) random_input(inputs[i], {task});
    }
  }

  /// The sums that a value is added to.
  std::vector<uint32_t> sums_of(ValueId value) const {
    std::vector<uint32_t> found;
    const auto [first, last] = sums_.equal_range(value);
    for (auto at = first; at != last; ++at) found.push_back(at->second);
    return found;
  }

  void add_to_sum(ValueId value, uint32_t sum, std::vector<TaskId> task) {
    add({.kind = Kind::kAdd, .tasks = std::move(task), .operands = {place(value)}, .number = sum});
    --awaited_[sum];
  }

  bool is_awaited(uint32_t sum) const { return sum < awaited_.size() && awaited_[sum] > 0; }

  /// Appends the marks of buckets whose sums are complete.
  void pass_marks() {
    for (; marked_ < spec_.marks.size(); ++marked_, complete_ = 0) {
      const std::vector<uint32_t>& sums = spec_.marks[marked_];
      while (complete_ < sums.size() && !is_awaited(sums[complete_])) ++complete_;
      if (complete_ < sums.size()) return;
      add({.kind = Kind::kMark, .number = marked_});
    }
  }

  void add_results_to_sums(const std::vector<TaskId>& tasks) {
    for (const TaskId task : tasks) {
      for (const ValueId output : graph_.outputs(task)) {
        for (const uint32_t sum : sums_of(output)) add_to_sum(output, sum, {task});
      }
    }
  }

  // --- tasks

  Result<void> lower_tasks() {
    const LoopTasks& all = shared_.loops();
    LoopTasks loops;
    std::vector<TaskId> apart = shared_.options_.exchanges;
    for (const TaskId task : tasks_) {
      const auto found = all.find(task);
      if (found == all.end()) continue;
      loops.insert(*found);
      apart.push_back(task);
    }
    std::sort(apart.begin(), apart.end());
    const std::vector<MergedCall> calls = merged_calls(graph_, shared_.options_.origins, tasks_, apart);
    const std::vector<LoopGroup> groups = loop_groups(graph_, calls, loops);
    std::map<TaskId, const LoopGroup*> at_place;
    for (const LoopGroup& group : groups) at_place[group.place] = &group;
    const LoopAliases alias(graph_, calls);
    for (const MergedCall& call : calls) {
      if (!loops.contains(call.tasks[0])) {
        RANNC_TRY(lower(call));
      } else if (const auto group = at_place.find(call.tasks[0]); group != at_place.end()) {
        loop(*group->second, loops, alias);
      }
      pass_marks();
    }
    return {};
  }

  Result<void> lower(const MergedCall& call) {
    for (const TaskId task : call.tasks) read_random_operands(task);
    if (call.tasks.size() == 1) return lower(call.tasks[0]);
    ProgramLowering::Lowering lowering;
    if (shared_.options_.calls) {
      auto made = ir::lowering(graph_, call, program_.device);
      if (!made.ok()) return error(graph_.location(call.tasks[0]), made.diagnostic().message);
      lowering = std::make_shared<aten::Lowering>(*std::move(made));
    }
    lower(call.tasks, std::move(lowering));
    return {};
  }

  Result<void> lower(TaskId task) {
    const std::vector<TaskId>& exchanges = shared_.options_.exchanges;
    if (std::binary_search(exchanges.begin(), exchanges.end(), task)) return whole(Kind::kExchange, task);
    if (runs_above_autograd(task)) return whole(Kind::kTask, task);
    ProgramLowering::Lowering lowering;
    if (shared_.options_.calls) {
      RANNC_ASSIGN(lowering, shared_.calls_of(task));
      if (lowering == nullptr) return whole(Kind::kTask, task);
    }
    if (!add_product(task)) lower({task}, std::move(lowering));
    return {};
  }

  /// Calls of one task or of several.
  void lower(const std::vector<TaskId>& tasks, ProgramLowering::Lowering lowering) {
    Instruction instruction{.kind = Kind::kCalls, .tasks = tasks, .operands = operands_of(tasks)};
    const TaskId first = tasks[0];
    instruction.grad_mode = !taped_of(graph_, first) && graph_.outputs(first).size() > graph_.op(first).min_results();
    std::vector<ValueId> outputs, makes;
    for (const TaskId task : tasks) {
      const auto made = graph_.outputs(task);
      outputs.insert(outputs.end(), made.begin(), made.end());
    }
    if (lowering == nullptr) {
      add(std::move(instruction), outputs);
      return add_results_to_sums(tasks);
    }
    std::vector<size_t> same(lowering->results.size());  // by result: the first one that is the same value
    for (size_t i = 0; i < same.size(); ++i) {
      const auto& results = lowering->results;
      same[i] = static_cast<size_t>(std::find(results.begin(), results.end(), results[i]) - results.begin());
      if (std::holds_alternative<aten::Made>(results[i]) && same[i] == i) makes.push_back(outputs[i]);
    }
    for (size_t i = 0; i < same.size(); ++i) {
      const auto* operand = std::get_if<aten::Operand>(&lowering->results[i]);
      if (operand == nullptr) continue;
      const bool given = operand->index < instruction.operands.size();
      places_[outputs[i]] = given ? instruction.operands[operand->index] : ProgramOperand{};
    }
    drop_unread(instruction.operands, *lowering);
    instruction.lowering = lowering;
    if (!lowering->calls.empty()) add(std::move(instruction), makes);
    for (size_t i = 0; i < same.size(); ++i) {
      if (same[i] != i) places_[outputs[i]] = places_.at(outputs[same[i]]);
    }
    add_results_to_sums(tasks);
  }

  /// Leaves out operands that no call reads.
  static void drop_unread(std::vector<ProgramOperand>& operands, const aten::Lowering& lowering) {
    std::vector<bool> read(operands.size());
    for_each_value(lowering, [&](const aten::Value& value) {
      const auto* operand = std::get_if<aten::Operand>(&value);
      if (operand != nullptr && operand->index < read.size()) read[operand->index] = true;
    });
    for (size_t i = 0; i < read.size(); ++i) {
      if (!read[i]) operands[i] = {};
    }
  }

  /// A task that no calls compute.
  Result<void> whole(Kind kind, TaskId task) {
    Instruction instruction{.kind = kind, .tasks = {task}, .operands = operands_of({task})};
    instruction.records = kind == Kind::kTask && keeps_tape(task);
    add(std::move(instruction), graph_.outputs(task));
    add_results_to_sums({task});
    return {};
  }

  /// Whether a task runs as a whole above autograd. Its checks of guessed types name the operator.
  bool runs_above_autograd(TaskId task) const {
    const auto taped = taped_of(graph_, task);
    const bool foreign = is_foreign(taped ? *taped->op : graph_.op(task));
    return foreign || keeps_tape(task) || vjp_of(graph_, task).has_value();
  }

  /// Whether a task makes a tape that is read. Else it runs like any other.
  bool keeps_tape(TaskId task) const {
    const auto taped = taped_of(graph_, task);
    return taped && readers_.contains(taped->tape);
  }

  /// Adds a product of matrices to its sum without a value of its own, if nothing else reads it.
  bool add_product(TaskId task) {
    const auto outputs = graph_.outputs(task);
    if (outputs.size() != 1) return false;
    const std::vector<uint32_t> sums = sums_of(outputs[0]);
    if (sums.size() != 1 || readers_.at(outputs[0]) != 1) return false;
    if (!is_matrix_product(graph_, task, shared_.options_.device)) return false;
    add({.kind = Kind::kAddProduct, .tasks = {task}, .operands = operands_of({task}), .number = sums[0]});
    --awaited_[sums[0]];
    return true;
  }

  // --- loops

  void loop(const LoopGroup& group, const LoopTasks& loops, const LoopAliases& alias) {
    const auto is_read = [&](ValueId value) { return leaves(value, group); };
    const auto is_random = [&](ValueId value) { return awaits_random_input(value); };
    GroupLoop made = loop_of_group(graph_, group, {loops, alias, is_read, is_random});
    Instruction instruction{.kind = Kind::kLoop, .tasks = group.tasks};
    instruction.number = static_cast<uint32_t>(program_.loops.size());
    for (size_t i = 0; i < made.inputs.size(); ++i) {
      const GroupLoop::Input& input = made.inputs[i];
      if (made.loop.inputs[i].random) {
        instruction.operands.emplace_back();
        continue;
      }
      random_input(input.operand, {input.task});
      const bool known = places_.contains(input.value) || !made_.contains(input.value);
      instruction.operands.push_back(place(known ? input.value : input.operand));
    }
    program_.loops.push_back(std::move(made.loop));
    add(std::move(instruction), made.outputs);
    add_results_to_sums(group.tasks);
  }

  /// Whether something outside the group reads a value. Members read through reshapes that keep columns.
  bool leaves(ValueId value, const LoopGroup& group) const {
    if (requested_.contains(value) || sums_.contains(value)) return true;
    return graph_.any_use(value, [&](Graph::Use use) {
      if (!std::binary_search(tasks_.begin(), tasks_.end(), use.task)) return false;
      return std::find(group.tasks.begin(), group.tasks.end(), use.task) == group.tasks.end();
    });
  }

  // --- liveness

  void find_last_readers() {
    std::vector<bool> read(program_.slots.size());
    for (size_t i = program_.instructions.size(); i-- > 0;) {
      Instruction& each = program_.instructions[i];
      for (uint32_t k = 0; k < each.results; ++k) {
        if (!read[each.first_result + k]) each.dead.push_back(each.first_result + k);
      }
      for (size_t k = each.operands.size(); k-- > 0;) {
        ProgramOperand& operand = each.operands[k];
        if (operand.kind != ProgramOperand::Kind::kSlot) continue;
        operand.last = !read[operand.index];
        read[operand.index] = true;
      }
    }
  }

  ProgramLowering& shared_;
  const ProgramSpec& spec_;
  const Graph& graph_;
  const std::set<ValueId> requested_;  ///< results
  Program program_;
  std::vector<TaskId> tasks_;
  std::set<ValueId> made_;  ///< by the tasks
  std::map<ValueId, uint32_t> readers_;
  const std::multimap<ValueId, uint32_t> sums_;
  std::map<ValueId, ProgramOperand> places_;
  std::vector<uint32_t> awaited_;  ///< by sum: adds to come
  uint32_t marked_ = 0;            ///< marks so far
  size_t complete_ = 0;            ///< complete sums of the next mark, those before the first that is not
};

Result<Program> ProgramLowering::lower(const ProgramSpec& spec) { return ProgramBuilder(*this, spec).build(); }

}  // namespace rannc::ir
