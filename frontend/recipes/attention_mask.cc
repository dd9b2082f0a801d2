#include "frontend/recipes/attention_mask.h"

#include <cmath>

namespace rannc::frontend {

ValueId range(TaskWriter& writer, const ir::Dim& first, const ir::Dim& count) {
  return writer.emit("range", {},
                     {{"start", first}, {"limit", first + count}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
}

ValueId causal_mask(TaskWriter& writer, const ir::Dim& queries, const ir::Dim& keys, const ir::Dim& past) {
  const ValueId rows = writer.emit("unsqueeze", {range(writer, past, queries)}, {{"axes", ir::Shape{1}}});
  return writer.emit("ge", {rows, range(writer, 0, keys)});
}

ValueId both_seen(TaskWriter& writer, ValueId a, ValueId b) {
  return a.valid() ? writer.emit("logical_and", {a, b}) : b;
}

ValueId additive_mask(TaskWriter& writer, ValueId seen, ValueId bias, ir::DType dtype) {
  const ValueId visible = bias.valid() ? bias : writer.scalar(0, dtype);
  return writer.emit("where", {seen, visible, writer.scalar(-HUGE_VAL, dtype)});
}

}  // namespace rannc::frontend
