/// Translates ONNX reductions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/rows.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "frontend/recipes/log_sum_exp.h"
#include "frontend/recipes/roots.h"

namespace rannc::frontend {

namespace {

/// Returns axes and `keepdim` of a reduction; nullopt for a no-op or a failure. Axes are an operand from opset `since`.
std::optional<ir::Attributes> reduction(Node& node, int since) {
  const auto axes = node.axes(1, since);
  const ir::Shape* const from = node.shape(node.in(0));
  if (!from) return std::nullopt;
  const auto rank = static_cast<int64_t>(from->size());
  std::vector<int64_t> normal;
  for (const int64_t axis : axes.value_or(std::vector<int64_t>{})) normal.push_back(node.axis(axis, rank));
  if (normal.empty()) {
    if (node.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
    normal.resize(from->size());
    std::iota(normal.begin(), normal.end(), 0);
  }
  if (!node.good()) return std::nullopt;
  std::sort(normal.begin(), normal.end());
  return ir::Attributes{{"axes", list(normal)}, {"keepdim", node.integer("keepdims", 1) != 0}};
}

template <const char* name, int since>
void reduce(Node& node) {
  if (auto attributes = reduction(node, since)) return node.result(name, {node.in(0)}, *std::move(attributes));
  node.result("identity", {node.in(0)});
}

/// Returns the result's shape of a reduction over an empty axis; nullopt for any other reduction.
std::optional<ir::Shape> shape_of_nothing(Node& node, const ir::Attributes& reduction) {
  const ir::Shape* const from = node.shape(node.in(0));
  const std::vector<int64_t> axes = reduction.integers("axes");
  if (!from || std::none_of(axes.begin(), axes.end(),
                            [&](int64_t axis) { return (*from)[static_cast<size_t>(axis)] == ir::Dim(0); })) {
    return std::nullopt;
  }
  ir::Shape to;
  for (size_t i = 0; i < from->size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!reduced) to.push_back((*from)[i]);
    if (reduced && reduction.flag("keepdim")) to.emplace_back(1);
  }
  return to;
}

/// Returns the lowest or highest number of an integer type.
int64_t bound(ir::DType dtype, bool lowest) {
  const int bits = 8 * static_cast<int>(ir::byte_size(dtype));
  const bool is_unsigned = dtype == ir::DType::kU8 || dtype == ir::DType::kU16 || dtype == ir::DType::kU32;
  if (is_unsigned) return lowest ? 0 : (int64_t{1} << bits) - 1;
  const int64_t highest = INT64_MAX >> (64 - bits);
  return lowest ? -highest - 1 : highest;
}

/// ONNX does not define the gradient of equal extremes; amax distributes it over them. If the exported program selected
/// the first one, only that one has a gradient: then emits the result and returns true.
bool picked(Node& node, ValueId x, const ir::Attributes& reduction, bool smallest) {
  const std::vector<int64_t> axes = reduction.integers("axes");
  if (axes.size() != 1 || !ir::is_float(node.dtype(x)) || !node.traced_pick()) return false;
  const ir::Attributes axis = {{"axis", ir::Dim(axes[0])}};
  const ValueId ranked = smallest ? node.emit("neg", {x}) : x;
  const ValueId place = node.emit("argmax", {ranked}, {{"axis", ir::Dim(axes[0])}, {"keepdim", true}});
  if (reduction.flag("keepdim")) {
    node.result("gather_elements", {x, place}, axis);
  } else {
    node.result("squeeze", {node.emit("gather_elements", {x, place}, axis)}, {{"axes", list(axes)}});
  }
  return true;
}

/// The largest or smallest element. Over no elements, the lowest or highest number of the type. Compares bools as
/// numbers, because ATen only compares numbers.
template <const char* name, bool largest>
void extreme(Node& node) {
  const ValueId x = node.in(0);
  const auto attributes = reduction(node, 18);
  if (!attributes) return node.result("identity", {x});
  const ir::DType dtype = node.dtype(x);
  const bool is_bool = dtype == ir::DType::kBool;
  if (const auto nothing = shape_of_nothing(node, *attributes)) {
    const ir::Attribute value = is_bool               ? ir::Attribute(!largest)
                                : ir::is_float(dtype) ? ir::Attribute(largest ? -HUGE_VAL : HUGE_VAL)
                                                      : ir::Attribute(ir::Dim(bound(dtype, largest)));
    return node.result("full", {}, {{"shape", *nothing}, {"value", value}, {"dtype", dtype}});
  }
  if (picked(node, x, *attributes, !largest)) return;
  if (!is_bool) return node.result(name, {x}, *attributes);
  const ValueId numbers = node.emit("cast", {x}, {{"dtype", ir::DType::kU8}});
  node.result("cast", {node.emit(name, {numbers}, *attributes)}, {{"dtype", ir::DType::kBool}});
}

constexpr char kSum[] = "sum", kMean[] = "mean", kMax[] = "amax", kMin[] = "amin", kProd[] = "prod";

void reduce_l1(Node& node) {
  const ValueId terms = node.emit("abs", {node.in(0)});
  const auto attributes = reduction(node, 18);
  attributes ? node.result("sum", {terms}, *attributes) : node.result("identity", {terms});
}

ValueId sum_or_same(Node& node, ValueId terms) {
  const auto attributes = reduction(node, 18);
  return attributes ? node.emit("sum", {terms}, *attributes) : terms;
}

void reduce_l2(Node& node) {
  const ValueId x = node.in(0), sum = sum_or_same(node, node.emit("mul", {x, x}));
  if (!ir::is_float(node.dtype(x))) return node.result("sqrt", {sum});
  node.result("identity", {root_without_pole(node, sum)});
}

void reduce_sum_square(Node& node) {
  const ValueId x = node.in(0);
  const ValueId terms = node.emit("mul", {x, x});
  const auto attributes = reduction(node, 18);
  attributes ? node.result("sum", {terms}, *attributes) : node.result("identity", {terms});
}

void reduce_log_sum(Node& node) { node.result("log", {sum_or_same(node, node.in(0))}); }

void reduce_log_sum_exp(Node& node) {
  const ValueId x = node.in(0);
  auto attributes = reduction(node, 18);
  if (!attributes) return node.result("identity", {x});
  if (const auto nothing = shape_of_nothing(node, *attributes)) {
    return node.result("full", {}, {{"shape", *nothing}, {"value", -HUGE_VAL}, {"dtype", node.dtype(x)}});
  }
  const bool keep = attributes->flag("keepdim");
  const ir::Shape axes = *attributes->list("axes");
  const ValueId sum = log_sum_exp(node, x, axes);
  if (keep) return node.result("identity", {sum});
  node.result("squeeze", {sum}, {{"axes", axes}});
}

/// The operand in a type with which LibTorch compares and which has negative numbers.
ValueId comparable(Node& node) {
  const ValueId x = node.in(0);
  if (node.dtype(x) == ir::DType::kU64) node.fail(node.op() + " of u64 is not supported");
  const bool is_unsigned = node.dtype(x) == ir::DType::kU8 || is_wide_unsigned(node.dtype(x));
  return is_unsigned ? node.cast(x, ir::DType::kI64) : x;
}

/// Selects the first of equal elements, or the last by searching the reversed axis.
void arg_extreme(Node& node, ValueId x) {
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(from->size()));
  const ir::Attributes attributes = {{"axis", ir::Dim(axis)}, {"keepdim", node.integer("keepdims", 1) != 0}};
  if (node.integer("select_last_index", 0) == 0 || !node.good()) return node.result("argmax", {x}, attributes);
  const ir::Dim last = (*from)[static_cast<size_t>(axis)] - ir::Dim(1);
  const ValueId end = node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", last}, {"dtype", ir::DType::kI64}});
  node.result("sub", {end, node.emit("argmax", {flipped(node, x, axis)}, attributes)});
}
void arg_max(Node& node) { arg_extreme(node, comparable(node)); }

/// Argmax of -x for floats, of -1 - x for integers, which cannot overflow.
void arg_min(Node& node) {
  const ValueId x = comparable(node);
  if (ir::is_float(node.dtype(x))) return arg_extreme(node, node.emit("neg", {x}));
  arg_extreme(node, node.emit("sub", {node.scalar(-1, node.dtype(x)), x}));
}

/// Operates on one axis, the last by default. For opset 13 and later.
template <const char* name>
void normalized_exponential(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", -1), static_cast<int64_t>(from->size()));
  node.result(name, {x}, {{"axis", ir::Dim(axis)}});
}

/// Operates on all axes from `axis` (1 by default) on, flattened. For opsets before 13.
template <const char* name>
void flattened_exponential(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const known = node.shape(x);
  if (!known) return;
  const ir::Shape from = *known;
  const auto rank = static_cast<int64_t>(from.size());
  const int64_t axis = node.axis(node.integer("axis", 1), rank, true);
  if (axis == rank - 1) return node.result(name, {x}, {{"axis", ir::Dim(axis)}});
  ir::Shape flat(from.begin(), from.begin() + axis);
  flat.push_back(ir::element_count(ir::Shape(from.begin() + axis, from.end())));
  const ValueId rows = node.emit("reshape", {x}, {{"shape", flat}});
  const ValueId y = node.emit(name, {rows}, {{"axis", ir::Dim(axis)}});
  node.result("reshape", {y}, {{"shape", from}});
}

/// 1 at the first largest element along an axis, 0 elsewhere.
void hardmax_over(Node& node, ValueId x, int64_t axis, const ir::Shape& to) {
  const ir::Shape* const from = node.shape(x);
  if (!from || !node.good()) return;
  ir::Shape column(from->size() - static_cast<size_t>(axis), ir::Dim(1));
  column[0] = (*from)[static_cast<size_t>(axis)];
  const bool same = *from == to;
  const ValueId place = node.emit("argmax", {x}, {{"axis", ir::Dim(axis)}, {"keepdim", true}});
  const ValueId counted = node.emit(
      "range", {}, {{"start", ir::Dim(0)}, {"limit", column[0]}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
  const ValueId hot = node.emit("eq", {node.emit("reshape", {counted}, {{"shape", column}}), place});
  if (same) return node.result("cast", {hot}, {{"dtype", node.dtype(x)}});
  node.result("reshape", {node.emit("cast", {hot}, {{"dtype", node.dtype(x)}})}, {{"shape", to}});
}

/// Before opset 13 operates on all axes from `axis` (1 by default) on, flattened.
void hardmax(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const known = node.shape(x);
  if (!known) return;
  const ir::Shape from = *known;
  const bool flattens = node.opset() < 13;
  const int64_t axis = node.axis(node.integer("axis", flattens ? 1 : -1), static_cast<int64_t>(from.size()), flattens);
  if (!node.good()) return;
  if (!flattens) return hardmax_over(node, x, axis, from);
  ir::Shape flat(from.begin(), from.begin() + axis);
  flat.push_back(ir::element_count(ir::Shape(from.begin() + axis, from.end())));
  hardmax_over(node, node.emit("reshape", {x}, {{"shape", flat}}), axis, from);
}

constexpr char kSoftmax[] = "softmax", kLogSoftmax[] = "log_softmax";

}  // namespace

std::span<const Translator> reduce_translators() {
  static constexpr Translator kTable[] = {
      {"ArgMax", 7, 27, arg_max},
      {"ArgMin", 7, 27, arg_min},
      {"Hardmax", 7, 27, hardmax},
      {"LogSoftmax", 13, 27, normalized_exponential<kLogSoftmax>},
      {"LogSoftmax", 7, 12, flattened_exponential<kLogSoftmax>},
      {"ReduceL1", 7, 27, in_i64<reduce_l1, Keeps::kOrder>},
      {"ReduceL2", 7, 27, rounded_once<reduce_l2>},
      {"ReduceLogSum", 7, 27, rounded_once<reduce_log_sum>},
      {"ReduceLogSumExp", 7, 27, rounded_once<reduce_log_sum_exp>},
      {"ReduceMax", 7, 27, in_i64<extreme<kMax, true>, Keeps::kOrder>},
      {"ReduceMean", 7, 27, in_i64<reduce<kMean, 18>, Keeps::kOrder>},
      {"ReduceMin", 7, 27, in_i64<extreme<kMin, false>, Keeps::kOrder>},
      {"ReduceProd", 7, 27, in_i64<reduce<kProd, 18>>},
      {"ReduceSum", 7, 27, in_i64<reduce<kSum, 13>>},
      {"ReduceSumSquare", 7, 27, in_i64<rounded_once<reduce_sum_square>>},
      {"Softmax", 13, 27, normalized_exponential<kSoftmax>},
      {"Softmax", 7, 12, flattened_exponential<kSoftmax>},
  };
  return kTable;
}

}  // namespace rannc::frontend
