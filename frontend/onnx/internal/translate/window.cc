#include "frontend/onnx/internal/translate/window.h"

#include <algorithm>

namespace rannc::frontend {

namespace {

/// Computes pads for output sizes of ceil(size / stride).
bool same_pads(Node& node, const ir::Shape& from, bool upper, Window& window) {
  const size_t n = window.kernel.size();
  for (size_t i = 0; i < n; ++i) {
    if (!from[i + 2].is_constant()) {
      node.fail(node.op() + " with auto_pad needs spatial sizes that are plain integers");
      return false;
    }
    const int64_t size = from[i + 2].constant(), stride = window.strides[i];
    const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t left = size == 0 ? stride : (size - 1) % stride + 1;  // where the last window starts
    const int64_t total = std::max<int64_t>(0, reach - left);
    window.pads[i] = upper ? total / 2 : total - total / 2;
    window.pads[i + n] = total - window.pads[i];
  }
  return true;
}

}  // namespace

std::optional<Window> read_geometry(Node& node, size_t rank, std::vector<int64_t> kernel) {
  if (!node.good()) return std::nullopt;
  const size_t n = kernel.size();
  Window window{std::move(kernel), node.integers("strides"), node.integers("dilations"), node.integers("pads")};
  if (window.strides.empty()) window.strides.assign(n, 1);
  if (window.dilations.empty()) window.dilations.assign(n, 1);
  if (window.pads.empty()) window.pads.assign(2 * n, 0);
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto within = [](const std::vector<int64_t>& values, int64_t least) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= least && v < kMost; });
  };
  if (rank != n + 2 || n == 0 || window.strides.size() != n || window.dilations.size() != n ||
      window.pads.size() != 2 * n) {
    node.fail(node.op() + ": kernel, strides, dilations and pads do not fit the operand's rank");
    return std::nullopt;
  }
  if (!within(window.kernel, 1) || !within(window.strides, 1) || !within(window.dilations, 1) ||
      !within(window.pads, 0)) {
    node.fail(node.op() + ": kernel, strides and dilations must be positive and pads not negative");
    return std::nullopt;
  }
  if (node.text("auto_pad", "NOTSET") == "VALID") window.pads.assign(2 * n, 0);
  return window;
}

std::optional<Window> read_window(Node& node, ValueId x, std::vector<int64_t> kernel) {
  const ir::Shape* const from = node.shape(x);
  if (!from) return std::nullopt;
  auto window = read_geometry(node, from->size(), std::move(kernel));
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (!window || (mode != "SAME_UPPER" && mode != "SAME_LOWER")) return window;
  return same_pads(node, *from, mode == "SAME_UPPER", *window) ? window : std::nullopt;
}

std::vector<int64_t> kernel_of(Node& node, ValueId weight) {
  const ir::Shape* const shape = node.shape(weight);
  if (!shape) return {};
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < shape->size(); ++i) {
    if (!(*shape)[i].is_constant()) {
      node.fail(node.op() + " needs a weight whose sizes are plain integers");
      return {};
    }
    kernel.push_back((*shape)[i].constant());
  }
  if (kernel.empty()) node.fail(node.op() + " needs a weight of rank 3 or more");
  return kernel;
}

}  // namespace rannc::frontend
