/// Conversion between stored constants and numbers.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// A tensor with known bytes: a type with a static shape, and row-major little-endian bytes. Operand or result of an
/// operator that is computed at compile time.
struct StoredTensor {
  ValueType type;
  TensorData data;
};

/// Number of elements of a static shape; nothing if a dimension is symbolic or negative, or if the product overflows.
std::optional<int64_t> static_count(const ValueType& type);

/// The elements of a constant as integers (booleans are 0 and 1). Fails if the type is not an integer type or bool, if
/// the bytes cannot be read or do not fit the shape, or if there are more than `limit` elements.
Result<std::vector<int64_t>> decode_integers(const ValueType& type, const TensorData& data, int64_t limit);
/// The elements of a constant of any type as doubles, under the same conditions.
Result<std::vector<double>> decode_numbers(const ValueType& type, const TensorData& data, int64_t limit);

/// Row-major little-endian bytes of elements of type `dtype`. Integers wrap, floats round to nearest even.
TensorData encode_integers(DType dtype, std::span<const int64_t> values);
TensorData encode_numbers(DType dtype, std::span<const double> values);

/// Contents of an initializer of integer or boolean type, rank 0 or 1 and at most 64 elements whose bytes are
/// available. Nothing otherwise.
std::optional<Contents> constant_contents(const ValueType& type, const TensorData& data);

/// Adds an integer or boolean constant of that shape, with contents if it is small enough (`constant_contents`).
ValueId add_constant(Graph& graph, std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                     std::span<const int64_t> values);
/// Adds a float constant of that shape.
ValueId add_constant(Graph& graph, std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                     std::span<const double> values);

}  // namespace rannc::ir
