/// Intervals of the elements of integer values, whether their contents are known or not.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "ir/op/op.h"

namespace rannc::ir {

/// The elements of a value: factor * (number of the element's sample) + something in low…high, all three expressions of
/// sizes. The factor of a value without samples is 0.
struct IndexRange {
  Dim factor = 0, low = 0, high = 0;
  bool operator==(const IndexRange&) const = default;
};

/// Follows integer values back to numbers and sizes, by the interval rules of the operators that make them. What is
/// found holds on every run; that integers do not wrap there is taken for granted, but in casts to types of less than
/// four bytes. Answers are kept, so that no value is visited twice; the graph must not change meanwhile.
class Intervals {
 public:
  explicit Intervals(const Graph& graph) : graph_(graph) {}

  /// The elements of `id`; of a value whose last axis lists components, those of one component (`component` >= 0).
  /// Nothing where no rule says it, or only after too many steps.
  std::optional<IndexRange> of(ValueId id, int64_t component = -1);

 private:
  std::optional<IndexRange> find(ValueId id, int64_t component);

  const Graph& graph_;
  int depth_ = 0;
  std::map<std::pair<uint32_t, int64_t>, std::optional<IndexRange>> known_;
};

/// What an interval rule (`OpInfo::interval`) sees of a task, one of whose results it is asked for.
struct IntervalCall {
  const Graph& graph;
  TaskId task;
  int64_t component;  ///< of the result; negative: all elements
  Intervals& intervals;
  size_t result = 0;  ///< its place; its shape is known

  bool has(size_t operand) const;
  const ValueType& in(size_t operand) const;
  const ValueType& out() const;
  OpAttributes attributes() const { return {graph.op(task), graph.attributes(task)}; }
  /// Elements of an operand: of one component, or all.
  std::optional<IndexRange> operand(size_t i, int64_t of_component) const;
  /// Elements of an operand, aligned with the result at the right, that the result's component is made of.
  std::optional<IndexRange> aligned(size_t i) const;
};

/// Least and greatest of known contents; nothing of none.
std::optional<IndexRange> range_of(const Contents& contents);

}  // namespace rannc::ir
