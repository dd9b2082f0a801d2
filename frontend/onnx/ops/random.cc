/// Translates ONNX operators that draw random numbers.
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"

namespace rannc::frontend {

namespace {

/// Before opset 12 an inference operator. Since then off unless `training_mode` is given and true.
void dropout(Node& node) {
  const ValueId x = node.in(0);
  if (node.opset() < 12 || !node.has(2)) return node.result("identity", {x});
  const auto training = node.number(node.in(2));
  if (!training) return node.fail("Dropout needs a training_mode that is known before the model runs");
  if (*training == 0) return node.result("identity", {x});
  const auto ratio = node.has(1) ? node.number(node.in(1)) : std::optional(0.5);
  if (!ratio || *ratio < 0 || *ratio >= 1) return node.fail("Dropout needs a constant ratio in [0, 1)");
  if (*ratio == 0) return node.result("identity", {x});
  const ValueId factor = node.draw(x, {.of = ir::Draw::Of::kBernoulli, .drop = *ratio});
  node.result("mul", {x, factor});
}

constexpr Translator kTable[] = {
    {"Dropout", 7, 27, dropout},
};

}  // namespace

std::span<const Translator> random_translators() { return kTable; }

}  // namespace rannc::frontend
