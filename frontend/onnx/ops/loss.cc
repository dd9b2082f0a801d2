/// Translates ONNX losses.
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"

namespace rannc::frontend {

namespace {

/// ONNX ignores nothing unless told; no label is this number.
constexpr int64_t kIgnoreNothing = INT64_MIN;

/// Class weights, a second output and losses per sample are left to ONNX's definition. Cross entropy over axis 1,
/// summed, or averaged over the labels that are not ignored: sum / count, so that attach-loss finds the mean and opens
/// it.
void softmax_cross_entropy(Node& node) {
  const ValueId logits = node.in(0), given = node.in(1);
  const std::string reduction = node.text("reduction", "mean");
  if (node.has(2) || node.wants(1) || (reduction != "mean" && reduction != "sum")) return node.use_definition();
  const int64_t ignored = node.integer("ignore_index", kIgnoreNothing);
  // What is ignored, or the number of none, may lie outside of 32 bits: cast to them it would be a label.
  const bool wide = node.dtype(given) == ir::DType::kI64;
  const ValueId labels = wide ? given : node.emit("cast", {given}, {{"dtype", ir::DType::kI64}});
  const ir::Attributes attributes = {{"axis", ir::Dim(1)}, {"ignore_index", ir::Dim(ignored)}};
  if (reduction == "sum") return node.result("cross_entropy_sum", {logits, labels}, attributes);
  const ValueId sum = node.emit("cross_entropy_sum", {logits, labels}, attributes);
  const ValueId mark =
      node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", ir::Dim(ignored)}, {"dtype", ir::DType::kI64}});
  const ValueId counted = node.emit("ne", {labels, mark});
  const ValueId ones = node.emit("cast", {counted}, {{"dtype", node.dtype(logits)}});
  node.result("div", {sum, node.emit("sum", {ones}, {{"keepdim", false}})});
}

constexpr Translator kTable[] = {
    {"SoftmaxCrossEntropyLoss", 12, 27, softmax_cross_entropy},
};

}  // namespace

std::span<const Translator> loss_translators() { return kTable; }

}  // namespace rannc::frontend
