// Loop rules of losses, which are sums over rows, and of their gradients.
#include "ir/op/loops/loops.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

namespace {

// --- of a prediction and a target

Statements mse_sum(const LowerCall&) { return total_of((x0 - x1) * (x0 - x1)); }

Statements huber_sum(const LowerCall& call) {
  const double delta = call.attributes.number("delta");
  Statements s;
  const Term size = s.each(abs(x0 - x1));
  s.total(s.row_sum(select(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta))));
  return s;
}

// Operands: the loss's gradient, prediction, target.
Statements huber_grad(const LowerCall& call) {
  const double delta = call.attributes.number("delta");
  return x0 * max(min(x1 - x2, delta), -delta);
}

// Operands: logits, target, weights of the target's part.
Statements bce_sum(const LowerCall& call) {
  const Term part = log1p(exp(-abs(x0))) + max(-x0, 0);
  return total_of((1 - x1) * x0 + (call.has(2) ? ((x2 - 1) * x1 + 1) * part : part));
}

// --- of logits and labels

// Operands: logits, labels, weights of classes. Result 1: the logarithms of probabilities.
Statements cross_entropy_sum(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return {};
  Statements s;
  const Term largest = s.row_max(x0), total = s.row_sum(exp(x0 - largest)), shift = s.row(largest + log(total));
  const Term log = s.each(x0 - shift, 1), weighted = call.has(2) ? log * x2 : log;
  Term row = s.row_sum(select(column == x1, weighted, 0));
  if (const double smoothing = call.attributes.number("label_smoothing"); smoothing > 0) {
    row = (1 - smoothing) * row + smoothing * (s.row_sum(weighted) / n);
  }
  s.total(select(x1 == ignored(call), 0, -row));
  return s;
}

// Operands: the loss's gradient, the logarithms of probabilities, labels, weights of classes. `g` is the negative
// gradient of the logarithms over the loss's.
Statements cross_entropy_grad(const LowerCall& call) {
  if (!is_along_columns(call, 1)) return {};
  const double smoothing = call.attributes.number("label_smoothing");
  Statements s;
  const Term factor = s.row(select(x2 == ignored(call), 0, x0)), weight = call.has(3) ? x3 : Term(1);
  Term g = select(column == x2, weight, 0), total = exp(x1);
  if (smoothing > 0) g = (1 - smoothing) * g + (call.has(3) ? smoothing * x3 : Term(smoothing)) / n;
  if (smoothing > 0 || call.has(3)) total = total * s.row_sum(g);  // else the sum is 1
  s.each(factor * (total - g), 0);
  return s;
}

constexpr LoopRow kLosses[] = {
    {"core.bce_with_logits_sum", {}, bce_sum},
    {"core.cross_entropy_sum", {}, cross_entropy_sum, 1},
    {"core.cross_entropy_sum_grad_logits", {}, cross_entropy_grad, 2},
    {"core.huber_sum", {}, huber_sum},
    {"core.huber_sum_grad_prediction", {}, huber_grad},
    {"core.mse_sum", {}, mse_sum},
    {"core.mse_sum_grad_prediction", x0*(2 * (x1 - x2))},
};

}  // namespace

std::span<const LoopRow> loss_loops() { return kLosses; }

}  // namespace rannc::ir::ops
