#include "frontend/recipes/labels.h"

namespace rannc::frontend {

ValueId ClassLabels::counted() {
  if (counted_.valid()) return counted_;
  const ValueId mark =
      writer_.emit("full", {}, {{"shape", ir::Shape{}}, {"value", ignore_index()}, {"dtype", ir::DType::kI64}});
  return counted_ = writer_.emit("ne", {classes_, mark});
}

ValueId ClassLabels::picked() {
  if (!ignored_) return classes_;
  return writer_.emit("where", {counted(), classes_, writer_.scalar(0, ir::DType::kI64)});
}

ValueId ClassLabels::where_counted(ValueId value) {
  if (!ignored_) return value;
  return writer_.emit("where", {counted(), value, writer_.scalar(0, writer_.dtype(value))});
}

ValueId ClassLabels::weights_at() {
  const ValueId table = writer_.emit("stop_gradient", {weights_});
  const ValueId picked = writer_.emit("gather", {table, this->picked()}, {{"axis", ir::Dim(0)}});
  return where_counted(picked);
}

ValueId ClassLabels::divisor(ir::DType dtype) {
  if (weights_.valid()) return writer_.emit("sum", {weights_at()}, {{"keepdim", false}});
  const ValueId ones = writer_.emit("cast", {counted()}, {{"dtype", dtype}});
  return writer_.emit("sum", {ones}, {{"keepdim", false}});
}

ValueId ClassLabels::cross_entropy(ValueId logits, int64_t axis, double smoothing) {
  ir::Attributes attributes = {{"axis", ir::Dim(axis)}, {"ignore_index", ignore_index()}};
  if (smoothing != 0) attributes.set("label_smoothing", smoothing);
  std::vector<ValueId> operands = {logits, classes_};
  if (weights_.valid()) operands.push_back(weights_);
  return writer_.emit("cross_entropy_sum", operands, std::move(attributes));
}

ValueId ClassLabels::loss_of_each(ValueId log, int64_t axis, double smoothing) {
  const ir::Attributes axes = {{"axes", ir::Shape{axis}}};
  const ValueId column = writer_.emit("unsqueeze", {picked()}, axes);
  const ValueId picked =
      writer_.emit("squeeze", {writer_.emit("gather_elements", {log, column}, {{"axis", ir::Dim(axis)}})}, axes);
  ValueId each = writer_.emit("neg", {picked});
  if (weights_.valid()) each = writer_.emit("mul", {each, weights_at()});
  if (smoothing != 0) each = smooth(writer_, each, weigh_classes(writer_, log, weights_, axis), axis, smoothing);
  return where_counted(each);
}

ValueId weigh_classes(TaskWriter& writer, ValueId x, ValueId weights, int64_t axis) {
  const ir::Shape* const shape = writer.shape(x);
  if (!shape || !weights.valid()) return x;
  ir::Shape behind;
  for (auto i = axis + 1; i < static_cast<int64_t>(shape->size()); ++i) behind.push_back(i - axis);
  return writer.emit("mul", {x, behind.empty() ? weights : writer.emit("unsqueeze", {weights}, {{"axes", behind}})});
}

ValueId smooth(TaskWriter& writer, ValueId losses, ValueId log, int64_t axis, double smoothing) {
  if (!writer.good()) return losses;
  const ir::DType dtype = writer.dtype(log);
  const ValueId even = writer.emit("mean", {log}, {{"axes", ir::Shape{axis}}, {"keepdim", false}});
  const ValueId kept = writer.emit("mul", {losses, writer.scalar(1 - smoothing, dtype)});
  return writer.emit("sub", {kept, writer.emit("mul", {even, writer.scalar(smoothing, dtype)})});
}

}  // namespace rannc::frontend
