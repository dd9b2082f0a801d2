/// Translates ONNX convolutions.
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"
#include "frontend/onnx/internal/window.h"

namespace rannc::frontend {

namespace {

void conv(Node& node) {
  const ValueId x = node.in(0), weight = node.in(1);
  const auto window = read_window(node, x, kernel_of(node, weight));
  if (!window) return;
  std::vector<ValueId> operands = {x, weight};
  if (node.has(2)) operands.push_back(node.in(2));
  node.result("conv", operands,
              {{"strides", list(window->strides)},
               {"pads", list(window->pads)},
               {"dilations", list(window->dilations)},
               {"groups", ir::Dim(node.integer("group", 1))}});
}

/// Where windows neither overlap nor leave gaps (stride = kernel), each input position makes its own output patch:
/// a linear operator over the channels, then the patches are put side by side. Weight [in, out, kh, kw].
void conv_transpose(Node& node) {
  const ValueId x = node.in(0), weight = node.in(1);
  const auto window = read_window(node, x, kernel_of(node, weight));
  if (!window) return;
  const size_t n = window->kernel.size();
  const bool patches =
      window->strides == window->kernel && window->dilations == std::vector<int64_t>(n, 1) &&
      window->pads == std::vector<int64_t>(2 * n, 0) && node.integer("group", 1) == 1 &&
      !node.has_attribute("output_shape") && n == 2 &&
      node.integers("output_padding") == std::vector<int64_t>(node.integers("output_padding").size(), 0);
  if (!patches)
    return node.fail("ConvTranspose is supported in two dimensions with strides equal to the kernel, without pads");
  const ir::Shape s = *node.shape(x), w = *node.shape(weight);
  const ir::Dim out = w[1], kh = w[2], kw = w[3];
  const ValueId last = node.emit("permute", {x}, {{"dims", ir::Shape{0, 2, 3, 1}}});
  const ValueId flat = node.emit("reshape", {weight}, {{"shape", ir::Shape{w[0], out * kh * kw}}});
  const ValueId made = node.emit("linear", {last, flat}, {{"layout", std::string("io")}});
  const ValueId split = node.emit("reshape", {made}, {{"shape", ir::Shape{s[0], s[2], s[3], out, kh, kw}}});
  const ValueId moved = node.emit("permute", {split}, {{"dims", ir::Shape{0, 3, 1, 4, 2, 5}}});
  const ir::Shape to = {s[0], out, s[2] * kh, s[3] * kw};
  if (!node.has(2)) return node.result("reshape", {moved}, {{"shape", to}});
  const ValueId joined = node.emit("reshape", {moved}, {{"shape", to}});
  const ValueId bias = node.emit("reshape", {node.in(2)}, {{"shape", ir::Shape{out, 1, 1}}});
  node.result("add", {joined, bias});
}

constexpr Translator kTable[] = {
    {"Conv", 7, 27, conv},
    {"ConvTranspose", 7, 27, conv_transpose},
};

}  // namespace

std::span<const Translator> convolution_translators() { return kTable; }

}  // namespace rannc::frontend
