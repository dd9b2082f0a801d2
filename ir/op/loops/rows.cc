// Loop rules of operators that reduce rows or columns.
#include "ir/op/loops/loops.h"
#include "ir/op/rules/norms.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

namespace {

// --- rows

Statements softmax(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return {};
  Statements s;
  const Term largest = s.row_max(x0), power = s.each(exp(x0 - largest)), share = power / s.row_sum(power);
  s.each(call.attributes.text("hidden_rows") == "zero" ? select(largest == -kInfinity, 0, share) : share, 0);
  return s;
}

// Operands: the result's gradient, the result.
Statements softmax_grad(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return {};
  Statements s;
  s.each((x0 - s.row_sum(x0 * x1)) * x1, 0);
  return s;
}

Statements log_softmax(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return {};
  Statements s;
  const Term largest = s.row_max(x0), total = s.row_sum(exp(x0 - largest));
  s.each(x0 - s.row(largest + log(total)), 0);
  return s;
}

Statements log_softmax_grad(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return {};
  Statements s;
  s.each(x0 - exp(x1) * s.row_sum(x0), 0);
  return s;
}

// --- normalizations over the last axis

bool normalizes_last_axis(const LowerCall& call, size_t operand) {
  return normalised_sizes(call.attributes, shape_of(*call.inputs[operand])).size() == 1;
}

// Results 1 and 2: mean and rstd.
Statements layer_norm(const LowerCall& call) {
  if (!normalizes_last_axis(call, 0)) return {};
  Statements s;
  const Term mean = s.row(s.row_sum(x0) / n, 1), squares = s.row_sum((x0 - mean) * (x0 - mean));
  Term y = (x0 - mean) * s.row(1 / sqrt(squares / n + call.attributes.number("epsilon")), 2);
  if (call.has(1)) y = y * x1;
  if (call.has(2)) y = y + x2;
  s.each(y, 0);
  return s;
}

// Operands: the result's gradient, x, mean, rstd, scale.
Statements layer_norm_grad_input(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return {};
  Statements s;
  const Term g = s.each(call.has(4) ? x0 * x4 : x0), h = s.each((x1 - x2) * x3);
  const Term a = s.row_sum(g), b = s.row_sum(g * h);
  s.each(x3 * (g - (a + h * b) / n), 0);
  return s;
}

Statements layer_norm_grad_scale(const LowerCall& call) {
  return normalizes_last_axis(call, 1) ? column_sum_of(x0 * ((x1 - x2) * x3)) : Statements();
}

// Result 1: rstd.
Statements rms_norm(const LowerCall& call) {
  if (!normalizes_last_axis(call, 0)) return {};
  Statements s;
  const Term rstd = s.row(1 / sqrt(s.row_sum(x0 * x0) / n + call.attributes.number("epsilon")), 1);
  s.each(call.has(1) ? x0 * rstd * x1 : x0 * rstd, 0);
  return s;
}

// Operands: the result's gradient, x, rstd, scale.
Statements rms_norm_grad_input(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return {};
  Statements s;
  const Term g = s.each(call.has(3) ? x0 * x3 : x0), h = s.each(x1 * x2), b = s.row_sum(g * h);
  s.each(x2 * (g - h * (b / n)), 0);
  return s;
}

Statements rms_norm_grad_scale(const LowerCall& call) {
  return normalizes_last_axis(call, 1) ? column_sum_of(x0 * (x1 * x2)) : Statements();
}

// --- sums

/// Whether all elements of a row are reduced, or all rows, or both.
enum class Reduced : uint8_t { kNeither, kColumns, kRows, kAll };

Reduced reduced(const LowerCall& call) {
  const Shape& shape = shape_of(*call.inputs[0]);
  const auto axes = reduced_axes(call.attributes, shape.size());
  if (!axes.ok() || axes->empty()) return Reduced::kNeither;
  if (axes->size() == shape.size()) return Reduced::kAll;
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  if (axes->size() == 1 && axes->back() == last) return Reduced::kColumns;
  const bool others = axes->size() == shape.size() - 1 && axes->back() != last;
  return others ? Reduced::kRows : Reduced::kNeither;
}

Statements sum(const LowerCall& call) {
  Statements s;
  switch (reduced(call)) {
    case Reduced::kNeither:
      return {};
    case Reduced::kColumns:
      s.row(s.row_sum(x0), 0);
      return s;
    case Reduced::kRows:
      return column_sum_of(x0);
    case Reduced::kAll:
      return total_of(x0);
  }
  return {};
}

Statements mean(const LowerCall& call) {
  Statements s;
  if (reduced(call) == Reduced::kColumns) s.row(s.row_sum(x0) / n, 0);
  return s;
}

Statements amax(const LowerCall& call) {
  Statements s;
  if (reduced(call) == Reduced::kColumns) s.row(s.row_max(x0), 0);
  return s;
}

constexpr LoopRow kRowLoops[] = {
    {"core.amax", {}, amax},
    {"core.layer_norm", {}, layer_norm},
    {"core.layer_norm_grad_input", {}, layer_norm_grad_input},
    {"core.layer_norm_grad_scale", {}, layer_norm_grad_scale},
    {.name = "core.log_softmax", .rule = log_softmax, .least_columns = 128},
    {"core.log_softmax_grad", {}, log_softmax_grad},
    {"core.mean", {}, mean},
    {"core.rms_norm", {}, rms_norm},
    {"core.rms_norm_grad_input", {}, rms_norm_grad_input},
    {"core.rms_norm_grad_scale", {}, rms_norm_grad_scale},
    {"core.softmax", {}, softmax},
    {.name = "core.softmax_grad", .rule = softmax_grad, .least_columns = 64},
    {"core.sum", {}, sum},
};

}  // namespace

std::span<const LoopRow> row_loops() { return kRowLoops; }

}  // namespace rannc::ir::ops
