/// Translates ONNX operators that sort, deduplicate or list elements.
#include <algorithm>
#include <map>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "ir/graph/constant.h"

namespace rannc::frontend {

namespace {

/// Returns k, a number or a size. It is an attribute before opset 10, an operand since.
std::optional<ir::Dim> wanted_count(Node& node) {
  if (node.opset() < 10) return ir::Dim(node.integer("k", -1));
  const auto known = node.contents(node.in(1));
  if (known && known->size() == 1) return known->front();
  node.fail("TopK: '" + std::string(node.name(node.in(1))) +
            "' must be known before the model runs: the size of the result depends on it");
  return std::nullopt;
}

/// Always sorts, because `sorted = 0` allows any order.
void top_k(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  const auto k = wanted_count(node);
  if (!from || !k) return;
  const int64_t axis = node.axis(node.integer("axis", -1), static_cast<int64_t>(from->size()));
  const bool sorts = from->size() == 1 && *k == from->front() && node.integer("largest", 1) == 0;
  if (const auto places = sorts ? node.sorted_places(x) : std::nullopt) return node.pass(1, *places);
  node.results("topk", {x}, {{"k", *k}, {"axis", ir::Dim(axis)}, {"largest", node.integer("largest", 1) != 0}});
}

/// Returns the shape of a value whose elements are known.
std::vector<int64_t> sizes_of(Node& node, ValueId value) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& size : *node.shape(value)) sizes.push_back(size.constant());
  return sizes;
}

Tensor indices_tensor(const std::vector<int64_t>& values, ir::Shape shape) {
  Tensor tensor{{ir::DType::kI64, std::move(shape), {}, {}}, ir::encode_integers(ir::DType::kI64, values)};
  tensor.type.contents = ir::constant_contents(tensor.type, tensor.data);
  return tensor;
}

/// Positions of nonzero elements, one row per axis. Unless they are known, they are the rows that a mask picks.
void non_zero(Node& node) {
  const auto known = node.elements(node.in(0));
  if (!known) return node.pass(0, node.picked_places(node.in(0)));
  const std::vector<int64_t> sizes = sizes_of(node, node.in(0));
  std::vector<std::vector<int64_t>> rows(sizes.size());
  for (size_t at = 0; at < known->size(); ++at) {
    if ((*known)[at] == 0) continue;
    auto rest = static_cast<int64_t>(at);
    for (size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) rows[axis].push_back(rest % sizes[axis]);
  }
  std::vector<int64_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  const auto count = rows.empty() ? int64_t{0} : static_cast<int64_t>(rows[0].size());
  node.constant(indices_tensor(all, {static_cast<int64_t>(rows.size()), count}));
}

// --- Unique

/// A float, or 0 and an integer. Ordered as the elements of their type.
using Element = std::pair<double, int64_t>;

/// Returns the elements of operand 0, which determine the size of the result.
std::vector<Element> known_elements(Node& node) {
  const ValueId x = node.in(0);
  std::vector<Element> all;
  if (const auto integers = node.whole_elements(x)) {
    const int64_t flipped = node.dtype(x) == ir::DType::kU64 ? INT64_MIN : 0;  // the bit of the largest u64
    for (const int64_t number : *integers) all.emplace_back(0, number ^ flipped);
  } else if (const auto floats = node.elements(x)) {
    for (const double number : *floats) all.emplace_back(number, 0);
  } else {
    node.fail(node.op() + ": '" + std::string(node.name(x)) +
              "' must be known before the model runs: the size of the result depends on its numbers");
  }
  return all;
}

/// Distinct slices of a tensor along an axis.
struct Slices {
  std::vector<std::vector<Element>> distinct;  ///< in the order of the result
  std::vector<int64_t> first, inverse, counts;
};

Slices unique_slices(const std::vector<std::vector<Element>>& all, bool sorted) {
  std::map<std::vector<Element>, std::vector<int64_t>> where;
  for (size_t i = 0; i < all.size(); ++i) where[all[i]].push_back(static_cast<int64_t>(i));
  std::vector<std::pair<std::vector<Element>, std::vector<int64_t>>> found(where.begin(), where.end());
  if (!sorted) {
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.second[0] < b.second[0]; });
  }
  Slices slices;
  slices.inverse.resize(all.size());
  for (size_t i = 0; i < found.size(); ++i) {
    slices.distinct.push_back(found[i].first);
    slices.first.push_back(found[i].second[0]);
    slices.counts.push_back(static_cast<int64_t>(found[i].second.size()));
    for (const int64_t at : found[i].second) slices.inverse[static_cast<size_t>(at)] = static_cast<int64_t>(i);
  }
  return slices;
}

/// Compares the slices of a constant, or its elements, at compile time. Gathers the distinct ones from x.
void unique(Node& node) {
  const std::vector<Element> known = known_elements(node);
  if (!node.good()) return;
  const ValueId given = node.in(0);
  std::vector<int64_t> sizes = sizes_of(node, given);
  const auto rank = static_cast<int64_t>(sizes.size());
  const bool flat = !node.has_attribute("axis");
  const auto axis = static_cast<size_t>(flat ? 0 : node.axis(node.integer("axis", 0), rank));
  if (!node.good()) return;
  const auto total = static_cast<int64_t>(known.size());
  const ValueId x = flat ? node.emit("reshape", {given}, {{"shape", ir::Shape{total}}}) : given;
  if (flat) sizes = {total};
  int64_t inner = 1;
  for (size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  std::vector<std::vector<Element>> all(static_cast<size_t>(sizes[axis]));
  for (size_t at = 0; at < known.size(); ++at) {
    all[static_cast<size_t>(static_cast<int64_t>(at) / inner % sizes[axis])].push_back(known[at]);
  }
  const Slices slices = unique_slices(all, node.integer("sorted", 1) != 0);
  const auto constant = [&](const std::vector<int64_t>& values) {
    return node.table("constant", ir::DType::kI64, {static_cast<int64_t>(values.size())}, values);
  };
  const ir::Attributes along = {{"axis", ir::Dim(static_cast<int64_t>(axis))}};
  if (is_wide_unsigned(node.dtype(x))) {
    const ValueId wide = node.emit("gather", {node.cast(x, ir::DType::kI64), constant(slices.first)}, along);
    node.result("cast", {wide}, {{"dtype", node.dtype(x)}});
  } else {
    node.result("gather", {x, constant(slices.first)}, along);
  }
  const std::vector<int64_t>* const more[] = {&slices.first, &slices.inverse, &slices.counts};
  for (size_t i = 0; i < std::size(more); ++i) {
    if (node.wants(i + 1)) node.result_at(i + 1, constant(*more[i]));
  }
}

void non_max_suppression(Node& node) {
  node.fail("NonMaxSuppression is not supported: the number of selected boxes depends on data");
}

}  // namespace

std::span<const Translator> order_translators() {
  static constexpr Translator kTable[] = {
      {"NonMaxSuppression", 10, 27, non_max_suppression},
      {"NonZero", 9, 27, non_zero},
      {"TopK", 7, 27, in_i64<top_k, Keeps::kOrder>},
      {"Unique", 11, 27, unique},
  };
  return kTable;
}

}  // namespace rannc::frontend
