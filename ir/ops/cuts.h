/// Places that a slice takes and pads put around, as ATen's calls say them. Private to ir/ops.
#pragma once

#include <cstdlib>
#include <optional>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir::ops {

/// Places along an axis: `start`, `start + step` …, as many as `count`.
struct Cut {
  int64_t axis;
  Dim start, count;
  int64_t step;

  /// The range that holds them: `span()` places from `low()` on.
  Dim span() const { return count == Dim(0) ? Dim(0) : (count - Dim(1)) * Dim(std::abs(step)) + Dim(1); }
  Dim low() const { return step > 0 || count == Dim(0) ? start : start - span() + Dim(1); }
};

/// What says the cuts; without axes they are the first ones, without steps 1.
struct SliceLists {
  Shape starts, ends;
  std::optional<Shape> axes, steps;
};

/// The cuts of a value of shape `from`, one per axis. `call` takes what has to be assumed; null: the type rule has
/// asked before.
Result<std::vector<Cut>> cuts_of(const OpCall* call, const Shape& from, const SliceLists& lists);

/// The layout of what a cut takes of a value with samples along the cut's axis: whole mini-batches of those that lie
/// one after another (halves of a concatenation), or each sample's places `step` apart. Nothing where it would take
/// some samples and leave others.
std::optional<BatchLayout> cut_samples(const OpCall& call, const BatchLayout& layout, const Cut& cut,
                                       const Dim& extent);
/// How many mini-batches `extent` places hold along the samples' axis of a layout; nothing where they hold parts of
/// one.
std::optional<Dim> mini_batches(const OpCall& call, const BatchLayout& layout, const Dim& extent);

/// `pads` (begin… end…) of the axes from `first` on as ATen lists them: pairs, from the last axis on.
Shape pads_from_last(const Shape& pads, size_t first);
/// The first axis that has pads, the last one where none has.
size_t first_padded(const Shape& pads);
/// The first axis that one call of ATen lists in modes other than "constant", so that one or two stay before it and up
/// to three are listed; nothing where no call does.
std::optional<size_t> first_listed(const Shape& pads);
/// Axes that have pads.
std::vector<size_t> padded_axes(const Shape& pads);
/// The shape of a value seen as [1, before, axis, after].
Shape around_axis(const Shape& shape, size_t axis);

}  // namespace rannc::ir::ops
