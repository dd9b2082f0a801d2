#include "passes/internal/divisors.h"

#include <cmath>

#include "ir/constant.h"
#include "ir/match.h"

namespace rannc::passes {

namespace {

using ir::Capture;
using ir::Dim;
using ir::Graph;
using ir::LossTerm;
using ir::Match;
using ir::Pattern;
using Denominator = LossTerm::Denominator;

constexpr Capture kLabels{0}, kMark{1}, kSummed{2}, kWeights{3}, kTask{4}, kLabelsAgain{5}, kMarkAgain{6};
constexpr int64_t kMostClasses = int64_t{1} << 20;

// What passes the only element on.
const ir::Ops& one_element() {
  static const ir::Ops kOps = {"identity", "cast", "reshape", "squeeze", "unsqueeze"};
  return kOps;
}

bool are_classes(const Match& found, Capture labels, Capture mark) {
  const double number = found.number(mark);
  return ir::is_integer(found.graph().type(found[labels]).dtype) && std::floor(number) == number;
}

// Labels that are not ignored.
Pattern counted(Capture labels, Capture mark) {
  const Pattern classes = ir::through_exact({"identity", "cast", "unsqueeze", "reshape"}, ir::input(labels));
  const Pattern differ = ir::commutative(ir::op("ne", classes, ir::constant(mark)));
  const Pattern equal = ir::commutative(ir::op("eq", classes, ir::constant(mark)));
  return ir::through_exact({"identity", "cast", "unsqueeze", "reshape"}, ir::either({differ, ir::op("logical_not", equal)}))
      .where([labels, mark](const Match& found) { return are_classes(found, labels, mark); });
}

bool same_labels(const Match& found) {
  return found[kLabels] == found[kLabelsAgain] && found.number(kMark) == found.number(kMarkAgain);
}

// weights[labels], of all labels.
Pattern weights_at(const Pattern& index) {
  const Pattern table =
      ir::through_exact({"identity", "cast", "stop_gradient"}, ir::of_kind(ir::ValueKind::kConstant, kWeights));
  return ir::op("gather", table, index);
}

// weights[labels], 0 where they are ignored.
Pattern weights_at_counted() {
  const Pattern classes = ir::through_exact({"identity", "cast"}, ir::input(kLabels));
  const Pattern picked = ir::op("where", counted(kLabelsAgain, kMarkAgain), classes, ir::any());
  const Pattern index = ir::through_exact({"identity", "cast"}, ir::either({picked, classes}));
  const Pattern weights = ir::through_exact({"identity", "cast"}, weights_at(index));
  const Pattern masked = ir::op("where", counted(kLabels, kMark), weights, ir::constant(0.0));
  const Pattern scaled = ir::commutative(ir::op("mul", weights, counted(kLabels, kMark)));
  return ir::either({masked, scaled}).where([](const Match& found) {
    return !found.has(kLabelsAgain) || same_labels(found);
  });
}

// A sum over all elements.
bool sums_all(const Match& found) {
  const ir::Attributes& sum = found.attributes(kTask);
  if (!sum.has("axes")) return true;
  const auto& shape = found.graph().type(found.graph().inputs(found.task(kTask))[0]).shape;
  return shape && sum.integers("axes").size() == shape->size();
}

Pattern sum_of(const Pattern& summed) {
  const Pattern sum = ir::op("sum", ir::through_exact({"cast", "identity", "reshape"}, summed)).as(kTask);
  return ir::through_exact({"identity", "cast", "reshape", "squeeze"}, sum.where(sums_all));
}

LossTerm per(Denominator denominator, ValueId labels = {}, int64_t ignored = -100) {
  return {{}, 1, denominator, labels, ignored, {}};
}

std::optional<LossTerm> class_weights(const Match& found, int64_t ignored) {
  const ValueId table = found[kWeights];
  if (!ir::is_integer(found.graph().type(found[kLabels]).dtype)) return std::nullopt;
  const auto numbers = ir::decode_numbers(found.graph().type(table), found.graph().value(table).data, kMostClasses);
  if (!numbers.ok()) return std::nullopt;
  LossTerm term = per(Denominator::kClassWeights, found[kLabels], ignored);
  term.class_weights = *numbers;
  return term;
}

// A size as an integer.
std::optional<Dim> known_size(const Graph& graph, ValueId value) {
  for (int steps = 0; steps < 16; ++steps) {
    const auto& contents = graph.type(value).contents;
    if (contents && contents->size() == 1) return contents->front();
    static const Pattern kStep =
        ir::op({"identity", "cast", "reshape", "squeeze"}, ir::any(kSummed), ir::maybe(ir::any()));
    const auto found = ir::match(graph, value, kStep);
    if (!found) return std::nullopt;
    value = (*found)[kSummed];
  }
  return std::nullopt;
}

// The number that an attribute says.
std::optional<double> number_of(const ir::Attribute* attribute) {
  if (attribute == nullptr) return std::nullopt;
  if (const auto* const number = std::get_if<double>(attribute)) return *number;
  const auto* const whole = std::get_if<Dim>(attribute);
  return whole && whole->is_constant() ? std::optional(static_cast<double>(whole->constant())) : std::nullopt;
}

struct Number {
  ValueId value;
  double number = 0;
};

// The value that `bounded` is, but for a number that it does not fall below.
std::optional<Number> under_bound(const Graph& graph, ValueId bounded) {
  static const Pattern kClamp = ir::op("clamp", ir::any(kSummed)).as(kTask);
  static const Pattern kLarger = ir::commutative(ir::op("maximum", ir::constant(kMark), ir::any(kSummed)));
  const auto found = ir::match(graph, bounded, ir::through_exact(one_element(), ir::either({kClamp, kLarger})));
  if (!found) return std::nullopt;
  if (found->has(kMark)) return Number{(*found)[kSummed], found->number(kMark)};
  const auto least = number_of(found->attributes(kTask).find("min"));
  if (!least || found->attributes(kTask).has("max")) return std::nullopt;
  return Number{(*found)[kSummed], *least};
}

// The value that `sum` is, but for a number that was added.
std::optional<Number> addend(const Graph& graph, ValueId sum) {
  static const Pattern kSum = ir::commutative(ir::op("add", ir::constant(kMark), ir::any(kSummed)));
  const auto found = ir::match(graph, sum, ir::through_exact(one_element(), kSum));
  return found ? std::optional(Number{(*found)[kSummed], found->number(kMark)}) : std::nullopt;
}

}  // namespace

std::optional<LossTerm> divisor(const Graph& graph, const Dim& count) {
  const auto number = [](const std::optional<Dim>& dim) { return dim && dim->is_constant() && dim->constant() > 0; };
  const auto times = [&](LossTerm term, double factor) {
    term.weight = factor;
    return term;
  };
  if (number(count)) return times(per(Denominator::kOne), 1 / static_cast<double>(count.constant()));
  if (!graph.batch_symbol().empty()) {
    const auto each = ir::exact_div(count, Dim::symbol(graph.batch_symbol()));
    if (number(each)) return times(per(Denominator::kSamples), 1 / static_cast<double>(each->constant()));
  }
  for (const ValueId input : graph.inputs()) {
    const auto& shape = graph.type(input).shape;
    if (!shape) continue;
    const Dim elements = ir::element_count(*shape);
    if (elements.is_constant()) continue;
    if (const auto more = ir::exact_div(count, elements); number(more)) {
      return times(per(Denominator::kElements, input), 1 / static_cast<double>(more->constant()));
    }
    if (const auto less = ir::exact_div(elements, count); number(less)) {
      return times(per(Denominator::kElements, input), static_cast<double>(less->constant()));
    }
  }
  return std::nullopt;
}

std::optional<LossTerm> divisor(const Graph& graph, ValueId value) {
  if (const auto size = known_size(graph, value)) return divisor(graph, *size);
  // What the term counts is `weight` times what was counted here, and so are the bound and what is added.
  if (const auto bounded = under_bound(graph, value)) {
    auto term = divisor(graph, bounded->value);
    if (!term || term->denominator == Denominator::kOne || term->least != -HUGE_VAL) return std::nullopt;
    term->least = bounded->number * term->weight;
    return term;
  }
  if (const auto part = addend(graph, value)) {
    auto term = divisor(graph, part->value);
    if (!term || term->denominator == Denominator::kOne || term->least != -HUGE_VAL) return std::nullopt;
    term->added += part->number * term->weight;
    return term;
  }
  static const Pattern kCount = sum_of(counted(kLabels, kMark));
  static const Pattern kSum = sum_of(ir::input(kLabels));
  static const Pattern kWeightsOfCounted = sum_of(weights_at_counted());
  static const Pattern kWeightsOfAll = sum_of(weights_at(ir::through_exact({"identity", "cast"}, ir::input(kLabels))));
  if (const auto found = ir::match(graph, value, kCount)) {
    return per(Denominator::kNotIgnored, (*found)[kLabels], static_cast<int64_t>(found->number(kMark)));
  }
  if (const auto found = ir::match(graph, value, kWeightsOfCounted)) {
    return class_weights(*found, static_cast<int64_t>(found->number(kMark)));
  }
  if (const auto found = ir::match(graph, value, kWeightsOfAll)) return class_weights(*found, INT64_MIN);
  if (const auto found = ir::match(graph, value, kSum)) return per(Denominator::kSum, (*found)[kLabels]);
  return std::nullopt;
}

}  // namespace rannc::passes
