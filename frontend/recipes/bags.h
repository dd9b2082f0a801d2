/// Bags of equal length: where offsets, as embedding bags take them, follow from sizes and constants.
#pragma once

#include <optional>

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// first, first + step, first + 2 step …; without a step where it is one number.
struct Progression {
  ir::Dim first;
  std::optional<ir::Dim> step;
  ir::Dim count;
};
/// What an integer value of rank 1 is: a range, also cut at its front or multiplied by a size, or known contents.
/// Nothing: it is neither, or depends on data.
std::optional<Progression> progression(const TaskWriter& writer, ValueId value);

/// `count` bags of `size` rows each.
struct EqualBags {
  ir::Dim count, size;
};
/// The bags that begin at `starts`, which together are all of `rows` rows: one after another, of one length. Nothing
/// where that is not certain.
std::optional<EqualBags> equal_bags(const Progression& starts, const ir::Dim& rows);

/// A value of one axis, of `count * size` elements, with an axis for the bags and one for what is in them.
ValueId by_bag(TaskWriter& writer, ValueId flat, const EqualBags& bags);

}  // namespace rannc::frontend
