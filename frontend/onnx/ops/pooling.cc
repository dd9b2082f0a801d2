/// Translates ONNX pooling.
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"
#include "frontend/onnx/internal/window.h"

namespace rannc::frontend {

namespace {

ir::Attributes geometry(const Node& node, const Window& window) {
  return {{"kernel", list(window.kernel)},
          {"strides", list(window.strides)},
          {"pads", list(window.pads)},
          {"ceil", node.integer("ceil_mode", 0) != 0}};
}

void max_pool(Node& node) {
  const ValueId x = node.in(0);
  const auto window = read_window(node, x, node.integers("kernel_shape"));
  if (!window) return;
  ir::Attributes attributes = geometry(node, *window);
  attributes.set("dilations", list(window->dilations));
  node.result("max_pool", {x}, std::move(attributes));
}

void average_pool(Node& node) {
  const ValueId x = node.in(0);
  const auto window = read_window(node, x, node.integers("kernel_shape"));
  if (!window) return;
  if (window->dilations != std::vector<int64_t>(window->dilations.size(), 1)) {
    return node.fail("AveragePool with dilations is not supported");
  }
  ir::Attributes attributes = geometry(node, *window);
  attributes.set("count_include_pad", node.integer("count_include_pad", 0) != 0);
  node.result("avg_pool", {x}, std::move(attributes));
}

/// Over all spatial dimensions, which stay with extent 1.
void global(Node& node, std::string_view reduction) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  if (from->size() < 3) return node.fail(node.op() + " needs spatial dimensions");
  ir::Shape axes;
  for (size_t axis = 2; axis < from->size(); ++axis) axes.emplace_back(static_cast<int64_t>(axis));
  node.result(reduction, {x}, {{"axes", axes}, {"keepdim", true}});
}
void global_average_pool(Node& node) { global(node, "mean"); }
void global_max_pool(Node& node) { global(node, "amax"); }

constexpr Translator kTable[] = {
    {"AveragePool", 7, 27, average_pool},
    {"GlobalAveragePool", 7, 27, global_average_pool},
    {"GlobalMaxPool", 7, 27, global_max_pool},
    {"MaxPool", 7, 27, max_pool},
};

}  // namespace

std::span<const Translator> pooling_translators() { return kTable; }

}  // namespace rannc::frontend
