// Logarithms of probabilities, picked at labels and summed: cross_entropy_sum.
// Example: `tests/passes/golden/fuse_cross_entropy.rir`.
#include <algorithm>
#include <array>
#include <limits>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kLogits{0}, kLogarithms{1}, kPicked{2}, kMasked{3};
// Labels with the axis of classes as 1, or without it.
constexpr Capture kPlaced{4}, kLabels{5};
// Labels that count, or that do not.
constexpr Capture kShown{6}, kHidden{7};
constexpr Capture kClasses{8}, kEqual{9}, kRows{10}, kTuples{11};

/// A number that is not a position on an axis, counted from either end.
constexpr int64_t kNoLabel = std::numeric_limits<int32_t>::min();

const Shape& sizes(const Match& match, Capture place) { return *match.graph().type(match[place]).shape; }

bool has_sizes(const Match& match, std::initializer_list<Capture> places) {
  return std::all_of(places.begin(), places.end(),
                     [&](Capture place) { return !match.has(place) || match.graph().type(match[place]).shape; });
}

std::optional<int64_t> axis_of(const Match& match, Capture place) {
  const OpAttributes attributes(match.graph().op(match.task(place)), match.attributes(place));
  const auto rank = static_cast<int64_t>(sizes(match, kLogits).size());
  const int64_t axis = from_front(attributes.integer("axis"), sizes(match, kLogits).size());
  return axis < 0 || axis >= rank ? std::nullopt : std::optional(axis);
}

int64_t class_axis(const Match& match) { return *axis_of(match, kLogarithms); }

Shape sizes_placed(const Match& match) {
  Shape shape = sizes(match, kLogits);
  shape[static_cast<size_t>(class_axis(match))] = 1;
  return shape;
}
Shape sizes_of_labels(const Match& match) {
  Shape shape = sizes(match, kLogits);
  shape.erase(shape.begin() + class_axis(match));
  return shape;
}

/// One label for each row of classes, in their order.
bool has_a_label_a_row(const Match& match) {
  if (!has_sizes(match, {kLogits, kPlaced, kLabels}) || !axis_of(match, kLogarithms)) return false;
  if (!sizes(match, kLogits)[static_cast<size_t>(class_axis(match))].is_constant()) return false;
  return sizes(match, kPlaced) == sizes_placed(match);
}

bool picks_by_places(const Match& match) {
  return has_a_label_a_row(match) && axis_of(match, kPicked) == class_axis(match);
}

/// Whether a constant is 0, 1, … up to a count.
bool counts(const Graph& graph, ValueId value, const Dim& count) {
  const Graph::Value& found = graph.value(value);
  if (found.kind != ValueKind::kConstant || !is_integer(found.type.dtype) || !count.is_constant()) return false;
  const auto numbers = decode_integers(found.type, found.data, count.constant());
  if (!numbers.ok() || numbers->size() != static_cast<size_t>(count.constant())) return false;
  for (size_t i = 0; i < numbers->size(); ++i)
    if ((*numbers)[i] != static_cast<int64_t>(i)) return false;
  return true;
}

/// Whether rows are numbered from 0 on, as far as there are any.
bool counts_rows(const Match& match) {
  static const Ops kPlaces{"unsqueeze", "reshape"}, kRange{"range"};
  const Graph& graph = match.graph();
  if (counts(graph, match[kRows], sizes(match, kLogits)[0])) return true;
  const TaskId placed = graph.producer(match[kRows]);
  if (!placed.valid() || !kPlaces.contains(graph.op(placed))) return false;
  const TaskId range = graph.producer(graph.inputs(placed)[0]);
  if (!range.valid() || !kRange.contains(graph.op(range))) return false;
  const Attributes& attributes = graph.attributes(range);
  return graph.inputs(range).empty() && attributes.integer("start", 0) == 0 && attributes.integer("delta", 1) == 1;
}

/// Tuples of a row's number and its label.
bool picks_by_tuples(const Match& match) {
  if (!has_a_label_a_row(match) || sizes(match, kLogits).size() != 2) return false;
  if (!has_sizes(match, {kRows}) || sizes(match, kRows) != sizes_placed(match)) return false;
  const int64_t axis = from_front(match.attributes(kTuples).integer("axis", 0), 2);
  return axis == 1 && match.attributes(kPicked).integer("batch_dims", 0) == 0 && counts_rows(match);
}

bool picks_by_ones(const Match& match) {
  if (!has_a_label_a_row(match) || !has_sizes(match, {kEqual})) return false;
  return sizes(match, kEqual) == sizes(match, kLogits) &&
         counts(match.graph(), match[kClasses], sizes(match, kLogits)[static_cast<size_t>(class_axis(match))]);
}

/// A mask has one truth value for each of what it masks.
bool masks_each(const Match& match) {
  const Capture mask = match.has(kShown) ? kShown : kHidden;
  if (!match.has(mask)) return true;
  if (!has_sizes(match, {mask, kMasked}) || match.graph().type(match[mask]).dtype != DType::kBool) return false;
  return sizes(match, mask) == sizes(match, kMasked);
}

/// The type of a value without the axis of classes, which has one element there if it has it.
std::optional<ValueType> of_labels(const Match& match, Capture place) {
  const Graph& graph = match.graph();
  const ValueType& type = graph.type(match[place]);
  if (*type.shape == sizes_of_labels(match)) return type;
  const std::array operands{&type};
  const auto types =
      types_of({core("squeeze"), operands, {{"axes", Shape{Dim(class_axis(match))}}}, graph.batch_symbol()});
  const bool fits = types.ok() && types->front().shape == sizes_of_labels(match);
  return fits ? std::optional(types->front()) : std::nullopt;
}

Capture labels_of(const Match& match) { return match.has(kLabels) ? kLabels : kPlaced; }

/// Returns the type of labels after uncounted ones are marked; nullopt if labels and mask have different types.
std::optional<ValueType> type_of_labels(const Match& match) {
  auto type = of_labels(match, labels_of(match));
  if (!type || (type->dtype != DType::kI32 && type->dtype != DType::kI64)) return std::nullopt;
  type->contents.reset();
  for (const Capture mask : {kShown, kHidden}) {
    if (!match.has(mask)) continue;
    const auto masks = of_labels(match, mask);
    if (!masks) return std::nullopt;
    if (!type->batch.has_batch()) type->batch = masks->batch;
    if (masks->batch.has_batch() && !(masks->batch == type->batch)) return std::nullopt;
  }
  return type;
}

/// Whether the sum is of logarithms, not of what is to be added to reach 0.
bool is_negative(const Match& match) {
  static const Ops kTurns{"neg"};
  const auto& tasks = match.tasks();
  return std::count_if(tasks.begin(), tasks.end(),
                       [&](TaskId task) { return kTurns.contains(match.graph().op(task)); }) %
             2 ==
         0;
}

Attributes attributes(const Match& match) {
  return {{"axis", Dim(class_axis(match))}, {"ignore_index", Dim(kNoLabel)}};
}

bool is_cross_entropy(const Match& match) {
  const auto& whole = match.graph().type(match[kResult]).shape;
  if (!whole || !whole->empty() || !masks_each(match)) return false;
  for (const Capture place : {kLogits, labels_of(match), kShown, kHidden})
    if (match.has(place) && !outlives(match, place)) return false;
  const auto labels = type_of_labels(match);
  return labels &&
         makes_result(match, "cross_entropy_sum", {&match.graph().type(match[kLogits]), &*labels}, attributes(match));
}

/// Makes labels that cross_entropy_sum takes: from 0 on, or kNoLabel.
class Labels {
 public:
  Labels(const Match& match, Builder& make) : match_(match), make_(make) {}

  ValueId made() {
    const ValueId given = without_axis(labels_of(match_));
    const Dim& classes = sizes(match_, kLogits)[static_cast<size_t>(class_axis(match_))];
    const ValueId below = make_.emit("lt", {given, number(Dim(0))});
    if (match_.has(kEqual)) {
      // No class is equal to what lies outside of them.
      const ValueId within = make_.emit("lt", {given, number(classes)}), none = number(Dim(kNoLabel));
      return make_.emit("where", {below, none, make_.emit("where", {within, given, none})});
    }
    const ValueId from_end = make_.emit("add", {given, number(classes)});
    const ValueId label = make_.emit("where", {below, from_end, given});
    if (match_.has(kShown)) return make_.emit("where", {without_axis(kShown), label, number(Dim(kNoLabel))});
    if (match_.has(kHidden)) return make_.emit("where", {without_axis(kHidden), number(Dim(kNoLabel)), label});
    return label;
  }

 private:
  ValueId without_axis(Capture place) {
    if (sizes(match_, place) == sizes_of_labels(match_)) return make_[place];
    return make_.emit("squeeze", {make_[place]}, {{"axes", Shape{Dim(class_axis(match_))}}});
  }
  ValueId number(const Dim& value) {
    const DType dtype = match_.graph().type(match_[labels_of(match_)]).dtype;
    return make_.emit("full", {}, {{"shape", Shape{}}, {"value", value}, {"dtype", dtype}});
  }

  const Match& match_;
  Builder& make_;
};

std::vector<ValueId> build(const Match& match, Builder& make) {
  const std::vector<ValueId> operands{make[kLogits], Labels(match, make).made()};
  if (!is_negative(match)) return make.result("cross_entropy_sum", operands, attributes(match));
  return make.result("neg", {make.emit("cross_entropy_sum", operands, attributes(match))});
}

}  // namespace

std::vector<Rewrite> cross_entropy() {
  const Pattern logarithms = op("log_softmax", any(kLogits)).as(kLogarithms);
  const auto placed = [](const Pattern& otherwise) {
    return either({op({"unsqueeze", "reshape"}, any(kLabels)).as(kPlaced), otherwise});
  };
  const Pattern negated = through("neg", logarithms);
  const Pattern picked = op("gather_elements", negated, placed(any(kPlaced))).as(kPicked).where(picks_by_places);
  const Pattern tuples = op("concat", any(kRows), placed(any(kPlaced))).as(kTuples);
  const Pattern by_tuples = op("gather_nd", negated, tuples).as(kPicked).where(picks_by_tuples);
  const Pattern each = through({"neg", "squeeze", "reshape"}, either({picked, by_tuples}));
  const Pattern shown = through_exact("cast", any(kShown)), zero = constant(0.0);
  const Pattern masked = either({op("where", any(kShown), each, zero).as(kMasked).where(masks_each),
                                 op("where", any(kHidden), zero, each).as(kMasked).where(masks_each),
                                 commutative(op("mul", each, shown)).as(kMasked).where(masks_each), each});
  const Pattern equal = commutative(op("eq", placed(any(kPlaced)), any(kClasses))).as(kEqual);
  const Pattern ones = through_exact("cast", either({op("where", equal, constant(1.0), constant(0.0)), equal}));
  const Pattern weighted = commutative(op("mul", negated, ones)).where(picks_by_ones);
  const Pattern all = through({"neg", "squeeze", "reshape", "sum"}, either({masked, weighted}));
  return {{"cross_entropy", either({all}).as(kResult).where(is_cross_entropy), build}};
}

}  // namespace rannc::passes::fusion
