/// Small constants as numbers, and numbers as constants.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// One operand or result of an operator that is computed ahead of a run: a type whose shape is made of integers, and
/// its bytes (row-major, little-endian).
struct StoredTensor {
  ValueType type;
  TensorData data;
};

/// Number of elements of a shape made of integers; nothing where a dimension is symbolic, negative, or the product
/// overflows.
std::optional<int64_t> static_count(const ValueType& type);

/// The elements of a constant as integers (booleans 0 and 1); an error where the type is no integer type, the bytes
/// cannot be read or do not fit the shape, or there are more than `limit` elements.
Result<std::vector<int64_t>> decode_integers(const ValueType& type, const TensorData& data, int64_t limit);
/// The elements of a constant of any type as doubles, under the same conditions.
Result<std::vector<double>> decode_numbers(const ValueType& type, const TensorData& data, int64_t limit);

/// Row-major little-endian bytes of `dtype`; integers wrap, floats round to nearest even.
TensorData encode_integers(DType dtype, std::span<const int64_t> values);
TensorData encode_numbers(DType dtype, std::span<const double> values);

/// Contents of an initializer: of integer or boolean type, rank 0 or 1, at most 64 elements, bytes at hand. Nothing
/// otherwise.
std::optional<Contents> constant_contents(const ValueType& type, const TensorData& data);

/// Adds an integer or boolean constant of that shape, with contents where they may be had.
ValueId add_constant(Graph& graph, std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                     std::span<const int64_t> values);
/// Adds a float constant of that shape.
ValueId add_constant(Graph& graph, std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                     std::span<const double> values);

}  // namespace rannc::ir
