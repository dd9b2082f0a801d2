// Follows the instructions of a program and the memory of their values.
#include "ir/program/program_memory.h"

#include <algorithm>
#include <set>

#include "ir/gradient/vjp.h"
#include "ir/graph/byte_count.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/kernel_scratch.h"
#include "ir/op/op.h"
#include "ir/op/op_memory.h"
#include "ir/program/allocator_blocks.h"

namespace rannc::ir {

using Kind = Instruction::Kind;

ProgramMemory::ProgramMemory(const Model& model, const Bindings& sizes)
    : model_(model),
      graph_(model.joint.graph),
      sizes_(sizes),
      bytes_of_(graph_.value_count()),
      is_sample_(graph_.value_count()),
      held_(graph_.value_count()) {
  for (const ValueId value : model.samples) is_sample_[value.index()] = true;
}

int64_t ProgramMemory::peak(const Program& program, const Run& run) {
  program_ = &program;
  run_ = run;
  for (const ProgramSlot& slot : program.slots) {
    if (slot.memory.valid()) held_[slot.memory.index()] = 0;  // of the program alone: there may be many, of one graph
  }
  for (uint32_t i = 0; i < program.arguments; ++i) hold(program.slots[i]);
  live_ = peak_ = 0;
  for (const Instruction& each : program.instructions) step(each);
  return peak_;
}

int64_t ProgramMemory::bytes(ValueId value) {
  std::optional<int64_t>& known = bytes_of_[value.index()];
  if (known) return *known;
  const ValueType& type = graph_.type(value);
  const TaskId task = graph_.producer(value);
  int64_t total = 0;
  if (type.rows && task.valid()) {
    for (const ValueId operand : graph_.inputs(task)) total += operand.valid() ? bytes(operand) : 0;
  } else {
    total = block_bytes(byte_count(type).evaluate(sizes_).value_or(0), model_.device);
  }
  bytes_of_[value.index()] = total;
  return total;
}

int64_t ProgramMemory::sum_bytes(ValueId value) const {
  ValueType type = graph_.type(value);
  type.dtype = sum_dtype(type.dtype);
  return block_bytes(byte_count(type).evaluate(sizes_).value_or(0), model_.device);
}

// --- memory of slots

/// The value whose memory a slot has; invalid: none that counts.
ValueId ProgramMemory::memory_of(const ProgramSlot& slot) const {
  return slot.memory.valid() && is_sample_[slot.memory.index()] ? ValueId() : slot.memory;
}

void ProgramMemory::grow(int64_t bytes) {
  live_ += bytes;
  peak_ = std::max(peak_, live_);
}

void ProgramMemory::hold(const ProgramSlot& slot) {
  const ValueId memory = memory_of(slot);
  if (memory.valid() && ++held_[memory.index()] == 1) grow(bytes(memory));
}

void ProgramMemory::drop(const ProgramSlot& slot) {
  const ValueId memory = memory_of(slot);
  if (memory.valid() && --held_[memory.index()] == 0) live_ -= bytes(memory);
}

/// Whether the memory of a slot ends with an instruction that reads it.
bool ProgramMemory::frees(const ProgramOperand& operand) const {
  return operand.last && !(run_.keeps_arguments && operand.index < program_->arguments);
}

// --- instructions

void ProgramMemory::step(const Instruction& of) {
  if (of.kind == Kind::kReturn) return;
  if (of.kind == Kind::kMark) return run_.marks ? mark(of.number) : void();
  if (of.kind == Kind::kAdd) add(of);
  const auto& slots = program_->slots;
  const auto is_held = [&](uint32_t slot) {
    // A tape that nothing reads is not recorded.
    const bool dead = std::find(of.dead.begin(), of.dead.end(), slot) != of.dead.end();
    return !dead || !is_tape(graph_, slots[slot].value);
  };
  replaced_.clear();
  const int64_t copies = of.kind == Kind::kCalls || of.kind == Kind::kAddProduct ? replace_copied(of) : 0;
  for (uint32_t slot = of.first_result; slot < of.first_result + of.results; ++slot) {
    if (is_held(slot)) hold(slots[slot]);
  }
  // A sum that takes the place of its first term counts beside it until the term is dropped: no peak.
  if (const int64_t transient = block_bytes(scratch(of), model_.device); transient > 0) {
    grow(transient);
    live_ -= transient;
  }
  if (of.kind == Kind::kAddProduct && run_.creates_sums) grow(sum_bytes(graph_.outputs(of.task())[0]));
  live_ -= copies;
  for (const ProgramOperand& operand : of.operands) {
    if (frees(operand) && std::find(replaced_.begin(), replaced_.end(), operand.index) == replaced_.end())
      drop(slots[operand.index]);
  }
  for (const uint32_t slot : of.dead) {
    if (is_held(slot)) drop(slots[slot]);
  }
}

/// A sum over replicas begins, and the one before the last has ended.
void ProgramMemory::mark(uint32_t bucket) {
  if (bucket >= model_.sums.size()) return;
  if (bucket > 1) live_ -= model_.sums[bucket - 2];
  grow(model_.sums[bucket]);
}

/// The first term becomes the sum if nothing else holds its memory; else it is copied.
void ProgramMemory::add(const Instruction& of) {
  const ProgramOperand& operand = of.operands[0];
  const bool in_slot = operand.kind == ProgramOperand::Kind::kSlot;
  const ProgramSlot slot = in_slot ? program_->slots[operand.index] : ProgramSlot{ValueId(operand.index), {}};
  const ValueType& type = graph_.type(slot.value);
  const int64_t sum = sum_bytes(slot.value);
  const bool same_type = sum_dtype(type.dtype) == type.dtype;
  if (!run_.creates_sums) {
    // LibTorch widens a term before it adds it.
    if (!same_type) peak_ = std::max(peak_, live_ + sum);
    return;
  }
  if (operand.last && slot.memory == slot.value && same_type && !type.rows) {
    live_ += sum;  // in the place of the term, which is dropped next
  } else {
    grow(sum);
  }
}

/// Copies operands, and frees those that nothing else reads. Returns the bytes of the copies.
int64_t ProgramMemory::replace_copied(const Instruction& of) {
  const OpInfo& op = graph_.op(of.task());
  if (op.copied == nullptr) return 0;
  int64_t total = 0;
  for (const uint32_t index : op.copied(MemoryCall(graph_, of.task(), model_.views, program_->device))) {
    const ValueId value = graph_.inputs(of.task())[index];
    grow(bytes(value));
    total += bytes(value);
    const ProgramOperand& operand = of.operands[index];
    const bool again = std::find(replaced_.begin(), replaced_.end(), operand.index) != replaced_.end();
    if (!frees(operand) || again) continue;
    replaced_.push_back(operand.index);
    drop(program_->slots[operand.index]);
  }
  return total;
}

// --- memory that kernels need for themselves

int64_t ProgramMemory::scratch(const Instruction& of) {
  if (of.tasks.empty() || of.kind == Kind::kRandomInput || of.kind == Kind::kAdd || of.kind == Kind::kLoop) return 0;
  const TaskId task = of.task(), origin = model_.joint.origins[task.index()].task;
  const OpInfo& op = graph_.op(task);
  uint64_t wanted = 0;
  for (const TaskId each : of.tasks) wanted |= convolution_gradient(graph_.op(each));
  if (wanted != 0 && has_kernel_scratch(graph_.op(origin))) {
    // A call for one gradient gets an empty tensor in the place of the other operand.
    const int64_t placeholder = wanted == 3 ? 0 : bytes(graph_.outputs(task)[0]);
    return placeholder + packed(of.tasks) +
           kernel_scratch(graph_, origin, wanted, sizes_, model_.instructions).backward;
  }
  if (has_kernel_scratch(op))
    return packed(of.tasks) + kernel_scratch(graph_, task, 0, sizes_, model_.instructions).forward;
  if (const auto vjp = vjp_of(graph_, task)) {
    if (!vjp->tape.valid()) return repeated(origin);
    const auto taped = taped_of(graph_, origin);
    return taped ? tape_use(graph_, *taped, origin).workspace_bytes.evaluate(sizes_).value_or(0) : 0;
  }
  const auto taped = taped_of(graph_, task);
  const auto temporary = taped ? taped->op->temporary : op.temporary;
  if (temporary == nullptr) return 0;
  return temporary(MemoryCall(graph_, task, model_.views, program_->device)).evaluate(sizes_).value_or(0);
}

/// The copies of operands of convolutions that are not contiguous.
int64_t ProgramMemory::packed(std::span<const TaskId> tasks) {
  std::set<ValueId> copied;
  for (const TaskId task : tasks) {
    const auto inputs = graph_.inputs(task);
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (reads_operand(graph_, task, k) && model_.views.is_scattered(inputs[k])) copied.insert(inputs[k]);
    }
  }
  int64_t total = 0;
  for (const ValueId operand : copied) total += bytes(operand);
  return total;
}

/// What the tape of one repeated task holds, and what its gradient allocates.
int64_t ProgramMemory::repeated(TaskId task) {
  int64_t total = 0;
  for (const ValueId output : graph_.outputs(task)) total += bytes(output);
  if (!graph_.op(task).tape) return total;
  const TapeUse use = tape_use(graph_, task, ~uint64_t{0});
  return total + use.own_bytes.evaluate(sizes_).value_or(0) + use.workspace_bytes.evaluate(sizes_).value_or(0);
}

}  // namespace rannc::ir
