/// Reads the strides, pads and dilations of sliding windows.
#pragma once

#include <optional>
#include <vector>

#include "frontend/onnx/internal/translate/node.h"

namespace rannc::frontend {

/// Geometry of a convolution or pooling over `kernel.size()` spatial dimensions.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;  ///< all begins, followed by all ends
};

/// Reads the attributes of a node whose first operand is `x` [N, C, spatial…]. Resolves `auto_pad` to `pads`, for which
/// spatial sizes must be plain integers. If the attributes are inconsistent, the node fails and the result is empty.
std::optional<Window> read_window(Node& node, ValueId x, std::vector<int64_t> kernel);

/// Likewise for an operand of that rank, without resolving an `auto_pad` that preserves sizes. Operators that scatter
/// elements into windows define it differently.
std::optional<Window> read_geometry(Node& node, size_t rank, std::vector<int64_t> kernel);

/// Kernel extents from the weight's shape [out, in, spatial…]. If they are unknown, the node fails and the result is
/// empty.
std::vector<int64_t> kernel_of(Node& node, ValueId weight);

}  // namespace rannc::frontend
