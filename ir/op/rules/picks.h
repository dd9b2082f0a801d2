/// Helpers of look-ups by position and their gradients. Private to ir/op.
#pragma once

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

Result<void> require_integers(const OpCall& call, size_t operand);
/// Shape of `data` at `indices` of an axis.
Shape gathered(const Shape& data, const Shape& indices, size_t axis);
/// Shape of `data` at tuples of indices. Fails if they do not fit.
Result<Shape> gathered_nd(const OpCall& call, const Shape& data, const Shape& indices, int64_t batch_dims);

/// Sizes of `data` viewed as [groups, picked, rest] and of its tuples of indices viewed as [groups, rows].
struct PickedParts {
  Dim groups, picked, rest, rows;
};
PickedParts parts_of(const Shape& data, const Shape& indices, int64_t batch_dims);

/// Maps negative indices, which ONNX counts from the end, to 0…extent-1. ATen's index_select does not accept them.
aten::Value from_start(Calls& calls, aten::Value index, DType dtype, const Dim& extent);
/// Operand 1, tuples of indices into `data`, as a flat list of positions in [groups * picked].
struct FlatPicks {
  aten::Value index;
  PickedParts parts;
};
Result<FlatPicks> flat_picks(Calls& calls, const LowerCall& call, const Shape& data);

/// Attribute `padding_index` of gather: the row of a table that receives no gradient.
inline std::optional<int64_t> padding_index(const OpAttributes& attributes) {
  if (!attributes.given().has("padding_index")) return std::nullopt;
  return attributes.integer("padding_index");
}
/// Fails if `padding_index` is given but is not a row of a table of that shape, looked up along `axis`.
inline Result<void> check_padding(const OpAttributes& attributes, const Shape& table, int64_t axis) {
  const auto padding = padding_index(attributes);
  if (!padding) return {};
  if (table.size() != 2 || axis != 0) {
    return error("padding_index " + std::to_string(*padding) + " on axis " + std::to_string(axis) + " of " +
                 str(table) + "; it is a row of a table of rank 2");
  }
  if (*padding >= 0 && (!table[0].is_constant() || *padding < table[0].constant())) return {};
  return error("padding_index " + std::to_string(*padding) + " is no row of " + str(table));
}

}  // namespace rannc::ir::ops
