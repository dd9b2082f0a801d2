/// Translates ONNX sequences and optionals, which are resolved at compile time.
#include <algorithm>
#include <array>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Limit for the parts of a split. Each is a task, and a small file could request millions.
constexpr int64_t kMostParts = 1 << 13;

/// Returns the sequence of an operand. Fails and returns null if there is none.
const List* sequence(Node& node, size_t index) {
  const List* const found = node.list(index);
  if (found == nullptr || found->absent) node.fail(node.op() + " needs a sequence as operand " + std::to_string(index));
  const bool joined = found != nullptr && found->joined;
  if (joined) node.fail(node.op() + " of one bag of rows per sample: only ConcatFromSequence on axis 0 is supported");
  return found == nullptr || found->absent || joined ? nullptr : found;
}

/// Returns a position in a sequence of `size` elements. Negative positions count from the end. Fails if out of range.
std::optional<size_t> place(Node& node, size_t operand, size_t size) {
  const auto index = node.integers(node.in(operand));
  if (!index || index->size() != 1) {
    node.fail(node.op() + " needs a position that is known before the model runs");
    return std::nullopt;
  }
  const auto count = static_cast<int64_t>(size);
  const int64_t at = index->front() < 0 ? index->front() + count : index->front();
  if (at >= 0 && at < count) return static_cast<size_t>(at);
  node.fail(node.op() + ": position " + std::to_string(index->front()) + " is out of range for a sequence of " +
            std::to_string(count));
  return std::nullopt;
}

void construct(Node& node) {
  List list;
  for (size_t i = 0; i < node.input_count(); ++i) list.elements.push_back(node.in(i));
  node.pass(0, std::move(list));
}

void empty(Node& node) { node.pass(0, List{}); }

void insert(Node& node) {
  const List* const list = sequence(node, 0);
  if (list == nullptr) return;
  List longer = *list;
  const auto at = node.has(2) ? place(node, 2, list->elements.size() + 1) : list->elements.size();
  if (!at) return;
  longer.elements.insert(longer.elements.begin() + static_cast<std::ptrdiff_t>(*at), node.in(1));
  node.pass(0, std::move(longer));
}

void element_at(Node& node) {
  const List* const list = sequence(node, 0);
  if (list == nullptr) return;
  if (const auto at = place(node, 1, list->elements.size())) node.pass(0, list->elements[*at]);
}

void erase(Node& node) {
  const List* const list = sequence(node, 0);
  if (list == nullptr) return;
  List shorter = *list;
  const auto at = node.has(1) ? place(node, 1, shorter.elements.size()) : shorter.elements.size() - 1;
  if (shorter.elements.empty()) return node.fail("SequenceErase of an empty sequence");
  if (!at) return;
  shorter.elements.erase(shorter.elements.begin() + static_cast<std::ptrdiff_t>(*at));
  node.pass(0, std::move(shorter));
}

void length(Node& node) {
  const List* const list = sequence(node, 0);
  if (list == nullptr) return;
  node.integers(std::array{static_cast<int64_t>(list->elements.size())}, ir::DType::kI64, {});
}

/// Splits an axis into parts of one size, of which the last may be smaller, or of listed sizes. Without a size,
/// parts have size 1, without the axis unless `keepdims`.
void split_to_sequence(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(from->size()));
  if (!node.good()) return;
  const ir::Dim extent = (*from)[static_cast<size_t>(axis)];
  std::vector<ir::Dim> sizes;
  const ir::Shape* const split = node.has(1) ? node.shape(node.in(1)) : nullptr;
  if (node.has(1) && !split) return;
  if (split != nullptr && split->size() == 1) {
    if (const auto given = node.contents(node.in(1))) sizes = *given;
    if (sizes.empty()) return node.fail("SplitToSequence needs sizes that are known before the model runs");
  } else {
    const auto each = split != nullptr ? node.integers(node.in(1)) : std::vector<int64_t>{1};
    if (!extent.is_constant() || !each || each->size() != 1 || each->front() < 1) {
      return node.fail("SplitToSequence needs an extent and a size that are known before the model runs");
    }
    if ((extent.constant() - 1) / each->front() >= kMostParts) {
      return node.fail("SplitToSequence of " + std::to_string(extent.constant()) + " elements into parts of " +
                       std::to_string(each->front()) + ": at most " + std::to_string(kMostParts) +
                       " parts are supported");
    }
    for (int64_t at = 0; at < extent.constant(); at += each->front())
      sizes.emplace_back(std::min(each->front(), extent.constant() - at));
  }
  const bool drops = !node.has(1) && node.integer("keepdims", 1) == 0;
  List list;
  ir::Dim start = 0;
  for (const ir::Dim& size : sizes) {
    const ValueId part = node.emit(
        "slice", {x},
        {{"starts", ir::Shape{start}}, {"ends", ir::Shape{start + size}}, {"axes", ir::Shape{ir::Dim(axis)}}});
    list.elements.push_back(drops ? node.emit("squeeze", {part}, {{"axes", ir::Shape{ir::Dim(axis)}}}) : part);
    start = start + size;
  }
  node.pass(0, std::move(list));
}

void concat_from_sequence(Node& node) {
  const List* const given = node.list(0);
  const bool joins = node.integer("axis", 0) == 0 && node.integer("new_axis", 0) == 0;
  if (given != nullptr && given->joined && joins) return node.pass(0, given->elements[0]);
  const List* const list = sequence(node, 0);
  if (list == nullptr) return;
  if (list->elements.empty()) return node.fail("ConcatFromSequence of an empty sequence");
  const ir::Shape* const first = node.shape(list->elements[0]);
  if (!first) return;
  const bool fresh = node.integer("new_axis", 0) != 0;
  const auto rank = static_cast<int64_t>(first->size()) + (fresh ? 1 : 0);
  const int64_t axis = node.axis(node.integer("axis", 0), rank);
  std::vector<ValueId> parts;
  for (const ValueId element : list->elements)
    parts.push_back(fresh ? node.emit("unsqueeze", {element}, {{"axes", ir::Shape{ir::Dim(axis)}}}) : element);
  node.result("concat", parts, {{"axis", ir::Dim(axis)}});
}

/// Passes the operand, or an empty optional.
void optional(Node& node) {
  if (const List* const list = node.list(0)) return node.pass(0, *list);
  if (node.has(0)) return node.pass(0, node.in(0));
  node.pass(0, List{.absent = true});
}

void optional_get(Node& node) {
  const List* const list = node.list(0);
  if (list != nullptr && list->absent) return node.fail("OptionalGetElement of an empty optional");
  if (list != nullptr) return node.pass(0, *list);
  node.pass(0, node.in(0));
}

void optional_has(Node& node) {
  const List* const list = node.list(0);
  const bool has = list != nullptr ? !list->absent : node.has(0);
  node.integers(std::array{int64_t{has ? 1 : 0}}, ir::DType::kBool, {});
}

}  // namespace

std::span<const Translator> sequence_translators() {
  static constexpr Translator kTable[] = {
      {"ConcatFromSequence", 11, 27, concat_from_sequence},
      {"Optional", 15, 27, optional},
      {"OptionalGetElement", 15, 27, optional_get},
      {"OptionalHasElement", 15, 27, optional_has},
      {"SequenceAt", 11, 27, element_at},
      {"SequenceConstruct", 11, 27, construct},
      {"SequenceEmpty", 11, 27, empty},
      {"SequenceErase", 11, 27, erase},
      {"SequenceInsert", 11, 27, insert},
      {"SequenceLength", 11, 27, length},
      {"SplitToSequence", 11, 27, split_to_sequence},
  };
  return kTable;
}

bool takes_lists(std::string_view op) {
  const std::span<const Translator> table = sequence_translators();
  return op == "Identity" || std::any_of(table.begin(), table.end(), [&](const auto& entry) { return entry.op == op; });
}

}  // namespace rannc::frontend
