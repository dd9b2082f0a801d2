/// Translates discrete Fourier transforms to products with tables of cosines and sines.
///
/// A transform of n elements takes O(n^2) operations, not O(n log n): no core operator is one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

/// Apart from functions of the same names, which a unity build compiles in one unit.
namespace fourier_transforms {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

/// Real and imaginary parts. The latter is invalid for real numbers.
struct ComplexParts {
  ValueId real, imaginary;
};

enum class Half { kNone, kResult, kOperand };  // which side has only the first half of a symmetric spectrum

/// A transform along one axis.
struct Fourier {
  int64_t axis;
  int64_t period;
  bool inverse;
  Half half;
  double scale;
};

ValueId by_name(Call& call, const char* schema, std::vector<Call::Argument> arguments) {
  Call other = call.another(schema, std::move(arguments));
  if (!translate(other) || other.failure()) {
    call.fail(other.failure() ? *other.failure() : error(fmt::format("{} has no translation", schema)));
    return {};
  }
  return call.tensor(other.results()[0], "self");
}

/// 0, 1, … along one of two axes.
ValueId places(Call& call, int64_t count, int64_t other_axis) {
  const ValueId all = call.emit("range", {}, {{"start", Dim(0)}, {"limit", Dim(count)}, {"delta", Dim(1)}});
  return call.emit("unsqueeze", {all}, {{"axes", Shape{other_axis}}});
}

/// The angles 2 * pi * j * k / period as f64[rows, columns]. The product is reduced while it is an integer.
ValueId angles(Call& call, int64_t rows, int64_t columns, int64_t period) {
  const ValueId product = call.emit("mul", {places(call, rows, 1), places(call, columns, 0)});
  const auto turn = static_cast<double>(period);
  const ValueId rest = call.emit("mod", {product, call.scalar(turn, DType::kI64)});
  return call.emit("mul", {call.cast(rest, DType::kF64), call.scalar(2 * std::numbers::pi / turn, DType::kF64)});
}

/// How often each element of the first half occurs in the whole spectrum, times the scale.
ValueId occurrences(Call& call, int64_t rows, const Fourier& of) {
  const ValueId twice = call.emit("mul", {places(call, rows, 1), call.scalar(2, DType::kI64)});
  const ValueId rest = call.emit("mod", {twice, call.scalar(static_cast<double>(of.period), DType::kI64)});
  const ValueId is_single = call.emit("eq", {rest, call.scalar(0, DType::kI64)});
  return call.emit("where", {is_single, call.scalar(of.scale, DType::kF64), call.scalar(2 * of.scale, DType::kF64)});
}

/// Elements behind the period are dropped, and missing ones are zero.
ComplexParts transformed(Call& call, ComplexParts x, const Fourier& of) {
  const Shape* const shape = call.shape(x.real);
  if (!shape) return {};
  const auto rank = static_cast<int64_t>(shape->size());
  const Dim extent = (*shape)[static_cast<size_t>(of.axis)];
  const int64_t first_half = of.period / 2 + 1;
  const int64_t rows = std::min(extent.constant(), of.half == Half::kOperand ? first_half : of.period);
  const int64_t columns = of.half == Half::kResult ? first_half : of.period;
  Shape dims;
  for (int64_t i = 0; i < rank; ++i) dims.emplace_back(i);
  std::swap(dims[static_cast<size_t>(of.axis)], dims.back());
  const DType dtype = call.dtype(x.real);
  const ValueId angle = angles(call, rows, columns, of.period);
  const ValueId factor = of.half == Half::kOperand ? occurrences(call, rows, of) : call.scalar(of.scale, DType::kF64);
  const auto table = [&](const char* function) {
    return call.cast(call.emit("mul", {call.emit(function, {angle}), factor}), dtype);
  };
  const ValueId cosines = table("cos"), sines = table("sin");
  const auto along = [&](ValueId part) {
    if (!(extent == Dim(rows)))
      part = call.emit("slice", {part}, {{"axes", Shape{of.axis}}, {"starts", Shape{0}}, {"ends", Shape{rows}}});
    return call.emit("permute", {part}, {{"dims", dims}});
  };
  const auto sum = [&](ValueId a, const ValueId& by_a, ValueId b, const ValueId& by_b, const char* op) {
    ValueId made = call.emit("matmul", {a, by_a});
    if (b.valid()) made = call.emit(op, {made, call.emit("matmul", {b, by_b})});
    return call.emit("permute", {made}, {{"dims", dims}});
  };
  const ValueId re = along(x.real), im = x.imaginary.valid() ? along(x.imaginary) : ValueId();
  // exp(±i a) = cos a ± i sin a
  ComplexParts made{sum(re, cosines, im, sines, of.inverse ? "sub" : "add"), {}};
  if (of.half == Half::kOperand) return made;
  ValueId turned = call.emit("permute", {call.emit("matmul", {re, sines})}, {{"dims", dims}});
  if (!of.inverse) turned = call.emit("neg", {turned});
  made.imaginary = turned;
  if (im.valid()) {
    const ValueId kept = call.emit("permute", {call.emit("matmul", {im, cosines})}, {{"dims", dims}});
    made.imaginary = call.emit("add", {turned, kept});
  }
  return made;
}

double scale_of(Call& call, bool inverse, int64_t period) {
  const std::string norm = call.has("norm") ? call.text("norm") : "backward";
  const auto count = static_cast<double>(period);
  if (norm == "ortho") return 1 / std::sqrt(count);
  return (norm == "backward") == inverse ? 1 / count : 1;
}

/// The axes in order, with the length that is requested for each.
std::vector<std::pair<int64_t, std::optional<Dim>>> axes_of(Call& call, int64_t rank) {
  std::vector<int64_t> axes;
  Shape lengths;
  const bool is_one = call.op().ends_with("fft");
  if (call.has(is_one ? "n" : "s")) lengths = call.sizes(is_one ? "n" : "s");
  if (call.has("dim")) {
    axes = call.integers("dim");
  } else {
    axes.resize(lengths.empty() ? static_cast<size_t>(rank) : lengths.size());
    std::iota(axes.begin(), axes.end(), rank - static_cast<int64_t>(axes.size()));
  }
  std::vector<std::pair<int64_t, std::optional<Dim>>> made;
  for (size_t i = 0; i < axes.size() && call.good(); ++i) {
    const bool given = i < lengths.size() && !(lengths[i] == Dim(-1));
    made.emplace_back(call.axis(axes[i], rank), given ? std::optional(lengths[i]) : std::nullopt);
  }
  return made;
}

void fourier(Call& call) {
  const bool inverse = call.op().starts_with("fft_i");
  const bool is_half = call.op().find("rfft") != std::string::npos;
  const Item& self = call.item("self");
  ComplexParts x;
  if (self.get<Complex>()) {
    x = {by_name(call, "aten::real", {{"self", self}}), by_name(call, "aten::imag", {{"self", self}})};
  } else {
    x.real = call.tensor("self");
  }
  if (!call.good()) return;
  if (!ir::is_float(call.dtype(x.real))) x.real = call.cast(x.real, DType::kF32);
  auto axes = axes_of(call, call.rank(x.real));
  if (axes.empty()) return call.fail(fmt::format("{} has no axes", call.schema()));
  const auto last = axes.back().first;
  if (is_half && !inverse) std::reverse(axes.begin(), axes.end());  // the last axis first
  for (const auto& [axis, length] : axes) {
    const Shape* const shape = call.shape(x.real);
    if (!shape || !call.good()) return;
    const Dim extent = (*shape)[static_cast<size_t>(axis)];
    const Half half = !is_half || axis != last ? Half::kNone : inverse ? Half::kOperand : Half::kResult;
    const Dim period = length ? *length : half == Half::kOperand ? (extent - Dim(1)) * Dim(2) : extent;
    if (!period.is_constant() || !extent.is_constant() || period.constant() < 1)
      return call.fail(
          fmt::format("{} along axis {} of {}: the length must be known", call.schema(), axis, ir::str(*shape)));
    x = transformed(call, x, {axis, period.constant(), inverse, half, scale_of(call, inverse, period.constant())});
  }
  if (!call.good()) return;
  if (!x.imaginary.valid()) return call.give(x.real);
  const auto tensor = [](ValueId value) { return Item(std::make_shared<Tensor>(value)); };
  Call both = call.another("aten::complex", {{"real", tensor(x.real)}, {"imag", tensor(x.imaginary)}});
  if (!translate(both) || both.failure()) return call.fail(*both.failure());
  call.give(both.results()[0]);
}

}  // namespace

std::span<const Translator> all() {
  static constexpr Translator kTable[] = {
      {"fft_fft", fourier},  {"fft_ifft", fourier},  {"fft_rfft", fourier},  {"fft_irfft", fourier},
      {"fft_fft2", fourier}, {"fft_ifft2", fourier}, {"fft_rfft2", fourier}, {"fft_irfft2", fourier},
      {"fft_fftn", fourier}, {"fft_ifftn", fourier}, {"fft_rfftn", fourier}, {"fft_irfftn", fourier},
  };
  return kTable;
}

}  // namespace fourier_transforms

std::span<const Translator> fourier_translators() { return fourier_transforms::all(); }

}  // namespace rannc::frontend::torchscript
