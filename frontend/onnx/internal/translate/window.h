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
  /// Pads that follow from free sizes; `padded` adds them before the windows. Empty, or all begins, then all ends.
  ir::Shape free_pads = {};
};

/// Reads the attributes of a node whose first operand is `x` [N, C, spatial…]. Resolves `auto_pad` to `pads`, or to
/// `free_pads` unless they are plain integers. If the attributes are inconsistent, the node fails and the result is
/// empty.
std::optional<Window> read_free_window(Node& node, ValueId x, std::vector<int64_t> kernel);
/// Likewise, but the node fails if there are `free_pads`.
std::optional<Window> read_window(Node& node, ValueId x, std::vector<int64_t> kernel);
/// `x` with the `free_pads` of a window, filled with a value.
ValueId padded(Node& node, ValueId x, const Window& window, double value);

/// Likewise for an operand of that rank, without resolving an `auto_pad` that preserves sizes. Operators that scatter
/// elements into windows define it differently.
std::optional<Window> read_geometry(Node& node, size_t rank, std::vector<int64_t> kernel);

/// Kernel extents from the weight's shape [out, in, spatial…]. If they are unknown, the node fails and the result is
/// empty.
std::vector<int64_t> kernel_of(Node& node, ValueId weight);

}  // namespace rannc::frontend
