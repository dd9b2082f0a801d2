// Softmax of scaled products, masked or not, times values: attention.
// Example: `tests/passes/golden/fuse_attention.rir`.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "ir/graph/constant.h"
#include "ir/graph/memory_format.h"
#include "ir/graph/views.h"
#include "ir/op/op.h"
#include "passes/fusions/rules.h"
#include "passes/fusions/seen_places.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kQ{0}, kK{1}, kV{2}, kMask{3}, kTurned{4}, kWeights{5};
// The factors of queries, keys and products, and what they are divided by.
constexpr Capture kQTimes{6}, kQOver{7}, kKTimes{8}, kKOver{9}, kTimes{10}, kOver{11};
constexpr Capture kUnstacked{12}, kHidden{13}, kFill{14};

/// x, or x times or over a number.
Pattern scaled(const Pattern& x, Capture times, Capture over) {
  return either({commutative(op("mul", x, constant(times))), op("div", x, constant(over)), x});
}

/// The product of what the file multiplies by.
double scale(const Match& match) {
  double product = 1;
  for (const Capture place : {kQTimes, kKTimes, kTimes}) product *= match.has(place) ? match.number(place) : 1;
  for (const Capture place : {kQOver, kKOver, kOver}) product /= match.has(place) ? match.number(place) : 1;
  return product;
}

const Shape& sizes(const Match& match, Capture place) { return *match.graph().type(match[place]).shape; }

/// The order of axes that a permutation of keys has beside turning each matrix.
Shape order_of_keys(const Match& match) {
  const std::vector<int64_t> order = order_of(match.graph(), match.task(kTurned));
  Shape dims(order.begin(), order.end());
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return dims;
}

/// A stack [samples * heads, features, places] that a permutation has turned, taken apart.
bool takes_stack_apart(const Match& match) {
  const Graph& graph = match.graph();
  if (!graph.type(match[kTurned]).shape || !graph.type(match[kUnstacked]).shape) return false;
  const Shape &stack = sizes(match, kTurned), &apart = sizes(match, kUnstacked);
  if (stack.size() != 3 || apart.size() != 4) return false;
  return stack == Shape{apart[0] * apart[1], apart[2], apart[3]};
}

bool zeroes_hidden_rows(const Match& match) { return match.attributes(kWeights).text("hidden_rows") == "zero"; }

/// Whether each row of a mask that is a constant sees a place.
bool every_row_sees(const Match& match) {
  constexpr int64_t kMostElements = 1 << 24;
  const bool hides = match.has(kHidden);
  const Graph::Value& mask = match.graph().value(match[hides ? kHidden : kMask]);
  if (mask.kind != ValueKind::kConstant || !mask.data.present() || mask.type.shape->empty()) return false;
  const Dim& row = mask.type.shape->back();
  const auto numbers = decode_integers(mask.type, mask.data, kMostElements);
  if (!numbers.ok() || !row.is_constant() || row.constant() < 1) return false;
  for (auto first = numbers->begin(); first != numbers->end(); first += row.constant()) {
    if (std::all_of(first, first + row.constant(), [&](int64_t each) { return (each != 0) == hides; })) return false;
  }
  return true;
}

/// Numbers up to which the logarithm of a row's sum, which is all that LibTorch's kernel keeps for its gradients, is as
/// exact as a softmax: a row hidden by finite numbers beyond has the right result and wrong gradients.
constexpr double kShallow = 64;

std::optional<std::vector<double>> constant_numbers(const Graph& graph, ValueId value) {
  constexpr int64_t kMostElements = 1 << 22;
  const Graph::Value& found = graph.value(value);
  if (const auto scalar = scalar_constant(graph, value)) return std::vector<double>{*scalar};
  if (found.kind != ValueKind::kConstant || !found.data.present()) return std::nullopt;
  auto numbers = decode_numbers(found.type, found.data, kMostElements);
  return numbers.ok() ? std::optional(*std::move(numbers)) : std::nullopt;
}

/// Whether each row of a constant has a number that is not large, or minus infinity alone where that is zeroed.
bool rows_are_seen(const Match& match, const std::vector<double>& numbers) {
  const Dim& row = match.graph().type(match[kMask]).shape->back();
  if (!row.is_constant() || row.constant() < 1) return false;
  const auto size = static_cast<size_t>(row.constant());
  const size_t step = numbers.size() == 1 ? 1 : size;  // one number may fill a mask of any size
  for (size_t first = 0; first + step <= numbers.size(); first += step) {
    const double most = *std::max_element(&numbers[first], &numbers[first] + step);
    if (!(std::abs(most) <= kShallow || (most == -HUGE_VAL && zeroes_hidden_rows(match)))) return false;
  }
  return true;
}

/// Whether all elements that a mask may have are small, or minus infinity where rows of nothing else are zeroed.
bool hides_by_infinity(const Match& match) {
  static const Ops kPassing{"where",   "add",   "expand", "reshape", "unsqueeze", "squeeze",
                            "permute", "slice", "gather", "concat",  "identity"};
  constexpr size_t kMostTasks = 256;
  const Graph& graph = match.graph();
  const auto serves = [&](double each) {
    return std::abs(each) <= kShallow || (each == -HUGE_VAL && zeroes_hidden_rows(match));
  };
  std::set<TaskId> seen;
  std::vector<ValueId> left{match[kMask]};
  while (!left.empty()) {
    const ValueId at = left.back();
    left.pop_back();
    if (!at.valid() || !is_float(graph.type(at).dtype)) continue;  // conditions, places, sizes
    const auto numbers = constant_numbers(graph, at);
    if (numbers && std::all_of(numbers->begin(), numbers->end(), serves)) continue;
    const TaskId maker = graph.producer(at);
    if (numbers || !maker.valid() || !kPassing.contains(graph.op(maker))) return false;
    if (!seen.insert(maker).second) continue;
    if (seen.size() > kMostTasks) return false;
    left.insert(left.end(), graph.inputs(maker).begin(), graph.inputs(maker).end());
  }
  return true;
}

/// Returns whether LibTorch's kernel supports the mask: it depends on no parameter, because it gets no gradient, fully
/// hidden rows are zeros, and no row is hidden by large finite numbers.
bool mask_serves_alone(const Match& match) {
  const Capture place = match.has(kHidden) ? kHidden : kMask;
  if (!match.has(place)) return true;
  const Graph& graph = match.graph();
  const auto& shape = graph.type(match[place]).shape;
  if (!shape || (shape->size() != 2 && shape->size() != 4)) return false;
  if (match.has(kFill)) {
    const bool hides = leaves_nothing(match.number(kFill)) && graph.type(match[place]).dtype == DType::kBool;
    return hides && ((zeroes_hidden_rows(match) && std::isinf(match.number(kFill))) || every_row_sees(match));
  }
  const auto numbers = constant_numbers(graph, match[kMask]);
  return numbers ? rows_are_seen(match, *numbers) : hides_by_infinity(match);
}

/// The places that rows see, of a mask that does not serve alone: the runtime checks that there are any.
std::optional<SeenPlaces> checked_places(const Match& match) {
  const bool hides = match.has(kHidden);
  if (mask_serves_alone(match)) return std::nullopt;
  if (!match.has(kFill)) return places_by_addend(match.graph(), match[kMask]);
  if (!leaves_nothing(match.number(kFill))) return std::nullopt;
  return places_by_condition(match.graph(), match[hides ? kHidden : kMask], hides);
}

bool mask_serves(const Match& match) { return mask_serves_alone(match) || checked_places(match); }

bool weighs_places(const Match& match) {
  const Graph& graph = match.graph();
  for (const Capture place : {kQ, kK, kV})
    if (!graph.type(match[place]).shape) return false;
  const Shape &q = sizes(match, kQ), &v = sizes(match, kV);
  const size_t rank = q.size();
  if (rank != 4 || v.size() != rank || !(q.back() == v.back())) return false;
  if (!match.has(kUnstacked) && match.attributes(kTurned).list("dims")->size() != rank) return false;
  const OpAttributes softmax(graph.op(match.task(kWeights)), match.attributes(kWeights));
  const int64_t axis = softmax.integer("axis");
  return (axis == -1 || axis == static_cast<int64_t>(rank) - 1) && std::isfinite(scale(match)) && mask_serves(match);
}

/// What brings keys into [samples, heads, places, features].
struct Ordering {
  std::optional<Attributes> permute, reshape;  ///< in this order
};

Ordering ordering_of_keys(const Match& match) {
  Ordering ordering;
  const Shape order = order_of_keys(match);
  const bool stays = std::is_sorted(order.begin(), order.end(),
                                    [](const Dim& a, const Dim& b) { return a.constant() < b.constant(); });
  if (!stays) ordering.permute = Attributes{{"dims", order}};
  if (!match.has(kUnstacked)) return ordering;
  Shape keys = sizes(match, kUnstacked);
  std::swap(keys[2], keys[3]);
  ordering.reshape = Attributes{{"shape", keys}};
  return ordering;
}

std::optional<ValueType> type_after(const Graph& graph, const OpInfo& op, const ValueType& type,
                                    const Attributes& attributes) {
  const ValueType* const operand = &type;
  const auto types = types_of({op, {&operand, 1}, attributes, graph.batch_symbol()});
  return types.ok() ? std::optional(types->front()) : std::nullopt;
}

/// The type of keys so ordered; nothing where they cannot be.
std::optional<ValueType> keys(const Match& match) {
  const Graph& graph = match.graph();
  const Ordering ordering = ordering_of_keys(match);
  std::optional<ValueType> type = graph.type(match[kK]);
  if (ordering.permute) type = type_after(graph, core("permute"), *type, *ordering.permute);
  if (type && ordering.reshape) type = type_after(graph, core("reshape"), *type, *ordering.reshape);
  return type;
}

/// The tasks that determine a value's layout: views, and elementwise tasks that keep the layout of `at`.
class Layout {
 public:
  explicit Layout(const Graph& graph) : graph_(graph) {}

  /// The axes of a value as they lie in memory; with heads behind places where that is not known.
  std::vector<int64_t> axes(ValueId value) {
    const ValueId at = copy(value, 0);
    return Views(alone_).axes_in_memory(alone_, at).value_or(std::vector<int64_t>{0, 2, 1, 3});
  }

 private:
  /// In a graph of the views alone. Values that are not views are contiguous.
  ValueId copy(ValueId value, int depth) {
    constexpr int kMostTasks = 24;
    const TaskId maker = graph_.producer(value);
    if (maker.valid() && depth < kMostTasks) {
      const ValueId first = graph_.inputs(maker).empty() ? ValueId() : graph_.inputs(maker)[0];
      if (graph_.op(maker).view != View::kNone && first.valid()) return seen(maker, value, copy(first, depth + 1));
      if (const auto as = laid_out_as(graph_, maker); as.size() == 1) return copy(as[0], depth + 1);
    }
    return alone_.add_value(ValueKind::kInput, graph_.value(value).name, graph_.type(value));
  }

  ValueId seen(TaskId task, ValueId value, ValueId from) {
    std::vector<std::string> names;
    for (const ValueId output : graph_.outputs(task)) names.emplace_back(graph_.value(output).name);
    const TaskId view = alone_.add_task(graph_.op(task), std::array{from}, graph_.attributes(task), names);
    ValueId found;
    for (size_t k = 0; k < names.size(); ++k) {
      const ValueId output = graph_.outputs(task)[k];
      alone_.set_type(alone_.outputs(view)[k], graph_.type(output));
      if (output == value) found = alone_.outputs(view)[k];
    }
    return found;
  }

  const Graph& graph_;
  Graph alone_;
};

/// Of the attention, whose result stands in the order of its queries in memory, and of what brings it back into the
/// order [samples, heads, places, features].
struct There {
  Attributes attention, back;
};

There there_and_back(const Match& match) {
  const std::vector<int64_t> order = Layout(match.graph()).axes(match[kQ]);
  Shape dims(order.size(), Dim(0));
  for (size_t i = 0; i < order.size(); ++i) dims[static_cast<size_t>(order[i])] = Dim(static_cast<int64_t>(i));
  return {{{"scale", scale(match)}, {"order", Shape(order.begin(), order.end())}}, {{"dims", dims}}};
}

/// Whether a constant mask hides the places after each row's own, and no others.
bool is_causal(const Match& match) {
  const bool hides = match.has(kHidden);
  if (!hides && !match.has(kMask)) return false;
  const Graph& graph = match.graph();
  const ValueId mask = match[hides ? kHidden : kMask];
  const auto& shape = graph.type(mask).shape;
  const Dim& places = sizes(match, kQ)[2];
  if (!shape || shape->size() < 2 || !places.is_constant() || places.constant() < 2) return false;
  const auto size = static_cast<size_t>(places.constant());
  if (!(shape->back() == places) || !((*shape)[shape->size() - 2] == places)) return false;
  const auto numbers = constant_numbers(graph, mask);
  if (!numbers || numbers->size() != size * size) return false;
  const bool of_bool = graph.type(mask).dtype == DType::kBool;
  const auto is_hidden = [&](double number) { return of_bool ? (number != 0) == hides : leaves_nothing(number); };
  const auto is_seen = [&](double number) { return of_bool ? !is_hidden(number) : number == 0; };
  for (size_t row = 0; row < size; ++row) {
    for (size_t place = 0; place < size; ++place) {
      const double number = (*numbers)[row * size + place];
      if (!(place <= row ? is_seen(number) : is_hidden(number))) return false;
    }
  }
  return true;
}

bool is_attention(const Match& match) {
  if (!weighs_places(match)) return false;
  for (const Capture place : {kQ, kK, kV, kMask, kHidden})
    if (match.has(place) && !outlives(match, place)) return false;
  const Graph& graph = match.graph();
  const auto k = keys(match);
  if (!k) return false;
  std::vector<const ValueType*> operands{&graph.type(match[kQ]), &*k, &graph.type(match[kV])};
  There there = there_and_back(match);
  ValueType of_places;
  if (is_causal(match)) {
    there.attention.set("causal", true);
  } else if (const auto places = checked_places(match)) {
    of_places = graph.type(places->value);
    of_places.dtype = DType::kBool;
    operands.push_back(&of_places);
  } else {
    for (const Capture mask : {kMask, kHidden})
      if (match.has(mask)) operands.push_back(&graph.type(match[mask]));
  }
  const auto types = types_of({core("attention"), operands, there.attention, graph.batch_symbol()});
  return types.ok() && makes_result(match, "permute", {&types->front()}, there.back);
}

/// Attention whose mask is causal, as frontends write it.
Becomes causal_attention() {
  return {"attention", {kQ, kK, kV}, [](const Match& match) {
            Attributes attributes = match.attributes(kWeights);
            attributes.set("causal", true);
            return attributes;
          }};
}

std::vector<ValueId> build(const Match& match, Builder& make) {
  const Ordering ordering = ordering_of_keys(match);
  ValueId k = make[kK];
  if (ordering.permute) k = make.emit("permute", {k}, *ordering.permute);
  if (ordering.reshape) k = make.emit("reshape", {k}, *ordering.reshape);
  std::vector<ValueId> operands{make[kQ], k, make[kV]};
  There there = there_and_back(match);
  if (is_causal(match)) {
    there.attention.set("causal", true);
  } else if (const auto places = checked_places(match)) {
    there.attention.set("checked", std::string(places->numbers ? "rows_of_ones" : "rows"));
    ValueId seen = make[places->value];
    if (places->numbers) seen = make.emit("cast", {seen}, {{"dtype", DType::kBool}});
    if (places->hides) seen = make.emit("logical_not", {seen});
    operands.push_back(seen);
  } else {
    if (match.has(kMask)) operands.push_back(make[kMask]);
    if (match.has(kHidden)) operands.push_back(make.emit("logical_not", {make[kHidden]}));
  }
  return make.result("permute", {make.emit("attention", operands, there.attention)}, there.back);
}

}  // namespace

std::vector<Rewrite> attention() {
  const auto turned = [](const Pattern& keys) {
    const Pattern permuted = op("permute", keys).as(kTurned);
    return either({op("reshape", permuted).as(kUnstacked).where(takes_stack_apart), permuted});
  };
  const Pattern q = scaled(any(kQ), kQTimes, kQOver);
  const Pattern k = either({turned(scaled(any(kK), kKTimes, kKOver)), scaled(turned(any(kK)), kKTimes, kKOver)});
  const Pattern scores = scaled(op("matmul", q, k), kTimes, kOver);
  const Pattern masked =
      either({commutative(op("add", scores, any(kMask))), op("where", any(kMask), scores, constant(kFill)),
              op("where", any(kHidden), constant(kFill), scores), scores});
  const Pattern weights = op("softmax", masked).as(kWeights);
  std::vector<Rewrite> rules = permutations();  // a permutation mostly comes next
  rules.push_back({"attention", either({op("matmul", weights, any(kV))}).as(kResult).where(is_attention), build});
  const Pattern whole = op("attention", any(kQ), any(kK), any(kV), any(kMask)).as(kWeights);
  rules.push_back(rule("causal attention", either({whole}).as(kResult).where(is_causal), causal_attention()));
  return rules;
}

}  // namespace rannc::passes::fusion
