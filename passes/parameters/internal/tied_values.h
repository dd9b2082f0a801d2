/// Finds stored tensors with equal contents.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// `second` equals `first`, or its transpose.
struct Tie {
  ValueId first, second;
  bool transposed = false;
};

/// Returns ties among `values` (float tensors with bytes), each second value once, in order. Tensors filled with one
/// number are never tied. Reads a few bytes of each tensor, and all bytes of those that agree there.
std::vector<Tie> find_ties(const ir::Graph& graph, const std::vector<ValueId>& values);

/// Returns a tie if two stored tensors have equal contents, or each is the transpose of the other; also for tensors
/// filled with one number.
std::optional<Tie> tie_of(const ir::Graph& graph, ValueId first, ValueId second);

/// Returns whether a stored tensor is one number repeated; false if its bytes cannot be read.
bool is_uniform(const ir::Graph& graph, ValueId value);

/// Returns whether an element is -10,000 or less, as in masks; false if the bytes cannot be read.
bool has_mask_element(const ir::ValueType& type, const ir::TensorData& data);

}  // namespace rannc::passes
