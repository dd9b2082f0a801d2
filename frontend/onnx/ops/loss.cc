/// Translates ONNX losses.
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "ir/match/match.h"

namespace rannc::frontend {

namespace {

/// ONNX ignores nothing unless told; no label is this number.
constexpr int64_t kIgnoreNothing = INT64_MIN;

/// Class numbers as i64, and which of them count.
struct Labels {
  ValueId classes;
  ValueId counted = {};  ///< bool, once it was asked for
  int64_t ignored = kIgnoreNothing;

  bool all_count() const { return ignored == kIgnoreNothing; }
};

/// What is ignored, or the number of none, may lie outside of 32 bits: cast to them it would be a label.
Labels read_labels(Node& node) {
  const ValueId given = node.in(1);
  const bool wide = node.dtype(given) == ir::DType::kI64;
  return {.classes = wide ? given : node.emit("cast", {given}, {{"dtype", ir::DType::kI64}}),
          .ignored = node.integer("ignore_index", kIgnoreNothing)};
}

ValueId counted(Node& node, Labels& labels) {
  if (labels.counted.valid()) return labels.counted;
  const ValueId mark =
      node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", ir::Dim(labels.ignored)}, {"dtype", ir::DType::kI64}});
  return labels.counted = node.emit("ne", {labels.classes, mark});
}

/// Labels of which each is a class.
ValueId picked_classes(Node& node, Labels& labels) {
  if (labels.all_count()) return labels.classes;
  return node.emit("where", {counted(node, labels), labels.classes, node.scalar(0, ir::DType::kI64)});
}

/// Zero at labels that do not count.
ValueId where_counted(Node& node, Labels& labels, ValueId value) {
  if (labels.all_count()) return value;
  return node.emit("where", {counted(node, labels), value, node.scalar(0, node.dtype(value))});
}

/// Weights of the labels' classes. They are numbers of the loss: looked up as a table they would be trained.
ValueId weights_at(Node& node, Labels& labels) {
  const ValueId table = node.emit("stop_gradient", {node.in(2)});
  const ValueId picked = node.emit("gather", {table, picked_classes(node, labels)}, {{"axis", ir::Dim(0)}});
  return where_counted(node, labels, picked);
}

/// Of a mean: the weights of the labels that count, or their number. A sum over it is a mean that open-loss finds.
ValueId divisor(Node& node, Labels& labels, ir::DType dtype) {
  if (node.has(2)) return node.emit("sum", {weights_at(node, labels)}, {{"keepdim", false}});
  const ValueId ones = node.emit("cast", {counted(node, labels)}, {{"dtype", dtype}});
  return node.emit("sum", {ones}, {{"keepdim", false}});
}

/// -weight * log probability of each label, of the labels' shape.
ValueId loss_of_each(Node& node, ValueId log, Labels& labels) {
  const ir::Attributes axis = {{"axis", ir::Dim(1)}}, axes = {{"axes", ir::Shape{1}}};
  const ValueId column = node.emit("unsqueeze", {picked_classes(node, labels)}, axes);
  const ValueId picked = node.emit("squeeze", {node.emit("gather_elements", {log, column}, axis)}, axes);
  const ValueId each = where_counted(node, labels, node.emit("neg", {picked}));
  return node.has(2) ? node.emit("mul", {each, weights_at(node, labels)}) : each;
}

/// Cross entropy summed, or averaged: sum / weight of what counts.
void reduced_cross_entropy(Node& node, ValueId logits, Labels& labels, bool mean, double smoothing) {
  ir::Attributes attributes = {{"axis", ir::Dim(1)}, {"ignore_index", ir::Dim(labels.ignored)}};
  if (smoothing > 0) attributes.set("label_smoothing", smoothing);
  std::vector<ValueId> operands = {logits, labels.classes};
  if (node.has(2)) operands.push_back(node.in(2));
  if (!mean) return node.result("cross_entropy_sum", operands, std::move(attributes));
  const ValueId sum = node.emit("cross_entropy_sum", operands, std::move(attributes));
  node.result("div", {sum, divisor(node, labels, node.dtype(logits))});
}

void reduced(Node& node, ValueId log, Labels& labels, const std::string& reduction) {
  const ValueId each = loss_of_each(node, log, labels);
  if (reduction == "none") return node.result("identity", {each});
  if (reduction == "sum") return node.result("sum", {each}, {{"keepdim", false}});
  const ValueId sum = node.emit("sum", {each}, {{"keepdim", false}});
  node.result("div", {sum, divisor(node, labels, node.dtype(log))});
}

std::optional<std::string> checked_reduction(Node& node) {
  std::string reduction = node.text("reduction", "mean");
  if (reduction == "mean" || reduction == "sum" || reduction == "none") return reduction;
  node.fail("reduction is `" + reduction + "`; there are none, mean and sum");
  return std::nullopt;
}

/// Over axis 1.
void softmax_cross_entropy(Node& node) {
  const ValueId logits = node.in(0);
  const auto reduction = checked_reduction(node);
  if (!reduction) return;
  const double smoothing = node.traced_label_smoothing();
  if (smoothing > 0 && *reduction == "none") return node.fail("label smoothing of losses per sample");
  Labels labels = read_labels(node);
  ValueId log;
  if (node.wants(1) || *reduction == "none") log = node.emit("log_softmax", {logits}, {{"axis", ir::Dim(1)}});
  if (*reduction == "none") {
    reduced(node, log, labels, *reduction);
  } else {
    reduced_cross_entropy(node, logits, labels, *reduction == "mean", smoothing);
  }
  if (node.wants(1)) node.result_at(1, log);
}

/// Behind a log_softmax over the same axis it is the cross entropy of that one's operand.
void negative_log_likelihood(Node& node) {
  constexpr ir::Capture kLogits{0};
  static const ir::Pattern kLog = ir::op("log_softmax", ir::any(kLogits)).with("axis", ir::Dim(1));
  const ValueId log = node.in(0);
  const auto reduction = checked_reduction(node);
  if (!reduction) return;
  Labels labels = read_labels(node);
  const auto logits = node.match(log, kLog);
  if (!logits || *reduction == "none") return reduced(node, log, labels, *reduction);
  reduced_cross_entropy(node, (*logits)[kLogits], labels, *reduction == "mean", 0);
}

constexpr Translator kTable[] = {
    {"NegativeLogLikelihoodLoss", 12, 27, negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", 12, 27, softmax_cross_entropy},
};

}  // namespace

std::span<const Translator> loss_translators() { return kTable; }

}  // namespace rannc::frontend
