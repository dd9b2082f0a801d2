/// Decides whether tasks compute picked rows one by one.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "frontend/internal/rows/picks.h"

namespace rannc::frontend {

/// Where an operator of finite numbers may have an infinite result or derivative: an operand, and a number for it that
/// gives none. Positions must exist.
struct Guard {
  std::string_view op;
  size_t operand;
  double number;
};
std::vector<Guard> guards(const ir::Graph& graph, TaskId task);

/// Types of a task's results with the rows of pick `number` as samples. Fails if it mixes them. `rows`: the values that
/// have picked rows, except random inputs.
Result<std::vector<ir::ValueType>> types_by_row(const ir::Graph& graph, const Picks& picks,
                                                const std::map<ValueId, Rows>& rows, TaskId task, size_t number);
/// Where a random input, which has the shape of a value with rows, has them.
ir::BatchLayout random_rows(const ir::Graph& graph, ValueId value, const Pick& pick);
/// Fails if the number of rows is more than the extent of a result.
Result<void> check_counted(const ir::Graph& graph, const Picks& picks, TaskId task, std::optional<size_t> number);

}  // namespace rannc::frontend
