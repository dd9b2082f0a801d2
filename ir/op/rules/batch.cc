// Propagation of batch layouts; errors for operations that would mix samples.
#include <algorithm>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

namespace {

std::string text(const BatchLayout& layout) {
  return "axis " + std::to_string(layout.axis) + " (" + layout.outer.str() + " x samples x " + layout.inner.str() + ")";
}

// The quotient of `dim` by the batch if `dim` is outer * batch * inner.
std::optional<Dim> per_sample(const OpCall& call, const Dim& dim) {
  if (call.batch_symbol.empty() || !dim.uses(call.batch_symbol)) return std::nullopt;
  return exact_div(dim, batch_dim(call));
}

}  // namespace

Dim batch_dim(const OpCall& call) { return Dim::symbol(call.batch_symbol); }

Result<BatchLayout> layout_from_sizes(const OpCall& call, const Shape& shape) {
  BatchLayout layout;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto rest = per_sample(call, shape[i]);
    if (!rest) continue;
    if (layout.has_batch()) {
      return error("shape " + str(shape) + " counts samples on axes " + std::to_string(layout.axis) + " and " +
                   std::to_string(i) + ": that would mix samples");
    }
    layout = {static_cast<int32_t>(i), 1, *rest};
  }
  return layout;
}

Result<BatchLayout> broadcast_layout(const OpCall& call, size_t rank, std::span<const size_t> operands) {
  BatchLayout common;
  size_t first = 0;
  for (const size_t operand : operands) {
    if (!call.has(operand) || !call.in(operand).batch.has_batch()) continue;
    BatchLayout layout = call.in(operand).batch;
    layout.axis += static_cast<int32_t>(rank - call.in(operand).shape->size());
    if (common.has_batch() && !(common == layout)) {
      return error("operands " + std::to_string(first) + " and " + std::to_string(operand) +
                   " have their samples in different places: " + text(common) + " and " + text(layout));
    }
    if (!common.has_batch()) first = operand;
    common = layout;
  }
  return common;
}

Result<BatchLayout> common_layout(const OpCall& call) {
  std::vector<size_t> operands(call.inputs.size());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = i;
  return broadcast_layout(call, call.in(0).shape->size(), operands);
}

Result<BatchLayout> reshape_layout(const OpCall& call, const BatchLayout& layout, const Shape& from, const Shape& to) {
  if (!layout.has_batch()) return BatchLayout{};
  const auto axis = static_cast<size_t>(layout.axis);
  const Dim left = element_count(Shape(from.begin(), from.begin() + axis)) * layout.outer;
  const Dim right = element_count(Shape(from.begin() + axis + 1, from.end())) * layout.inner;
  Dim before = 1;
  for (size_t k = 0; k < to.size(); before = before * to[k], ++k) {
    if (!per_sample(call, to[k])) continue;
    const auto outer = exact_div(left, before);
    const Dim after = element_count(Shape(to.begin() + k + 1, to.end()));
    const bool empty = right == Dim(0) && after == Dim(0);  // without elements the number per sample is undetermined
    const auto inner = !empty ? exact_div(right, after) : outer ? exact_div(to[k], *outer * batch_dim(call)) : outer;
    if (outer && inner && *outer * batch_dim(call) * *inner == to[k]) {
      return BatchLayout{static_cast<int32_t>(k), *outer, *inner};
    }
  }
  return error("reshape from " + str(from) + " with samples on " + text(layout) + " to " + str(to) +
               " leaves no axis that holds whole samples");
}

Result<void> keep_samples_apart(const OpCall& call, size_t operand, int64_t axis) {
  if (call.in(operand).batch.axis != axis || axis < 0) return {};
  return error(std::string(short_name(call.op)) + " over axis " + std::to_string(axis) + " of " +
               str(*call.in(operand).shape) + " would mix the samples of a micro-batch");
}

Result<void> samples_lead(const OpCall& call, size_t operand) {
  const BatchLayout& layout = call.in(operand).batch;
  if (layout.axis <= 0) return {};
  return error("samples are on axis " + std::to_string(layout.axis) + " of " + str(*call.in(operand).shape) + "; " +
               std::string(short_name(call.op)) + " needs them on axis 0");
}

}  // namespace rannc::ir::ops
