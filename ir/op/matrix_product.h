/// Recognizes products of matrices that can be added to a sum without memory of their own.
#pragma once

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Whether a task is one product of two matrices whose element type is that of sums of gradients.
bool is_matrix_product(const Graph& graph, TaskId task);

}  // namespace rannc::ir
