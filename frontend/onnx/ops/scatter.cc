/// Translates ONNX operators that write elements by position.
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// A scatter into a value of rank 1 with samples becomes scatter_nd with index tuples of one number. That operator
/// checks that every sample writes only to itself.
void scatter_elements(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const into = node.shape(x);
  if (!into) return;
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(into->size()));
  if (into->size() == 1 && node.type(x).batch.has_batch()) {
    const ValueId places = node.emit("unsqueeze", {node.in(1)}, {{"axes", ir::Shape{1}}});
    return node.result("scatter_nd", {x, places, node.in(2)}, {{"reduction", node.text("reduction", "none")}});
  }
  node.result("scatter_elements", {x, node.in(1), node.in(2)},
              {{"axis", ir::Dim(axis)}, {"reduction", node.text("reduction", "none")}});
}

void scatter_nd(Node& node) {
  node.result("scatter_nd", {node.in(0), node.in(1), node.in(2)}, {{"reduction", node.text("reduction", "none")}});
}

/// Writes to consecutive positions from a start per sample. Mode "circular" wraps around at the end.
void tensor_scatter(Node& node) {
  const ValueId cache = node.in(0), update = node.in(1);
  const ir::Shape *const into = node.shape(cache), *const written = node.shape(update);
  if (!into || !written) return;
  const auto rank = static_cast<int64_t>(into->size());
  const int64_t axis = node.axis(node.integer("axis", -2), rank);
  if (!node.good()) return;
  if (axis == 0 || into->size() != written->size()) {
    return node.fail("TensorScatter of " + ir::str(*written) + " into " + ir::str(*into) + " along axis " +
                     std::to_string(axis) + ": ranks must be equal, and the axis must not be 0, the axis of samples");
  }
  const ir::Shape to = *written;
  const ir::Dim extent = (*into)[static_cast<size_t>(axis)], steps = to[static_cast<size_t>(axis)];
  const auto number = [&](const ir::Dim& value) {
    return node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", value}, {"dtype", ir::DType::kI64}});
  };
  ir::Shape row(static_cast<size_t>(rank - axis), ir::Dim(1)), column(into->size(), ir::Dim(1));
  row[0] = steps;
  column[0] = to[0];
  const ValueId counted = node.emit(
      "range", {}, {{"start", ir::Dim(0)}, {"limit", steps}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
  ValueId places = node.emit("reshape", {counted}, {{"shape", row}});
  if (node.has(2)) {
    const ValueId first = node.emit("cast", {node.in(2)}, {{"dtype", ir::DType::kI64}});
    places = node.emit("add", {node.emit("reshape", {first}, {{"shape", column}}), places});
  }
  if (node.text("mode", "linear") == "circular") places = node.emit("mod", {places, number(extent)});
  const ValueId indices = node.emit("expand", {places}, {{"shape", to}});
  node.result("scatter_elements", {cache, indices, update}, {{"axis", ir::Dim(axis)}});
}

/// Extremes depend on the order.
template <void (*translate)(Node&)>
void exact(Node& node) {
  const std::string reduction = node.text("reduction", "none");
  const bool compares = reduction == "max" || reduction == "min";
  node.compute_in_i64(translate, compares ? Keeps::kOrder : Keeps::kSums);
}

}  // namespace

std::span<const Translator> scatter_translators() {
  static constexpr Translator kTable[] = {
      {"Scatter", 9, 27, exact<scatter_elements>},
      {"ScatterElements", 11, 27, exact<scatter_elements>},
      {"ScatterND", 11, 27, exact<scatter_nd>},
      {"TensorScatter", 24, 27, tensor_scatter},
  };
  return kTable;
}

}  // namespace rannc::frontend
