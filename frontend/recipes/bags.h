/// Recognizes embedding bags of equal length by their offsets.
#pragma once

#include <optional>

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// The integers first, first + step, first + 2 step …. A single number has no step.
struct Progression {
  ir::Dim first;
  std::optional<ir::Dim> step;
  ir::Dim count;
};
/// Returns the progression that an integer value of rank 1 contains. Recognizes known contents and ranges, which may be
/// cut at the front or multiplied by a size. Returns nullopt for other values and for values that depend on data.
std::optional<Progression> progression(const TaskWriter& writer, ValueId value);

/// `count` bags of `size` rows each.
struct EqualBags {
  ir::Dim count, size;
};
/// Returns the bags that begin at `starts` if they are certainly contiguous, of one length and cover all `rows` rows.
std::optional<EqualBags> equal_bags(const Progression& starts, const ir::Dim& rows);

/// Reshapes `flat`, of `count * size` elements, to [count, size].
ValueId by_bag(TaskWriter& writer, ValueId flat, const EqualBags& bags);

}  // namespace rannc::frontend
