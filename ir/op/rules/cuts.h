/// Slices and pads in the form of ATen's calls. Private to ir/op.
#pragma once

#include <cstdlib>
#include <optional>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir::ops {

/// `count` positions along an axis: `start`, `start + step` …
struct Cut {
  int64_t axis;
  Dim start, count;
  int64_t step;

  /// The range that contains them: `span()` positions from `low()` on.
  Dim span() const { return count == Dim(0) ? Dim(0) : (count - Dim(1)) * Dim(std::abs(step)) + Dim(1); }
  Dim low() const { return step > 0 || count == Dim(0) ? start : start - span() + Dim(1); }
};

/// Operands of a slice. Without `axes` the first axes are cut; without `steps` they are 1.
struct SliceLists {
  Shape starts, ends;
  std::optional<Shape> axes, steps;
};

/// The cuts of a value of shape `from`, one per axis. `call` receives assumptions; null: the type rule has made them
/// before.
Result<std::vector<Cut>> cuts_of(const OpCall* call, const Shape& from, const SliceLists& lists);

/// Batch layout of a cut along the axis of the samples. The cut takes whole mini-batches of several concatenated ones,
/// or every `step`th position of each sample. Nothing if it would take only some of the samples.
std::optional<BatchLayout> cut_samples(const OpCall& call, const BatchLayout& layout, const Cut& cut,
                                       const Dim& extent);
/// Number of mini-batches in `extent` positions along the batch axis of a layout; nothing if they contain part of one.
std::optional<Dim> mini_batches(const OpCall& call, const BatchLayout& layout, const Dim& extent);

/// `pads` (begin… end…) of the axes from `first` on as ATen lists them: pairs, from the last axis on.
Shape pads_from_last(const Shape& pads, size_t first);
/// The first axis that has pads; the last axis if none has.
size_t first_padded(const Shape& pads);
/// The first axis that an ATen call lists in modes other than "constant". Such a call lists up to three axes, with one
/// or two before them. Nothing if no call does.
std::optional<size_t> first_listed(const Shape& pads);
/// Axes that have pads.
std::vector<size_t> padded_axes(const Shape& pads);
/// The shape of a value viewed as [1, before, axis, after].
Shape around_axis(const Shape& shape, size_t axis);

}  // namespace rannc::ir::ops
