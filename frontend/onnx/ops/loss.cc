/// Translates ONNX losses.
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "frontend/recipes/labels.h"
#include "ir/match/match.h"

namespace rannc::frontend {

namespace {

/// Reads class labels as i64, because an ignore index outside of 32 bits would become a valid label in i32. ONNX
/// ignores no label by default.
ClassLabels read_labels(Node& node) {
  const ValueId given = node.in(1);
  const bool wide = node.dtype(given) == ir::DType::kI64;
  std::optional<int64_t> ignored;
  if (node.has_attribute("ignore_index")) ignored = node.integer("ignore_index", 0);
  return {node, wide ? given : node.emit("cast", {given}, {{"dtype", ir::DType::kI64}}), ignored, node.optional(2)};
}

/// The result is a sum, or a mean, which is that sum over the weight of the labels that count.
void result_of_sum(Node& node, ValueId sum, ClassLabels& labels, const std::string& reduction, ir::DType dtype) {
  if (reduction == "sum") return node.result_at(0, sum);
  node.result("div", {sum, labels.divisor(dtype)});
}

std::optional<std::string> checked_reduction(Node& node) {
  std::string reduction = node.text("reduction", "mean");
  if (reduction == "mean" || reduction == "sum" || reduction == "none") return reduction;
  node.fail("reduction must be none, mean or sum; found `" + reduction + "`");
  return std::nullopt;
}

/// Classes are on axis 1.
void softmax_cross_entropy(Node& node) {
  const ValueId logits = node.in(0);
  const auto reduction = checked_reduction(node);
  if (!reduction) return;
  const double smoothing = node.traced_label_smoothing();
  ClassLabels labels = read_labels(node);
  ValueId log;
  if (node.wants(1) || *reduction == "none") log = node.emit("log_softmax", {logits}, {{"axis", ir::Dim(1)}});
  if (*reduction == "none") {
    node.result_at(0, labels.loss_of_each(log, 1, smoothing));
  } else {
    result_of_sum(node, labels.cross_entropy(logits, 1, smoothing), labels, *reduction, node.dtype(logits));
  }
  if (node.wants(1)) node.result_at(1, log);
}

/// After a log_softmax over the same axis it is the cross entropy of the operand of that log_softmax.
void negative_log_likelihood(Node& node) {
  constexpr ir::Capture kLogits{0};
  static const ir::Pattern kLog = ir::op("log_softmax", ir::any(kLogits)).with("axis", ir::Dim(1));
  const ValueId log = node.in(0);
  const auto reduction = checked_reduction(node);
  if (!reduction) return;
  ClassLabels labels = read_labels(node);
  if (*reduction == "none") return node.result_at(0, labels.loss_of_each(log, 1));
  const auto logits = node.match(log, kLog);
  const ValueId sum = logits ? labels.cross_entropy((*logits)[kLogits], 1)
                             : node.emit("sum", {labels.loss_of_each(log, 1)}, {{"keepdim", false}});
  result_of_sum(node, sum, labels, *reduction, node.dtype(log));
}

}  // namespace

std::span<const Translator> loss_translators() {
  static constexpr Translator kTable[] = {
      {"NegativeLogLikelihoodLoss", 12, 27, negative_log_likelihood},
      {"SoftmaxCrossEntropyLoss", 12, 27, softmax_cross_entropy},
  };
  return kTable;
}

}  // namespace rannc::frontend
