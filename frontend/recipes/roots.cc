#include "frontend/recipes/roots.h"

namespace rannc::frontend {

ValueId root_without_pole(TaskWriter& writer, ValueId x) {
  const ir::DType dtype = writer.dtype(x);
  const ValueId none = writer.emit("eq", {x, writer.scalar(0, dtype)});
  const ValueId root = writer.emit("sqrt", {writer.emit("where", {none, writer.scalar(1, dtype), x})});
  return writer.emit("where", {none, writer.scalar(0, dtype), root});
}

}  // namespace rannc::frontend
