/// Translates ONNX's RoiAlign. Interpolation is separable, so the means of a region are a product with one matrix per
/// axis.
#include <algorithm>
#include <array>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Emits the arithmetic of one node in the element type of its regions.
class Arithmetic {
 public:
  Arithmetic(Node& node, ir::DType dtype) : node_(node), dtype_(dtype) {}

  ValueId of(std::string_view op, ValueId a, ValueId b) { return node_.emit(op, {a, b}); }
  ValueId of(std::string_view op, ValueId a, double b) { return node_.emit(op, {a, node_.scalar(b, dtype_)}); }
  ValueId of(std::string_view op, ValueId a) { return node_.emit(op, {a}); }
  ValueId clamped(ValueId a, double low, double high) {
    return node_.emit("clamp", {a}, {{"min", low}, {"max", high}});
  }
  ValueId reshaped(ValueId a, const ir::Shape& shape) { return node_.emit("reshape", {a}, {{"shape", shape}}); }
  ValueId with_axis(ValueId a, int64_t axis) { return node_.emit("unsqueeze", {a}, {{"axes", ir::Shape{axis}}}); }
  ValueId mean(ValueId a, int64_t axis) { return node_.emit("mean", {a}, {{"axes", ir::Shape{axis}}}); }
  /// Returns 1 where a is in [low, high], else 0.
  ValueId between(ValueId a, double low, double high) { return both(of("ge", a, low), of("le", a, high)); }
  ValueId both(ValueId a, ValueId b) { return node_.emit("cast", {of("logical_and", a, b)}, {{"dtype", dtype_}}); }
  /// Returns the constant first, first + 1 …, with `count` elements.
  ValueId numbers(double first, int64_t count, std::vector<int64_t> shape) {
    std::vector<double> all;
    for (int64_t i = 0; i < count; ++i) all.push_back(first + static_cast<double>(i));
    return node_.table("numbers", dtype_, shape, all);
  }
  Node& node() { return node_; }
  ir::DType dtype() const { return dtype_; }

 private:
  Node& node_;
  ir::DType dtype_;
};

/// One of the two axes: extent of x, number of bins, column of the first corner in the regions.
struct Side {
  int64_t extent, bins, column;
};

/// Starts of the regions along an axis and lengths of their bins, both [regions].
struct Bins {
  ValueId start, length;
};

Bins bins_of(Arithmetic& at, const Side& side) {
  Node& node = at.node();
  const bool half_pixel =
      node.opset() >= 16 && node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double scale = node.number("spatial_scale", 1.0), shift = half_pixel ? -0.5 : 0;
  const auto corner = [&](int64_t column) {
    const ValueId index = node.table("column", ir::DType::kI64, {}, std::array<int64_t, 1>{column});
    const ValueId picked = node.emit("gather", {node.in(1), index}, {{"axis", ir::Dim(1)}});
    return at.of("add", at.of("mul", picked, scale), shift);
  };
  const ValueId start = corner(side.column);
  ValueId length = at.of("sub", corner(side.column + 2), start);
  if (!half_pixel) length = at.of("maximum", length, 1);
  return {start, at.of("div", length, static_cast<double>(side.bins))};
}

/// Returns the positions of `samples` samples per bin, [regions, bins * samples].
ValueId sample_places(Arithmetic& at, const Side& side, int64_t samples) {
  const Bins bins = bins_of(at, side);
  std::vector<double> steps;
  for (int64_t k = 0; k < side.bins * samples; ++k) {
    steps.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(samples));
  }
  const ValueId within = at.node().table("steps", at.dtype(), {1, side.bins * samples}, steps);
  return at.of("add", at.with_axis(bins.start, 1), at.of("mul", at.with_axis(bins.length, 1), within));
}

/// Returns the weights of elements at samples, whose shapes broadcast. The weight is 0 for samples more than one
/// element outside of x.
ValueId shares(Arithmetic& at, const Side& side, ValueId places, ValueId elements) {
  const double extent = static_cast<double>(side.extent);
  const ValueId distance = at.of("abs", at.of("sub", at.clamped(places, 0, extent - 1), elements));
  const ValueId near = at.of("maximum", at.of("sub", at.node().scalar(1, at.dtype()), distance), 0);
  return at.of("mul", near, at.between(places, -1, extent));
}

/// Returns the weight of each element in the mean of each bin, [regions, bins, elements].
ValueId means_of_samples(Arithmetic& at, const Side& side, int64_t samples) {
  const ir::Dim regions = (*at.node().shape(at.node().in(1)))[0];
  const ValueId places = at.reshaped(sample_places(at, side, samples), {regions, side.bins, samples, 1});
  return at.mean(shares(at, side, places, at.numbers(0, side.extent, {side.extent})), 2);
}

/// Likewise with ceil(length) samples per bin. These are more than half an element apart, so at most 4 are near an
/// element: the one before it and the neighbors of that one.
ValueId means_by_length(Arithmetic& at, const Side& side) {
  const Bins bins = bins_of(at, side);
  const auto column = [&](ValueId per_region) { return at.with_axis(at.with_axis(per_region, 1), 2); };
  const ValueId count = column(at.of("ceil", bins.length));
  const ValueId several = at.of("gt", count, 1);
  const ValueId apart = at.of("div", column(bins.length), at.of("maximum", count, 1));
  const ValueId first =
      at.of("add", column(bins.start), at.of("mul", column(bins.length), at.numbers(0, side.bins, {1, side.bins, 1})));
  const ValueId elements = at.numbers(0, side.extent, {1, 1, side.extent});
  const ValueId one = at.node().scalar(1, at.dtype()), none = at.node().scalar(0, at.dtype());
  const ValueId step = at.node().emit("where", {several, apart, one});
  const ValueId nearest = at.of("floor", at.of("sub", at.of("div", at.of("sub", elements, first), step), 0.5));
  const ValueId before = at.node().emit("where", {several, nearest, none});
  const ValueId number = at.of("add", at.with_axis(before, 3), at.numbers(-1, 4, {4}));
  const ValueId exists = at.both(at.of("ge", number, 0), at.of("lt", number, at.with_axis(count, 3)));
  const ValueId places =
      at.of("add", at.with_axis(first, 3), at.of("mul", at.of("add", number, 0.5), at.with_axis(apart, 3)));
  const ValueId counted = at.of("mul", shares(at, side, places, at.with_axis(elements, 3)), exists);
  const ValueId sums = at.node().emit("sum", {counted}, {{"axes", ir::Shape{3}}});
  return at.of("div", sums, at.of("maximum", count, 1));
}

/// Returns both neighbors of each sample times their weights, along one axis of x [regions, channels, height, width].
ValueId weighted_neighbours(Arithmetic& at, ValueId x, const Side& side, int64_t axis, int64_t samples) {
  Node& node = at.node();
  if (!node.good()) return {};
  const ir::Shape from = *node.shape(x);
  const ValueId places = sample_places(at, side, samples);
  const double last = static_cast<double>(side.extent - 1);
  const ValueId low = at.of("floor", at.clamped(places, 0, last));
  const ValueId pair = at.with_axis(low, 2);
  const ValueId rest = at.of("sub", at.with_axis(at.clamped(places, 0, last), 2), pair);
  const ValueId upper = at.numbers(0, 2, {2});  // 0 and 1: the weights are 1 - rest and rest
  const ValueId signs = at.node().table("signs", at.dtype(), {2}, std::array<double, 2>{-1, 1});
  const ValueId parts = at.of("add", at.of("mul", rest, signs), at.of("sub", at.node().scalar(1, at.dtype()), upper));
  const double extent = static_cast<double>(side.extent);
  const ValueId counted = at.of("mul", parts, at.with_axis(at.between(places, -1, extent), 2));
  ir::Shape over = {from[0], ir::Dim(1), ir::Dim(1), ir::Dim(1)};
  over[static_cast<size_t>(axis)] = side.bins * samples * 2;
  const ValueId neighbours =
      node.emit("cast", {at.clamped(at.of("add", pair, upper), 0, last)}, {{"dtype", ir::DType::kI64}});
  ir::Shape stretched = from;
  stretched[static_cast<size_t>(axis)] = over[static_cast<size_t>(axis)];
  const ValueId index = node.emit("expand", {at.reshaped(neighbours, over)}, {{"shape", stretched}});
  const ValueId found = node.emit("gather_elements", {x, index}, {{"axis", ir::Dim(axis)}});
  return at.of("mul", found, at.reshaped(counted, over));
}

/// Emits the largest weighted neighbor of a bin's samples. ONNX's mode `max` does not add the neighbors up.
void largest(Arithmetic& at, ValueId x, const Side& rows, const Side& columns, int64_t samples) {
  Node& node = at.node();
  const ir::Shape from = *node.shape(x);
  const ValueId along = weighted_neighbours(at, x, rows, 2, samples);
  const ValueId all = weighted_neighbours(at, along, columns, 3, samples);
  const ValueId split = at.reshaped(all, {from[0], from[1], rows.bins, 2 * samples, columns.bins, 2 * samples});
  node.result("amax", {split}, {{"axes", ir::Shape{3, 5}}});
}

/// Returns both axes. Fails and returns nullopt for an unsupported node.
std::optional<std::array<Side, 2>> read_sides(Node& node) {
  const ir::Shape *const x = node.shape(node.in(0)), *const regions = node.shape(node.in(1));
  if (!x || !regions) return std::nullopt;
  if (x->size() != 4 || regions->size() != 2 || !(*x)[2].is_constant() || !(*x)[3].is_constant()) {
    node.fail("RoiAlign needs x " + ir::str(*x) + " of rank 4 with a height and width that are plain integers, and " +
              "regions " + ir::str(*regions) + " of rank 2");
    return std::nullopt;
  }
  if (node.type(node.in(0)).batch.has_batch()) {
    node.fail("RoiAlign selects samples of x " + ir::str(*x) + " by their indices in the mini-batch, which a " +
              "micro-batch lacks: the batch size must be a plain integer");
    return std::nullopt;
  }
  const int64_t height = node.integer("output_height", 1), width = node.integer("output_width", 1);
  const std::array sides = {Side{(*x)[2].constant(), height, 1}, Side{(*x)[3].constant(), width, 0}};
  const int64_t samples = std::max<int64_t>(node.integer("sampling_ratio", 0), 1);
  for (const Side& side : sides) {
    constexpr int64_t kMost = 1 << 20;  // numbers in a file must not exhaust memory
    const bool fits = side.extent > 0 && side.bins > 0 && side.extent <= kMost && samples <= kMost / side.bins;
    if (fits && side.bins <= kMost) continue;
    node.fail("RoiAlign: heights and widths must be positive; they and the samples of an axis may be at most " +
              std::to_string(kMost));
    return std::nullopt;
  }
  return sides;
}

void roi_align(Node& node) {
  const auto sides = read_sides(node);
  if (!sides) return;
  const int64_t samples = node.integer("sampling_ratio", 0);
  const std::string mode = node.text("mode", "avg");
  if (mode != "avg" && mode != "max") return node.fail("RoiAlign: mode '" + mode + "' is not supported");
  if (mode == "max" && samples < 1) {
    return node.fail(
        "RoiAlign of mode 'max' needs a sampling_ratio, because otherwise the number of samples depends on data");
  }
  Arithmetic at(node, node.dtype(node.in(1)));
  const ValueId x = node.emit("gather", {node.in(0), node.in(2)}, {{"axis", ir::Dim(0)}});
  if (!node.good()) return;
  if (mode == "max") return largest(at, x, (*sides)[0], (*sides)[1], samples);
  const auto matrix = [&](const Side& side) {
    return samples > 0 ? means_of_samples(at, side, samples) : means_by_length(at, side);
  };
  const ValueId rows = at.with_axis(matrix((*sides)[0]), 1);
  const ValueId columns = at.with_axis(node.emit("permute", {matrix((*sides)[1])}, {{"dims", ir::Shape{0, 2, 1}}}), 1);
  node.result("matmul", {rows, at.of("matmul", x, columns)});
}

}  // namespace

std::span<const Translator> roi_align_translators() {
  static constexpr Translator kTable[] = {
      {"RoiAlign", 10, 27, roi_align},
  };
  return kTable;
}

}  // namespace rannc::frontend
