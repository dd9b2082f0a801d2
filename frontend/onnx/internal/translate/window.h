/// Strides, pads and dilations of sliding windows.
#pragma once

#include <optional>
#include <vector>

#include "frontend/onnx/internal/translate/node.h"

namespace rannc::frontend {

/// Geometry of a convolution or pooling over `kernel.size()` spatial dimensions.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;  ///< all begins, then all ends
};

/// Reads the attributes of a node whose first operand is `x` [N, C, spatial…]; `auto_pad` is settled into `pads`, which
/// needs spatial sizes that are plain integers. Nothing, and a failure in the node, where they do not fit together.
std::optional<Window> read_window(Node& node, ValueId x, std::vector<int64_t> kernel);

/// The same for an operand of that rank, but for `auto_pad` that keeps sizes: operators that spread elements over
/// windows settle it otherwise.
std::optional<Window> read_geometry(Node& node, size_t rank, std::vector<int64_t> kernel);

/// Extents of the kernel from the weight's shape [out, in, spatial…]; empty and a failure where they are unknown.
std::vector<int64_t> kernel_of(Node& node, ValueId weight);

}  // namespace rannc::frontend
