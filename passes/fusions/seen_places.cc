#include "passes/fusions/seen_places.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/op/interval.h"
#include "ir/op/op.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: as the rules

namespace {

bool is_made_by(const Graph& graph, ValueId value, const Ops& ops) {
  const TaskId maker = graph.producer(value);
  return maker.valid() && ops.contains(graph.op(maker));
}

/// Whether the elements of one value are at least those of the other, by numbers that hold for all sizes.
bool is_never_less(const Graph& graph, ValueId value, ValueId than) {
  Intervals intervals(graph);
  const auto own = intervals.of(value), other = intervals.of(than);
  if (!own || !other || !(own->factor == Dim(0)) || !(other->factor == Dim(0))) return false;
  return own->low.is_constant() && other->high.is_constant() && own->low.constant() >= other->high.constant();
}

bool is_all_true(const Graph& graph, ValueId value, int depth = 0) {
  static const Ops kAnd{"logical_and"}, kAtLeast{"ge"}, kSame{"expand", "identity", "reshape", "unsqueeze"};
  constexpr int64_t kMostElements = 1 << 24;
  constexpr int kMostTasks = 16;
  const Graph::Value& found = graph.value(value);
  if (found.kind == ValueKind::kConstant && found.data.present()) {
    const auto numbers = decode_integers(found.type, found.data, kMostElements);
    return numbers.ok() && std::all_of(numbers->begin(), numbers->end(), [](int64_t each) { return each != 0; });
  }
  if (!found.producer.valid() || depth > kMostTasks) return false;
  const auto operands = graph.inputs(found.producer);
  const auto is_true = [&](size_t i) { return is_all_true(graph, operands[i], depth + 1); };
  if (is_made_by(graph, value, kAnd)) return is_true(0) && is_true(1);
  if (is_made_by(graph, value, kSame)) return is_true(0);
  return is_made_by(graph, value, kAtLeast) && is_never_less(graph, operands[0], operands[1]);
}

/// What a value has the elements of, stretched or not.
ValueId without_stretching(const Graph& graph, ValueId value) {
  static const Ops kStretching{"expand", "identity"}, kAnd{"logical_and"};
  while (is_made_by(graph, value, kStretching) || is_made_by(graph, value, kAnd)) {
    const auto operands = graph.inputs(graph.producer(value));
    const bool both = is_made_by(graph, value, kAnd);
    if (both && !is_all_true(graph, operands[0]) && !is_all_true(graph, operands[1])) break;
    const ValueId from = both && is_all_true(graph, operands[0]) ? operands[1] : operands[0];
    const auto &own = graph.type(value).shape, &before = graph.type(from).shape;
    if (!own || !before || own->size() != before->size()) break;
    value = from;
  }
  return value;
}

/// Whether whole-number operators compute a value from one input of the model: those that `ir::fold_integers` knows,
/// and ranges.
bool follows_from_one_input(const Graph& graph, ValueId value) {
  static const Ops kRange{"range"};
  constexpr size_t kMostValues = 256;
  std::set<ValueId> seen, inputs;
  std::vector<ValueId> left{value};
  while (!left.empty()) {
    const ValueId at = left.back();
    left.pop_back();
    if (!at.valid() || !seen.insert(at).second) continue;
    const Graph::Value& found = graph.value(at);
    if (is_float(found.type.dtype) || seen.size() > kMostValues) return false;
    if (found.kind == ValueKind::kInput) inputs.insert(at);
    if (found.kind == ValueKind::kInput || found.kind == ValueKind::kConstant || found.type.contents) continue;
    const TaskId maker = graph.producer(at);
    if (!maker.valid()) return false;
    const OpInfo& op = graph.op(maker);
    if (!kRange.contains(op) && (!op.known() || op.fold == nullptr)) return false;
    left.insert(left.end(), graph.inputs(maker).begin(), graph.inputs(maker).end());
  }
  return inputs.size() == 1;
}

/// Whether all rows of a sample see the same places.
bool has_one_row(const Graph& graph, ValueId mask) {
  const auto& shape = graph.type(mask).shape;
  return shape && (shape->size() == 2 || shape->size() == 4) && (*shape)[shape->size() - 2] == Dim(1);
}

std::optional<SeenPlaces> checked(const Graph& graph, const SeenPlaces& places) {
  const bool serves = has_one_row(graph, places.value) && follows_from_one_input(graph, places.value);
  return serves ? std::optional(places) : std::nullopt;
}

/// (1 - numbers) * addend.
std::optional<SeenPlaces> places_by_product(const Graph& graph, TaskId product) {
  static const Ops kSub{"sub"}, kCast{"cast"};
  const auto factors = graph.inputs(product);
  for (const size_t i : {0, 1}) {
    const auto addend = scalar_constant(graph, factors[1 - i]);
    if (!addend || !leaves_nothing(*addend) || !is_made_by(graph, factors[i], kSub)) continue;
    const auto terms = graph.inputs(graph.producer(factors[i]));
    const auto one = scalar_constant(graph, terms[0]);
    if (!one || *one != 1 || !is_made_by(graph, terms[1], kCast)) continue;
    const ValueId numbers = graph.inputs(graph.producer(terms[1]))[0];
    if (graph.type(numbers).dtype == DType::kBool) return checked(graph, {numbers});
    if (is_integer(graph.type(numbers).dtype)) return checked(graph, {.value = numbers, .numbers = true});
  }
  return std::nullopt;
}

}  // namespace

std::optional<SeenPlaces> places_by_condition(const Graph& graph, ValueId condition, bool hides) {
  if (graph.type(condition).dtype != DType::kBool) return std::nullopt;
  // What hides only some places of all is not stretched by a conjunction.
  return checked(graph, {hides ? condition : without_stretching(graph, condition), hides});
}

std::optional<SeenPlaces> places_by_addend(const Graph& graph, ValueId mask) {
  static const Ops kWhere{"where"}, kMul{"mul"}, kStretching{"expand", "identity"};
  while (is_made_by(graph, mask, kStretching)) mask = graph.inputs(graph.producer(mask))[0];
  if (is_made_by(graph, mask, kMul)) return places_by_product(graph, graph.producer(mask));
  if (!is_made_by(graph, mask, kWhere)) return std::nullopt;
  const auto operands = graph.inputs(graph.producer(mask));
  const auto yes = scalar_constant(graph, operands[1]), no = scalar_constant(graph, operands[2]);
  if (!yes || !no) return std::nullopt;
  if (*yes == 0 && leaves_nothing(*no)) return places_by_condition(graph, operands[0], false);
  if (*no == 0 && leaves_nothing(*yes)) return places_by_condition(graph, operands[0], true);
  return std::nullopt;
}

}  // namespace rannc::passes::fusion
