#include "passes/loss/internal/divisors.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/graph/constant.h"
#include "ir/match/match.h"

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

// Tasks that pass on the only element.
const ir::Ops& one_element() {
  static const ir::Ops kOps = {"identity", "cast", "reshape", "squeeze", "unsqueeze"};
  return kOps;
}

bool are_classes(const Match& found, Capture labels, Capture mark) {
  const double number = found.number(mark);
  return ir::is_integer(found.graph().type(found[labels]).dtype) && std::floor(number) == number;
}

// The number that an attribute says.
std::optional<double> number_of(const ir::Attribute* attribute) {
  if (attribute == nullptr) return std::nullopt;
  if (const auto* const number = std::get_if<double>(attribute)) return *number;
  const auto* const whole = std::get_if<Dim>(attribute);
  return whole && whole->is_constant() ? std::optional(static_cast<double>(whole->constant())) : std::nullopt;
}

// An input's elements, except for some at the ends of axes.
struct Elements {
  ValueId input;
  std::vector<ir::Trim> trims;
};

// Follows slices and pads from an input on.
class Ends {
 public:
  explicit Ends(const ir::ValueType& input) : input_(input), ends_(input.shape->size()) {}

  // Whether all of it is known.
  bool slice(const Match& found) {
    const ir::Attributes& given = found.attributes(kTask);
    const ir::Shape* const starts = given.list("starts");
    const auto &from = found.graph().type(found[kSummed]).shape,
               &to = found.graph().type(found.graph().outputs(found.task(kTask))[0]).shape;
    if (!starts || !from || !to || from->size() != ends_.size() || to->size() != ends_.size()) return false;
    std::vector<int64_t> axes = given.integers("axes");
    if (!given.has("axes")) {
      axes.resize(starts->size());
      std::iota(axes.begin(), axes.end(), 0);
    }
    const auto is_one = [](const Dim& step) { return step == Dim(1); };
    const ir::Shape* const steps = given.list("steps");
    if (axes.size() != starts->size() || (steps && !std::all_of(steps->begin(), steps->end(), is_one))) return false;
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + static_cast<int64_t>(from->size()) : axes[i]);
      if (axis >= ends_.size()) return false;
      Dim first = (*starts)[i];
      if (first.is_constant() && first.constant() < 0) first = (*from)[axis] + first;
      const Dim last = (*from)[axis] - (*to)[axis] - first;
      if (!first.is_constant() || !last.is_constant() || first.constant() < 0 || last.constant() < 0) return false;
      ends_[axis].front.cut(first.constant());
      ends_[axis].back.cut(last.constant());
    }
    return true;
  }

  bool pad(const Match& found, double padding) {
    const ir::Attributes& given = found.attributes(kTask);
    const ir::Shape* const amounts = given.list("pads");
    if (!amounts || amounts->size() != 2 * ends_.size() || given.text("mode") != "constant") return false;
    if (number_of(given.find("value")).value_or(0) != padding) return false;
    for (size_t i = 0; i < amounts->size(); ++i) {
      const Dim& amount = (*amounts)[i];
      if (!amount.is_constant() || amount.constant() < 0) return false;
      (i < ends_.size() ? ends_[i].front : ends_[i - ends_.size()].back).padded += amount.constant();
    }
    return true;
  }

  // Returns nothing if samples are cut off.
  std::optional<std::vector<ir::Trim>> trims() const {
    std::vector<ir::Trim> made;
    for (size_t i = 0; i < ends_.size(); ++i) {
      const auto axis = static_cast<int64_t>(i);
      if (ends_[i].front.lost == 0 && ends_[i].back.lost == 0) continue;
      if (input_.batch.has_batch() && axis == input_.batch.axis) return std::nullopt;
      made.push_back({axis, ends_[i].front.lost, ends_[i].back.lost});
    }
    return made;
  }

 private:
  struct End {
    int64_t lost = 0, padded = 0;
    void cut(int64_t count) {
      const int64_t padding = std::min(padded, count);
      padded -= padding;
      lost += count - padding;
    }
  };
  struct Axis {
    End front, back;
  };
  const ir::ValueType& input_;
  std::vector<Axis> ends_;
};

// Those that `value` has, in any shape; what it is padded with holds `padding`.
std::optional<Elements> elements_of_input(const Graph& graph, ValueId value, double padding) {
  constexpr size_t kMostEnds = 16;
  static const Pattern kMoved = ir::through_exact(one_element(), ir::any(kSummed));
  static const Pattern kKept = ir::through_exact({"identity", "cast"}, ir::any(kSummed));
  static const Pattern kSlice = ir::op("slice", ir::any(kSummed)).as(kTask);
  static const Pattern kPad = ir::op("pad", ir::any(kSummed)).as(kTask);
  std::vector<std::pair<Match, bool>> found;  // from the value on; whether it pads
  value = (*ir::match(graph, value, kMoved))[kSummed];
  while (graph.kind(value) != ir::ValueKind::kInput) {
    const auto slice = ir::match(graph, value, kSlice), pad = slice ? std::nullopt : ir::match(graph, value, kPad);
    if ((!slice && !pad) || found.size() == kMostEnds) return std::nullopt;
    found.emplace_back(slice ? *slice : *pad, pad.has_value());
    value = (*ir::match(graph, found.back().first[kSummed], kKept))[kSummed];
  }
  if (!graph.type(value).shape) return std::nullopt;
  Ends ends(graph.type(value));
  for (auto each = found.rbegin(); each != found.rend(); ++each) {
    if (!(each->second ? ends.pad(each->first, padding) : ends.slice(each->first))) return std::nullopt;
  }
  auto trims = ends.trims();
  return trims ? std::optional(Elements{value, *std::move(trims)}) : std::nullopt;
}

// Labels that are not ignored.
Pattern counted(Capture labels, Capture mark) {
  const Pattern classes = ir::through_exact({"identity", "cast", "unsqueeze", "reshape"}, ir::any(labels));
  const Pattern differ = ir::commutative(ir::op("ne", classes, ir::constant(mark)));
  const Pattern equal = ir::commutative(ir::op("eq", classes, ir::constant(mark)));
  return ir::through_exact({"identity", "cast", "unsqueeze", "reshape"},
                           ir::either({differ, ir::op("logical_not", equal)}))
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
  const Pattern classes = ir::through_exact({"identity", "cast"}, ir::any(kLabels));
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

// What `denominator` counts of the labels that were found, where these are elements of an input.
std::optional<LossTerm> per_elements(const Match& found, Denominator denominator, int64_t ignored, double padding) {
  auto elements = elements_of_input(found.graph(), found[kLabels], padding);
  if (!elements) return std::nullopt;
  LossTerm term = per(denominator, elements->input, ignored);
  term.trims = std::move(elements->trims);
  return term;
}

std::optional<LossTerm> class_weights(const Match& found, int64_t ignored, double padding) {
  const ValueId table = found[kWeights];
  auto term = per_elements(found, Denominator::kClassWeights, ignored, padding);
  if (!term || !ir::is_integer(found.graph().type(found[kLabels]).dtype)) return std::nullopt;
  const auto numbers = ir::decode_numbers(found.graph().type(table), found.graph().value(table).data, kMostClasses);
  if (!numbers.ok()) return std::nullopt;
  term->class_weights = *numbers;
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

struct Number {
  ValueId value;
  double number = 0;
};

// Returns the value of which `bounded` is the maximum with a number.
std::optional<Number> under_bound(const Graph& graph, ValueId bounded) {
  static const Pattern kClamp = ir::op("clamp", ir::any(kSummed)).as(kTask);
  static const Pattern kLarger = ir::commutative(ir::op("maximum", ir::constant(kMark), ir::any(kSummed)));
  static const Pattern kBound = ir::through_exact(one_element(), ir::either({kClamp, kLarger}));
  const auto found = ir::match(graph, bounded, kBound);
  if (!found) return std::nullopt;
  if (found->has(kMark)) return Number{(*found)[kSummed], found->number(kMark)};
  const auto least = number_of(found->attributes(kTask).find("min"));
  if (!least || found->attributes(kTask).has("max")) return std::nullopt;
  return Number{(*found)[kSummed], *least};
}

// Returns the value that `sum` equals except for an added number.
std::optional<Number> addend(const Graph& graph, ValueId sum) {
  static const Pattern kSum =
      ir::through_exact(one_element(), ir::commutative(ir::op("add", ir::constant(kMark), ir::any(kSummed))));
  const auto found = ir::match(graph, sum, kSum);
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
  const auto bounded = under_bound(graph, value);
  if (const auto outer = bounded ? bounded : addend(graph, value)) {
    auto term = divisor(graph, outer->value);
    if (!term || term->denominator == Denominator::kOne || term->least != -HUGE_VAL) return std::nullopt;
    const double number = outer->number * term->weight;
    if (bounded) {
      term->least = number;
    } else {
      term->added += number;
    }
    return term;
  }
  static const Pattern kCount = sum_of(counted(kLabels, kMark));
  static const Pattern kSum = sum_of(ir::any(kLabels));
  static const Pattern kWeightsOfCounted = sum_of(weights_at_counted());
  static const Pattern kWeightsOfAll = sum_of(weights_at(ir::through_exact({"identity", "cast"}, ir::any(kLabels))));
  if (const auto found = ir::match(graph, value, kCount)) {
    const double mark = found->number(kMark);
    return per_elements(*found, Denominator::kNotIgnored, static_cast<int64_t>(mark), mark);
  }
  if (const auto found = ir::match(graph, value, kWeightsOfCounted)) {
    const double mark = found->number(kMark);
    return class_weights(*found, static_cast<int64_t>(mark), mark);
  }
  if (const auto found = ir::match(graph, value, kWeightsOfAll)) return class_weights(*found, INT64_MIN, NAN);
  if (const auto found = ir::match(graph, value, kSum)) return per_elements(*found, Denominator::kSum, -100, 0);
  return std::nullopt;
}

}  // namespace rannc::passes
