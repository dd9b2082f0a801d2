// The determinant of matrices.
#include "ir/gradient/gradient.h"
#include "ir/op/backward/grad_rules.h"

namespace rannc::ir::ops {
namespace {

using aten::Operand;
using aten::Scalar;

Result<void> require_matrices(const OpCall& call, size_t operand) {
  RANNC_ASSIGN(const Shape x, shape_of(call, operand));
  const auto rank = static_cast<int64_t>(x.size());
  if (rank < 2 || !taken_for_equal(call, x[rank - 1], x[rank - 2]))
    return error("det needs square matrices, found " + str(x));
  if (!is_float(call.in(operand).dtype)) return error("det of " + std::string(str(call.in(operand).dtype)));
  for (const int64_t axis : {rank - 1, rank - 2}) RANNC_TRY(keep_samples_apart(call, operand, axis));
  return {};
}

Result<Types> infer_det(const OpCall& call) {
  RANNC_TRY(require_matrices(call, 0));
  const Shape& x = *call.in(0).shape;
  return Types{make_type(call.in(0).dtype, Shape(x.begin(), x.end() - 2), call.in(0).batch)};
}

Result<Types> infer_det_grad(const OpCall& call) {
  RANNC_TRY(require_matrices(call, 1));
  const Shape& x = *call.in(1).shape;
  RANNC_TRY(require_gradient_shape(call, Shape(x.begin(), x.end() - 2)));
  return gradient_type(call, 1);
}

// Solves A'X = gy * det(A) * I with the factors of A. Zeros on their diagonal are replaced by the type's epsilon.
Result<aten::Lowering> lower_det_grad(const LowerCall& call) {
  const Shape& x = shape_of(*call.inputs[1]);
  const double epsilon = call.inputs[1]->dtype == DType::kF64 ? 0x1p-52 : 0x1p-23;
  Calls calls;
  const aten::Made factors = calls("aten::linalg_lu_factor_ex", {Operand{1}}, 3);
  const aten::Value diagonal = calls("aten::diagonal", {factors, 0, -2, -1});
  const aten::Value flat = calls("aten::eq.Scalar", {diagonal, Scalar{Dim(0)}});
  const aten::Value lifted =
      calls("aten::mul.Scalar", {calls("aten::to.dtype", {flat, call.inputs[1]->dtype}), Scalar{epsilon}});
  const aten::Value regular = calls("aten::add.Tensor", {factors, calls("aten::diag_embed", {lifted})});
  const aten::Value product = calls("aten::mul.Tensor", {Operand{0}, Operand{2}});
  const aten::Value column = calls("aten::unsqueeze", {product, -1});
  const aten::Value repeated = calls("aten::expand", {column, Shape(x.begin(), x.end() - 1)});
  const aten::Value right = calls("aten::diag_embed", {repeated});
  return std::move(calls).with(
      {calls("aten::linalg_lu_solve", {regular, aten::Made{factors.call, 1}, right, {"adjoint", true}})});
}

bool det_gradient(GradientCall& call) {
  call.give(0, call.add("det_grad", {call.gradient(), call.operand(0), call.result()}));
  return true;
}

// Two thirds of the cube of the extent per matrix.
Work det_work(const OpCall& call, std::span<const ValueType> outputs) {
  const auto& x = call.in(call.inputs.size() > 1 ? 1 : 0).shape;
  return work(x && !x->empty() ? element_count(*x) * x->back() : Dim(0), call, outputs);
}

// Keeps the factors and a 4-byte position per row.
TapeUse det_tape(const TapeCall& call) {
  const Shape& x = shape_of(*call.inputs[0]);
  const Dim rows = element_count(Shape(x.begin(), x.end() - 1));
  return {.own_bytes = element_count(x) * Dim(byte_size(call.inputs[0]->dtype)) + rows * Dim(4)};
}

}  // namespace

std::vector<OpInfo> determinant_ops() {
  return {{.name = "core.det",
           .summary = "determinants of the matrices on the last two axes",
           .onnx = {"Det"},
           .operands = {{"x"}},
           .autocast = Autocast::kFloat32,
           .infer = infer_det,
           .work = det_work,
           .form = form("aten::linalg_det", 1),
           .gradient = det_gradient,
           .tape = TapeInfo{.keeps = {kept_operand(0), kept_result()}, .rule = det_tape}}};
}

std::vector<OpInfo> grad_determinant_ops() {
  return {
      by_rule(gradient_row("det", "gy through det of x, whose result is y", {{"x"}, {"y"}}, infer_det_grad, det_work),
              lower_det_grad, {"aten::linalg_lu_factor_ex", "aten::linalg_lu_solve"})};
}

}  // namespace rannc::ir::ops
