/// Integer values that list places of the rows that a mask picks.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// A value with one row per picked element of a mask, and the numbers that each row consists of.
struct PlaceTable {
  /// A sum of the places on the mask's axes, each times a factor, and an offset.
  struct Column {
    std::vector<ir::Dim> factors;  ///< per axis of the mask; 0 on an axis of extent 1
    ir::Dim offset = 0;
  };
  size_t pick = 0;
  ValueId mask;
  ir::Shape shape;                         ///< of the mask
  std::vector<size_t> order;               ///< of its axes in the list of all rows
  bool is_own = true;                      ///< the mask is the one that determines the rows, or has its shape
  std::vector<Column> columns;             ///< none: numbers on the way to integer places, which nothing else may read
  int64_t row_axis = 0, column_axis = -1;  ///< a single column has no axis
  ir::Dim each = 1;                        ///< number of rows per row of the mask that determines them

  static Column place(const ir::Shape& shape, size_t axis);
  /// The axes of the mask, outermost first, whose places the columns are, for a value with these extents.
  std::optional<std::vector<size_t>> axes_of(const ir::Shape& extents) const;
  ir::Shape sizes(const std::vector<size_t>& axes) const;
  /// Position of an axis in the order.
  size_t rank_of(size_t axis) const;
};

/// The results of a task that rearranges such values or computes them from one another; nothing for other tasks.
std::optional<std::vector<PlaceTable>> arranged(const ir::Graph& graph, TaskId task,
                                                const std::map<ValueId, PlaceTable>& tables);

}  // namespace rannc::frontend
