/// Translates ONNX operators that index or count.
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"

namespace rannc::frontend {

namespace {

void gather(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(from->size()));
  node.result("gather", {x, node.in(1)}, {{"axis", ir::Dim(axis)}});
}

void gather_nd(Node& node) {
  node.result("gather_nd", {node.in(0), node.in(1)}, {{"batch_dims", ir::Dim(node.integer("batch_dims", 0))}});
}

void gather_elements(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(from->size()));
  node.result("gather_elements", {x, node.in(1)}, {{"axis", ir::Dim(axis)}});
}

/// The length must follow from sizes and constants.
void range(Node& node) {
  const ir::DType dtype = node.dtype(node.in(0));
  ir::Attributes attributes;
  constexpr std::string_view kNames[] = {"start", "limit", "delta"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const ValueId value = node.in(i);
    if (const auto known = node.contents(value); known && known->size() == 1) {
      attributes.set(kNames[i], known->front());
    } else if (const auto number = node.number(value)) {
      attributes.set(kNames[i], *number);
    } else {
      return node.fail("Range needs bounds that are known before the model runs");
    }
  }
  attributes.set("dtype", dtype);
  node.result("range", {}, std::move(attributes));
}

void cumsum(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  const auto axis = node.integers(node.in(1));
  if (!from) return;
  if (!axis || axis->size() != 1) return node.fail("CumSum needs an axis that is known before the model runs");
  const int64_t normal = node.axis(axis->front(), static_cast<int64_t>(from->size()));
  node.result("cumsum", {x},
              {{"axis", ir::Dim(normal)},
               {"exclusive", node.integer("exclusive", 0) != 0},
               {"reverse", node.integer("reverse", 0) != 0}});
}

void trilu(Node& node) {
  const auto diagonal = node.has(1) ? node.integers(node.in(1)) : std::vector<int64_t>{0};
  if (!diagonal || diagonal->size() != 1)
    return node.fail("Trilu needs a diagonal that is known before the model runs");
  node.result("trilu", {node.in(0)},
              {{"upper", node.integer("upper", 1) != 0}, {"diagonal", ir::Dim(diagonal->front())}});
}

/// values = [off, on]; indices count from the end where negative, those outside are hot nowhere.
void one_hot(Node& node) {
  const ValueId indices = node.in(0), values = node.in(2);
  const auto depth = node.number(node.in(1));
  const ir::Shape* const from = node.shape(indices);
  if (!from) return;
  if (!depth || *depth < 1) return node.fail("OneHot needs a depth that is known before the model runs");
  const ir::Dim size = static_cast<int64_t>(*depth);
  const auto rank = static_cast<int64_t>(from->size());
  const int64_t axis = node.axis(node.integer("axis", -1), rank + 1);
  ir::Shape positions(static_cast<size_t>(rank - axis + 1), ir::Dim(1));
  positions[0] = size;
  const ValueId wide = node.emit("cast", {indices}, {{"dtype", ir::DType::kI64}});
  const ValueId negative = node.emit("lt", {wide, node.scalar(0, ir::DType::kI64)});
  const ValueId shifted = node.emit("add", {wide, node.scalar(*depth, ir::DType::kI64)});
  const ValueId index = node.emit("where", {negative, shifted, wide});
  const ValueId column = node.emit("unsqueeze", {index}, {{"axes", ir::Shape{axis}}});
  const ValueId counted = node.emit(
      "range", {}, {{"start", ir::Dim(0)}, {"limit", size}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
  const ValueId hot = node.emit("eq", {column, node.emit("reshape", {counted}, {{"shape", positions}})});
  const auto element = [&](int64_t at) {
    const ValueId one =
        node.emit("slice", {values}, {{"starts", ir::Shape{at}}, {"ends", ir::Shape{at + 1}}, {"axes", ir::Shape{0}}});
    return node.emit("reshape", {one}, {{"shape", ir::Shape{}}});
  };
  const ValueId off = element(0), on = element(1);
  node.result("where", {hot, on, off});
}

constexpr Translator kTable[] = {
    {"CumSum", 11, 27, cumsum},      {"Gather", 7, 27, gather},  {"GatherElements", 11, 27, gather_elements},
    {"GatherND", 11, 27, gather_nd}, {"OneHot", 9, 27, one_hot}, {"Range", 11, 27, range},
    {"Trilu", 14, 27, trilu},
};

}  // namespace

std::span<const Translator> index_translators() { return kTable; }

}  // namespace rannc::frontend
