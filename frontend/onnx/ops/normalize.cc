/// Translates ONNX normalization layers.
#include <algorithm>
#include <array>
#include <numeric>

#include "frontend/internal/statistics.h"
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Ignores `stash_type`: the runtime chooses the precision of statistics. Uses ONNX's definition if statistics are
/// outputs.
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

/// Emits the updated running statistics as outputs, for models without a batch symbol. With one, the outputs would have
/// statistics of a micro-batch, while buffers get those of the mini-batch. The variance is the biased one.
void new_statistics(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from || node.type(x).batch.has_batch()) return;
  const double momentum = node.number("momentum", 0.9f);
  ir::Shape axes = {ir::Dim(0)};
  for (size_t axis = 2; axis < from->size(); ++axis) axes.emplace_back(static_cast<int64_t>(axis));
  const ir::Attributes whole = {{"axes", axes}, {"keepdim", true}}, flat = {{"axes", axes}, {"keepdim", false}};
  const auto mixed = [&](size_t old, ValueId fresh) {
    const ValueId kept = node.emit("mul", {node.in(old), node.scalar(momentum, node.dtype(node.in(old)))});
    const ValueId added = node.emit("mul", {fresh, node.scalar(1 - momentum, node.dtype(fresh))});
    return node.emit("add", {kept, added});
  };
  if (node.wants(1)) node.result_at(1, mixed(3, node.emit("mean", {x}, flat)));
  if (!node.wants(2)) return;
  const ValueId centred = node.emit("sub", {x, node.emit("mean", {x}, whole)});
  node.result_at(2, mixed(4, node.emit("mean", {node.emit("mul", {centred, centred})}, flat)));
}

/// Translates an instance normalization by running statistics. PyTorch exports it as a batch normalization of shape
/// [1, samples * channels, …], whose other operands are repeated for each sample. It becomes a batch normalization of
/// [samples, channels, …]. Returns false if the node has another form.
bool by_running_statistics(Node& node, std::array<ValueId, 5> operands, const ir::Attributes& attributes) {
  constexpr ir::Capture kFrom{0}, kTask{1};
  static const ir::Pattern kView = ir::op("reshape", ir::any(kFrom));
  static const ir::Pattern kRepeated = ir::op("tile", ir::any(kFrom)).as(kTask);
  const ValueId x = operands[0];
  const auto viewed = node.match(x, kView);
  if (!viewed || !node.type(x).shape || !node.type((*viewed)[kFrom]).shape) return false;
  const ir::Shape to = *node.type(x).shape, from = *node.type((*viewed)[kFrom]).shape;
  const bool joined = from.size() > 2 && to.size() == from.size() && to[0] == ir::Dim(1) &&
                      to[1] == from[0] * from[1] && std::equal(to.begin() + 2, to.end(), from.begin() + 2);
  if (!joined || from[0] == ir::Dim(1)) return false;
  operands[0] = (*viewed)[kFrom];
  for (size_t i = 1; i < operands.size(); ++i) {
    const auto repeated = node.match(operands[i], kRepeated);
    const ir::Shape* const repeats = repeated ? repeated->attributes(kTask).list("repeats") : nullptr;
    if (repeats == nullptr || *repeats != ir::Shape{from[0]}) return false;
    operands[i] = (*repeated)[kFrom];
    if (node.type(operands[i]).shape != ir::Shape{from[1]}) return false;
  }
  node.remark("instance normalizations use running statistics, which are not updated");
  node.result("reshape", {node.emit("batch_norm", operands, attributes)}, {{"shape", to}});
  return true;
}

/// Returns a constant in place of statistics that are not read.
ValueId instead_of(Node& node, ValueId statistics, double number) {
  const ir::Shape* const shape = node.shape(statistics);
  if (!shape) return {};
  return node.emit("full", {}, {{"shape", *shape}, {"value", number}, {"dtype", node.dtype(statistics)}});
}

/// Without running statistics, exporters write the batch's own statistics in their place. Training does not read them.
/// In inference gradients flow through them. Training mode is an attribute since opset 14. Before, it is implied by
/// outputs for statistics. ONNX's momentum is the weight of the old statistics, ATen's that of the new ones.
void batch_norm(Node& node) {
  const bool training = node.opset() >= 14 ? node.integer("training_mode", 0) != 0 : node.wants(1);
  if (node.opset() < 9 && node.integer("spatial", 1) == 0) return node.fail("BatchNormalization with spatial = 0");
  std::array operands = {node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)};
  if (!node.good()) return;
  const double epsilon = node.number("epsilon", 1e-5f);
  ir::Attributes attributes = {
      {"epsilon", epsilon}, {"momentum", 1.0 - node.number("momentum", 0.9f)}, {"training", training}};
  if (!training && by_running_statistics(node, operands, attributes)) return;
  const bool computed = is_computed(node, operands[3]) || is_computed(node, operands[4]);
  if (!training && computed) return node.result_at(0, normalised(node, operands, epsilon));
  const bool own = training && (computed || (is_made(node, operands[3]) && is_made(node, operands[4])));
  if (own) {
    attributes.set("own_statistics", true);
    operands[3] = instead_of(node, operands[3], 0);
    operands[4] = instead_of(node, operands[4], 1);
  }
  node.result_with_auxiliary("batch_norm", operands, attributes, training && !own ? 2 : 0);
  if (training && node.opset() >= 14) new_statistics(node);
}

/// Returns scale or shift per channel. Values per group are repeated for the channels of the group.
ValueId per_channel(Node& node, ValueId value, int64_t groups, const ir::Dim& channels) {
  const ir::Shape* const shape = node.shape(value);
  if (!shape || shape->size() != 1 || shape->front() == channels || !(shape->front() == ir::Dim(groups))) return value;
  const ir::Dim each = channels.constant() / groups;
  const ValueId column = node.emit("unsqueeze", {value}, {{"axes", ir::Shape{ir::Dim(1)}}});
  const ValueId stretched = node.emit("expand", {column}, {{"shape", ir::Shape{groups, each}}});
  return node.emit("reshape", {stretched}, {{"shape", ir::Shape{channels}}});
}

/// Scale and shift are per group before opset 21, per channel since.
void group_norm(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from || from->size() < 2) return node.fail("GroupNormalization needs an axis of channels");
  const ir::Dim channels = (*from)[1];
  const int64_t groups = node.integer("num_groups", 0);
  if (groups < 1 || !channels.is_constant() || channels.constant() % groups != 0) {
    return node.fail("GroupNormalization of " + channels.str() + " channels in " + std::to_string(groups) +
                     " groups: the number of groups must divide the number of channels");
  }
  ValueId scale = node.in(1), bias = node.in(2);
  if (node.opset() < 21) {
    scale = per_channel(node, scale, groups, channels);
    bias = per_channel(node, bias, groups, channels);
  }
  node.result("group_norm", {x, scale, bias},
              {{"groups", ir::Dim(groups)}, {"epsilon", node.number("epsilon", 1e-5f)}});
}

/// Normalizes each channel of each sample separately, as a group.
void instance_norm(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  if (from->size() < 3) return node.fail("InstanceNormalization needs spatial dimensions");
  if (!(*from)[1].is_constant()) {
    return node.fail("InstanceNormalization of " + (*from)[1].str() +
                     " channels: the number of channels must be known");
  }
  node.result("group_norm", {x, node.in(1), node.in(2)},
              {{"groups", (*from)[1]}, {"epsilon", node.number("epsilon", 1e-5f)}});
}

/// x / norm over one axis. Zero where the norm is zero.
void lp_normalization(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", -1), static_cast<int64_t>(from->size()));
  const ir::Attributes over = {{"axes", ir::Shape{axis}}, {"keepdim", true}};
  const bool absolute = node.integer("p", 2) == 1;
  const ValueId terms = absolute ? node.emit("abs", {x}) : node.emit("mul", {x, x});
  const ValueId sum = node.emit("sum", {terms}, over);
  const ValueId none = node.emit("eq", {sum, node.scalar(0, node.dtype(x))});
  const ValueId some = node.emit("where", {none, node.scalar(1, node.dtype(x)), sum});  // the root of 0 has a pole
  node.result("div", {x, absolute ? some : node.emit("sqrt", {some})});
}

}  // namespace

std::span<const Translator> normalize_translators() {
  static constexpr Translator kTable[] = {
      {"BatchNormalization", 7, 27, batch_norm},
      {"GroupNormalization", 18, 27, group_norm},
      {"InstanceNormalization", 7, 27, instance_norm},
      {"LayerNormalization", 17, 27, layer_norm},
      {"LpNormalization", 7, 27, rounded_once<lp_normalization>},
      {"RMSNormalization", 23, 27, rms_norm},
  };
  return kTable;
}

}  // namespace rannc::frontend
