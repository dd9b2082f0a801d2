// Gradient rules of operators that rearrange, slice, pad or concatenate values.
#include "ir/op/gradients/gradients_elementwise.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops::gradient {
namespace {

// A list of the forward task from an attribute, or from an operand with known contents; null if absent.
const Shape* list_of(const GradientCall& call, std::string_view name, size_t operand) {
  if (const Shape* list = call.attributes().list(name)) return list;
  const ValueId given = call.operand(operand);
  if (!given.valid()) return nullptr;
  const auto& contents = call.type(given).contents;
  RANNC_CHECK(contents.has_value()) << "the gradient of " << call.op().name << " needs `" << name << "`";
  return &*contents;
}

}  // namespace

// --- the same elements

bool reshape(GradientCall& call) {
  return give(call, call.add("reshape", {call.gradient()}, {{"shape", call.shape(call.operand(0))}}));
}

// Uses squeeze instead of reshape, which cannot determine the batch layout of values without elements.
bool unsqueeze(GradientCall& call) {
  return give(call, call.add("squeeze", {call.gradient()}, {{"axes", *call.attributes().list("axes")}}));
}

bool squeeze(GradientCall& call) {
  const Shape& from = call.shape(call.operand(0));
  Shape axes;
  for (const int64_t axis : checked_axes(call.attributes().integers("axes"), from.size()).value())
    axes.emplace_back(axis);
  for (size_t i = 0; !call.attributes().has("axes") && i < from.size(); ++i) {
    if (from[i] == Dim(1)) axes.emplace_back(static_cast<int64_t>(i));
  }
  return give(call, axes.empty() ? call.gradient() : call.add("unsqueeze", {call.gradient()}, {{"axes", axes}}));
}

bool permute(GradientCall& call) {
  const std::vector<int64_t> dims = call.attributes().integers("dims");
  Shape back(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) back[checked_axis(dims[i], dims.size()).value()] = static_cast<int64_t>(i);
  return give(call, call.add("permute", {call.gradient()}, {{"dims", back}}));
}

// --- copies add up

bool expand(GradientCall& call) {
  call.give_unstretched(0, call.gradient());
  return true;
}

// Splits each tiled axis into an axis of copies followed by the original axis.
bool tile(GradientCall& call) {
  const Shape& from = call.shape(call.operand(0));
  const Shape repeats = *list_of(call, "repeats", 1);
  Shape apart, copies;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!(repeats[i] == Dim(1))) {
      copies.emplace_back(static_cast<int64_t>(apart.size()));
      apart.push_back(repeats[i]);
    }
    apart.push_back(from[i]);
  }
  if (copies.empty()) return give(call, call.gradient());
  const ValueId parts = call.add("reshape", {call.gradient()}, {{"shape", apart}});
  return give(call, call.add("sum", {parts}, {{"axes", copies}}));
}

// --- parts

bool concat(GradientCall& call) {
  const size_t axis = ops::counted_axis(call.attributes(), call.shape(call.result()).size());
  Shape sizes;
  for (size_t i = 0; i < call.operand_count(); ++i) sizes.push_back(call.shape(call.operand(i))[axis]);
  const auto count = static_cast<uint32_t>(sizes.size());
  const std::vector<ValueId> parts =
      call.add("split", {call.gradient()}, {{"axis", Dim(static_cast<int64_t>(axis))}, {"sizes", sizes}}, count);
  for (size_t i = 0; i < count; ++i) {
    if (call.wants(i)) call.give(i, parts[i]);
  }
  return true;
}

// Parts without a gradient become zeros.
bool split(GradientCall& call) {
  const size_t rank = call.shape(call.operand(0)).size(), axis = ops::counted_axis(call.attributes(), rank);
  std::vector<ValueId> parts;
  Shape pads(2 * rank, Dim(0));
  const auto padded = [&](ValueId part) {
    const bool none = pads[axis] == Dim(0) && pads[axis + rank] == Dim(0);
    return none ? part : call.add("pad", {part}, {{"pads", pads}});
  };
  ValueId last;
  for (size_t i = 0; i < call.result_count(); ++i) {
    if (!call.gradient(i).valid()) {
      Dim& zeros = pads[last.valid() ? axis + rank : axis];
      zeros = zeros + call.shape(call.result(i))[axis];
      continue;
    }
    if (last.valid()) {
      parts.push_back(padded(last));
      pads.assign(2 * rank, Dim(0));
    }
    last = call.gradient(i);
  }
  parts.push_back(padded(last));
  if (parts.size() == 1) return give(call, parts[0]);
  return give(call, call.add("concat", parts, {{"axis", Dim(static_cast<int64_t>(axis))}}));
}

bool slice(GradientCall& call) {
  Attributes attributes = {{"sizes", call.shape(call.operand(0))}};
  size_t operand = 1;
  for (const std::string_view name : {"starts", "ends", "axes", "steps"}) {
    if (const Shape* list = list_of(call, name, operand++)) attributes.set(name, *list);
  }
  return give(call, call.add("slice_grad", {call.gradient()}, attributes));
}

// Pads are cut away, and removed elements are padded.
bool pad(GradientCall& call) {
  Shape pads = *list_of(call, "pads", 1);
  const std::string mode = call.attributes().text("mode");
  if (mode != "constant") {
    const Attributes attributes = {{"pads", pads}, {"mode", mode}, {"sizes", call.shape(call.operand(0))}};
    return give(call, call.add("pad_grad", {call.gradient()}, attributes));
  }
  for (Dim& pad : pads) pad = Dim(0) - pad;
  return give(call, call.add("pad", {call.gradient()}, {{"pads", pads}}));
}

}  // namespace rannc::ir::ops::gradient
