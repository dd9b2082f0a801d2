// Operators that read or place elements by position.
#include <algorithm>

#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

Result<void> require_integers(const OpCall& call, size_t operand) {
  if (is_integer(call.in(operand).dtype)) return {};
  return error("operand " + std::to_string(operand) + " is " + std::string(str(call.in(operand).dtype)) +
               "; indices must be integers");
}

Diagnostic two_batches(const OpCall& call) {
  return error(std::string(short_name(call.op)) + " of " + str(*call.in(0).shape) + " by indices " +
               str(*call.in(1).shape) + " would pair samples with samples");
}

Diagnostic picks_samples(const OpCall& call, int64_t axis) {
  return error(std::string(short_name(call.op)) + " picks samples along axis " + std::to_string(axis) + " of " +
               str(*call.in(0).shape) + " by indices that are the same for every sample");
}

// --- gather

std::optional<Contents> gathered(const OpCall& call) {
  const auto& data = call.in(0).contents;
  const auto& indices = call.in(1).contents;
  if (!data || !indices || call.in(0).shape->size() != 1) return std::nullopt;
  Contents out;
  for (const Dim& index : *indices) {
    if (!index.is_constant()) return std::nullopt;
    const auto n = static_cast<int64_t>(data->size());
    const int64_t at = index.constant() < 0 ? index.constant() + n : index.constant();
    if (at < 0 || at >= n) return std::nullopt;
    out.push_back((*data)[at]);
  }
  return out;
}

Result<Types> infer_gather(const OpCall& call) {
  RANNC_ASSIGN(const Shape data, shape_of(call, 0));
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), data.size()));
  Shape to(data.begin(), data.begin() + axis);
  to.insert(to.end(), indices.begin(), indices.end());
  to.insert(to.end(), data.begin() + axis + 1, data.end());
  BatchLayout layout = call.in(1).batch;
  if (layout.has_batch()) layout.axis += static_cast<int32_t>(axis);
  const BatchLayout& source = call.in(0).batch;
  if (source.axis == axis && !layout.has_batch()) return picks_samples(call, axis);
  if (source.has_batch() && source.axis != axis) {
    if (layout.has_batch()) return two_batches(call);
    layout = source;
    if (source.axis > axis) layout.axis += static_cast<int32_t>(indices.size()) - 1;
  }
  ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
  set_contents(type, gathered(call));
  return Types{std::move(type)};
}

// Indices brought into 0…extent-1: ONNX counts negative ones from the end, ATen's index_select does not.
std::string from_start(const LowerCall& call, size_t operand, const Dim& extent, const std::string& into) {
  const ValueType& type = *call.input_types[operand];
  const std::string& index = call.inputs[operand];
  std::string text;
  if (type.dtype != DType::kI64) text = into + " = torch.to(" + index + ", 4)\n";
  const std::string& value = text.empty() ? index : into;
  return text + into + " = torch.where(torch.lt(" + value + ", 0), torch.add(" + value + ", " + torchscript(extent) +
         "), " + value + ")\n";
}

Result<std::string> lower_gather(const LowerCall& call) {
  const Shape& data = shape_of(*call.input_types[0]);
  const Shape& indices = shape_of(*call.input_types[1]);
  const int64_t given = call.attributes.integer("axis");
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(data.size()) : given;
  const std::string index = call.outputs[0] + "_index";
  std::string text = from_start(call, 1, data[axis], index);
  if (axis == 0 && data.size() == 2) return text + assign(call, "embedding", {call.inputs[0], index});
  const std::string flat = indices.size() == 1 ? index : "torch.reshape(" + index + ", [-1])";
  text += assign(call, "index_select", {call.inputs[0], std::to_string(axis), flat});
  if (indices.size() == 1) return text;
  return text + assign(call, "reshape", {call.outputs[0], torchscript(shape_of(*call.output_types[0]))});
}

// --- gather_nd

Result<Types> infer_gather_nd(const OpCall& call) {
  RANNC_ASSIGN(const Shape data, shape_of(call, 0));
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  const int64_t batch_dims = call.attributes.integer("batch_dims");
  if (indices.empty() || !indices.back().is_constant()) {
    return error("indices " + str(indices) + " need a last axis of known extent");
  }
  const int64_t picked_end = batch_dims + indices.back().constant();
  if (batch_dims < 0 || batch_dims >= static_cast<int64_t>(indices.size()) ||
      picked_end > static_cast<int64_t>(data.size())) {
    return error("indices " + str(indices) + " with batch_dims " + std::to_string(batch_dims) + " reach beyond " +
                 str(data));
  }
  for (int64_t i = 0; i < batch_dims; ++i) {
    if (!(data[i] == indices[i]))
      return error("axis " + std::to_string(i) + " differs: " + str(data) + ", " + str(indices));
  }
  Shape to(indices.begin(), indices.end() - 1);
  to.insert(to.end(), data.begin() + picked_end, data.end());
  BatchLayout layout = call.in(1).batch;
  RANNC_TRY(keep_samples_apart(call, 1, static_cast<int64_t>(indices.size()) - 1));
  const BatchLayout& source = call.in(0).batch;
  if (source.has_batch() && source.axis < picked_end) {
    const bool paired = source.axis < batch_dims;
    if (!layout.has_batch()) return picks_samples(call, source.axis);
    if (paired && !(layout == source)) return two_batches(call);
  } else if (source.has_batch()) {
    if (layout.has_batch()) return two_batches(call);
    layout = source;
    layout.axis += static_cast<int32_t>(static_cast<int64_t>(indices.size()) - 1 - picked_end);
  }
  return Types{make_type(call.in(0).dtype, std::move(to), std::move(layout))};
}

// One flat index into the picked axes, then one index_select: x is seen as [batch…, picked, rest…].
Result<std::string> lower_gather_nd(const LowerCall& call) {
  const Shape& data = shape_of(*call.input_types[0]);
  const Shape& indices = shape_of(*call.input_types[1]);
  const int64_t batch_dims = call.attributes.integer("batch_dims");
  const int64_t depth = indices.back().constant();
  const Dim groups = element_count(Shape(data.begin(), data.begin() + batch_dims));
  const Dim picked = element_count(Shape(data.begin() + batch_dims, data.begin() + batch_dims + depth));
  const Dim rest = element_count(Shape(data.begin() + batch_dims + depth, data.end()));
  const Dim rows = element_count(Shape(indices.begin() + batch_dims, indices.end() - 1));
  const std::string& out = call.outputs[0];
  const std::string index = out + "_index", part = out + "_part";
  const std::string last = std::to_string(indices.size() - 1);
  std::string text;
  Dim stride = 1;
  for (int64_t d = depth; d-- > 0; stride = stride * data[batch_dims + d]) {
    const std::string extent = torchscript(data[batch_dims + d]);
    text += part + " = torch.to(torch.select(" + call.inputs[1] + ", " + last + ", " + std::to_string(d) + "), 4)\n";
    text += part + " = torch.where(torch.lt(" + part + ", 0), torch.add(" + part + ", " + extent + "), " + part + ")\n";
    const std::string scaled = "torch.mul(" + part + ", " + torchscript(stride) + ")";
    text += index + " = " + (d == depth - 1 ? scaled : "torch.add(" + index + ", " + scaled + ")") + "\n";
  }
  if (depth == 0) return error("gather_nd with an empty index");
  if (batch_dims > 0) {
    text += index + " = torch.reshape(" + index + ", [" + torchscript(groups) + ", " + torchscript(rows) + "])\n";
    text += part + " = torch.mul(torch.unsqueeze(torch.arange(" + torchscript(groups) + ", device=" + index +
            ".device), 1), " + torchscript(picked) + ")\n";
    text += index + " = torch.add(" + index + ", " + part + ")\n";
  }
  text += out + " = torch.reshape(" + call.inputs[0] + ", " + torchscript(Shape{groups * picked, rest}) + ")\n";
  text += out + " = torch.index_select(" + out + ", 0, torch.reshape(" + index + ", [-1]))\n";
  return text + assign(call, "reshape", {out, torchscript(shape_of(*call.output_types[0]))});
}

// --- gather_elements

Result<Types> infer_gather_elements(const OpCall& call) {
  RANNC_ASSIGN(const Shape data, shape_of(call, 0));
  RANNC_ASSIGN(Shape indices, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  if (data.size() != indices.size()) return error("ranks differ: " + str(data) + " and " + str(indices));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), data.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  const std::vector<size_t> both = {0, 1};
  RANNC_ASSIGN(BatchLayout layout, broadcast_layout(call, data.size(), both));
  return Types{make_type(call.in(0).dtype, std::move(indices), std::move(layout))};
}

Result<std::string> lower_gather_elements(const LowerCall& call) {
  const Shape& data = shape_of(*call.input_types[0]);
  const int64_t given = call.attributes.integer("axis");
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(data.size()) : given;
  const std::string index = call.outputs[0] + "_index";
  return from_start(call, 1, data[axis], index) + assign(call, "gather", {call.inputs[0], std::to_string(axis), index});
}

// --- cumsum, trilu, one_hot

Result<Types> infer_cumsum(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  if (call.in(0).dtype == DType::kBool) return error("operand 0 is bool; it must be a number");
  ValueType type = make_type(call.in(0).dtype, shape, call.in(0).batch);
  if (call.in(0).contents && !call.attributes.flag("exclusive") && !call.attributes.flag("reverse")) {
    Contents sums = *call.in(0).contents;
    for (size_t i = 1; i < sums.size(); ++i) sums[i] = plus(sums[i - 1], sums[i]);
    set_contents(type, std::move(sums));
  }
  return Types{std::move(type)};
}

Result<std::string> lower_cumsum(const LowerCall& call) {
  const std::string axis = std::to_string(call.attributes.integer("axis"));
  const std::string dtype = "dtype=" + dtype_code(call.input_types[0]->dtype);
  const std::string& out = call.outputs[0];
  const bool reverse = call.attributes.flag("reverse");
  std::string value = call.inputs[0], text;
  if (reverse) text += out + "_flipped = torch.flip(" + value + ", [" + axis + "])\n";
  if (reverse) value = out + "_flipped";
  text += out + " = torch.cumsum(" + value + ", " + axis + ", " + dtype + ")\n";
  if (call.attributes.flag("exclusive")) text += out + " = torch.sub(" + out + ", " + value + ")\n";
  if (reverse) text += out + " = torch.flip(" + out + ", [" + axis + "])\n";
  return text;
}

Result<Types> infer_trilu(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank < 2) return error("trilu needs rank 2 or more, found " + str(shape));
  RANNC_TRY(keep_samples_apart(call, 0, rank - 1));
  RANNC_TRY(keep_samples_apart(call, 0, rank - 2));
  return Types{make_type(call.in(0).dtype, shape, call.in(0).batch)};
}

Result<std::string> lower_trilu(const LowerCall& call) {
  return assign(call, call.attributes.flag("upper", true) ? "triu" : "tril",
                {call.inputs[0], std::to_string(call.attributes.integer("diagonal"))});
}

Result<Types> infer_one_hot(const OpCall& call) {
  RANNC_ASSIGN(Shape shape, shape_of(call, 0));
  RANNC_TRY(require_integers(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis", -1), shape.size() + 1));
  const int64_t depth = call.attributes.integer("depth");
  if (depth <= 0) return error("depth is " + std::to_string(depth));
  shape.insert(shape.begin() + axis, Dim(depth));
  BatchLayout layout = call.in(0).batch;
  if (layout.has_batch() && layout.axis >= axis) ++layout.axis;
  return Types{make_type(DType::kI64, std::move(shape), std::move(layout))};
}

// Indices outside 0…depth-1 give zeros, as in ONNX, where ATen's one_hot fails.
Result<std::string> lower_one_hot(const LowerCall& call) {
  const int64_t depth = call.attributes.integer("depth");
  const int64_t axis = call.attributes.integer("axis", -1);
  const std::string& out = call.outputs[0];
  std::string text = from_start(call, 0, depth, out + "_index");
  text += out + " = torch.to(torch.eq(torch.unsqueeze(" + out + "_index, -1), torch.arange(" + std::to_string(depth) +
          ", device=" + call.inputs[0] + ".device)), 4)\n";
  if (axis != -1) text += out + " = torch.movedim(" + out + ", -1, " + std::to_string(axis) + ")\n";
  return text;
}

}  // namespace

std::vector<OpInfo> index_ops() {
  return {
      {"core.gather", 2, 2, 1, {"axis"}, Effect::kPure, infer_gather, nullptr, lower_gather},
      {"core.gather_nd", 2, 2, 1, {"batch_dims"}, Effect::kPure, infer_gather_nd, nullptr, lower_gather_nd},
      {"core.gather_elements", 2, 2, 1, {"axis"}, Effect::kPure, infer_gather_elements, nullptr, lower_gather_elements},
      {"core.cumsum", 1, 1, 1, {"axis", "exclusive", "reverse"}, Effect::kPure, infer_cumsum, nullptr, lower_cumsum},
      {"core.trilu", 1, 1, 1, {"upper", "diagonal"}, Effect::kPure, infer_trilu, nullptr, lower_trilu},
      {"core.one_hot", 1, 1, 1, {"depth", "axis"}, Effect::kPure, infer_one_hot, nullptr, lower_one_hot},
  };
}

}  // namespace rannc::ir::ops
