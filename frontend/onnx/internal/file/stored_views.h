/// Views of stored tensors that passes put in the place of an exporter's copies.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// The stored value of which a value is a view: through core.slice, core.permute and core.reshape of no node.
std::optional<ValueId> stored_behind(const ir::Graph& graph, ValueId view);

/// The bytes of such a view, where the stored value has these. An error where they cannot be read.
Result<ir::TensorData> viewed(const ir::Graph& graph, ValueId view, const ir::TensorData& stored);

/// Whether a task of no node computes on a value, or on a view of it: no tensor of the file can hold the result.
bool is_computed_on(const ir::Graph& graph, ValueId value);

}  // namespace rannc::frontend
