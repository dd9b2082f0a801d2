/// Interval analysis of the elements of integer values.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "ir/op/op.h"

namespace rannc::ir {

/// Range of the elements of a value: factor * (index of the element's sample) + an offset in low…high. All three are
/// expressions of sizes. The factor of a value without samples is 0.
struct IndexRange {
  Dim factor = 0, low = 0, high = 0;
  bool operator==(const IndexRange&) const = default;
};

/// Follows integer values back to numbers and sizes by the interval rules of their operators. Results hold on every
/// run, assuming that integers do not wrap except in casts to types of less than four bytes. Results are cached, so no
/// value is visited twice. The graph must not change meanwhile.
class Intervals {
 public:
  explicit Intervals(const Graph& graph) : graph_(graph) {}

  /// Range of the elements of `id`. With `component` >= 0, only of that component along the last axis. Nothing if no
  /// rule determines it within the depth limit.
  std::optional<IndexRange> of(ValueId id, int64_t component = -1);

 private:
  std::optional<IndexRange> find(ValueId id, int64_t component);

  const Graph& graph_;
  int depth_ = 0;
  std::map<std::pair<uint32_t, int64_t>, std::optional<IndexRange>> known_;
};

/// Input to an interval rule (`OpInfo::interval`): a task and one of its results.
struct IntervalCall {
  const Graph& graph;
  TaskId task;
  int64_t component;  ///< of the result; negative: all elements
  Intervals& intervals;
  size_t result = 0;  ///< index of the result, whose shape is known

  bool has(size_t operand) const;
  const ValueType& in(size_t operand) const;
  const ValueType& out() const;
  OpAttributes attributes() const { return {graph.op(task), graph.attributes(task)}; }
  /// Range of an operand: of one component, or of all elements.
  std::optional<IndexRange> operand(size_t i, int64_t of_component) const;
  /// Range of the elements of an operand, aligned with the result at the right, that determine the result's component.
  std::optional<IndexRange> aligned(size_t i) const;
};

/// Range from the least to the greatest element of known contents; nothing if they are empty.
std::optional<IndexRange> range_of(const Contents& contents);

}  // namespace rannc::ir
