#include "passes/simplify/internal/slices.h"

#include <algorithm>

#include "ir/match/match.h"

namespace rannc::passes {

std::optional<int64_t> known_size(const ir::Graph& graph, ValueId value, size_t axis) {
  const auto& shape = graph.type(value).shape;
  if (!shape || axis >= shape->size() || !(*shape)[axis].is_constant()) return std::nullopt;
  return (*shape)[axis].constant();
}

std::optional<SlicedPart> sliced_part(const ir::Graph& graph, TaskId task) {
  static const ir::Ops kSlice{"slice"};
  if (!kSlice.contains(graph.op(task))) return std::nullopt;
  const ir::Attributes& attributes = graph.attributes(task);
  const ValueId from = graph.inputs(task)[0];
  const ir::Shape *starts = attributes.list("starts"), *ends = attributes.list("ends"),
                  *steps = attributes.list("steps");
  const std::vector<int64_t> axes = attributes.integers("axes");
  const auto& shape = graph.type(from).shape;
  const bool one = starts != nullptr && ends != nullptr && starts->size() == 1 && ends->size() == 1;
  if (!one || axes.size() != 1 || !shape) return std::nullopt;
  if (steps != nullptr && *steps != ir::Shape{ir::Dim(1)}) return std::nullopt;
  const auto axis = static_cast<size_t>(axes[0] < 0 ? axes[0] + static_cast<int64_t>(shape->size()) : axes[0]);
  const auto extent = known_size(graph, from, axis);
  if (!extent || !starts->front().is_constant() || !ends->front().is_constant()) return std::nullopt;
  const auto at = [&](int64_t place) { return std::clamp<int64_t>(place < 0 ? place + *extent : place, 0, *extent); };
  const SlicedPart part{axis, at(starts->front().constant()), at(ends->front().constant())};
  return part.start < part.end ? std::optional(part) : std::nullopt;
}

}  // namespace rannc::passes
