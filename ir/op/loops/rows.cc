// Loop rules of operators that reduce rows or columns.
#include <fmt/format.h>

#include "ir/op/loops/loops.h"
#include "ir/op/rules/norms.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

namespace {

using Kind = LoopStatement::Kind;
using Statements = std::optional<LoopBody>;

// --- rows

Statements softmax(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return std::nullopt;
  const bool zeroes = call.attributes.text("hidden_rows") == "zero";
  return LoopBody{{Kind::kRowMax, "largest", "x0"},
                  {Kind::kEach, "power", "exp(x0 - largest)"},
                  {Kind::kRowSum, "total", "power"},
                  {Kind::kEach, "y0", zeroes ? "select(largest == -INFINITY, 0, power / total)" : "power / total"}};
}

// Operands: the result's gradient, the result.
Statements softmax_grad(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return std::nullopt;
  return LoopBody{{Kind::kRowSum, "total", "x0 * x1"}, {Kind::kEach, "y0", "(x0 - total) * x1"}};
}

Statements log_softmax(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return std::nullopt;
  return LoopBody{{Kind::kRowMax, "largest", "x0"},
                  {Kind::kRowSum, "total", "exp(x0 - largest)"},
                  {Kind::kRow, "shift", "largest + log(total)"},
                  {Kind::kEach, "y0", "x0 - shift"}};
}

Statements log_softmax_grad(const LowerCall& call) {
  if (!is_along_columns(call, 0)) return std::nullopt;
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

Statements layer_norm(const LowerCall& call) {
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
Statements layer_norm_grad_input(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return std::nullopt;
  return LoopBody{{Kind::kEach, "g", "x0" + with(call, 4, "*")},
                  {Kind::kEach, "h", "(x1 - x2) * x3"},
                  {Kind::kRowSum, "a", "g"},
                  {Kind::kRowSum, "b", "g * h"},
                  {Kind::kEach, "y0", "x3 * (g - (a + h * b) / n)"}};
}

Statements layer_norm_grad_scale(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return std::nullopt;
  return LoopBody{{Kind::kColumnSum, "y0", "x0 * ((x1 - x2) * x3)"}};
}

Statements rms_norm(const LowerCall& call) {
  if (!normalizes_last_axis(call, 0)) return std::nullopt;
  const std::string rstd = call.outputs.size() > 1 ? "y1" : "rstd";
  return LoopBody{{Kind::kRowSum, "squares", "x0 * x0"},
                  {Kind::kRow, rstd, fmt::format("1 / sqrt(squares / n + {})", call.attributes.number("epsilon"))},
                  {Kind::kEach, "y0", "x0 * " + rstd + with(call, 1, "*")}};
}

// Operands: the result's gradient, x, rstd, scale.
Statements rms_norm_grad_input(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return std::nullopt;
  return LoopBody{{Kind::kEach, "g", "x0" + with(call, 3, "*")},
                  {Kind::kEach, "h", "x1 * x2"},
                  {Kind::kRowSum, "b", "g * h"},
                  {Kind::kEach, "y0", "x2 * (g - h * (b / n))"}};
}

Statements rms_norm_grad_scale(const LowerCall& call) {
  if (!normalizes_last_axis(call, 1)) return std::nullopt;
  return LoopBody{{Kind::kColumnSum, "y0", "x0 * (x1 * x2)"}};
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
  switch (reduced(call)) {
    case Reduced::kNeither:
      return std::nullopt;
    case Reduced::kColumns:
      return LoopBody{{Kind::kRowSum, "total", "x0"}, {Kind::kRow, "y0", "total"}};
    case Reduced::kRows:
      return LoopBody{{Kind::kColumnSum, "y0", "x0"}};
    case Reduced::kAll:
      return LoopBody{{Kind::kRowSum, "total", "x0"}, {Kind::kTotal, "y0", "total"}};
  }
  return std::nullopt;
}

Statements mean(const LowerCall& call) {
  if (reduced(call) != Reduced::kColumns) return std::nullopt;
  return LoopBody{{Kind::kRowSum, "total", "x0"}, {Kind::kRow, "y0", "total / n"}};
}

Statements amax(const LowerCall& call) {
  if (reduced(call) != Reduced::kColumns) return std::nullopt;
  return LoopBody{{Kind::kRowMax, "largest", "x0"}, {Kind::kRow, "y0", "largest"}};
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
