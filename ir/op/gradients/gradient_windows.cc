// Gradient rules of convolutions and pooling.
#include <algorithm>

#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/rules/memory.h"
#include "ir/op/rules/windows.h"

namespace rannc::ir::ops::gradient {
namespace {

Shape spatial(const Shape& shape) { return Shape(shape.begin() + 2, shape.end()); }

// The forward task's attributes without the algorithm, plus one more.
Attributes with(const GradientCall& call, std::string_view name, Shape value) {
  Attributes attributes = call.attributes().given();
  attributes.erase(kAlgorithm);
  attributes.set(name, std::move(value));
  return attributes;
}

bool pool(GradientCall& call, std::string_view op, const std::vector<ValueId>& operands) {
  call.give(0, call.add(op, operands, with(call, "sizes", spatial(call.shape(call.operand(0))))));
  return true;
}

// [samples, channels, height, width] with the channels at the end. A view of a value that is channels last.
ValueId with_channels_behind(GradientCall& call, ValueId value) {
  return call.add("permute", {value}, {{"dims", Shape(std::begin(kBehind), std::end(kBehind))}});
}

ValueId as_rows(GradientCall& call, ValueId value) {
  const Shape shape = call.shape(value);
  const Dim rows = element_count(Shape(shape.begin(), shape.end() - 1));
  return call.add("reshape", {value}, {{"shape", Shape{rows, shape.back()}}});
}

// The positions of x, channels at the end, that the strides visit.
Attributes visited(const GradientCall& call) {
  const Shape& x = call.shape(call.operand(0));
  return {{"axes", Shape{1, 2}},
          {"starts", Shape{0, 0}},
          {"ends", Shape{x[2], x[3]}},
          {"steps", *call.attributes().list("strides")}};
}

bool visits_all(const GradientCall& call) {
  const std::vector<int64_t> strides = call.attributes().integers("strides");
  return std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 1; });
}

// Products over all positions that the window visits, like the forward pass by this algorithm.
bool linear_conv(GradientCall& call) {
  const ValueId x = call.operand(0), weight = call.operand(1);
  const Shape to = call.shape(call.gradient()), from = call.shape(x), filters = call.shape(weight);
  const ValueId gy = as_rows(call, with_channels_behind(call, call.gradient()));
  if (call.wants(0)) {
    const ValueId matrix = call.add("reshape", {weight}, {{"shape", Shape{filters[0], filters[1]}}});
    ValueId made = call.add("matmul", {gy, matrix});
    made = call.add("reshape", {made}, {{"shape", Shape{to[0], to[2], to[3], from[1]}}});
    if (!visits_all(call)) {
      Attributes attributes = visited(call);
      attributes.set("sizes", Shape{from[0], from[2], from[3], from[1]});
      made = call.add("slice_grad", {made}, std::move(attributes));
    }
    call.give(0, call.add("permute", {made}, {{"dims", Shape(std::begin(kInFront), std::end(kInFront))}}));
  }
  if (call.wants(1)) {
    ValueId read = with_channels_behind(call, x);
    if (!visits_all(call)) read = call.add("slice", {read}, visited(call));
    const ValueId columns = call.add("permute", {gy}, {{"dims", Shape{1, 0}}});
    const ValueId made = call.add("matmul", {columns, as_rows(call, read)});
    call.give(1, call.add("reshape", {made}, {{"shape", filters}}));
  }
  if (call.wants(2)) give_channel_sums(call, 2);
  return true;
}

}  // namespace

void give_channel_sums(GradientCall& call, size_t operand) {
  Shape axes = {Dim(0)};
  for (size_t i = 2; i < call.shape(call.gradient()).size(); ++i) axes.emplace_back(static_cast<int64_t>(i));
  call.give(operand, call.add("sum", {call.gradient()}, {{"axes", axes}}));
}

bool conv(GradientCall& call) {
  if (call.attributes().text(kAlgorithm) == kLinear) return linear_conv(call);
  const ValueId gy = call.gradient(), x = call.operand(0), weight = call.operand(1);
  if (call.wants(0)) {
    call.give(0, call.add("conv_grad_input", {gy, weight}, with(call, "sizes", spatial(call.shape(x)))));
  }
  if (call.wants(1)) {
    call.give(1, call.add("conv_grad_weight", {gy, x}, with(call, "kernel", spatial(call.shape(weight)))));
  }
  if (call.wants(2)) give_channel_sums(call, 2);
  return true;
}

namespace {

// Removes the elements that output_padding adds beyond a stride. The gradient has no windows for them, and without them
// it has as many windows as x has elements.
ValueId without_late_windows(GradientCall& call, ValueId gy) {
  const OpAttributes attributes = call.attributes();
  const std::vector<int64_t> added = attributes.integers("output_padding");
  std::vector<int64_t> strides = attributes.integers("strides");
  strides.resize(added.size(), 1);
  Shape axes, starts, ends;
  for (size_t i = 0; i < added.size(); ++i) {
    if (added[i] < strides[i]) continue;
    axes.emplace_back(static_cast<int64_t>(i) + 2);
    starts.emplace_back(0);
    ends.push_back(call.shape(gy)[i + 2] - Dim(added[i]));
  }
  if (axes.empty()) return gy;
  return call.add("slice", {gy}, {{"axes", axes}, {"starts", starts}, {"ends", ends}});
}

}  // namespace

// The derivatives are those of the convolution that it transposes, with x and gy exchanged.
bool conv_transpose(GradientCall& call) {
  const ValueId x = call.operand(0), weight = call.operand(1);
  if (call.wants(2)) give_channel_sums(call, 2);
  if (!call.wants(0) && !call.wants(1)) return true;
  const ValueId gy = without_late_windows(call, call.gradient());
  Attributes window = call.attributes().given();
  window.erase("output_padding");
  if (call.wants(0)) call.give(0, call.add("conv", {gy, weight}, window));
  window.set("kernel", spatial(call.shape(weight)));
  if (call.wants(1)) call.give(1, call.add("conv_grad_weight", {x, gy}, std::move(window)));
  return true;
}

bool max_unpool(GradientCall& call) {
  const auto flat = [&](ValueId value) {
    const Shape& shape = call.shape(value);
    return call.add("reshape", {value}, {{"shape", Shape{shape[0], shape[1], element_count(spatial(shape))}}});
  };
  const ValueId found = call.add("gather_elements", {flat(call.gradient()), flat(call.operand(1))}, {{"axis", Dim(2)}});
  call.give(0, call.add("reshape", {found}, {{"shape", call.shape(call.operand(0))}}));
  return true;
}

bool max_pool(GradientCall& call) { return pool(call, "max_pool_grad_input", {call.gradient(), call.result(1)}); }

bool avg_pool(GradientCall& call) { return pool(call, "avg_pool_grad_input", {call.gradient()}); }

bool adaptive_avg_pool(GradientCall& call) {
  Attributes attributes = {{"sizes", spatial(call.shape(call.operand(0)))}};
  if (call.attributes().flag(kChannelsLast)) attributes.set(kChannelsLast, true);
  call.give(0, call.add("adaptive_avg_pool_grad_input", {call.gradient()}, std::move(attributes)));
  return true;
}

}  // namespace rannc::ir::ops::gradient
