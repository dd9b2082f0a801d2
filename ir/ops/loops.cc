// Loop rules of operators: scalar expressions, and reductions over rows or columns.
#include "ir/ops/loops.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/norms.h"
#include "ir/ops/rules.h"

namespace rannc::ir::ops {

namespace {

using Kind = LoopStatement::Kind;
using Body = std::optional<LoopBody>;

struct Row {
  std::string_view name;
  std::string_view expression = {};               ///< of the only result
  Body (*rule)(const LowerCall& call) = nullptr;  ///< instead of an expression
};

// --- elementwise

Body gelu(const LowerCall& call) {
  if (call.attributes.text("approximate") == "tanh") {
    return LoopBody{{Kind::kEach, "y0", "0.5 * x0 * (1 + tanh(0.7978845608028654 * (x0 + 0.044715 * x0 * x0 * x0)))"}};
  }
  return LoopBody{{Kind::kEach, "y0", "0.5 * x0 * (1 + erf(0.7071067811865476 * x0))"}};
}

// Operands: the result's gradient, x.
Body gelu_grad(const LowerCall& call) {
  if (call.attributes.text("approximate") == "tanh") {
    return LoopBody{{Kind::kEach, "square", "x1 * x1"},
                    {Kind::kEach, "t", "tanh(0.7978845608028654 * x1 * (1 + 0.044715 * square))"},
                    {Kind::kEach, "slope", "0.7978845608028654 * (1 + 0.134145 * square)"},
                    {Kind::kEach, "y0", "x0 * (0.5 * (1 + t) + 0.5 * x1 * (1 - t * t) * slope)"}};
  }
  return LoopBody{{Kind::kEach, "below", "0.5 * (1 + erf(0.7071067811865476 * x1))"},
                  {Kind::kEach, "density", "0.3989422804014327 * exp(-0.5 * x1 * x1)"},
                  {Kind::kEach, "y0", "x0 * (below + x1 * density)"}};
}

Body silu_grad(const LowerCall&) {
  return LoopBody{{Kind::kEach, "s", "sigmoid(x1)"}, {Kind::kEach, "y0", "x0 * s * (1 + x1 * (1 - s))"}};
}

Body div(const LowerCall& call) {
  if (call.attributes.text("rounding") != "none") return std::nullopt;
  return LoopBody{{Kind::kEach, "y0", "x0 / x1"}};
}

// --- rows

bool is_last(int64_t axis, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  return rank > 0 && (axis == rank - 1 || axis == -1);
}

bool softens_last_axis(const LowerCall& call) {
  return is_last(call.attributes.integer("axis"), shape_of(*call.inputs[0]));
}

Body softmax(const LowerCall& call) {
  if (!softens_last_axis(call) || call.attributes.flag("safe")) return std::nullopt;
  return LoopBody{{Kind::kRowMax, "largest", "x0"},
                  {Kind::kEach, "power", "exp(x0 - largest)"},
                  {Kind::kRowSum, "total", "power"},
                  {Kind::kEach, "y0", "power / total"}};
}

// Operands: the result's gradient, the result.
Body softmax_grad(const LowerCall& call) {
  if (!softens_last_axis(call)) return std::nullopt;
  return LoopBody{{Kind::kRowSum, "total", "x0 * x1"}, {Kind::kEach, "y0", "(x0 - total) * x1"}};
}

Body log_softmax(const LowerCall& call) {
  if (!softens_last_axis(call)) return std::nullopt;
  return LoopBody{{Kind::kRowMax, "largest", "x0"},
                  {Kind::kRowSum, "total", "exp(x0 - largest)"},
                  {Kind::kRow, "shift", "largest + log(total)"},
                  {Kind::kEach, "y0", "x0 - shift"}};
}

Body log_softmax_grad(const LowerCall& call) {
  if (!softens_last_axis(call)) return std::nullopt;
  return LoopBody{{Kind::kRowSum, "total", "x0"}, {Kind::kEach, "y0", "x0 - exp(x1) * total"}};
}

// --- normalizations over the last axis

bool normalizes_last_axis(const LowerCall& call, size_t operand) {
  return normalised_sizes(call.attributes, shape_of(*call.inputs[operand])).size() == 1;
}

/// Operand `index` as a factor or a term; nothing if it is absent.
std::string with(const LowerCall& call, size_t index, std::string_view sign) {
  return call.has(index) ? fmt::format(" {} x{}", sign, index) : std::string();
}

Body layer_norm(const LowerCall& call) {
  if (!normalizes_last_axis(call, 0)) return std::nullopt;
  const bool keeps = call.outputs.size() > 1;
  const std::string mean = keeps ? "y1" : "mean", rstd = keeps ? "y2" : "rstd";
  return LoopBody{
      {Kind::kRowSum, "total", "x0"},
      {Kind::kRow, mean, "total / n"},
      {Kind::kRowSum, "squares", fmt::format("(x0 - {0}) * (x0 - {0})", mean)},
      {Kind::kRow, rstd, fmt::format("1 / sqrt(squares / n + {})", call.attributes.number("epsilon"))},
      {Kind::kEach, "y0", fmt::format("(x0 - {}) * {}{}{}", mean, rstd, with(call, 1, "*"), with(call, 2, "+"))}};
}

// Operands: the result's gradient, x, mean, rstd, scale.
Body layer_norm_grad_input(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return std::nullopt;
  return LoopBody{{Kind::kEach, "g", "x0" + with(call, 4, "*")},
                  {Kind::kEach, "h", "(x1 - x2) * x3"},
                  {Kind::kRowSum, "a", "g"},
                  {Kind::kRowSum, "b", "g * h"},
                  {Kind::kEach, "y0", "x3 * (g - (a + h * b) / n)"}};
}

Body layer_norm_grad_scale(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return std::nullopt;
  return LoopBody{{Kind::kColumnSum, "y0", "x0 * ((x1 - x2) * x3)"}};
}

Body rms_norm(const LowerCall& call) {
  if (!normalizes_last_axis(call, 0)) return std::nullopt;
  const std::string rstd = call.outputs.size() > 1 ? "y1" : "rstd";
  return LoopBody{{Kind::kRowSum, "squares", "x0 * x0"},
                  {Kind::kRow, rstd, fmt::format("1 / sqrt(squares / n + {})", call.attributes.number("epsilon"))},
                  {Kind::kEach, "y0", "x0 * " + rstd + with(call, 1, "*")}};
}

// Operands: the result's gradient, x, rstd, scale.
Body rms_norm_grad_input(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return std::nullopt;
  return LoopBody{{Kind::kEach, "g", "x0" + with(call, 3, "*")},
                  {Kind::kEach, "h", "x1 * x2"},
                  {Kind::kRowSum, "b", "g * h"},
                  {Kind::kEach, "y0", "x2 * (g - h * (b / n))"}};
}

Body rms_norm_grad_scale(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return std::nullopt;
  return LoopBody{{Kind::kColumnSum, "y0", "x0 * (x1 * x2)"}};
}

// --- sums

Body sum(const LowerCall& call) {
  const Shape& shape = shape_of(*call.inputs[0]);
  const auto axes = reduced_axes(call.attributes, shape.size());
  if (!axes.ok() || axes->empty() || axes->size() == shape.size()) return std::nullopt;
  const bool last = axes->size() == 1 && is_last((*axes)[0], shape);
  const bool others = axes->size() == shape.size() - 1 && !is_last(axes->back(), shape);
  if (last) return LoopBody{{Kind::kRowSum, "total", "x0"}, {Kind::kRow, "y0", "total"}};
  if (others) return LoopBody{{Kind::kColumnSum, "y0", "x0"}};
  return std::nullopt;
}

constexpr Row kRows[] = {
    {"core.abs", "abs(x0)"},
    {"core.add", "x0 + x1"},
    {"core.cos", "cos(x0)"},
    {"core.div", {}, div},
    {"core.eq", "x0 == x1"},
    {"core.erf", "erf(x0)"},
    {"core.exp", "exp(x0)"},
    {"core.ge", "x0 >= x1"},
    {"core.gelu", {}, gelu},
    {"core.gelu_grad", {}, gelu_grad},
    {"core.gt", "x0 > x1"},
    {"core.layer_norm", {}, layer_norm},
    {"core.layer_norm_grad_input", {}, layer_norm_grad_input},
    {"core.layer_norm_grad_scale", {}, layer_norm_grad_scale},
    {"core.le", "x0 <= x1"},
    {"core.log", "log(x0)"},
    {"core.log_softmax", {}, log_softmax},
    {"core.log_softmax_grad", {}, log_softmax_grad},
    {"core.lt", "x0 < x1"},
    {"core.maximum", "max(x0, x1)"},
    {"core.minimum", "min(x0, x1)"},
    {"core.mul", "x0 * x1"},
    {"core.ne", "x0 != x1"},
    {"core.neg", "-x0"},
    {"core.reciprocal", "1 / x0"},
    {"core.relu", "relu(x0)"},
    {"core.relu_grad", "select(x1 <= 0, 0, x0)"},
    {"core.rms_norm", {}, rms_norm},
    {"core.rms_norm_grad_input", {}, rms_norm_grad_input},
    {"core.rms_norm_grad_scale", {}, rms_norm_grad_scale},
    {"core.rsqrt", "1 / sqrt(x0)"},
    {"core.sigmoid", "sigmoid(x0)"},
    {"core.sigmoid_grad", "x0 * (1 - x1) * x1"},
    {"core.silu", "x0 * sigmoid(x0)"},
    {"core.silu_grad", {}, silu_grad},
    {"core.sin", "sin(x0)"},
    {"core.softmax", {}, softmax},
    {"core.softmax_grad", {}, softmax_grad},
    {"core.sqrt", "sqrt(x0)"},
    {"core.sub", "x0 - x1"},
    {"core.sum", {}, sum},
    {"core.tanh", "tanh(x0)"},
    {"core.tanh_grad", "x0 * (1 - x1 * x1)"},
    {"core.where", "select(x0, x1, x2)"},
    {"core.where_grad", "select(x1, x0, 0)"},
};

}  // namespace

std::optional<LoopBody> loop_body(const LowerCall& call) {
  const auto row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == call.op.name; });
  if (row == std::end(kRows)) return std::nullopt;
  if (row->rule != nullptr) return row->rule(call);
  return LoopBody{{Kind::kEach, "y0", std::string(row->expression)}};
}

}  // namespace rannc::ir::ops
