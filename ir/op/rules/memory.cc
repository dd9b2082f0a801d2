// Operators that change the memory format.
#include "ir/op/rules/memory.h"

#include "ir/gradient/gradient.h"

namespace rannc::ir::ops {

AttributeInfo channels_last_attribute() { return {kChannelsLast, AttributeKind::kFlag, false}; }

Result<void> channels_can_be_last(const OpCall& call) {
  if (!call.attributes.flag(kChannelsLast)) return {};
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  constexpr size_t kRank = 4;
  return shape.size() == kRank ? Result<void>() : error("channels last are those of rank 4, found " + str(shape));
}

namespace {

Result<Types> infer_contiguous(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  if (shape.size() != 4) return error("contiguous takes rank 4, found " + str(shape));
  return Types{call.in(0)};
}

// Views the value as one axis in between. This is free if the operand already has the format, and gives its gradient
// the same format. The gradient of a plain copy would have the format of the result's gradient.
Result<aten::Lowering> lower_contiguous(const LowerCall& call) {
  const Shape& shape = shape_of(*call.inputs[0]);
  const bool last = call.attributes.flag(kChannelsLast);
  Calls calls;
  aten::Value value = aten::Operand{0};
  if (!last) value = calls("aten::permute", {value, Shape(std::begin(kBehind), std::end(kBehind))});
  value = calls("aten::reshape", {value, Shape{Dim(-1)}});
  value = calls("aten::reshape", {value, last ? shape : Shape{shape[0], shape[2], shape[3], shape[1]}});
  if (!last) value = calls("aten::permute", {value, Shape(std::begin(kInFront), std::end(kInFront))});
  const auto format = last ? aten::MemoryFormat::kChannelsLast : aten::MemoryFormat::kContiguous;
  return std::move(calls).with({calls("aten::contiguous", {value, {"memory_format", format}})});
}

bool contiguous_gradient(GradientCall& call) {
  const bool last = call.attributes().flag(kChannelsLast);
  call.give(0, call.add("contiguous", {call.gradient()}, {{std::string(kChannelsLast), !last}}));
  return true;
}

}  // namespace

std::vector<OpInfo> memory_ops() {
  return {{.name = "core.contiguous",
           .summary = "x [samples, channels, height, width], in memory as the axes say or channels last, the other way "
                      "round than before",
           .aten = {"aten::contiguous", "aten::reshape", "aten::permute"},
           .operands = {{"x"}},
           .attributes = {channels_last_attribute()},
           .infer = infer_contiguous,
           .linear = always<Linear::kFirst>,
           .lower = lower_contiguous,
           .gradient = contiguous_gradient}};
}

}  // namespace rannc::ir::ops
