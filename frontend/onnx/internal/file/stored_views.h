/// Resolves views of stored tensors, with which passes replace an exporter's copies.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Whether values of this kind are stored: parameters, buffers and constants.
bool is_stored(ir::ValueKind kind);

/// Returns the stored value that `view` is a view of, through core.slice, core.permute and core.reshape tasks that come
/// from no node.
std::optional<ValueId> stored_behind(const ir::Graph& graph, ValueId view);

/// Returns the bytes of such a view, given the bytes of the stored value. Returns an error if they cannot be read.
Result<ir::TensorData> viewed(const ir::Graph& graph, ValueId view, const ir::TensorData& stored);

/// Whether a task that comes from no node computes on a value or on a view of it. No tensor of the file can then store
/// the result.
bool is_computed_on(const ir::Graph& graph, ValueId value);

}  // namespace rannc::frontend
