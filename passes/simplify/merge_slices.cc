#include "passes/simplify/merge_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "passes/simplify/internal/slices.h"

namespace rannc::passes {

namespace {

struct Slice {
  SlicedPart part;
  TaskId task;
};
using Slices = std::vector<Slice>;  // by their beginnings

/// Returns whether they cover the value without gaps or overlaps.
bool are_a_whole(const ir::Graph& graph, const Slices& slices) {
  int64_t at = 0;
  for (const Slice& slice : slices) {
    if (slice.part.start != at) return false;
    at = slice.part.end;
  }
  const ValueId of = graph.inputs(slices.front().task)[0];
  return slices.size() > 1 && at == known_size(graph, of, slices.front().part.axis);
}

/// The slices of each value, by the first of their tasks.
std::unordered_map<uint32_t, Slices> wholes(const ir::Graph& graph) {
  std::unordered_map<uint32_t, Slices> found;
  for (const ValueId value : graph.values()) {
    std::map<size_t, Slices> by_axis;
    graph.for_each_use(value, [&](ir::Graph::Use use) {
      if (const auto part = sliced_part(graph, use.task); part && use.operand == 0)
        by_axis[part->axis].push_back({*part, use.task});
    });
    for (auto& [axis, slices] : by_axis) {
      std::sort(slices.begin(), slices.end(),
                [](const Slice& a, const Slice& b) { return a.part.start < b.part.start; });
      if (!are_a_whole(graph, slices)) continue;
      const auto first = std::min_element(slices.begin(), slices.end(),
                                          [](const Slice& a, const Slice& b) { return a.task < b.task; });
      found.emplace(first->task.index(), std::move(slices));
    }
  }
  return found;
}

Result<void> split(ir::Rewriter& rewriter, const ir::Graph& graph, const Slices& slices) {
  ir::Shape sizes;
  std::vector<std::string> names;
  for (const Slice& slice : slices) {
    sizes.emplace_back(slice.part.end - slice.part.start);
    names.emplace_back(graph.value(graph.outputs(slice.task)[0]).name);
  }
  ir::Graph& to = rewriter.graph();
  const ValueId whole = rewriter.map(graph.inputs(slices.front().task)[0]);
  ir::Attributes attributes{{"axis", ir::Dim(static_cast<int64_t>(slices.front().part.axis))}, {"sizes", sizes}};
  const TaskId made =
      to.add_task(ir::core("split"), {&whole, 1}, std::move(attributes), names, graph.location(slices.front().task));
  RANNC_TRY(ir::infer_types(to, made));
  for (size_t i = 0; i < slices.size(); ++i) rewriter.replace(graph.outputs(slices[i].task)[0], to.outputs(made)[i]);
  return {};
}

}  // namespace

Result<Outcome> MergeSlices::run(ir::Graph& graph, PassContext& context) const {
  const std::unordered_map<uint32_t, Slices> found = wholes(graph);
  if (found.empty()) return Outcome{};
  ir::Rewriter rewriter(graph);
  size_t merged = 0;
  for (const TaskId task : graph.tasks()) {
    if (const auto whole = found.find(task.index()); whole != found.end()) {
      RANNC_TRY(split(rewriter, graph, whole->second));
      merged += whole->second.size();
    } else if (!rewriter.mapped(graph.outputs(task)[0])) {
      rewriter.copy(task);
    }
  }
  graph = std::move(rewriter).finish();
  context.remarks.push_back({{}, fmt::format("replaced {} slices by {} splits", merged, found.size())});
  return Outcome{true};
}

}  // namespace rannc::passes
