/// What look-ups by position share with their gradients. Private to ir/ops.
#pragma once

#include "ir/ops/rules.h"

namespace rannc::ir::ops {

Result<void> require_integers(const OpCall& call, size_t operand);
/// Shape of `data` at `indices` of an axis.
Shape gathered(const Shape& data, const Shape& indices, size_t axis);
/// Shape of `data` at tuples of indices; an error where they do not fit.
Result<Shape> gathered_nd(const Shape& data, const Shape& indices, int64_t batch_dims);

/// Numbers of elements where `data` is seen as [groups, picked, rest] and its tuples of indices as [groups, rows].
struct PickedParts {
  Dim groups, picked, rest, rows;
};
PickedParts parts_of(const Shape& data, const Shape& indices, int64_t batch_dims);

/// Indices brought into 0…extent-1: ONNX counts negative ones from the end, ATen's index_select does not.
aten::Value from_start(Calls& calls, aten::Value index, DType dtype, const Dim& extent);
/// Operand 1, tuples of indices into `data`, as a flat list of places in [groups * picked].
struct FlatPicks {
  aten::Value index;
  PickedParts parts;
};
Result<FlatPicks> flat_picks(Calls& calls, const LowerCall& call, const Shape& data);

}  // namespace rannc::ir::ops
