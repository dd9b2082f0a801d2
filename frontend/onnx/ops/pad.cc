/// Translates ONNX's Pad.
#include <algorithm>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Returns the pads as in the node: an attribute before opset 11, an operand since. Numbers or sizes.
std::optional<ir::Shape> given_amounts(Node& node) {
  if (node.opset() < 11) return list(node.integers("pads"));
  auto known = node.contents(node.in(1));
  if (!known) {
    node.fail("Pad: '" + std::string(node.name(node.in(1))) +
              "' must follow from constants and sizes: the size of the result depends on it");
  }
  return known;
}

/// Returns the pads before each axis, then after each. Since opset 18 a node may list the padded axes.
std::optional<ir::Shape> amounts(Node& node, int64_t rank) {
  const auto given = given_amounts(node);
  const auto axes = node.opset() >= 18 ? node.axes(3, 18) : std::nullopt;
  if (!given || !node.good()) return std::nullopt;
  const size_t count = axes ? axes->size() : static_cast<size_t>(rank);
  if (given->size() != 2 * count) {
    node.fail("Pad: " + ir::str(*given) + " must have two amounts for each of " + std::to_string(count) + " axes");
    return std::nullopt;
  }
  if (!axes) return given;
  ir::Shape all(static_cast<size_t>(2 * rank), ir::Dim(0));
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = node.axis((*axes)[i], rank);
    if (!node.good()) return std::nullopt;
    all[static_cast<size_t>(axis)] = (*given)[i];
    all[static_cast<size_t>(axis + rank)] = (*given)[i + count];
  }
  return all;
}

/// Slices axes with negative pads and sets these pads to 0. Comes first, because other modes copy from the rest.
ValueId cut(Node& node, ValueId x, ir::Shape& pads) {
  const ir::Shape from = *node.shape(x);
  ir::Shape axes, starts, ends;
  for (size_t i = 0; i < from.size(); ++i) {
    ir::Dim &before = pads[i], &after = pads[i + from.size()];
    const auto negative = [](const ir::Dim& amount) { return amount.is_constant() && amount.constant() < 0; };
    if (!negative(before) && !negative(after)) continue;
    axes.emplace_back(static_cast<int64_t>(i));
    starts.push_back(negative(before) ? ir::Dim(0) - before : ir::Dim(0));
    ends.push_back(negative(after) ? from[i] + after : from[i]);
    if (negative(before)) before = 0;
    if (negative(after)) after = 0;
  }
  if (axes.empty()) return x;
  return node.emit("slice", {x}, {{"axes", axes}, {"starts", starts}, {"ends", ends}});
}

/// Pads by a value that is computed at runtime, with a mask that has the same pads.
void pad_with_computed(Node& node, ValueId x, const ir::Shape& pads, ValueId value) {
  if (!node.good()) return;
  const ir::Shape from = *node.shape(x);
  ir::Shape inside;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool padded = !(pads[i] == ir::Dim(0)) || !(pads[i + from.size()] == ir::Dim(0));
    inside.push_back(padded ? from[i] : ir::Dim(1));
  }
  const ValueId ones = node.emit("full", {}, {{"shape", inside}, {"value", true}, {"dtype", ir::DType::kBool}});
  const ValueId mask = node.emit("pad", {ones}, {{"pads", pads}, {"value", false}});
  const ValueId padded = node.emit("pad", {x}, {{"pads", pads}, {"value", 0.0}});
  const ValueId filler = node.emit("reshape", {value}, {{"shape", ir::Shape{}}});
  node.result("where", {mask, padded, filler});
}

// --- copies of elements by their places: what LibTorch's kernels do not support

/// Whether LibTorch pads such elements by `mode`. Its kernels copy floats, and wrap around once.
bool is_direct(Node& node, ValueId x, const ir::Shape& pads, const std::string& mode) {
  if (!ir::is_float(node.dtype(x))) return false;
  const ir::Shape& from = *node.shape(x);
  const auto wraps_once = [&](size_t i) {
    const ir::Dim &amount = pads[i], &extent = from[i % from.size()];
    return !amount.is_constant() || !extent.is_constant() || amount.constant() <= extent.constant();
  };
  for (size_t i = 0; i < pads.size(); ++i) {
    if (mode == "wrap" && !wraps_once(i)) return false;
  }
  return true;
}

/// Place in an axis of `extent` elements that `mode` copies to place `at`, which may lie outside.
int64_t copied_place(const std::string& mode, int64_t at, int64_t extent) {
  if (mode == "edge") return std::clamp<int64_t>(at, 0, extent - 1);
  if (mode == "wrap") return (at % extent + extent) % extent;
  return at < 0 ? -at : at < extent ? at : 2 * (extent - 1) - at;
}

/// Whether an axis can be padded by a table of places. core.pad reports mirrors that are too long.
bool has_places(const ir::Dim& extent, const ir::Dim& before, const ir::Dim& after, const std::string& mode) {
  if (!extent.is_constant() || !before.is_constant() || !after.is_constant() || extent.constant() < 1) return false;
  return mode != "reflect" || std::max(before.constant(), after.constant()) < extent.constant();
}

void pad_by_places(Node& node, ValueId x, const ir::Shape& pads, const std::string& mode) {
  const ir::Shape from = *node.shape(x);
  for (size_t i = 0; i < from.size(); ++i) {
    const ir::Dim &before = pads[i], &after = pads[i + from.size()];
    if (before == ir::Dim(0) && after == ir::Dim(0)) continue;
    if (!has_places(from[i], before, after, mode)) {
      return node.fail("Pad of " + std::string(ir::str(node.dtype(x))) + " in mode '" + mode + "' over axis " +
                       std::to_string(i) + " of " + ir::str(from) + " by " + before.str() + " and " + after.str() +
                       " needs known sizes" + (mode == "reflect" ? ", and amounts below them" : ""));
    }
    const int64_t extent = from[i].constant();
    const auto count = static_cast<uint64_t>(extent + before.constant() + after.constant());
    if (!node.has_room_for_table(count)) return;
    std::vector<int64_t> places(count);
    for (size_t at = 0; at < count; ++at)
      places[at] = copied_place(mode, static_cast<int64_t>(at) - before.constant(), extent);
    const ValueId table = node.table("places", ir::DType::kI64, {static_cast<int64_t>(count)}, places);
    x = node.emit("gather", {x, table}, {{"axis", ir::Dim(static_cast<int64_t>(i))}});
    if (!node.good()) return;
  }
  node.result_at(0, x);
}

void pad(Node& node) {
  ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  auto pads = amounts(node, static_cast<int64_t>(from->size()));
  if (!pads) return;
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant") {
    x = cut(node, x, *pads);
    if (node.good() && !is_direct(node, x, *pads, mode)) return pad_by_places(node, x, *pads, mode);
    return node.result("pad", {x}, {{"pads", *pads}, {"mode", mode}});
  }
  const bool has_value = node.opset() >= 11 && node.has(2);
  const auto given =
      has_value ? node.exact_number(node.in(2)) : std::optional<ir::Attribute>(node.number("value", 0.0));
  if (!given) return pad_with_computed(node, x, *pads, node.in(2));
  node.result("pad", {x}, {{"pads", *pads}, {"value", *given}, {"mode", mode}});
}

}  // namespace

std::span<const Translator> pad_translators() {
  static constexpr Translator kTable[] = {
      {"Pad", 7, 27, in_i64<pad>},
  };
  return kTable;
}

}  // namespace rannc::frontend
