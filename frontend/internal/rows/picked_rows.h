/// Rows that a mask picks, during an import.
///
/// `x[mask]`, NonZero and their relatives have an extent that depends on data. While a model is translated, that extent
/// is a symbol, and a task of operator `kPickedPlaces`, which exists only then, lists the places of the picked
/// elements. `compute_all_rows` replaces both (`frontend/internal/rows/all_rows.h`).
///
/// Rows sorted by class, as tokens by expert, are the rows of class 0, then those of class 1, and so on: a mask picks
/// the rows of each, and the extent is the sum of the symbols. The order among equal rows is left open.
#pragma once

#include <string_view>

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// Lists the places of a mask's elements that are not zero as i64[rank, count], in row-major order. Operands: the mask,
/// and the mask that determines it (`add_picked_places`). Attribute `symbol`: the symbol of the latter's count.
inline constexpr std::string_view kPickedPlaces = "picked places";
/// One of the rows of which a mask without samples picks all that occur. Operand: their places. Attribute `index`.
inline constexpr std::string_view kPickedRow = "picked row";

/// Lists the places of all rows sorted by class. Operands: the classes, of which each row has one or
/// more, and the places of the rows of each class.
inline constexpr std::string_view kSortedPlaces = "places of sorted rows";

bool lists_places(const ir::Graph& graph, TaskId task);
bool sorts_places(const ir::Graph& graph, TaskId task);
bool is_row_hit(const ir::Graph& graph, TaskId task);

bool is_picked(const ir::Dim& size);
/// Whether an extent, or a known element, counts picked rows.
bool is_picked(const ir::ValueType& type);
bool is_picked(const ir::Attribute& attribute);

/// Adds a task that lists the places. Masks that pick the same rows share a symbol: equal ones, and ones that only
/// reshape, convert or repeat another along last axes.
ValueId add_picked_places(ir::Graph& graph, ValueId mask, const std::string& name, const Location& where);
/// Whether a task slices a value across samples. Only the extents of its result may be needed, as in the files of
/// torch.onnx.export(dynamo=False), so that it is an error at the end of the import.
bool is_slice_of_samples(const ir::Graph& graph, TaskId task);
/// Types such a task, or one that reads picked rows, regardless of samples: whether it keeps them apart is checked when
/// all rows replace the picked ones.
Result<void> infer_picked(ir::Graph& graph, TaskId task);
/// Notes that the sum of a mask is the number of rows that it picks, and that of one-hot classes the number of each.
void note_picked_count(ir::Graph& graph, TaskId task);
}  // namespace rannc::frontend
