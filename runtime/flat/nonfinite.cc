#include "runtime/flat/nonfinite.h"

#include <ATen/ATen.h>

#include <cmath>

#include "runtime/flat/flat_code.h"

namespace rannc::runtime {

namespace {

Nonfinite of_number(const c10::IValue& constant) {
  if (!constant.isDouble() && !constant.isScalar()) return {};
  const double number = constant.toScalar().toDouble();
  return {.nan = std::isnan(number), .infinite = std::isinf(number)};
}

Nonfinite of_tensor(const at::Tensor& tensor) {
  const NonfiniteCounts counts = count_nonfinite(tensor);
  return {.nan = counts.nan > 0, .infinite = counts.infinite > 0};
}

bool adds(const FlatInstruction& instruction) {
  return instruction.kind == FlatInstruction::Kind::kAdd || instruction.kind == FlatInstruction::Kind::kAddProduct;
}

}  // namespace

NonfiniteCounts count_nonfinite(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point()) return {};
  const at::Tensor elements = tensor.layout() == at::kStrided ? tensor : tensor._values();
  NonfiniteCounts counts{.elements = static_cast<uint64_t>(tensor.numel())};
  if (elements.numel() == 0) return counts;
  const auto [least, most] = at::aminmax(elements);  // one pass over memory; NaN propagates
  if (std::isfinite(least.item<double>()) && std::isfinite(most.item<double>())) return counts;
  counts.nan = static_cast<uint64_t>(at::isnan(elements).sum().item<int64_t>());
  counts.infinite = static_cast<uint64_t>(at::isinf(elements).sum().item<int64_t>());
  return counts;
}

NonfiniteWatch::NonfiniteWatch(const FlatCode& code, const FlatRun& run, std::span<const at::Tensor> slots)
    : code_(code), run_(run), found_(code.slot_count), slot_of_(code.graph().value_count(), -1) {
  for (uint32_t slot = 0; slot < code.slot_count; ++slot) {
    if (code.values[slot].valid()) slot_of_[code.values[slot].index()] = slot;
  }
  for (uint32_t slot = 0; slot < code.argument_count(); ++slot) found_[slot] = of_tensor(slots[slot]);
}

void NonfiniteWatch::before(const FlatInstruction& instruction) {
  sum_before_ = adds(instruction) ? of_tensor(*run_.sums[instruction.index]) : Nonfinite();
}

void NonfiniteWatch::after(const FlatInstruction& instruction, std::span<const at::Tensor> slots) {
  if (adds(instruction)) return examine_sum(instruction);
  for (uint32_t slot = instruction.slot; slot < instruction.slot + instruction.results; ++slot) {
    const NonfiniteCounts counts = count_nonfinite(slots[slot]);
    found_[slot] = {.nan = counts.nan > 0, .infinite = counts.infinite > 0};
    const ValueId value = code_.values[slot];
    if (!counts.any() || !value.valid()) continue;
    const TaskId task = code_.graph().producer(value);
    Nonfinite inputs = of_inputs(task);
    // The first of merged tasks has the operands; later ones read what no slot has.
    if (task != instruction.task) inputs |= of_arguments(instruction);
    inputs |= of_constants(instruction.task);
    run_.nonfinite({task, false, slots[slot].sizes().vec(), counts, inputs});
  }
}

void NonfiniteWatch::examine_sum(const FlatInstruction& instruction) {
  const at::Tensor& sum = *run_.sums[instruction.index];
  const NonfiniteCounts counts = count_nonfinite(sum);
  if (!counts.any() || !instruction.task.valid()) return;
  Nonfinite inputs = of_arguments(instruction);
  inputs |= sum_before_;
  run_.nonfinite({instruction.task, true, sum.sizes().vec(), counts, inputs});
}

Nonfinite NonfiniteWatch::of_value(ValueId value) const {
  if (!value.valid()) return {};
  const int64_t slot = slot_of_[value.index()];
  return slot >= 0 ? found_[static_cast<size_t>(slot)] : of_tensor(run_.fixed[value.index()]);
}

Nonfinite NonfiniteWatch::of_inputs(TaskId task) const {
  Nonfinite all;
  for (const ValueId input : code_.graph().inputs(task)) all |= of_value(input);
  return all;
}

Nonfinite NonfiniteWatch::of_arguments(const FlatInstruction& instruction) const {
  Nonfinite all;
  const auto add = [&](const FlatArgument& argument) {
    if (argument.kind == FlatArgument::Kind::kSlot) all |= found_[argument.index];
    if (argument.kind == FlatArgument::Kind::kFixed) all |= of_tensor(run_.fixed[argument.index]);
  };
  for (uint32_t i = 0; i < instruction.count; ++i) {
    const FlatArgument& argument = code_.arguments[instruction.first + i];
    add(argument);
    if (argument.kind != FlatArgument::Kind::kTensors) continue;
    for (const FlatArgument& item : code_.lists[argument.index].items) add(item);
  }
  return all;
}

// Any call of the task may introduce the constant, such as the first of two.
Nonfinite NonfiniteWatch::of_constants(TaskId task) const {
  Nonfinite all;
  for (const FlatInstruction& instruction : code_.instructions) {
    if (instruction.task != task) continue;
    for (uint32_t i = 0; i < instruction.count; ++i) {
      const FlatArgument& argument = code_.arguments[instruction.first + i];
      if (argument.kind == FlatArgument::Kind::kConstant) all |= of_number(code_.constants[argument.index]);
    }
  }
  return all;
}

}  // namespace rannc::runtime
