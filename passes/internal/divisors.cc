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

bool are_classes(const Match& found, Capture labels, Capture mark) {
  const double number = found.number(mark);
  return ir::is_integer(found.graph().type(found[labels]).dtype) && std::floor(number) == number;
}

// Labels that are not ignored.
Pattern counted(Capture labels, Capture mark) {
  const Pattern classes = ir::through({"identity", "cast", "unsqueeze", "reshape"}, ir::input(labels));
  const Pattern differ = ir::commutative(ir::op("ne", classes, ir::constant(mark)));
  const Pattern equal = ir::commutative(ir::op("eq", classes, ir::constant(mark)));
  return ir::through({"identity", "cast", "unsqueeze", "reshape"}, ir::either({differ, ir::op("logical_not", equal)}))
      .where([labels, mark](const Match& found) { return are_classes(found, labels, mark); });
}

bool same_labels(const Match& found) {
  return found[kLabels] == found[kLabelsAgain] && found.number(kMark) == found.number(kMarkAgain);
}

// weights[labels], of all labels.
Pattern weights_at(const Pattern& index) {
  const Pattern table =
      ir::through({"identity", "cast", "stop_gradient"}, ir::of_kind(ir::ValueKind::kConstant, kWeights));
  return ir::op("gather", table, index);
}

// weights[labels], 0 where they are ignored.
Pattern weights_at_counted() {
  const Pattern classes = ir::through({"identity", "cast"}, ir::input(kLabels));
  const Pattern picked = ir::op("where", counted(kLabelsAgain, kMarkAgain), classes, ir::any());
  const Pattern index = ir::through({"identity", "cast"}, ir::either({picked, classes}));
  const Pattern weights = ir::through({"identity", "cast"}, weights_at(index));
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
  const Pattern sum = ir::op("sum", ir::through({"cast", "identity", "reshape"}, summed)).as(kTask);
  return ir::through({"identity", "cast", "reshape", "squeeze"}, sum.where(sums_all));
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

// What is 0 where no label counts: a cross entropy of the same labels, or a sum of what they mask.
bool is_zero_uncounted(const Graph& graph, const LossTerm& term) {
  static const Pattern kOwn =
      ir::op("cross_entropy_sum", ir::any(), ir::through({"identity", "cast"}, ir::input(kLabels))).as(kTask);
  static const Pattern kWhere = ir::op("where", counted(kLabels, kMark), ir::any(), ir::constant(0.0));
  static const Pattern kProduct = ir::commutative(ir::op("mul", counted(kLabels, kMark), ir::any()));
  static const Pattern kMasked =
      ir::through({"sum", "reshape", "squeeze", "identity", "cast", "neg"}, ir::either({kWhere, kProduct}));
  if (const auto own = ir::match(graph, term.numerator, kOwn)) {
    return (*own)[kLabels] == term.labels && own->attributes(kTask).integer("ignore_index", -100) == term.ignore_index;
  }
  const auto masked = ir::match(graph, term.numerator, kMasked);
  return masked && (*masked)[kLabels] == term.labels && masked->number(kMark) == static_cast<double>(term.ignore_index);
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

}  // namespace

std::optional<BoundedCount> bounded_count(const Graph& graph, ValueId value) {
  static const Pattern kClamp = ir::op("clamp", ir::any(kSummed)).as(kTask);
  static const Pattern kLarger = ir::commutative(ir::op("maximum", ir::constant(kMark), ir::any(kSummed)));
  static const Pattern kBound =
      ir::through({"identity", "cast", "reshape", "squeeze", "unsqueeze"}, ir::either({kClamp, kLarger}));
  const auto found = ir::match(graph, value, kBound);
  if (!found) return std::nullopt;
  if (found->has(kMark)) return BoundedCount{(*found)[kSummed], found->number(kMark)};
  const ir::Attributes& given = found->attributes(kTask);
  const ir::Attribute* const least = given.find("min");
  if (least == nullptr || given.has("max")) return std::nullopt;
  if (const auto* const whole = std::get_if<Dim>(least)) {
    if (!whole->is_constant()) return std::nullopt;
    return BoundedCount{(*found)[kSummed], static_cast<double>(whole->constant())};
  }
  const auto* const number = std::get_if<double>(least);
  return number ? std::optional(BoundedCount{(*found)[kSummed], *number}) : std::nullopt;
}

bool bound_is_idle(const Graph& graph, const LossTerm& term, double least) {
  if (term.denominator != Denominator::kNotIgnored) return false;
  return least <= 0 || (least <= 1 && is_zero_uncounted(graph, term));
}

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
  static const Pattern kCount = sum_of(counted(kLabels, kMark));
  static const Pattern kSum = sum_of(ir::input(kLabels));
  static const Pattern kWeightsOfCounted = sum_of(weights_at_counted());
  static const Pattern kWeightsOfAll = sum_of(weights_at(ir::through({"identity", "cast"}, ir::input(kLabels))));
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
