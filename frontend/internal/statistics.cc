#include "frontend/internal/statistics.h"

#include "ir/match/match.h"

namespace rannc::frontend {

namespace {

/// Returns the source of a value, looking through tasks that only move or cast its elements.
ValueId source_of(const ir::Graph& graph, ValueId value) {
  static const ir::Ops kMoving{"identity", "cast",  "reshape", "squeeze", "unsqueeze",
                               "permute",  "slice", "split",   "expand"};
  while (value.valid()) {
    const TaskId maker = graph.producer(value);
    if (!maker.valid() || !kMoving.contains(graph.op(maker))) break;
    value = graph.inputs(maker)[0];
  }
  return value;
}

}  // namespace

bool is_made(const TaskWriter& writer, ValueId value) {
  const auto found = writer.match(value, ir::any());
  if (!found) return false;
  const ValueId source = source_of(found->graph(), value);
  return found->graph().producer(source).valid() || found->graph().kind(source) == ir::ValueKind::kInput;
}

bool is_computed(const TaskWriter& writer, ValueId value) {
  if (!is_made(writer, value)) return false;
  const auto found = writer.match(value, ir::any());
  const TaskId maker = found->graph().producer(source_of(found->graph(), value));
  return !maker.valid() || !found->graph().inputs(maker).empty();
}

ValueId normalised(TaskWriter& writer, std::span<const ValueId> operands, double epsilon) {
  const ir::Shape* const shape = writer.shape(operands[0]);
  if (!shape || shape->size() < 2) {
    writer.fail("a batch normalization needs an axis of channels");
    return {};
  }
  ir::Shape channels(shape->size() - 1, ir::Dim(1));
  channels[0] = (*shape)[1];
  const auto along = [&](ValueId value) { return writer.emit("reshape", {value}, {{"shape", channels}}); };
  const ValueId raised = writer.emit("add", {operands[4], writer.scalar(epsilon, writer.dtype(operands[4]))});
  const ValueId deviation = writer.emit("sqrt", {raised});
  const ValueId centred = writer.emit("sub", {operands[0], along(operands[3])});
  const ValueId scaled = writer.emit("mul", {writer.emit("div", {centred, along(deviation)}), along(operands[1])});
  return writer.emit("add", {scaled, along(operands[2])});
}

}  // namespace rannc::frontend
