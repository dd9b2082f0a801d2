/// Translates ONNX operators that index or count.
#include "frontend/onnx/internal/translate/flat_index.h"
#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Replaces a gather from flattened first axes by a gather_nd with positions in these axes.
void gather_places(Node& node, const Places& places, const ir::Shape& to) {
  ir::Shape wide = *node.type(node.in(1)).shape;
  const auto last = static_cast<int64_t>(wide.size());
  std::vector<ValueId> columns;
  for (const ValueId place : places.each) {
    const ValueId spread = node.emit("expand", {place}, {{"shape", wide}});
    columns.push_back(node.emit("unsqueeze", {spread}, {{"axes", ir::Shape{last}}}));
  }
  const ValueId indices = node.emit("concat", columns, {{"axis", ir::Dim(last)}});
  const ValueId picked = node.emit("gather_nd", {places.x, indices}, {{"batch_dims", ir::Dim(0)}});
  node.result("reshape", {picked}, {{"shape", to}});
}

void gather(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  const ir::Shape* const by = node.shape(node.in(1));
  if (!from || !by) return;
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(from->size()));
  ir::Attributes attributes = {{"axis", ir::Dim(axis)}};
  if (axis == 0 && node.good()) {
    if (const auto places = places_in_samples(node, x, node.in(1))) {
      ir::Shape to = *by;
      to.insert(to.end(), from->begin() + 1, from->end());
      return gather_places(node, *places, to);
    }
    if (const auto row = node.traced_padding_index(*from)) attributes.set("padding_index", ir::Dim(*row));
  }
  node.result("gather", {x, node.in(1)}, std::move(attributes));
}

void gather_nd(Node& node) {
  node.result("gather_nd", {node.in(0), node.in(1)}, {{"batch_dims", ir::Dim(node.integer("batch_dims", 0))}});
}

/// For operands of rank 1 it is Gather.
void gather_elements(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  if (from->size() == 1 && node.type(x).batch.has_batch()) {
    return gather(node);
  }
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(from->size()));
  node.result("gather_elements", {x, node.in(1)}, {{"axis", ir::Dim(axis)}});
}

/// The length of the result must follow from sizes and constants.
void range(Node& node) {
  const ir::DType dtype = node.dtype(node.in(0));
  ir::Attributes attributes;
  constexpr std::string_view kNames[] = {"start", "limit", "delta"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const ValueId value = node.in(i);
    if (auto bound = node.bound(value)) {
      attributes.set(kNames[i], *std::move(bound));
    } else {
      return node.fail("Range: '" + std::string(node.name(value)) + "', its " + std::string(kNames[i]) +
                       ", must follow from constants and sizes: the size of the result depends on it");
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

ValueId number_of(Node& node, const ir::Dim& size) {
  return node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", size}, {"dtype", ir::DType::kI64}});
}

/// Returns the depth of OneHot, which is a number or a size.
std::optional<ir::Dim> depth_of(Node& node, ValueId depth) {
  if (const auto known = node.contents(depth); known && known->size() == 1) return known->front();
  const auto number = node.number(depth);
  if (number && *number >= 1) return ir::Dim(whole(*number));
  node.fail(number ? "OneHot: the depth must be at least 1"
                   : "OneHot: '" + std::string(node.name(depth)) +
                         "' must be known before the model runs: the size of the result depends on it");
  return std::nullopt;
}

/// values = [off, on]. Negative indices count from the end. Indices out of range set no element.
void one_hot(Node& node) {
  const ValueId indices = node.in(0), values = node.in(2);
  const auto size = depth_of(node, node.in(1));
  const ir::Shape* const from = node.shape(indices);
  if (!from || !size) return;
  const auto rank = static_cast<int64_t>(from->size());
  const int64_t axis = node.axis(node.integer("axis", -1), rank + 1);
  ir::Shape positions(static_cast<size_t>(rank - axis + 1), ir::Dim(1));
  positions[0] = *size;
  const ValueId wide = node.emit("cast", {indices}, {{"dtype", ir::DType::kI64}});
  const ValueId negative = node.emit("lt", {wide, node.scalar(0, ir::DType::kI64)});
  const ValueId shifted = node.emit("add", {wide, number_of(node, *size)});
  const ValueId index = node.emit("where", {negative, shifted, wide});
  const ValueId column = node.emit("unsqueeze", {index}, {{"axes", ir::Shape{axis}}});
  const ValueId counted = node.emit(
      "range", {}, {{"start", ir::Dim(0)}, {"limit", *size}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
  const ValueId hot = node.emit("eq", {column, node.emit("reshape", {counted}, {{"shape", positions}})});
  const auto element = [&](int64_t at) {
    const ValueId one =
        node.emit("slice", {values}, {{"starts", ir::Shape{at}}, {"ends", ir::Shape{at + 1}}, {"axes", ir::Shape{0}}});
    return node.emit("reshape", {one}, {{"shape", ir::Shape{}}});
  };
  const ValueId off = element(0), on = element(1);
  const ir::DType dtype = node.dtype(values);
  if (!is_wide_unsigned(dtype)) return node.result("where", {hot, on, off});
  const ValueId made = node.emit("where", {hot, node.cast(on, ir::DType::kI64), node.cast(off, ir::DType::kI64)});
  node.result("cast", {made}, {{"dtype", dtype}});
}

/// Ones on a diagonal of a matrix with x's shape.
void eye_like(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const known = node.shape(x);
  if (!known) return;
  if (known->size() != 2) return node.fail("EyeLike needs rank 2, found " + ir::str(*known));
  if (node.type(x).batch.has_batch())
    return node.fail("EyeLike of " + ir::str(*known) + " depends on the numbers of its samples");
  const auto dtype = node.has_attribute("dtype") ? element_type(static_cast<int>(node.integer("dtype", 0)))
                                                 : std::optional(node.dtype(x));
  if (!dtype) return node.fail("EyeLike: the element type is not supported");
  const ir::Shape sizes = *known;
  const auto counted = [&](size_t axis, int64_t first) {
    return node.emit("range", {},
                     {{"start", ir::Dim(first)},
                      {"limit", sizes[axis] + ir::Dim(first)},
                      {"delta", ir::Dim(1)},
                      {"dtype", ir::DType::kI64}});
  };
  const ValueId rows = node.emit("unsqueeze", {counted(0, node.integer("k", 0))}, {{"axes", ir::Shape{1}}});
  node.result("cast", {node.emit("eq", {counted(1, 0), rows})}, {{"dtype", *dtype}});
}

/// Cumulative product by a triangular mask. Needs n² elements for an axis of extent n.
void cumprod(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const known = node.shape(x);
  const auto given = node.integers(node.in(1));
  if (!known) return;
  if (!given || given->size() != 1) return node.fail("CumProd needs an axis that is known before the model runs");
  const auto rank = static_cast<int64_t>(known->size());
  const int64_t axis = node.axis(given->front(), rank);
  if (!node.good()) return;
  const bool exclusive = node.integer("exclusive", 0) != 0, reverse = node.integer("reverse", 0) != 0;
  const ValueId places = node.emit("range", {},
                                   {{"start", ir::Dim(0)},
                                    {"limit", (*known)[static_cast<size_t>(axis)]},
                                    {"delta", ir::Dim(1)},
                                    {"dtype", ir::DType::kI64}});
  const ValueId rows = node.emit("unsqueeze", {places}, {{"axes", ir::Shape{1}}});
  const ValueId taken = node.emit(reverse ? (exclusive ? "gt" : "ge") : (exclusive ? "lt" : "le"), {places, rows});
  ir::Shape after;
  for (int64_t i = axis + 1; i < rank; ++i) after.emplace_back(i - axis + 1);
  const ValueId triangle = after.empty() ? taken : node.emit("unsqueeze", {taken}, {{"axes", after}});
  const ValueId each = node.emit("unsqueeze", {x}, {{"axes", ir::Shape{axis}}});
  const ValueId factors = node.emit("where", {triangle, each, node.scalar(1, node.dtype(x))});
  node.result("prod", {factors}, {{"axes", ir::Shape{axis + 1}}, {"keepdim", false}});
}

/// Reverses the first `lens` elements of each sequence.
void reverse_sequence(Node& node) {
  ValueId x = node.in(0);
  const ir::Shape* const known = node.shape(x);
  if (!known) return;
  const auto rank = static_cast<int64_t>(known->size());
  const int64_t batch = node.axis(node.integer("batch_axis", 1), rank),
                time = node.axis(node.integer("time_axis", 0), rank);
  if (!node.good()) return;
  if (batch + time != 1) return node.fail("ReverseSequence: batch_axis and time_axis must be 0 and 1, in any order");
  const ir::Dim steps = (*known)[static_cast<size_t>(time)];
  ir::Shape swapped = {1, 0};
  for (int64_t i = 2; i < rank; ++i) swapped.emplace_back(i);
  if (time == 0) x = node.emit("permute", {x}, {{"dims", swapped}});
  const ValueId lens = node.emit("cast", {node.in(1)}, {{"dtype", ir::DType::kI64}});
  const ValueId length = node.emit("unsqueeze", {lens}, {{"axes", ir::Shape{1}}});
  const ValueId place = node.emit(
      "range", {}, {{"start", ir::Dim(0)}, {"limit", steps}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
  const ValueId last = node.emit("sub", {length, node.scalar(1, ir::DType::kI64)});
  const ValueId turned = node.emit("sub", {last, place});
  const ValueId from = node.emit("where", {node.emit("lt", {place, length}), turned, place});
  const ValueId tuples = node.emit("unsqueeze", {from}, {{"axes", ir::Shape{2}}});
  if (time == 1) return node.result("gather_nd", {x, tuples}, {{"batch_dims", ir::Dim(1)}});
  const ValueId made = node.emit("gather_nd", {x, tuples}, {{"batch_dims", ir::Dim(1)}});
  node.result("permute", {made}, {{"dims", swapped}});
}

/// Selects elements, or slices along an axis, by a condition that must be known.
void compress(Node& node) {
  ValueId x = node.in(0);
  const ir::Shape* const known = node.shape(x);
  const auto condition = node.elements(node.in(1));
  if (!known) return;
  if (!condition) {
    return node.fail("Compress: '" + std::string(node.name(node.in(1))) +
                     "' must be known before the model runs: the size of the result depends on it");
  }
  int64_t axis = 0;
  if (node.has_attribute("axis")) {
    axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(known->size()));
  } else {
    x = node.emit("reshape", {x}, {{"shape", ir::Shape{ir::element_count(*known)}}});
  }
  std::vector<int64_t> places;
  for (size_t i = 0; i < condition->size(); ++i) {
    if ((*condition)[i] != 0) places.push_back(static_cast<int64_t>(i));
  }
  const ValueId indices = node.table("constant", ir::DType::kI64, {static_cast<int64_t>(places.size())}, places);
  node.result("gather", {x, indices}, {{"axis", ir::Dim(axis)}});
}

}  // namespace

std::span<const Translator> index_translators() {
  static constexpr Translator kTable[] = {
      {"Compress", 9, 27, in_i64<compress>},
      {"CumProd", 26, 27, cumprod},
      {"CumSum", 11, 27, in_i64<cumsum>},
      {"EyeLike", 9, 27, eye_like},
      {"Gather", 7, 27, in_i64<gather>},
      {"GatherElements", 11, 27, in_i64<gather_elements>},
      {"GatherND", 11, 27, in_i64<gather_nd>},
      {"OneHot", 9, 27, one_hot},
      {"Range", 11, 27, range},
      {"ReverseSequence", 10, 27, in_i64<reverse_sequence>},
      {"Trilu", 14, 27, in_i64<trilu>},
  };
  return kTable;
}

}  // namespace rannc::frontend
