/// Checks loops over the experts that are chosen.
#pragma once

#include <vector>

#include "frontend/internal/rows/picks.h"

namespace rannc::frontend {

/// A row of a mask that is not all zero may stand for the row of its number only if what reads it has no effect where
/// that row is all zero: it ends in rows picked by that row of the mask. `needed`: the tasks that outputs depend on.
Result<void> check_rows_hit(const ir::Graph& graph, const Picks& picks, const std::vector<bool>& needed);

}  // namespace rannc::frontend
