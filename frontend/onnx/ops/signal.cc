/// Translates ONNX signal operators. Fourier transforms become products with matrices of sines and cosines.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "ir/graph/constant.h"

namespace rannc::frontend {

namespace {

using ir::DType;

constexpr int64_t kMostLength = 1 << 24;  // a matrix of this size squared exceeds any memory

/// Fourier transform of `length` numbers into `bins`.
struct Transform {
  int64_t length, bins;
  bool inverse = false;
  bool from_half = false;  ///< from half of a symmetric spectrum to real numbers
};

/// Returns 0 … count - 1 as a column or a row.
ValueId counted(Node& node, int64_t count, bool column) {
  const ValueId places = node.emit(
      "range", {}, {{"start", ir::Dim(0)}, {"limit", ir::Dim(count)}, {"delta", ir::Dim(1)}, {"dtype", DType::kI64}});
  return column ? node.emit("unsqueeze", {places}, {{"axes", ir::Shape{1}}}) : places;
}

/// Returns 2 pi * row * column / period, [rows, columns]. The product is reduced modulo the period first, for
/// precision.
ValueId angles(Node& node, int64_t rows, int64_t columns, int64_t period, DType dtype) {
  const ValueId turns = node.emit("mul", {counted(node, rows, true), counted(node, columns, false)});
  const ValueId within = node.emit("mod", {turns, node.scalar(static_cast<double>(period), DType::kI64)});
  const ValueId number = node.emit("cast", {within}, {{"dtype", dtype}});
  return node.emit("mul", {number, node.scalar(2 * std::numbers::pi / static_cast<double>(period), dtype)});
}

/// Returns the real or imaginary part, which are on the second axis from the end.
ValueId part(Node& node, ValueId x, int64_t at) {
  if (!node.good()) return {};
  const auto rank = static_cast<int64_t>(node.shape(x)->size());
  return node.emit("slice", {x},
                   {{"axes", ir::Shape{rank - 2}}, {"starts", ir::Shape{at}}, {"ends", ir::Shape{at + 1}}});
}

/// Doubles the bins of a half spectrum that represent two bins: all but the first and, for even lengths, the last.
ValueId doubled(Node& node, ValueId x, const Transform& of) {
  const DType dtype = node.dtype(x);
  const ValueId places = counted(node, of.length, false);
  const ValueId first = node.emit("eq", {places, node.scalar(0, DType::kI64)});
  const ValueId middle = node.emit("eq", {places, node.scalar(static_cast<double>(of.bins) / 2, DType::kI64)});
  const ValueId once = of.bins % 2 == 0 ? node.emit("logical_or", {first, middle}) : first;
  const ValueId times = node.emit("where", {once, node.scalar(1, dtype), node.scalar(2, dtype)});
  return node.emit("mul", {x, times});
}

/// Transforms x of shape […, parts, length], with 1 (real) or 2 parts, to […, 2, bins], or from half a spectrum to
/// […, 1, bins].
ValueId transformed(Node& node, ValueId x, const Transform& of) {
  const ir::Shape* const known = node.shape(x);
  if (!known || !node.good()) return {};
  const bool complex = (*known)[known->size() - 2] == ir::Dim(2);
  const auto rank = static_cast<int64_t>(known->size());
  const DType dtype = node.dtype(x);
  const int64_t period = of.inverse ? std::max(of.length, of.bins) : of.length;
  if (of.from_half) x = doubled(node, x, of);
  const ValueId angle = angles(node, of.length, of.bins, of.from_half ? of.bins : period, dtype);
  ValueId cosines = node.emit("cos", {angle}), sines = node.emit("sin", {angle});
  if (of.inverse) {
    const ValueId share = node.scalar(1.0 / static_cast<double>(of.from_half ? of.bins : period), dtype);
    cosines = node.emit("mul", {cosines, share});
    sines = node.emit("mul", {sines, share});
  }
  const ValueId c = node.emit("matmul", {x, cosines}), s = node.emit("matmul", {x, sines});
  if (!node.good()) return {};
  // (a + jb)(cos ∓ j sin), with the upper sign for the forward transform.
  const std::string_view plus = of.inverse ? "sub" : "add", minus = of.inverse ? "add" : "sub";
  ValueId real = c, imaginary = of.inverse ? s : node.emit("neg", {s});
  if (complex) {
    real = node.emit(plus, {part(node, c, 0), part(node, s, 1)});
    if (of.from_half) return real;
    imaginary = node.emit(minus, {part(node, c, 1), part(node, s, 0)});
  }
  return node.emit("concat", {real, imaginary}, {{"axis", ir::Dim(rank - 2)}});
}

std::optional<int64_t> known_number(Node& node, size_t operand, std::string_view what) {
  const auto known = node.elements(node.in(operand), 1);
  if (known && known->size() == 1) return whole((*known)[0]);
  node.fail(node.op() + ": " + std::string(what) + " '" + std::string(node.name(node.in(operand))) +
            "' must be known before the model runs");
  return std::nullopt;
}

/// Slices the last axis of x, or pads it with zeros, to `length`.
ValueId fitted(Node& node, ValueId x, int64_t extent, int64_t length) {
  if (extent == length || !node.good()) return x;
  const auto rank = static_cast<int64_t>(node.shape(x)->size());
  if (length < extent) {
    return node.emit("slice", {x},
                     {{"axes", ir::Shape{rank - 1}}, {"starts", ir::Shape{0}}, {"ends", ir::Shape{length}}});
  }
  ir::Shape pads(static_cast<size_t>(2 * rank), ir::Dim(0));
  pads.back() = length - extent;
  return node.emit("pad", {x}, {{"pads", pads}, {"value", 0.0}});
}

/// Returns the axis, which is an attribute before opset 20, an operand since.
std::optional<int64_t> dft_axis(Node& node, int64_t rank) {
  int64_t axis = node.integer("axis", 1);
  if (node.opset() >= 20) {
    axis = -2;
    if (node.has(2)) {
      const auto given = known_number(node, 2, "the axis");
      if (!given) return std::nullopt;
      axis = *given;
    }
  }
  axis = node.axis(axis, rank);
  if (axis == rank - 1) node.fail("DFT over the last axis, which contains real and imaginary parts, is not possible");
  return node.good() ? std::optional(axis) : std::nullopt;
}

/// Returns the transform that attributes and length specify for an axis of `extent` numbers.
std::optional<Transform> dft_transform(Node& node, int64_t extent, bool complex) {
  Transform of{extent, 0, node.integer("inverse", 0) != 0};
  const bool onesided = node.integer("onesided", 0) != 0;
  of.from_half = of.inverse && onesided;
  if (extent < 1 || extent > kMostLength) {
    node.fail("DFT over " + std::to_string(extent) + " numbers is not supported");
    return std::nullopt;
  }
  if (of.from_half && !complex) {
    node.fail("DFT: the inverse of half a spectrum needs complex numbers");
    return std::nullopt;
  }
  const auto length =
      node.has(1) ? known_number(node, 1, "the length") : std::optional(of.from_half ? 2 * (extent - 1) : extent);
  if (length && (*length < 1 || *length > kMostLength))
    node.fail("DFT of length " + std::to_string(*length) + " is not supported");
  if (!length || !node.good()) return std::nullopt;
  const int64_t half = *length / 2 + 1;
  of.length = of.from_half ? half : *length;
  of.bins = onesided && !of.inverse ? half : *length;
  return of;
}

/// The last axis has 1 or 2 parts. Moves the transformed axis to the end and back.
void dft(Node& node) {
  const ValueId given = node.in(0);
  const ir::Shape* const known = node.shape(given);
  if (!known) return;
  const ir::Shape from = *known;
  const auto rank = static_cast<int64_t>(from.size());
  const auto axis = dft_axis(node, rank);
  if (!axis) return;
  const ir::Dim& extent = from[static_cast<size_t>(*axis)];
  const bool complex = from.back() == ir::Dim(2);
  if (!extent.is_constant() || !(complex || from.back() == ir::Dim(1))) {
    return node.fail("DFT of " + ir::str(from) + " over axis " + std::to_string(*axis) +
                     " needs a known length, and real or complex numbers on the last axis");
  }
  const auto of = dft_transform(node, extent.constant(), complex);
  if (!of) return;
  std::vector<int64_t> order, back(from.size());
  for (int64_t i = 0; i < rank; ++i) {
    if (i != *axis) order.push_back(i);
  }
  order.push_back(*axis);
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const ValueId turned = node.emit("permute", {given}, {{"dims", list(order)}});
  if (!node.good()) return;
  const ValueId y = transformed(node, fitted(node, turned, extent.constant(), of->length), *of);
  node.result("permute", {y}, {{"dims", list(back)}});
}

/// Returns the frames of the signal, [batch, frames, parts, length].
ValueId frames_of(Node& node, ValueId signal, int64_t step, int64_t length) {
  const ir::Shape* const known = node.shape(signal);
  const ir::Dim count = floor_div((*known)[1] - ir::Dim(length), ir::Dim(step)) + ir::Dim(1);
  const ValueId starts = node.emit(
      "range", {},
      {{"start", ir::Dim(0)}, {"limit", count * ir::Dim(step)}, {"delta", ir::Dim(step)}, {"dtype", DType::kI64}});
  const ValueId column = node.emit("unsqueeze", {starts}, {{"axes", ir::Shape{1}}});
  const ValueId places = node.emit("add", {column, counted(node, length, false)});
  const ValueId frames = node.emit("gather", {signal, places}, {{"axis", ir::Dim(1)}});
  return node.emit("permute", {frames}, {{"dims", ir::Shape{0, 1, 3, 2}}});
}

void stft(Node& node) {
  ValueId signal = node.in(0);
  const ir::Shape* known = node.shape(signal);
  const auto step = known_number(node, 1, "the frame step");
  if (!known || !step) return;
  if (known->size() == 2) {  // real numbers, as PyTorch exports them
    signal = node.emit("unsqueeze", {signal}, {{"axes", ir::Shape{2}}});
    known = node.shape(signal);
  }
  if (!known) return;
  if (known->size() != 3) return node.fail("STFT needs a signal [batch, length, parts], found " + ir::str(*known));
  std::optional<int64_t> length;
  if (node.has(3)) {
    length = known_number(node, 3, "the frame length");
  } else if (const ir::Shape* const window = node.has(2) ? node.shape(node.in(2)) : nullptr) {
    if (window->size() == 1 && (*window)[0].is_constant()) length = (*window)[0].constant();
  } else if ((*known)[1].is_constant()) {
    length = (*known)[1].constant();
  }
  if (!node.good()) return;
  const auto fits = [](int64_t number) { return number >= 1 && number <= kMostLength; };
  if (!length || !fits(*length) || !fits(*step)) {
    return node.fail("STFT needs a step and a known length from 1 to " + std::to_string(kMostLength));
  }
  const bool onesided = node.integer("onesided", 1) != 0;
  const Transform of{*length, onesided ? *length / 2 + 1 : *length};
  ValueId frames = frames_of(node, signal, *step, *length);
  // A window is not trained. It is a buffer in PyTorch, which the file does not record.
  if (node.has(2)) frames = node.emit("mul", {frames, node.emit("stop_gradient", {node.in(2)})});
  const ValueId y = transformed(node, frames, of);
  node.result("permute", {y}, {{"dims", ir::Shape{0, 1, 3, 2}}});
}

// --- MelWeightMatrix

/// Parameters of the matrix, which must all be known.
struct Mel {
  int64_t bins, length;
  double rate, low, high;
};

/// Returns the bins where bands begin, peak and end.
std::vector<int64_t> mel_places(const Mel& mel) {
  const auto scaled = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = scaled(mel.low), step = (scaled(mel.high) - low) / static_cast<double>(mel.bins + 2);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < mel.bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    places.push_back(whole(std::floor(static_cast<double>(mel.length + 1) * hertz / mel.rate)));
  }
  return places;
}

/// Returns one triangle of height 1 per column.
std::vector<double> mel_triangles(const std::vector<int64_t>& places, int64_t rows, int64_t bins) {
  std::vector<double> all(static_cast<size_t>(rows * bins));
  const auto set = [&](int64_t row, int64_t column, double value) {
    if (row >= 0 && row < rows) all[static_cast<size_t>(row * bins + column)] = value;
  };
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t left = places[static_cast<size_t>(i)], top = places[static_cast<size_t>(i + 1)],
                  right = places[static_cast<size_t>(i + 2)];
    if (left == top) set(top, i, 1);
    for (int64_t j = left; left < top && j <= top; ++j) {
      set(j, i, static_cast<double>(j - left) / static_cast<double>(top - left));
    }
    for (int64_t j = top; j < right; ++j) {
      set(j, i, static_cast<double>(right - j) / static_cast<double>(right - top));
    }
  }
  return all;
}

void mel_weight_matrix(Node& node) {
  std::vector<double> given;
  for (size_t i = 0; i < 5; ++i) {
    const auto known = node.elements(node.in(i), 1);
    if (!known || known->size() != 1) {
      return node.fail("MelWeightMatrix: '" + std::string(node.name(node.in(i))) +
                       "' must be known before the model runs");
    }
    given.push_back((*known)[0]);
  }
  const auto requested = static_cast<int>(node.integer("output_datatype", 1));
  const auto dtype = element_type(requested);
  if (!dtype) return node.fail("MelWeightMatrix of " + element_type_name(requested) + " is not supported");
  constexpr int64_t kMost = 1 << 16, kMostElements = 1 << 21;
  const Mel mel{whole(given[0]), whole(given[1]), given[2], given[3], given[4]};
  if (mel.bins < 1 || mel.bins > kMost || mel.length < 1 || mel.length > kMost || !(mel.rate > 0)) {
    return node.fail("MelWeightMatrix needs bins and a length from 1 to 65536, and a positive rate");
  }
  const int64_t rows = mel.length / 2 + 1;
  if (rows * mel.bins > kMostElements) {
    return node.fail("MelWeightMatrix of " + std::to_string(rows) + " x " + std::to_string(mel.bins) +
                     " numbers: at most " + std::to_string(kMostElements) + " are supported");
  }
  const std::vector<double> numbers = mel_triangles(mel_places(mel), rows, mel.bins);
  Tensor tensor{{*dtype, ir::Shape{rows, mel.bins}, {}, {}}, {}};
  if (ir::is_float(*dtype)) {
    tensor.data = ir::encode_numbers(*dtype, numbers);
  } else {
    tensor.data = ir::encode_integers(*dtype, std::vector<int64_t>(numbers.begin(), numbers.end()));
  }
  node.constant(std::move(tensor));
}

}  // namespace

std::span<const Translator> signal_translators() {
  static constexpr Translator kTable[] = {
      {"DFT", 17, 27, dft},
      {"MelWeightMatrix", 17, 27, mel_weight_matrix},
      {"STFT", 17, 27, stft},
  };
  return kTable;
}

}  // namespace rannc::frontend
