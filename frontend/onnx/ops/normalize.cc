/// Translates ONNX normalisation layers.
#include <array>
#include <numeric>

#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"

namespace rannc::frontend {

namespace {

/// Which precision the statistics are computed in (`stash_type`) is the runtime's choice. Where they are outputs,
/// ONNX's definition makes them.
void layer_norm(Node& node) {
  if (node.wants(1) || node.wants(2)) return node.use_definition();
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", -1), static_cast<int64_t>(from->size()));
  std::vector<ValueId> operands = {x, node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  node.result("layer_norm", operands, {{"axis", ir::Dim(axis)}, {"epsilon", node.number("epsilon", 1e-5f)}});
}

void rms_norm(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", -1), static_cast<int64_t>(from->size()));
  node.result("rms_norm", {x, node.in(1)}, {{"axis", ir::Dim(axis)}, {"epsilon", node.number("epsilon", 1e-5f)}});
}

/// Trains where it says so: by attribute since opset 14, by asking for the statistics before. ONNX's momentum weighs
/// the old statistics, ATen's the new.
void batch_norm(Node& node) {
  const bool training = node.opset() >= 14 ? node.integer("training_mode", 0) != 0 : node.wants(1);
  if (node.opset() < 9 && node.integer("spatial", 1) == 0) return node.fail("BatchNormalization with spatial = 0");
  const std::array operands = {node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)};
  const ir::Attributes attributes = {{"epsilon", node.number("epsilon", 1e-5f)},
                                     {"momentum", 1.0 - node.number("momentum", 0.9f)},
                                     {"training", training}};
  node.result_with_auxiliary("batch_norm", operands, attributes, training ? 2 : 0);
}

/// Each channel of each sample by its own mean and variance.
void instance_norm(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  if (from->size() < 3) return node.fail("InstanceNormalization needs spatial dimensions");
  ir::Shape channel(from->size() - 1, ir::Dim(1)), axes;
  channel[0] = -1;
  for (size_t axis = 2; axis < from->size(); ++axis) axes.emplace_back(static_cast<int64_t>(axis));
  const ir::Attributes over = {{"axes", axes}, {"keepdim", true}};
  const ValueId centred = node.emit("sub", {x, node.emit("mean", {x}, over)});
  const ValueId variance = node.emit("mean", {node.emit("mul", {centred, centred})}, over);
  const ValueId epsilon = node.scalar(node.number("epsilon", 1e-5f), node.dtype(x));
  const ValueId factor = node.emit("rsqrt", {node.emit("add", {variance, epsilon})});
  const ValueId normal = node.emit("mul", {centred, factor});
  const ValueId scale = node.emit("reshape", {node.in(1)}, {{"shape", channel}});
  const ValueId bias = node.emit("reshape", {node.in(2)}, {{"shape", channel}});
  node.result("add", {node.emit("mul", {normal, scale}), bias});
}

/// x / norm over one axis; zero where the norm is.
void lp_normalization(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", -1), static_cast<int64_t>(from->size()));
  const ir::Attributes over = {{"axes", ir::Shape{axis}}, {"keepdim", true}};
  const bool absolute = node.integer("p", 2) == 1;
  const ValueId terms = absolute ? node.emit("abs", {x}) : node.emit("mul", {x, x});
  const ValueId sum = node.emit("sum", {terms}, over);
  const ValueId norm = absolute ? sum : node.emit("sqrt", {sum});
  const ValueId none = node.emit("eq", {norm, node.scalar(0, node.dtype(x))});
  node.result("div", {x, node.emit("where", {none, node.scalar(1, node.dtype(x)), norm})});
}

constexpr Translator kTable[] = {
    {"BatchNormalization", 7, 27, batch_norm},  {"InstanceNormalization", 7, 27, instance_norm},
    {"LayerNormalization", 17, 27, layer_norm}, {"LpNormalization", 7, 27, lp_normalization},
    {"RMSNormalization", 23, 27, rms_norm},
};

}  // namespace

std::span<const Translator> normalize_translators() { return kTable; }

}  // namespace rannc::frontend
