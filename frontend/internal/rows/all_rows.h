/// Computes all rows where a model computes the rows that a mask picks.
#pragma once

#include "frontend/import.h"

namespace rannc::frontend {

/// Replaces the rows that masks pick (`frontend/internal/rows/picked_rows.h`) by all rows, at the end of an import:
///
///     y[mask] = f(x[mask])           =>  y = where(mask, f(where(mask, x, 0)), y)
///     y.index_add_(0, places, f(…))  =>  y = y + where(mask, f(…), 0)
///     f(x[mask]).mean()              =>  where(mask, f(…), 0).sum() / mask.sum()
///
/// The results are equal if f computes each row by itself. That is proved by the type rules with the number of picked
/// rows as the batch symbol. Sums, means and cross entropies over them count the picked rows alone. Anything else is an
/// error at the task, with a note where the rows are picked: a task that
/// mixes rows, reads their number or order, or writes them back by another mask.
///
/// Rows that are not picked are computed from zeros, so that a NaN among them reaches no weight. Operators without a
/// finite derivative at some number compute from a number where it is finite. The gradients of such rows are exact
/// zeros.
///
/// A mask over several axes, such as a token's choices of experts, picks rows of all its axes, but a value is computed
/// once for all axes that it does not depend on. Adds a remark to the notes. Linear.
Result<void> compute_all_rows(ir::Graph& graph, ImportNotes& notes);

}  // namespace rannc::frontend
