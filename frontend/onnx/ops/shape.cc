/// Translates ONNX operators that rearrange elements or read sizes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "frontend/recipes/bags.h"
#include "ir/dim/dim_bounds.h"

namespace rannc::frontend {

namespace {

/// Receives a list operand of a node: as an attribute if it is known, else as an operand.
struct ListOperand {
  ir::Attributes& attributes;
  std::vector<ValueId>& operands;
};
void add_list(Node& node, size_t index, std::string_view name, ListOperand to) {
  const ValueId value = node.optional(index);
  const auto known = node.contents(value);
  if (known) to.attributes.set(name, *known);
  to.operands.push_back(known ? ValueId() : value);
}

void drop_absent_tail(std::vector<ValueId>& operands) {
  while (!operands.empty() && !operands.back().valid()) operands.pop_back();
}

/// A 0 in the target keeps the extent of the operand, unless `allowzero`.
void reshape(Node& node) {
  const ValueId x = node.in(0), target = node.in(1);
  auto shape = node.contents(target);
  if (!shape) return node.result("reshape", {x, target});
  if (node.integer("allowzero", 0) == 0) {
    for (size_t i = 0; i < shape->size(); ++i) {
      if (!((*shape)[i] == ir::Dim(0))) continue;
      const ir::Shape* const from = node.shape(x);
      if (!from) return;
      if (i >= from->size())
        return node.fail("Reshape: 0 at position " + std::to_string(i) + " has no axis of the operand to keep");
      (*shape)[i] = (*from)[i];
    }
  }
  node.result("reshape", {x}, {{"shape", *shape}});
}

void flatten(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", 1), static_cast<int64_t>(from->size()), true);
  const ir::Shape before(from->begin(), from->begin() + axis), after(from->begin() + axis, from->end());
  node.result("reshape", {x}, {{"shape", ir::Shape{ir::element_count(before), ir::element_count(after)}}});
}

void transpose(Node& node) {
  const ValueId x = node.in(0);
  std::vector<int64_t> order = node.integers("perm");
  if (!node.has_attribute("perm")) {
    const ir::Shape* const from = node.shape(x);
    if (!from) return;
    order.resize(from->size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  node.result("permute", {x}, {{"dims", list(order)}});
}

void expand(Node& node) {
  ir::Attributes attributes;
  std::vector<ValueId> operands = {node.in(0)};
  add_list(node, 1, "shape", {attributes, operands});
  drop_absent_tail(operands);
  node.result("expand", operands, std::move(attributes));
}

void tile(Node& node) {
  ir::Attributes attributes;
  std::vector<ValueId> operands = {node.in(0)};
  add_list(node, 1, "repeats", {attributes, operands});
  drop_absent_tail(operands);
  node.result("tile", operands, std::move(attributes));
}

/// If the node appends the next number to a range, as in offsets of embedding bags with their end, emits one longer
/// range and returns true.
bool longer_range(Node& node, const std::vector<ValueId>& operands) {
  if (operands.size() != 2) return false;
  const auto front = progression(node, operands[0]);
  const auto next = node.contents(operands[1]);
  const ir::Shape* const shape = node.shape(operands[1]);
  if (!front || !front->step || !next || next->size() != 1 || !shape || shape->size() != 1) return false;
  if (ir::certainly_equal(front->first + front->count * *front->step, next->front()) != true) return false;
  const ir::Dim limit = next->front() + *front->step;
  node.result("range", {},
              {{"start", front->first}, {"limit", limit}, {"delta", *front->step}, {"dtype", node.dtype(operands[0])}});
  return true;
}

void concat(Node& node) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.input_count(); ++i) operands.push_back(node.in(i));
  const ir::Shape* const first = node.shape(node.in(0));
  if (!first) return;
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(first->size()));
  const auto counts_samples = [&](ValueId value) {
    return ir::is_integer(node.dtype(value)) && node.type(value).batch.axis == 0;
  };
  if (first->size() == 1 && std::any_of(operands.begin(), operands.end(), counts_samples)) {
    if (longer_range(node, operands)) return;
    return node.fail(
        "Concat of one number per sample with other numbers mixes the samples of a micro-batch; if they are offsets of "
        "an EmbeddingBag, use an Embedding and a reduction over the axis of the bag instead");
  }
  node.result("concat", operands, {{"axis", ir::Dim(axis)}});
}

/// Splits the list of experts that are hit into one part each. Returns false for any other value.
bool split_rows_hit(Node& node, int64_t axis, const ir::Shape& sizes) {
  const ir::Shape shape = *node.shape(node.in(0));
  const auto is_one = [](const ir::Dim& size) { return size == ir::Dim(1); };
  if (!std::all_of(sizes.begin(), sizes.end(), is_one) || ir::element_count(shape) != shape[axis]) return false;
  const auto rows = node.rows_hit(node.in(0));
  if (!rows) return false;
  if (rows->size() != sizes.size()) {
    node.fail(fmt::format("the exporter recorded {} of {} experts: export with inputs by which every expert is chosen",
                          sizes.size(), rows->size()));
  }
  for (size_t i = 0; i < sizes.size() && node.good(); ++i)
    node.result_at(i, node.emit("reshape", {(*rows)[i]}, {{"shape", ir::Shape(shape.size(), 1)}}));
  return true;
}

/// Sizes are an attribute before opset 13, an operand since. Without them, parts are equal.
void split(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(from->size()));
  if (!node.good()) return;
  std::optional<ir::Shape> sizes;
  if (node.opset() >= 13 && node.has(1)) {
    sizes = node.contents(node.in(1));
    if (!sizes) return node.fail("Split needs sizes that are known before the model runs");
  } else if (node.opset() < 13 && node.has_attribute("split")) {
    sizes = list(node.integers("split"));
  } else {
    const auto parts = static_cast<int64_t>(node.output_count());
    const ir::Dim part = floor_div((*from)[axis] + ir::Dim(parts - 1), ir::Dim(parts));
    sizes.emplace(node.output_count(), part);
    sizes->back() = (*from)[axis] - part * ir::Dim(parts - 1);
  }
  if (sizes->size() != node.output_count()) return node.fail("Split needs one size for each output");
  if (split_rows_hit(node, axis, *sizes)) return;
  node.results("split", {x}, {{"axis", ir::Dim(axis)}, {"sizes", *sizes}});
}

void normalize_axes(Node& node, ir::Attributes& attributes, int64_t rank) {
  std::vector<int64_t> axes;
  for (const ir::Dim& axis : *attributes.list("axes")) {
    if (!axis.is_constant()) return node.fail("Slice: axes must be plain integers");
    axes.push_back(node.axis(axis.constant(), rank));
  }
  attributes.set("axes", list(axes));
}

/// Bounds are attributes before opset 10, operands (starts, ends, axes, steps) since.
void slice(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const auto rank = static_cast<int64_t>(from->size());
  ir::Attributes attributes;
  std::vector<ValueId> operands = {x};
  if (node.opset() < 10) {
    attributes.set("starts", list(node.integers("starts")));
    attributes.set("ends", list(node.integers("ends")));
    if (node.has_attribute("axes")) attributes.set("axes", list(node.integers("axes")));
  } else {
    constexpr std::string_view kNames[] = {"starts", "ends", "axes", "steps"};
    for (size_t i = 0; i < std::size(kNames); ++i) add_list(node, i + 1, kNames[i], {attributes, operands});
    drop_absent_tail(operands);
  }
  if (attributes.list("axes")) {
    normalize_axes(node, attributes, rank);
  } else if (operands.size() < 4 && attributes.list("starts")) {
    std::vector<int64_t> axes(attributes.list("starts")->size());
    std::iota(axes.begin(), axes.end(), 0);
    attributes.set("axes", list(axes));
  }
  node.result("slice", operands, std::move(attributes));
}

void unsqueeze(Node& node) {
  const ValueId x = node.in(0);
  const auto axes = node.axes(1, 13);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  if (!axes) return node.fail("Unsqueeze needs axes");
  std::vector<int64_t> normal;
  for (const int64_t axis : *axes) normal.push_back(node.axis(axis, static_cast<int64_t>(from->size() + axes->size())));
  std::sort(normal.begin(), normal.end());
  node.result("unsqueeze", {x}, {{"axes", list(normal)}});
}

/// Without axes, drops every axis of extent 1.
void squeeze(Node& node) {
  const ValueId x = node.in(0);
  const auto axes = node.axes(1, 13);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  std::vector<int64_t> normal;
  if (axes) {
    for (const int64_t axis : *axes) normal.push_back(node.axis(axis, static_cast<int64_t>(from->size())));
  } else {
    for (size_t i = 0; i < from->size(); ++i) {
      if (node.is_squeezed((*from)[i])) normal.push_back(static_cast<int64_t>(i));
    }
  }
  std::sort(normal.begin(), normal.end());
  node.result("squeeze", {x}, {{"axes", list(normal)}});
}

/// `start` and `end` exist since opset 15 and are clamped to the rank.
void shape(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const auto rank = static_cast<int64_t>(from->size());
  const auto clamped = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank); };
  ir::Attributes attributes;
  if (node.has_attribute("start")) attributes.set("start", ir::Dim(clamped(node.integer("start", 0))));
  if (node.has_attribute("end")) attributes.set("end", ir::Dim(clamped(node.integer("end", rank))));
  node.result("shape", {x}, std::move(attributes));
}

void size(Node& node) {
  const ValueId sizes = node.emit("shape", {node.in(0)});
  node.result("prod", {sizes}, {{"axes", ir::Shape{0}}, {"keepdim", false}});
}

/// Moves blocks of b x b channels of [N, C, H, W] into space.
void depth_to_space(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  const ir::Dim b = node.integer("blocksize", 0);
  if (!from) return;
  if (from->size() != 4 || b.constant() < 1) return node.fail("DepthToSpace needs rank 4 and a positive block size");
  const ir::Shape s = *from;
  const ir::Dim depth = floor_div(s[1], b * b);
  const bool crd = node.text("mode", "DCR") == "CRD";
  const ir::Shape parts = crd ? ir::Shape{s[0], depth, b, b, s[2], s[3]} : ir::Shape{s[0], b, b, depth, s[2], s[3]};
  const std::vector<int64_t> order =
      crd ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2};
  const ValueId split = node.emit("reshape", {x}, {{"shape", parts}});
  const ValueId moved = node.emit("permute", {split}, {{"dims", list(order)}});
  node.result("reshape", {moved}, {{"shape", ir::Shape{s[0], depth, s[2] * b, s[3] * b}}});
}

void space_to_depth(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  const ir::Dim b = node.integer("blocksize", 0);
  if (!from) return;
  if (from->size() != 4 || b.constant() < 1) return node.fail("SpaceToDepth needs rank 4 and a positive block size");
  const ir::Shape s = *from;
  const ir::Dim h = floor_div(s[2], b), w = floor_div(s[3], b);
  const ValueId split = node.emit("reshape", {x}, {{"shape", ir::Shape{s[0], s[1], h, b, w, b}}});
  const ValueId moved = node.emit("permute", {split}, {{"dims", ir::Shape{0, 3, 5, 1, 2, 4}}});
  node.result("reshape", {moved}, {{"shape", ir::Shape{s[0], s[1] * b * b, h, w}}});
}

}  // namespace

std::span<const Translator> shape_translators() {
  static constexpr Translator kTable[] = {
      {"Concat", 7, 27, concat},
      {"DepthToSpace", 7, 27, depth_to_space},
      {"Expand", 8, 27, expand},
      {"Flatten", 7, 27, flatten},
      {"Reshape", 7, 27, reshape},
      {"Shape", 7, 27, shape},
      {"Size", 7, 27, size},
      {"Slice", 7, 27, slice},
      {"SpaceToDepth", 7, 27, space_to_depth},
      {"Split", 7, 27, split},
      {"Squeeze", 7, 27, squeeze},
      {"Tile", 7, 27, tile},
      {"Transpose", 7, 27, transpose},
      {"Unsqueeze", 7, 27, unsqueeze},
  };
  return kTable;
}

}  // namespace rannc::frontend
