#include "ir/op/valid_indices.h"

#include <fmt/format.h>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::ir {

namespace {

// Beyond it, indices are data.
constexpr int64_t kMostConstants = int64_t{1} << 24;

std::optional<int64_t> extent(const Graph& graph, ValueId value, int64_t axis, const Bindings& sizes) {
  const auto& shape = graph.type(value).shape;
  if (!shape) return std::nullopt;
  const auto rank = static_cast<int64_t>(shape->size());
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) return std::nullopt;
  const auto count = (*shape)[static_cast<size_t>(at)].evaluate(sizes);
  return count && *count >= 1 ? count : std::nullopt;
}

std::optional<std::vector<int64_t>> constant_elements(const Graph& graph, ValueId value) {
  const Graph::Value found = graph.value(value);
  if (found.kind != ValueKind::kConstant || !found.data.present()) return std::nullopt;
  auto elements = decode_integers(found.type, found.data, kMostConstants);
  if (!elements.ok()) return std::nullopt;
  return *std::move(elements);
}

}  // namespace

std::vector<ValidIndices> valid_indices(const Graph& graph, TaskId task, const Bindings& sizes) {
  static const Ops kLabels = {"cross_entropy_sum"}, kTuples = {"gather_nd", "scatter_nd"}, kPicks = {"gather_nd"};
  static const Ops kOneAxis = {"gather", "gather_elements", "scatter_elements"};
  const OpInfo& op = graph.op(task);
  if (!kLabels.contains(op) && !kOneAxis.contains(op) && !kTuples.contains(op)) return {};
  const OpAttributes attributes(op, graph.attributes(task));
  const ValueId x = graph.inputs(task)[0], indices = graph.inputs(task)[1];
  int64_t axis = 0, count = 1;
  if (kTuples.contains(op)) {
    const auto components = extent(graph, indices, -1, sizes);
    if (!components) return {};
    count = *components;
    axis = kPicks.contains(op) ? attributes.integer("batch_dims") : 0;
  } else {
    axis = attributes.integer("axis");
  }
  std::vector<ValidIndices> ranges;
  for (int64_t i = 0; i < count; ++i) {
    const auto size = extent(graph, x, axis + i, sizes);
    if (!size) return {};
    if (kLabels.contains(op)) {
      ranges.push_back({0, *size - 1, attributes.integer("ignore_index"), true});
    } else {
      ranges.push_back({-*size, *size - 1, std::nullopt, false});
    }
  }
  return ranges;
}

Result<void> check_constant_indices(const Graph& graph) {
  for (const TaskId task : graph.tasks()) {
    const std::vector<ValidIndices> ranges = valid_indices(graph, task);
    if (ranges.empty()) continue;
    const ValueId indices = graph.inputs(task)[1];
    const auto elements = constant_elements(graph, indices);
    if (!elements) continue;
    for (size_t i = 0; i < elements->size(); ++i) {
      const ValidIndices& range = ranges[i % ranges.size()];
      if (range.holds((*elements)[i])) continue;
      return error(
          graph.location(task),
          fmt::format("{}: element {} of the constant indices %{} is {}, expected {} to {}", graph.op(task).name, i,
                      graph.value(indices).name, (*elements)[i], range.low, range.high));
    }
  }
  return {};
}

}  // namespace rannc::ir
