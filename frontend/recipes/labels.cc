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

ValueId ClassLabels::loss_of_each(ValueId log, int64_t axis) {
  const ir::Attributes axes = {{"axes", ir::Shape{axis}}};
  const ValueId column = writer_.emit("unsqueeze", {picked()}, axes);
  const ValueId picked =
      writer_.emit("squeeze", {writer_.emit("gather_elements", {log, column}, {{"axis", ir::Dim(axis)}})}, axes);
  const ValueId each = where_counted(writer_.emit("neg", {picked}));
  return weights_.valid() ? writer_.emit("mul", {each, weights_at()}) : each;
}

}  // namespace rannc::frontend
