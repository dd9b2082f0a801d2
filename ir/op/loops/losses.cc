// Loop rules of losses, which are sums over rows, and of their gradients.
#include <fmt/format.h>

#include "ir/op/loops/loops.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

namespace {

using Kind = LoopStatement::Kind;
using Statements = std::optional<LoopBody>;

/// Sum of `term` over all elements.
LoopBody all_terms(std::string term) {
  return {{Kind::kRowSum, "terms", std::move(term)}, {Kind::kTotal, "y0", "terms"}};
}

// --- of a prediction and a target

Statements mse_sum(const LowerCall&) { return all_terms("(x0 - x1) * (x0 - x1)"); }

Statements huber_sum(const LowerCall& call) {
  const double delta = call.attributes.number("delta");
  return LoopBody{{Kind::kEach, "size", "abs(x0 - x1)"},
                  {Kind::kRowSum, "terms",
                   fmt::format("select(size < {0}, 0.5 * size * size, {0} * (size - {1}))", delta, 0.5 * delta)},
                  {Kind::kTotal, "y0", "terms"}};
}

// Operands: the loss's gradient, prediction, target.
Statements huber_grad(const LowerCall& call) {
  const double delta = call.attributes.number("delta");
  return LoopBody{{Kind::kEach, "off", "x1 - x2"},
                  {Kind::kEach, "y0", fmt::format("x0 * max(min(off, {0}), -{0})", delta)}};
}

// Operands: logits, target, weights of the target's part.
Statements bce_sum(const LowerCall& call) {
  const std::string weight = call.has(2) ? "((x2 - 1) * x1 + 1) * " : "";
  return all_terms(fmt::format("(1 - x1) * x0 + {}(log1p(exp(-abs(x0))) + max(-x0, 0))", weight));
}

// --- of logits and labels

// Operands: logits, labels, weights of classes. `picked` is the logarithm at the label.
Statements cross_entropy_sum(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return std::nullopt;
  const std::string log = call.outputs.size() > 1 ? "y1" : "log_probability";
  const std::string weighted = call.has(2) ? log + " * x2" : log;
  LoopBody body{{Kind::kRowMax, "largest", "x0"},
                {Kind::kRowSum, "total", "exp(x0 - largest)"},
                {Kind::kRow, "shift", "largest + log(total)"},
                {Kind::kEach, log, "x0 - shift"},
                {Kind::kRowSum, "picked", fmt::format("select(column == x1, {}, 0)", weighted)}};
  std::string row = "picked";
  if (const double smoothing = call.attributes.number("label_smoothing"); smoothing > 0) {
    body.push_back({Kind::kRowSum, "all", weighted});
    row = fmt::format("({} * picked + {} * (all / n))", 1 - smoothing, smoothing);
  }
  body.push_back(
      {Kind::kTotal, "y0", fmt::format("select(x1 == {}, 0, -{})", call.attributes.integer("ignore_index"), row)});
  return body;
}

// Operands: the loss's gradient, the logarithms of probabilities, labels, weights of classes. `g` is the negative
// gradient of the logarithms over the loss's.
Statements cross_entropy_grad(const LowerCall& call) {
  if (!is_along_columns(call, 1)) return std::nullopt;
  const double smoothing = call.attributes.number("label_smoothing");
  const std::string weight = call.has(3) ? "x3" : "1";
  LoopBody body{
      {Kind::kRow, "factor", fmt::format("select(x2 == {}, 0, x0)", call.attributes.integer("ignore_index"))}};
  std::string g = fmt::format("select(column == x2, {}, 0)", weight), total = "exp(x1)";
  if (smoothing > 0) g = fmt::format("({} * {} + {} * {} / n)", 1 - smoothing, g, smoothing, weight);
  if (smoothing > 0 || call.has(3)) {  // else the sum is 1
    body.push_back({Kind::kRowSum, "total", g});
    total += " * total";
  }
  body.push_back({Kind::kEach, "y0", fmt::format("factor * ({} - {})", total, g)});
  return body;
}

constexpr LoopRow kLosses[] = {
    {"core.bce_with_logits_sum", {}, bce_sum},
    {"core.cross_entropy_sum", {}, cross_entropy_sum, 1},
    {"core.cross_entropy_sum_grad_logits", {}, cross_entropy_grad, 2},
    {"core.huber_sum", {}, huber_sum},
    {"core.huber_sum_grad_prediction", {}, huber_grad},
    {"core.mse_sum", {}, mse_sum},
    {"core.mse_sum_grad_prediction", "x0 * (2 * (x1 - x2))"},
};

}  // namespace

std::span<const LoopRow> loss_loops() { return kLosses; }

}  // namespace rannc::ir::ops
