/// Finds stored tensors with the same contents.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// `second` repeats `first`, or its transpose.
struct Tie {
  ValueId first, second;
  bool transposed = false;
};

/// Ties among `values` (float tensors with bytes), each second value once, in order. Tensors filled with one number are
/// tied to nothing. Reads a few bytes of each, and all of those that agree there.
std::vector<Tie> find_ties(const ir::Graph& graph, const std::vector<ValueId>& values);

/// Whether two stored tensors hold the same numbers, or each other's transpose; those of one number, too.
std::optional<Tie> tie_of(const ir::Graph& graph, ValueId first, ValueId second);

/// Whether a stored tensor is one number repeated; false where its bytes cannot be read.
bool is_uniform(const ir::Graph& graph, ValueId value);

/// Whether an element is -10,000 or less, as masks have; false where the bytes cannot be read.
bool has_mask_element(const ir::ValueType& type, const ir::TensorData& data);

}  // namespace rannc::passes
