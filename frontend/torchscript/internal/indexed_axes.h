/// The axes of a tensor that a list of indices reads or writes.
#pragma once

#include <optional>
#include <vector>

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

struct IndexedAxis {
  size_t axis;
  ValueId places;
  ValueId mask;  ///< that picks the places; invalid if they are given
};

/// Whether an index is a mask instead of a list of places.
bool is_mask(const Call& call, ValueId index);
/// The places that a mask picks, one value per axis of the mask.
std::vector<ValueId> picked_columns(Call& call, ValueId mask);
/// The axes that are indexed, in order. A mask indexes as many axes as it has.
std::optional<std::vector<IndexedAxis>> indexed_axes(Call& call, const Sequence& list);
/// Whether an index is a range over a whole axis: x[:, arange(n)] is x.
bool is_whole(Call& call, ValueId index, const ir::Dim& size);
/// Whether writing `written` at `index` inverts a sort of rows by class: `inverse[index] = arange(n)`.
bool puts_back(Call& call, ValueId index, ValueId written);
/// Gives the rows of `x` in the order before such a sort. Returns false, and does nothing, for another index.
bool give_unsorted(Call& call, ValueId x, int64_t axis, ValueId index);
/// `where` of a condition alone: the places where it holds.
void where_true(Call& call);

}  // namespace rannc::frontend::torchscript
