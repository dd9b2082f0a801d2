/// Translates reductions and softmax.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/recipes/log_sum_exp.h"
#include "frontend/recipes/roots.h"
#include "frontend/torchscript/internal/loss_parts.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

/// Returns the axes of `dim`, or all axes if it is absent or empty.
Shape axes(Call& call, ValueId x) {
  const int64_t rank = call.rank(x);
  Shape found;
  if (call.has("dim")) {
    for (const int64_t each : call.integers("dim")) {
      if (rank > 0) found.emplace_back(call.axis(each, rank));
    }
  }
  if (found.empty()) {
    for (int64_t axis = 0; axis < rank; ++axis) found.emplace_back(axis);
  }
  return found;
}

ir::Attributes over(Call& call, ValueId x) {
  return {{"axes", axes(call, x)}, {"keepdim", call.has("keepdim") && call.flag("keepdim")}};
}

/// Sums and products of integers are computed in 64 bits.
void sum(Call& call) {
  ValueId x = call.tensor("self");
  if (!call.good()) return;
  x = call.cast(x, call.dtype("dtype", ir::is_float(call.dtype(x)) ? call.dtype(x) : DType::kI64));
  if (call.good() && call.type(x).shape == Shape{}) return call.give(x);
  if (call.good()) call.result(call.op(), {x}, over(call, x));
}

void count_nonzero(Call& call) {
  ValueId x = call.tensor("self");
  if (!call.good()) return;
  x = call.cast(call.cast(x, DType::kBool), DType::kI64);  // not a number is not zero
  if (call.good() && call.type(x).shape == Shape{}) return call.give(x);
  if (call.good()) call.result("sum", {x}, over(call, x));
}

void mean(Call& call) {
  ValueId x = call.tensor("self");
  if (!call.good()) return;
  x = call.cast(x, call.dtype("dtype", call.dtype(x)));
  if (call.good() && call.type(x).shape == Shape{}) return call.give(x);
  if (call.good()) call.result("mean", {x}, over(call, x));
}

void extreme(Call& call) {
  const ValueId x = call.tensor("self");
  if (call.good()) call.result(call.op(), {x}, over(call, x));
}

/// Reduces all elements. Equal extremes share the gradient, as for amax.
template <const char* op>
void extreme_of_all(Call& call) {
  const ValueId x = call.tensor("self");
  if (call.good()) call.result(op, {x}, {{"axes", axes(call, x)}, {"keepdim", false}});
}
constexpr char kAmax[] = "amax", kAmin[] = "amin";

/// Returns numbers whose first largest element is the first smallest of `x`: -x of floats, -1 - x of integers, which
/// cannot overflow.
ValueId turned(Call& call, ValueId x) {
  if (!call.good() || ir::is_float(call.dtype(x))) return call.emit("neg", {x});
  if (call.dtype(x) == DType::kU8) x = call.cast(x, DType::kI64);
  return call.good() ? call.emit("sub", {call.scalar(-1, call.dtype(x)), x}) : x;
}

/// Emits the extreme element and its position: the first of equal ones, which receives the gradient.
template <bool largest>
void extreme_and_place(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis(call.integer("dim"), call.rank(x));
  const bool keep = call.flag("keepdim");
  if (!call.good()) return;
  const ValueId ranked = largest ? x : turned(call, x);
  const ValueId place = call.emit("argmax", {ranked}, {{"axis", Dim(axis)}, {"keepdim", true}});
  const ValueId element = call.emit("gather_elements", {x, place}, {{"axis", Dim(axis)}});
  for (const ValueId each : {element, place}) {
    if (!call.good()) return;
    call.give(keep ? each : call.emit("squeeze", {each}, {{"axes", Shape{axis}}}));
  }
}

template <bool largest>
void place(Call& call) {
  ValueId x = call.tensor("self");
  if (!call.good()) return;
  if (!call.has("dim")) x = call.emit("reshape", {x}, {{"shape", Shape{ir::element_count(*call.shape(x))}}});
  const int64_t axis = call.has("dim") ? call.axis(call.integer("dim"), call.rank(x)) : 0;
  if (!largest) x = turned(call, x);
  if (call.good())
    call.result("argmax", {x}, {{"axis", Dim(axis)}, {"keepdim", call.has("keepdim") && call.flag("keepdim")}});
}

/// Counts elements, because core has no reduction of bools.
template <bool all>
void truth(Call& call) {
  const ValueId x = call.cast(call.tensor("self"), DType::kBool);
  if (!call.good()) return;
  const ValueId reduced = all ? call.emit("logical_not", {x}) : x;
  const ValueId number = call.emit("cast", {reduced}, {{"dtype", DType::kI64}});
  const ValueId count = call.emit("sum", {number}, over(call, x));
  call.result(all ? "eq" : "ne", {count, call.scalar(0, DType::kI64)});
}

/// Mean and variance over axes. The divisor of the variance is the number of elements minus `correction`.
struct Spread {
  ValueId mean, variance;
};
Spread spread(Call& call) {
  const ValueId x = call.tensor("self");
  if (!call.good()) return {};
  double correction = 1;
  if (call.has("correction")) correction = call.number("correction");
  if (call.has("unbiased")) correction = call.flag("unbiased") ? 1 : 0;
  const Shape over_axes = axes(call, x);
  const ir::Attributes kept = {{"axes", over_axes}, {"keepdim", true}}, reduced = over(call, x);
  const ValueId centred = call.emit("sub", {x, call.emit("mean", {x}, kept)});
  const ValueId squares = call.emit("mul", {centred, centred});
  const ValueId mean = call.emit("mean", {x}, reduced);
  if (correction == 0) return {mean, call.emit("mean", {squares}, reduced)};
  Dim count = 1;
  for (const Dim& each : over_axes) count = count * (*call.shape(x))[static_cast<size_t>(each.constant())];
  const DType dtype = call.dtype(x);
  const double whole_part = std::floor(correction);
  if (!call.good()) return {};
  const ValueId number =
      call.emit("full", {}, {{"shape", Shape{}}, {"value", count - Dim(whole(whole_part))}, {"dtype", DType::kI64}});
  ValueId divisor = call.emit("cast", {number}, {{"dtype", dtype}});
  if (count.is_constant() && static_cast<double>(count.constant()) < correction) {
    divisor = call.scalar(0, dtype);  // never negative
  } else if (whole_part != correction) {
    divisor = call.emit("sub", {divisor, call.scalar(correction - whole_part, dtype)});
  }
  return {mean, call.emit("div", {call.emit("sum", {squares}, reduced), divisor})};
}
void var(Call& call) {
  const ValueId variance = spread(call).variance;
  if (call.good()) call.give(variance);
}
void deviation(Call& call) {
  const ValueId variance = spread(call).variance;
  if (call.good()) call.give(root_without_pole(call, variance));
}
void var_mean(Call& call) {
  const Spread found = spread(call);
  if (!call.good()) return;
  call.give(found.variance);
  call.give(found.mean);
}

void norm(Call& call) {
  ValueId x = call.tensor("self");
  const std::string_view name = call.has("ord") ? "ord" : "p";
  const double p = call.has(name) ? call.number(name) : 2;
  if (!call.good()) return;
  x = call.cast(x, call.dtype("dtype", call.dtype(x)));
  if (!call.good()) return;
  const ir::Attributes how = over(call, x);
  const ValueId size = p_norm(call, x, p, how);
  if (call.good()) call.give(size);
}

void logsumexp(Call& call) {
  const ValueId x = call.tensor("self");
  if (!call.good()) return;
  const Shape over_axes = axes(call, x);
  const ValueId sum = log_sum_exp(call, x, over_axes);
  if (call.has("keepdim") && call.flag("keepdim")) return call.give(sum);
  call.result("squeeze", {sum}, {{"axes", over_axes}});
}

void softmax(Call& call) {
  ValueId x = call.tensor("self");
  if (!call.good()) return;
  x = call.cast(x, call.dtype("dtype", call.dtype(x)));
  const int64_t axis = call.axis(call.integer("dim"), call.rank(x));
  const bool logarithm = call.op().find("log") != std::string::npos;
  if (call.good()) call.result(logarithm ? "log_softmax" : "softmax", {x}, {{"axis", Dim(axis)}});
}

}  // namespace

ValueId p_norm(Call& call, ValueId given, double p, const ir::Attributes& how) {
  const ValueId x = call.widened(given);  // ATen adds powers of smaller floats in single precision
  if (!call.good()) return {};
  const DType dtype = call.dtype(x);
  const auto narrowed = [&](ValueId norm) { return call.cast(norm, call.dtype(given)); };
  if (p == 2) return narrowed(root_without_pole(call, call.emit("sum", {call.emit("mul", {x, x})}, how)));
  const ValueId size = call.emit("abs", {x});
  if (std::isinf(p)) return narrowed(call.emit(p > 0 ? "amax" : "amin", {size}, how));
  if (p == 1) return narrowed(call.emit("sum", {size}, how));
  if (p == 0) call.fail("a norm of order 0 is not supported");
  const ValueId sum = call.emit("sum", {call.emit("pow", {size, call.scalar(p, dtype)})}, how);
  const ValueId none = call.emit("eq", {sum, call.scalar(0, dtype)});
  // The root of 0 is not differentiable.
  const ValueId some = call.emit("where", {none, call.scalar(1, dtype), sum});
  const ValueId root = call.emit("pow", {some, call.scalar(1 / p, dtype)});
  return narrowed(call.emit("where", {none, call.scalar(0, dtype), root}));
}

std::span<const Translator> reduce_translators() {
  static constexpr Translator kTable[] = {
      {"sum", sum},
      {"prod", sum},
      {"count_nonzero", count_nonzero},
      {"mean", mean},
      {"amax", extreme},
      {"amin", extreme},
      {"max", extreme_of_all<kAmax>},
      {"min", extreme_of_all<kAmin>},
      {"max.dim", extreme_and_place<true>},
      {"min.dim", extreme_and_place<false>},
      {"argmax", place<true>},
      {"argmin", place<false>},
      {"all", truth<true>},
      {"any", truth<false>},
      {"var", rounded_once<var>},
      {"std", rounded_once<deviation>},
      {"var_mean", rounded_once<var_mean>},
      {"norm", norm},
      {"linalg_vector_norm", norm},
      {"logsumexp", logsumexp},
      {"softmax", softmax},
      {"_softmax", softmax},
      {"log_softmax", softmax},
      {"_log_softmax", softmax},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
