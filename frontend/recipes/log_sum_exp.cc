#include "frontend/recipes/log_sum_exp.h"

#include <cmath>

namespace rannc::frontend {

namespace {

/// Returns the shift of the exponents for a maximum of m: m without gradient, because it cancels, or 0 if m is
/// infinite.
ValueId taken_off(TaskWriter& writer, ValueId top) {
  if (!writer.good() || !ir::is_float(writer.dtype(top))) return top;
  const ValueId finite = writer.emit("where", {writer.emit("isinf", {top}), writer.scalar(0, writer.dtype(top)), top});
  return writer.emit("stop_gradient", {finite});
}

}  // namespace

ValueId log_sum_exp(TaskWriter& writer, ValueId x, const ir::Shape& axes) {
  const ir::DType dtype = writer.dtype(x);
  const ir::Attributes kept = {{"axes", axes}, {"keepdim", true}};
  const ValueId off = taken_off(writer, writer.emit("amax", {x}, kept));
  const ValueId sum = writer.emit("sum", {writer.emit("exp", {writer.emit("sub", {x, off})})}, kept);
  const ValueId none = writer.emit("eq", {sum, writer.scalar(0, dtype)});
  const ValueId log = writer.emit("log", {writer.emit("where", {none, writer.scalar(1, dtype), sum})});
  return writer.emit("where", {none, writer.scalar(-HUGE_VAL, dtype), writer.emit("add", {log, off})});
}

}  // namespace rannc::frontend
