#include "frontend/onnx/internal/translate/window.h"

#include <algorithm>

#include "ir/dim/dim_bounds.h"

namespace rannc::frontend {

namespace {

/// Computes pads for output sizes of ceil(size / stride).
void set_same_pads(const ir::Shape& from, bool upper, Window& window) {
  const size_t n = window.kernel.size();
  ir::Shape pads(2 * n);
  for (size_t i = 0; i < n; ++i) {
    const ir::Dim &size = from[i + 2], stride = window.strides[i];
    const ir::Dim reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const ir::Dim windows = floor_div(size + stride - ir::Dim(1), stride);
    const ir::Dim total = ir::larger((windows - ir::Dim(1)) * stride + reach - size, ir::Dim(0));
    const ir::Dim half = floor_div(total, ir::Dim(2));
    pads[i] = upper ? half : total - half;
    pads[i + n] = total - pads[i];
  }
  if (std::all_of(pads.begin(), pads.end(), [](const ir::Dim& pad) { return pad.is_constant(); })) {
    std::transform(pads.begin(), pads.end(), window.pads.begin(), [](const ir::Dim& pad) { return pad.constant(); });
    return;
  }
  window.pads.assign(2 * n, 0);
  window.free_pads = std::move(pads);
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

std::optional<Window> read_free_window(Node& node, ValueId x, std::vector<int64_t> kernel) {
  const ir::Shape* const from = node.shape(x);
  if (!from) return std::nullopt;
  auto window = read_geometry(node, from->size(), std::move(kernel));
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (window && (mode == "SAME_UPPER" || mode == "SAME_LOWER")) set_same_pads(*from, mode == "SAME_UPPER", *window);
  return window;
}

std::optional<Window> read_window(Node& node, ValueId x, std::vector<int64_t> kernel) {
  auto window = read_free_window(node, x, std::move(kernel));
  if (!window || window->free_pads.empty()) return window;
  node.fail(node.op() + " with auto_pad needs spatial sizes that are plain integers");
  return std::nullopt;
}

ValueId padded(Node& node, ValueId x, const Window& window, double value) {
  const size_t n = window.kernel.size();
  if (window.free_pads.empty()) return x;
  ir::Shape pads(2 * (n + 2), ir::Dim(0));
  for (size_t i = 0; i < n; ++i) {
    pads[i + 2] = window.free_pads[i];
    pads[i + 4 + n] = window.free_pads[i + n];
  }
  return node.emit("pad", {x}, {{"pads", pads}, {"value", value}});
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
