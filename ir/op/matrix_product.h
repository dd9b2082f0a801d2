/// Recognizes products of matrices that can be added to a sum without memory of their own.
#pragma once

#include "ir/base/device_type.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

/// Whether a task is one product of two matrices that a kernel of the device can add to a sum of gradients: its element
/// type is that of the sum, or, on a GPU, of 16 bits. The kernel of a GPU adds products of 16-bit numbers in float32
/// and does not round them first.
bool is_matrix_product(const Graph& graph, TaskId task, DeviceType device);

}  // namespace rannc::ir
