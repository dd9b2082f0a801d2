/// Finds one-hot encodings of classes.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// An axis of a value.
struct AxisOf {
  ValueId value;
  int64_t axis;
};

/// Maximum number of tasks that are followed.
inline constexpr int kDeepestMask = 8;

/// Follows an axis of a value to the operand of its task, whose elements are zero wherever the result's are.
std::optional<AxisOf> before(const ir::Graph& graph, const AxisOf& at);
/// The class numbers of which a value is a one-hot encoding along an axis.
std::optional<ValueId> classes_of(const ir::Graph& graph, const AxisOf& at);
/// The axis that a sum leaves, if it leaves one.
std::optional<int64_t> axis_left(const ir::Graph& graph, TaskId sum);

}  // namespace rannc::frontend
