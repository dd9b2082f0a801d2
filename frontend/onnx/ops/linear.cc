/// Translates ONNX matrix products.
#include <fmt/format.h>

#include "frontend/onnx/internal/translate/fixed_sizes.h"
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

void matmul(Node& node) { node.result("matmul", {node.in(0), node.in(1)}); }

ValueId scaled(Node& node, ValueId x, double factor) {
  return factor == 1 ? x : node.emit("mul", {x, node.scalar(factor, node.dtype(x))});
}

/// A, transposed if requested.
ValueId rows(Node& node) {
  const ValueId a = node.in(0);
  return node.integer("transA", 0) != 0 ? node.emit("permute", {a}, {{"dims", ir::Shape{1, 0}}}) : a;
}
/// The layout of B.
ir::Attributes layout(Node& node) { return {{"layout", std::string(node.integer("transB", 0) != 0 ? "oi" : "io")}}; }

void scaled_sum(Node& node) {
  const double alpha = node.number("alpha", 1.0), beta = node.number("beta", 1.0);
  const ValueId product = node.emit("linear", {rows(node), node.in(1)}, layout(node));
  const ir::Shape* const made = node.good() ? node.shape(product) : nullptr;
  const bool has_bias = node.has(2) && beta != 0;
  if (!made || (has_bias && !stretches_to(node, 2, "C", *made))) return;
  if (!has_bias) return node.result("mul", {product, node.scalar(alpha, node.dtype(product))});
  node.result("add", {scaled(node, product, alpha), scaled(node, node.in(2), beta)});
}

/// Whether integers can be multiplied by alpha and beta. ONNX does not specify how other results are rounded.
bool fits_factors(Node& node) {
  if (ir::is_float(node.dtype(node.in(0)))) return true;
  for (const char* const name : {"alpha", "beta"}) {
    const double factor = node.number(name, 1.0);
    if (static_cast<double>(whole(factor)) == factor) continue;
    node.fail(
        fmt::format("Gemm: {} {} of {} operands is not an integer", name, factor, ir::str(node.dtype(node.in(0)))));
    return false;
  }
  return true;
}

/// alpha * A' B' + beta * C. A bias of rank 1 becomes an operand of the linear operator. Any other C is added.
void gemm(Node& node) {
  if (!fits_factors(node)) return;
  const ValueId b = node.in(1);
  const double alpha = node.number("alpha", 1.0), beta = node.number("beta", 1.0);
  const bool has_bias = node.has(2) && beta != 0;
  if (!has_bias && alpha == 1) return node.result("linear", {rows(node), b}, layout(node));
  if (has_bias && alpha == 1 && beta == 1) {
    const ir::Shape* const bias = node.shape(node.in(2));
    const ir::Shape* const weight = node.shape(b);
    if (!bias || !weight) return;
    if (weight->size() != 2) return node.fail("Gemm needs matrices of rank 2");
    const ir::Dim& outputs = (*weight)[node.integer("transB", 0) != 0 ? 0 : 1];
    if (bias->size() == 1 && (*bias)[0] == outputs)
      return node.result("linear", {rows(node), b, node.in(2)}, layout(node));
  }
  node.round_once(scaled_sum);
}

void det(Node& node) { node.result("det", {node.in(0)}); }

}  // namespace

std::span<const Translator> linear_translators() {
  static constexpr Translator kTable[] = {
      {"Det", 11, 27, det},
      {"Gemm", 7, 27, in_i64<gemm>},
      {"MatMul", 7, 27, in_i64<matmul>},
  };
  return kTable;
}

}  // namespace rannc::frontend
