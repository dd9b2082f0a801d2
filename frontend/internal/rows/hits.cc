#include "frontend/internal/rows/hits.h"

#include <algorithm>

#include "frontend/internal/rows/one_hot.h"
#include "frontend/internal/rows/picked_rows.h"
#include "ir/dim/dim_bounds.h"
#include "ir/match/match.h"
#include "ir/op/interval.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using ir::Dim;
using ir::Graph;

namespace {

constexpr ir::Capture kSummed{0}, kSumTask{1};

/// The number of rows along an axis that can have an element other than zero, counted from the first.
int64_t most_rows(const Graph& graph, AxisOf at, int64_t rows) {
  static const ir::Ops kProduct = "mul";
  for (int steps = 0; steps < kDeepestMask && graph.producer(at.value).valid(); ++steps) {
    if (const auto found = classes_of(graph, at)) {
      ir::Intervals intervals(graph);
      const auto range = intervals.of(*found);
      if (!range || !(range->factor == Dim(0)) || !ir::never_negative(range->low) || !range->high.is_constant())
        return rows;
      return std::min(rows, range->high.constant() + 1);
    }
    if (kProduct.contains(graph.op(graph.producer(at.value)))) {
      int64_t most = rows;
      for (const ValueId factor : graph.inputs(graph.producer(at.value))) {
        if (graph.type(factor).shape == graph.type(at.value).shape)
          most = std::min(most, most_rows(graph, {factor, at.axis}, rows));
      }
      return most;
    }
    const auto next = before(graph, at);
    if (!next) return rows;
    at = *next;
  }
  return rows;
}

}  // namespace

std::optional<Hits> hits_of(const Graph& graph, ValueId places) {
  static const ir::Pattern kPlaces = ir::through({"permute", "identity", "cast"}, ir::any(kSumTask));
  static const ir::Ops kSumOp = "sum";
  static const ir::Pattern kSum = ir::through({"cast", "identity"}, ir::op(kSumOp, ir::any(kSummed)).as(kSumTask));
  static const ir::Pattern kAny =
      ir::through({"cast", "identity"},
                  ir::either({ir::op({"gt", "ne"}, kSum, ir::constant(0)), ir::op("lt", ir::constant(0), kSum)}));
  const auto listed = ir::match(graph, places, kPlaces);
  const TaskId task = listed ? graph.producer((*listed)[kSumTask]) : TaskId();
  if (!task.valid() || graph.op(task).name != kPickedPlaces) return std::nullopt;
  const ValueId any = graph.inputs(task)[0];
  const ir::ValueType& type = graph.type(any);
  if (type.batch.has_batch() || type.shape->size() != 1 || !type.shape->front().is_constant()) return std::nullopt;
  const auto found = ir::match(graph, any, kAny);
  if (!found) return std::nullopt;
  const ValueId mask = (*found)[kSummed];
  const auto kept = axis_left(graph, found->task(kSumTask));
  ir::Intervals intervals(graph);
  const auto elements = intervals.of(mask);
  if (!kept || !elements || !ir::never_negative(elements->low)) return std::nullopt;
  return Hits{mask, *kept, most_rows(graph, {mask, *kept}, type.shape->front().constant())};
}

}  // namespace rannc::frontend
