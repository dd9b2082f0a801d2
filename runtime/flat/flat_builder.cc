// Lowers tasks to instructions and finds the last reader of each value.
#include <ATen/core/List.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/graph/memory_format.h"
#include "ir/graph/views.h"
#include "ir/op/foreign.h"
#include "ir/op/matrix_product.h"
#include "ir/op/merged_calls.h"
#include "ir/op/op.h"
#include "runtime/aten/torch_types.h"
#include "runtime/flat/flat_code.h"
#include "runtime/flat/internal/group_loop.h"
#include "runtime/internal/aten_schema.h"

namespace rannc::runtime {

namespace aten = ir::aten;
using Kind = FlatArgument::Kind;

/// Builds one program.
class FlatBuilder {
 public:
  FlatBuilder(const FlatSpec& spec, SizeTable& sizes)
      : spec_(spec),
        graph_(spec.graph),
        sizes_(sizes),
        code_(std::make_unique<FlatCode>()),
        sums_(spec.adds.begin(), spec.adds.end()) {
    code_->graph = &spec.graph;
    code_->device = spec.device;
    code_->size_table = &sizes;
  }

  Result<FlatProgram> build() {
    select_tasks();
    for (const ValueId value : spec_.arguments) places_[value] = {Kind::kSlot, false, code_->slot_count++};
    code_->argument_count = code_->slot_count;
    for (const auto& [value, sum] : spec_.adds) {
      if (places_.contains(value) || !made_.contains(value)) add_to_sum(value, sum, TaskId());
    }
    const ir::LoopTasks loops = loop_tasks();
    std::vector<TaskId> apart;
    for (const auto& [task, loop] : loops) apart.push_back(task);
    for (const auto& [task, kernel] : spec_.kernels) apart.push_back(task);
    std::sort(apart.begin(), apart.end());
    const std::vector<ir::MergedCall> calls = ir::merged_calls(graph_, tasks_, apart, device_type(spec_.device));
    const std::vector<ir::LoopGroup> groups = ir::loop_groups(graph_, calls, loops);
    std::map<TaskId, const ir::LoopGroup*> at_place;
    for (const ir::LoopGroup& group : groups) at_place[group.place] = &group;
    alias_.emplace(graph_, calls);
    for (const ir::MergedCall& call : calls) {
      if (loops.contains(call.tasks[0])) {
        const auto group = at_place.find(call.tasks[0]);
        if (group != at_place.end()) loop(*group->second, loops);
        continue;
      }
      for (const TaskId task : call.tasks) read_random_operands(task);
      RANNC_TRY(call.tasks.size() > 1 ? lower(call) : lower(call.tasks[0]));
    }
    for (const ValueId value : spec_.results) random_input(value, TaskId());
    for (const ValueId value : spec_.results) code_->results.push_back(place(value));
    find_last_readers();
    name_slots();
    FlatProgram program;
    program.code_ = std::move(code_);
    return program;
  }

 private:
  /// Leaves out tasks that no result and no sum needs.
  void select_tasks() {
    std::set<ValueId> needed(spec_.results.begin(), spec_.results.end());
    for (const auto& [value, sum] : spec_.adds) needed.insert(value);
    for (size_t i = spec_.tasks.size(); i-- > 0;) {
      const auto outputs = graph_.outputs(spec_.tasks[i]);
      if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId v) { return needed.contains(v); })) continue;
      tasks_.push_back(spec_.tasks[i]);
      made_.insert(outputs.begin(), outputs.end());
      const auto inputs = graph_.inputs(spec_.tasks[i]);
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (!ir::reads_operand(graph_, spec_.tasks[i], k)) continue;
        needed.insert(inputs[k]);
        ++readers_[inputs[k]];
      }
    }
    for (const ValueId value : spec_.results) ++readers_[value];
    for (const auto& [value, sum] : spec_.adds) ++readers_[value];
    std::reverse(tasks_.begin(), tasks_.end());
  }

  FlatArgument place(ValueId value) const {
    if (!value.valid()) return {};
    const auto found = places_.find(value);
    if (found != places_.end()) return found->second;
    RANNC_CHECK(!made_.contains(value)) << "%" << graph_.value(value).name << " is read before it is made";
    return {Kind::kFixed, false, value.index()};
  }

  uint32_t new_slots(uint32_t count) {
    code_->slot_count += count;
    return code_->slot_count - count;
  }

  FlatInstruction& add(FlatInstruction instruction, const std::vector<FlatArgument>& arguments) {
    instruction.first = static_cast<uint32_t>(code_->arguments.size());
    instruction.count = static_cast<uint32_t>(arguments.size());
    code_->arguments.insert(code_->arguments.end(), arguments.begin(), arguments.end());
    code_->instructions.push_back(std::move(instruction));
    return code_->instructions.back();
  }

  /// The sums that a value is added to.
  std::vector<uint32_t> sums_of(ValueId value) const {
    std::vector<uint32_t> found;
    const auto [first, last] = sums_.equal_range(value);
    for (auto at = first; at != last; ++at) found.push_back(at->second);
    return found;
  }

  bool awaits_random_input(ValueId value) const {
    return !places_.contains(value) &&
           std::find(spec_.random_inputs.begin(), spec_.random_inputs.end(), value) != spec_.random_inputs.end();
  }

  /// Draws a random input if it is read for the first time.
  void random_input(ValueId value, TaskId task) {
    if (!awaits_random_input(value)) return;
    const uint32_t slot = new_slots(1);
    places_[value] = {Kind::kSlot, false, slot};
    add({.kind = FlatInstruction::Kind::kRandomInput, .task = task, .slot = slot, .results = 1, .index = value.index()},
        {});
  }

  void read_random_operands(TaskId task) {
    const auto inputs = graph_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (ir::reads_operand(graph_, task, i)) random_input(inputs[i], task);
    }
  }

  void add_to_sum(ValueId value, uint32_t sum, TaskId task) {
    add({.kind = FlatInstruction::Kind::kAdd, .task = task, .index = sum}, {place(value)});
  }

  void add_results_to_sums(TaskId task) {
    for (const ValueId output : graph_.outputs(task)) {
      for (const uint32_t sum : sums_of(output)) add_to_sum(output, sum, task);
    }
  }

  // --- tasks

  std::vector<FlatArgument> operands_of(TaskId task) const {
    const auto inputs = graph_.inputs(task);
    std::vector<FlatArgument> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      operands.push_back(ir::reads_operand(graph_, task, i) ? place(inputs[i]) : FlatArgument{});
    }
    return operands;
  }

  /// Tasks of one call.
  Result<void> lower(const ir::MergedCall& call) {
    std::vector<FlatArgument> operands;
    std::vector<ValueId> outputs;
    for (const TaskId task : call.tasks) {
      const std::vector<FlatArgument> more = operands_of(task);
      operands.insert(operands.end(), more.begin(), more.end());
      const auto made = graph_.outputs(task);
      outputs.insert(outputs.end(), made.begin(), made.end());
    }
    RANNC_TRY(calls(call.tasks[0], call.lowering, operands, outputs));
    for (const TaskId task : call.tasks) add_results_to_sums(task);
    return {};
  }

  Result<void> lower(TaskId task) {
    const auto inputs = graph_.inputs(task), outputs = graph_.outputs(task);
    const std::vector<FlatArgument> operands = operands_of(task);
    if (const auto kernel = spec_.kernels.find(task); kernel != spec_.kernels.end()) {
      code_->kernels.push_back(kernel->second);
      whole(FlatInstruction::Kind::kKernel, task, operands).index = static_cast<uint32_t>(code_->kernels.size() - 1);
    } else if (runs_above_autograd(task)) {
      whole(FlatInstruction::Kind::kTask, task, operands).records = keeps_tape(task);
    } else {
      const auto taped = ir::taped_of(graph_, task);
      const auto in = ir::type_list(graph_, inputs), out = ir::type_list(graph_, taped ? taped->results : outputs);
      auto lowering = ir::lowering({taped ? *taped->op : graph_.op(task), in, out,
                                    taped ? taped->attributes : graph_.attributes(task), device_type(spec_.device)});
      if (!lowering.ok()) return error(graph_.location(task), lowering.diagnostic().message);
      const bool blocks = std::any_of(lowering->calls.begin(), lowering->calls.end(),
                                      [](const aten::Call& call) { return !call.blocks.empty(); });
      if (blocks) {
        whole(FlatInstruction::Kind::kTask, task, operands);
      } else if (!add_product(task, operands)) {
        RANNC_TRY(calls(task, *lowering, operands, outputs));
      } else {
        return {};
      }
    }
    add_results_to_sums(task);
    return {};
  }

  /// Whether a task runs as a whole above autograd. Its checks of guessed types name the operator.
  bool runs_above_autograd(TaskId task) const {
    const auto taped = ir::taped_of(graph_, task);
    const bool foreign = ir::is_foreign(taped ? *taped->op : graph_.op(task));
    return foreign || keeps_tape(task) || ir::vjp_of(graph_, task).has_value();
  }

  /// Whether a task makes a tape that is read. Else it runs like any other.
  bool keeps_tape(TaskId task) const {
    const auto taped = ir::taped_of(graph_, task);
    return taped && readers_.contains(taped->tape);
  }

  FlatInstruction& whole(FlatInstruction::Kind kind, TaskId task, const std::vector<FlatArgument>& operands) {
    const auto outputs = graph_.outputs(task);
    const auto count = static_cast<uint32_t>(outputs.size());
    const uint32_t slot = new_slots(count);
    for (uint32_t i = 0; i < count; ++i) places_[outputs[i]] = {Kind::kSlot, false, slot + i};
    return add({.kind = kind, .task = task, .slot = slot, .results = count}, operands);
  }

  /// Adds a product of matrices to its sum without a value of its own, if nothing else reads it.
  bool add_product(TaskId task, const std::vector<FlatArgument>& operands) {
    const auto outputs = graph_.outputs(task);
    if (outputs.size() != 1) return false;
    const ValueId product = outputs[0];
    const std::vector<uint32_t> sums = sums_of(product);
    if (sums.size() != 1 || readers_.at(product) != 1) return false;
    if (!ir::is_matrix_product(graph_, task)) return false;
    add({.kind = FlatInstruction::Kind::kAddProduct, .task = task, .index = sums[0]}, operands);
    return true;
  }

  // --- loops

  ir::LoopTasks loop_tasks() const {
    ir::LoopTasks found;
    if (!spec_.loops) return found;
    const std::vector<bool> channels_last = ir::channels_last(graph_);
    const auto is_channels_last = [&](ValueId value) { return value.valid() && channels_last[value.index()]; };
    for (const TaskId task : tasks_) {
      const auto inputs = graph_.inputs(task), outputs = graph_.outputs(task);
      const bool excluded = spec_.kernels.contains(task) ||
                            std::any_of(inputs.begin(), inputs.end(), is_channels_last) ||
                            std::any_of(outputs.begin(), outputs.end(), is_channels_last);
      if (excluded) continue;
      if (auto loop = ir::loop_task(graph_, task)) found.emplace(task, *std::move(loop));
    }
    return found;
  }

  void loop(const ir::LoopGroup& group, const ir::LoopTasks& loops) {
    const auto is_read = [&](ValueId value) { return leaves(value, group); };
    const auto is_random = [&](ValueId value) { return awaits_random_input(value); };
    GroupLoop made = group_loop(graph_, group, {loops, *alias_, sizes_, is_read, is_random});
    std::vector<FlatArgument> arguments;
    for (size_t i = 0; i < made.inputs.size(); ++i) {
      const GroupLoop::Input& input = made.inputs[i];
      if (made.loop.inputs[i].random) {
        arguments.emplace_back();
        continue;
      }
      random_input(input.operand, input.task);
      arguments.push_back(
          place(places_.contains(input.value) || !made_.contains(input.value) ? input.value : input.operand));
    }
    const uint32_t slot = new_slots(static_cast<uint32_t>(made.outputs.size()));
    for (uint32_t i = 0; i < made.outputs.size(); ++i) places_[made.outputs[i]] = {Kind::kSlot, false, slot + i};
    code_->loops.push_back(std::move(made.loop));
    add({.kind = FlatInstruction::Kind::kLoop,
         .task = group.tasks[0],
         .slot = slot,
         .results = static_cast<uint32_t>(made.outputs.size()),
         .index = static_cast<uint32_t>(code_->loops.size() - 1)},
        arguments);
    for (const TaskId task : group.tasks) add_results_to_sums(task);
  }

  /// Whether something outside the group reads a value. Members read through reshapes that keep columns.
  bool leaves(ValueId value, const ir::LoopGroup& group) const {
    const bool requested = std::find(spec_.results.begin(), spec_.results.end(), value) != spec_.results.end();
    if (requested || sums_.contains(value)) return true;
    return graph_.any_use(value, [&](ir::Graph::Use use) {
      if (!std::binary_search(tasks_.begin(), tasks_.end(), use.task)) return false;
      return std::find(group.tasks.begin(), group.tasks.end(), use.task) == group.tasks.end();
    });
  }

  // --- calls

  struct Frame {
    const std::vector<FlatArgument>& operands;
    std::vector<uint32_t> first;  // by call: slot of its first result
  };

  static FlatArgument resolve(const aten::Value& value, const Frame& frame) {
    if (const auto* operand = std::get_if<aten::Operand>(&value)) {
      return operand->index < frame.operands.size() ? frame.operands[operand->index] : FlatArgument{};
    }
    const auto& made = std::get<aten::Made>(value);
    return {Kind::kSlot, false, frame.first[made.call] + made.index};
  }

  /// Whether a call multiplies a stack of rows by one matrix, and LibTorch would not do so by one call of a kernel:
  ///   - If the rows do not lie at equal distances, it multiplies the matrices of the stack one by one. If a gradient
  ///     is required, it copies the rows into one matrix, which is faster.
  ///   - If the rows are not contiguous, it adds a bias separately. A stage that receives them would get other bits.
  bool multiplies_scattered_rows(TaskId task, const aten::Call& call) {
    if (call.schema != "aten::linear" && call.schema != "aten::matmul") return false;
    const auto inputs = graph_.inputs(task);
    const auto rank = [&](size_t i) { return graph_.type(inputs[i]).shape ? graph_.type(inputs[i]).shape->size() : 0; };
    if (inputs.size() < 2 || rank(0) < 3 || rank(1) != 2) return false;
    if (!views_) views_.emplace(graph_);
    const bool biased = inputs.size() > 2 && inputs[2].valid();
    return biased ? views_->is_scattered(inputs[0]) : !views_->merges(graph_, inputs[0], 1);
  }

  Result<void> calls(TaskId task, const aten::Lowering& lowering, std::vector<FlatArgument> operands,
                     std::span<const ValueId> outputs) {
    const bool scattered = std::any_of(lowering.calls.begin(), lowering.calls.end(),
                                       [&](const aten::Call& call) { return multiplies_scattered_rows(task, call); });
    if (scattered) operands[0] = contiguous(task, operands[0]);
    Frame frame{operands, {}};
    const bool auxiliary = !ir::taped_of(graph_, task) && graph_.outputs(task).size() > graph_.op(task).min_results();
    for (const aten::Call& call : lowering.calls) {
      const c10::OperatorHandle* handle = handle_of(call.schema);
      if (handle == nullptr) return error(graph_.location(task), "LibTorch has no operator `" + call.schema + "`");
      const c10::FunctionSchema& schema = handle->schema();
      std::vector<FlatArgument> arguments;
      for (size_t i = 0; i < schema.arguments().size(); ++i) {
        const aten::Argument* given = argument_for(call, schema, i);
        if (given == nullptr) {
          RANNC_CHECK(schema.arguments()[i].default_value().has_value())
              << call.schema << " lacks " << schema.arguments()[i].name();
          arguments.push_back(constant(*schema.arguments()[i].default_value()));
        } else {
          arguments.push_back(argument(given->value, frame));
          const bool tensor = schema.arguments()[i].type()->kind() == c10::TypeKind::TensorType;
          if (tensor && arguments.back().kind == Kind::kAbsent) arguments.back() = constant(at::Tensor());
        }
      }
      frame.first.push_back(new_slots(call.results));
      add({.kind = FlatInstruction::Kind::kCall,
           .task = task,
           .grad_mode = auxiliary,
           .handle = *handle,
           .slot = frame.first.back(),
           .results = call.results},
          arguments);
    }
    for (size_t i = 0; i < lowering.results.size(); ++i) places_[outputs[i]] = resolve(lowering.results[i], frame);
    return {};
  }

  /// A copy, because `aten::contiguous` leaves axes of one element, such as one sample, with strides of scattered rows.
  FlatArgument contiguous(TaskId task, const FlatArgument& operand) {
    const FlatArgument format = constant(c10::MemoryFormat::Contiguous);
    const uint32_t slot = new_slots(1);
    add({.kind = FlatInstruction::Kind::kCall,
         .task = task,
         .handle = *handle_of("aten::clone"),
         .slot = slot,
         .results = 1},
        {operand, format});
    return {Kind::kSlot, false, slot};
  }

  FlatArgument constant(c10::IValue value) {
    if (value.isNone()) return {};
    code_->constants.push_back(std::move(value));
    return {Kind::kConstant, false, static_cast<uint32_t>(code_->constants.size() - 1)};
  }

  FlatArgument size(const ir::Dim& dim) {
    code_->sizes.push_back(sizes_.number(dim));
    return {Kind::kSize, false, static_cast<uint32_t>(code_->sizes.size() - 1)};
  }

  FlatArgument size_list(const ir::Shape& dims) {
    std::vector<uint32_t> numbers;
    for (const ir::Dim& dim : dims) numbers.push_back(sizes_.number(dim));
    code_->size_lists.push_back(std::move(numbers));
    return {Kind::kSizes, false, static_cast<uint32_t>(code_->size_lists.size() - 1)};
  }

  FlatArgument tensors(const std::vector<aten::Value>& values, const Frame& frame) {
    FlatCode::TensorList list;
    for (const aten::Value& value : values) {
      list.items.push_back(resolve(value, frame));
      list.optional = list.optional || list.items.back().kind == Kind::kAbsent;
    }
    code_->lists.push_back(std::move(list));
    return {Kind::kTensors, false, static_cast<uint32_t>(code_->lists.size() - 1)};
  }

  FlatArgument argument(const aten::Argument::Kind& kind, const Frame& frame) {
    if (auto fixed = constant_of(kind)) return constant(*std::move(fixed));
    if (const auto* value = std::get_if<aten::Value>(&kind)) return resolve(*value, frame);
    if (const auto* values = std::get_if<std::vector<aten::Value>>(&kind)) return tensors(*values, frame);
    if (const auto* dims = std::get_if<ir::Shape>(&kind)) return size_list(*dims);
    if (std::holds_alternative<aten::Device>(kind)) return constant(spec_.device);
    if (std::holds_alternative<aten::Training>(kind)) return {Kind::kTraining, false, 0};
    const auto* scalar = std::get_if<aten::Scalar>(&kind);
    return size(scalar != nullptr ? std::get<ir::Dim>(scalar->number) : std::get<ir::Dim>(kind));
  }

  /// Two values share a slot if one is the other. The slot has the first one.
  void name_slots() {
    code_->values.resize(code_->slot_count);
    for (const auto& [value, at] : places_) {
      if (at.kind != Kind::kSlot) continue;
      ValueId& named = code_->values[at.index];
      if (!named.valid() || value < named) named = value;
    }
  }

  // --- liveness

  void mark(FlatArgument& argument, std::vector<bool>& read) {
    if (argument.kind == Kind::kTensors) {
      auto& items = code_->lists[argument.index].items;
      for (size_t i = items.size(); i-- > 0;) mark(items[i], read);
    }
    if (argument.kind != Kind::kSlot) return;
    argument.last = !read[argument.index];
    read[argument.index] = true;
  }

  void find_last_readers() {
    std::vector<bool> read(code_->slot_count);
    for (size_t i = code_->results.size(); i-- > 0;) mark(code_->results[i], read);
    code_->dead.resize(code_->instructions.size());
    for (size_t i = code_->instructions.size(); i-- > 0;) {
      const FlatInstruction& instruction = code_->instructions[i];
      for (uint32_t k = 0; k < instruction.results; ++k) {
        if (!read[instruction.slot + k]) code_->dead[i].push_back(instruction.slot + k);
      }
      for (uint32_t k = instruction.count; k-- > 0;) mark(code_->arguments[instruction.first + k], read);
    }
  }

  const FlatSpec& spec_;
  const ir::Graph& graph_;
  SizeTable& sizes_;
  std::unique_ptr<FlatCode> code_;
  std::vector<TaskId> tasks_;
  std::set<ValueId> made_;  // by the tasks
  std::map<ValueId, uint32_t> readers_;
  const std::multimap<ValueId, uint32_t> sums_;
  std::map<ValueId, FlatArgument> places_;
  std::optional<ir::LoopAliases> alias_;
  std::optional<ir::Views> views_;  // computed if a product needs it
};

Result<FlatProgram> FlatProgram::build(const FlatSpec& spec, SizeTable& sizes) {
  return FlatBuilder(spec, sizes).build();
}

}  // namespace rannc::runtime
