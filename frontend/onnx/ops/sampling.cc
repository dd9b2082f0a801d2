/// Translates ONNX operators that sample at computed positions.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "frontend/onnx/internal/translate/window.h"

namespace rannc::frontend {

namespace {

/// Limit for the elements of a constant that a translator creates. Numbers in a file must not exhaust memory.
constexpr int64_t kMostSampled = 1 << 20;

// --- GridSample, AffineGrid

/// Treats a line as a plane of one row. The grid gets a second coordinate for the middle of that row.
struct Lifted {
  ValueId x, grid;
};
Lifted lifted(Node& node, ValueId x, ValueId grid) {
  const ValueId row = node.emit("unsqueeze", {x}, {{"axes", ir::Shape{2}}});
  const ValueId both = node.emit("pad", {grid}, {{"pads", ir::Shape{0, 0, 0, 0, 0, 1}}, {"value", 0.0}});
  return {row, node.emit("unsqueeze", {both}, {{"axes", ir::Shape{1}}})};
}

/// Modes have different names since opset 20.
void grid_sample(Node& node) {
  ValueId x = node.in(0), grid = node.in(1);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  std::string mode = node.text("mode", "linear");
  if (mode.starts_with("bi")) mode = mode.substr(2);
  const ir::Attributes attributes = {{"mode", mode},
                                     {"padding", node.text("padding_mode", "zeros")},
                                     {"align_corners", node.integer("align_corners", 0) != 0}};
  const bool line = from->size() == 3;
  if (!line) return node.result("grid_sample", {x, grid}, attributes);
  const Lifted plane = lifted(node, x, grid);
  const ValueId made = node.emit("grid_sample", {plane.x, plane.grid}, attributes);
  node.result("squeeze", {made}, {{"axes", ir::Shape{2}}});
}

/// Returns the coordinate of element `i` of `extent`. -1 and 1 are the centers of the outermost elements if
/// `align_corners`, else their edges. A single element is the first, at -1, where PyTorch's affine_grid has 0.
double coordinate(int64_t i, int64_t extent, bool align_corners) {
  const double at = 2 * static_cast<double>(i), all = static_cast<double>(extent);
  if (align_corners) return extent == 1 ? -1 : at / (all - 1) - 1;
  return (at + 1) / all - 1;
}

/// Multiplies theta by homogeneous coordinates of all elements, [elements, axes + 1], the last axis first.
void affine_grid(Node& node) {
  const ValueId theta = node.in(0);
  const auto size = node.contents(node.in(1));
  if (!size || size->size() < 4 || size->size() > 5 ||
      !std::all_of(size->begin() + 2, size->end(), [](const ir::Dim& n) { return n.is_constant(); })) {
    return node.fail("AffineGrid needs a size of 4 or 5 numbers; those of the spatial axes must be plain integers");
  }
  std::vector<int64_t> extents;
  int64_t count = 1;
  for (size_t i = 2; i < size->size(); ++i) {
    extents.push_back((*size)[i].constant());
    if (extents.back() < 1 || extents.back() > kMostSampled / count)
      return node.fail("AffineGrid: size " + str(*size) + " is not positive or too large");
    count *= extents.back();
  }
  const bool align_corners = node.integer("align_corners", 0) != 0;
  const auto columns = static_cast<int64_t>(extents.size()) + 1;
  std::vector<double> base(static_cast<size_t>(count * columns), 1.0);
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = k;
    for (size_t i = extents.size(); i-- > 0; rest /= extents[i]) {
      const auto column = static_cast<int64_t>(extents.size() - 1 - i);
      base[static_cast<size_t>(k * columns + column)] = coordinate(rest % extents[i], extents[i], align_corners);
    }
  }
  ir::Shape to = {(*size)[0]};
  to.insert(to.end(), size->begin() + 2, size->end());
  to.emplace_back(columns - 1);
  const ValueId turned = node.emit("permute", {theta}, {{"dims", ir::Shape{0, 2, 1}}});
  const ValueId made = node.emit("matmul", {node.table("base", node.dtype(theta), {count, columns}, base), turned});
  node.result("reshape", {made}, {{"shape", to}});
}

// --- DeformConv: samples each element of each window at its own position, then multiplies by the weight

struct Deformed {
  Window window;
  int64_t height, width;  ///< of x
  int64_t rows, columns;  ///< of the result
  int64_t groups, offset_groups, taps;
};

/// Returns the extents from axis 2 on. Fails unless they are plain integers.
std::optional<std::vector<int64_t>> known_extents(Node& node, const ir::Shape& shape, const char* what) {
  std::vector<int64_t> extents;
  for (size_t i = 2; i < shape.size(); ++i) {
    if (!shape[i].is_constant() || shape[i].constant() < 1) {
      node.fail(node.op() + ": " + what + " " + str(shape) + " needs spatial sizes that are plain integers");
      return std::nullopt;
    }
    extents.push_back(shape[i].constant());
  }
  return extents;
}

std::optional<Deformed> read_deformed(Node& node) {
  const ir::Shape *const x = node.shape(node.in(0)), *const offset = node.shape(node.in(2));
  if (!x || !offset) return std::nullopt;
  const auto window = read_window(node, node.in(0), kernel_of(node, node.in(1)));
  if (!window) return std::nullopt;
  if (x->size() != 4 || offset->size() != 4) {
    node.fail("DeformConv is supported over 2 spatial axes");
    return std::nullopt;
  }
  const auto from = known_extents(node, *x, "x"), to = known_extents(node, *offset, "offset");
  if (!from || !to) return std::nullopt;
  if (window->kernel[0] > kMostSampled || window->kernel[1] > kMostSampled) {
    node.fail("DeformConv: a kernel of " + std::to_string(window->kernel[0]) + " x " +
              std::to_string(window->kernel[1]) + " is too large");
    return std::nullopt;
  }
  const Deformed made{*window,
                      (*from)[0],
                      (*from)[1],
                      (*to)[0],
                      (*to)[1],
                      node.integer("group", 1),
                      node.integer("offset_group", 1),
                      window->kernel[0] * window->kernel[1]};
  if (made.rows > kMostSampled / made.columns || made.taps > kMostSampled / (made.rows * made.columns)) {
    node.fail("DeformConv: more than " + std::to_string(kMostSampled) + " positions of an image are not supported");
    return std::nullopt;
  }
  if (made.groups < 1 || made.offset_groups < 1) {
    node.fail("DeformConv: groups must be positive");
    return std::nullopt;
  }
  return made;
}

/// Returns the grid for all elements of all windows, [samples * groups, taps * rows, columns, 2]: window positions plus
/// offsets, which have y before x, as coordinates from edge to edge.
ValueId deformed_grid(Node& node, const Deformed& by, const ir::Dim& images) {
  const double size[] = {static_cast<double>(by.height), static_cast<double>(by.width)};
  std::vector<double> base;
  for (int64_t tap = 0; tap < by.taps; ++tap) {
    const int64_t at[] = {tap / by.window.kernel[1], tap % by.window.kernel[1]};
    for (size_t axis = 0; axis < 2; ++axis) {
      for (int64_t k = 0; k < by.rows * by.columns; ++k) {
        const int64_t step = axis == 0 ? k / by.columns : k % by.columns;
        const int64_t place =
            step * by.window.strides[axis] - by.window.pads[axis] + at[axis] * by.window.dilations[axis];
        base.push_back((2 * static_cast<double>(place) + 1) / size[axis] - 1);
      }
    }
  }
  const ir::DType dtype = node.dtype(node.in(2));
  const ValueId offset =
      node.emit("reshape", {node.in(2)}, {{"shape", ir::Shape{images, by.taps, ir::Dim(2), by.rows, by.columns}}});
  const std::vector<double> scale = {2 / size[0], 2 / size[1]};
  const ValueId moved = node.emit("mul", {offset, node.table("scale", dtype, {2, 1, 1}, scale)});
  const ValueId placed = node.emit("add", {moved, node.table("base", dtype, {by.taps, 2, by.rows, by.columns}, base)});
  const std::vector<int64_t> turned = {1, 0};
  const ValueId x_first =
      node.emit("gather", {placed, node.table("x_first", ir::DType::kI64, {2}, turned)}, {{"axis", ir::Dim(2)}});
  const ValueId last = node.emit("permute", {x_first}, {{"dims", ir::Shape{0, 1, 3, 4, 2}}});
  return node.emit("reshape", {last}, {{"shape", ir::Shape{images, by.taps * by.rows, by.columns, ir::Dim(2)}}});
}

void deform_conv(Node& node) {
  const auto by = read_deformed(node);
  if (!by) return;
  const ValueId x = node.in(0), weight = node.in(1);
  const ir::Shape from = *node.shape(x), filters = *node.shape(weight);
  const ir::Dim groups = by->offset_groups, images = from[0] * groups, places = by->rows * by->columns;
  const auto channels = exact_div(from[1], groups), outs = exact_div(filters[0], ir::Dim(by->groups));
  if (!channels || !outs)
    return node.fail("DeformConv: the numbers of channels must be divisible by the number of groups");
  const ValueId apart = node.emit("reshape", {x}, {{"shape", ir::Shape{images, *channels, by->height, by->width}}});
  ValueId sampled = node.emit("grid_sample", {apart, deformed_grid(node, *by, images)});
  if (node.has(4)) {
    const ir::Shape over = {images, ir::Dim(1), by->taps * by->rows, by->columns};
    sampled = node.emit("mul", {sampled, node.emit("reshape", {node.in(4)}, {{"shape", over}})});
  }
  const ir::Dim inner = filters[1] * ir::Dim(by->taps);
  const ValueId columns = node.emit("reshape", {sampled}, {{"shape", ir::Shape{from[0], by->groups, inner, places}}});
  const ValueId matrix = node.emit("reshape", {weight}, {{"shape", ir::Shape{by->groups, *outs, inner}}});
  const ValueId made = node.emit("matmul", {matrix, columns});
  const ir::Attributes to = {{"shape", ir::Shape{from[0], filters[0], by->rows, by->columns}}};
  if (!node.has(3)) return node.result("reshape", {made}, to);
  const ValueId bias = node.emit("reshape", {node.in(3)}, {{"shape", ir::Shape{filters[0], 1, 1}}});
  node.result("add", {node.emit("reshape", {made}, to), bias});
}

}  // namespace

std::span<const Translator> sampling_translators() {
  static constexpr Translator kTable[] = {
      {"AffineGrid", 20, 27, affine_grid},
      {"DeformConv", 19, 27, deform_conv},
      {"GridSample", 16, 27, grid_sample},
  };
  return kTable;
}

}  // namespace rannc::frontend
