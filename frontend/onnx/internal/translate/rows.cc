#include "frontend/onnx/internal/translate/rows.h"

namespace rannc::frontend {

ValueId row_of(Node& node, ValueId x, int64_t index) {
  const ValueId row =
      node.emit("slice", {x}, {{"starts", ir::Shape{index}}, {"ends", ir::Shape{index + 1}}, {"axes", ir::Shape{0}}});
  return node.emit("squeeze", {row}, {{"axes", ir::Shape{0}}});
}

ValueId stacked(Node& node, const std::vector<ValueId>& values, int64_t axis) {
  std::vector<ValueId> rows;
  for (const ValueId value : values) rows.push_back(node.emit("unsqueeze", {value}, {{"axes", ir::Shape{axis}}}));
  return rows.size() == 1 ? rows[0] : node.emit("concat", rows, {{"axis", ir::Dim(axis)}});
}

ValueId flipped(Node& node, ValueId x, int64_t axis) {
  return node.emit(
      "slice", {x},
      {{"starts", ir::Shape{-1}}, {"ends", ir::Shape{INT64_MIN}}, {"axes", ir::Shape{axis}}, {"steps", ir::Shape{-1}}});
}

}  // namespace rannc::frontend
