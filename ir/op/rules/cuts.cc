#include "ir/op/rules/cuts.h"

#include <algorithm>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

namespace {

constexpr int64_t kFar = int64_t{1} << 40;  // longer than any axis
// Exporters write 2^63-1, 2^31-1 or 10^9 for "to the end". An axis of free extent is taken for shorter.
constexpr int64_t kEnd = 1'000'000'000;

// Clamps a bound, which counts from the end if negative, to low…high. Nothing if its sign is uncertain and must not be
// assumed. Null `call`: the type rule has made the assumption before.
std::optional<Dim> clamp_bound(const OpCall* call, const Dim& bound, const Dim& extent, const Dim& low,
                               const Dim& high) {
  Dim at = bound;
  const int64_t far = extent.is_constant() ? kFar : kEnd;
  if (bound.is_constant() && bound.constant() >= far) return high;
  if (bound.is_constant() && bound.constant() <= -far) return low;
  const auto bounds = bounds_of(bound);
  const bool from_end = bounds.high && *bounds.high < 0;
  if (from_end) {
    at = bound + extent;
  } else if (call != nullptr && !taken_for_not_negative(*call, bound)) {
    return std::nullopt;
  }
  if (never_positive(at - low)) return low;
  if (never_negative(at - high)) return high;
  if (from_end && !never_negative(at - low)) at = max(at, low);  // `low` is no more than 0
  if (!never_positive(at - high)) at = min(at, high);
  return at;
}

// Number of positions from `first` up to `last` in steps of `by`.
Dim places(const Dim& first, const Dim& last, int64_t by) {
  const Dim span = last - first;
  if (never_positive(span)) return 0;
  return floor_div((never_negative(span) ? span : max(span, Dim(0))) + Dim(by - 1), Dim(by));
}

Result<Cut> cut_of(const OpCall* call, const Shape& from, int64_t axis, const Dim& start, const Dim& end,
                   const Dim& step) {
  if (!step.is_constant() || step.constant() == 0) {
    return error("slice over axis " + std::to_string(axis) + " has step " + step.str());
  }
  const int64_t by = std::clamp(step.constant(), -kFar, kFar);
  const Dim& extent = from[axis];
  const Dim low = by > 0 ? Dim(0) : Dim(-1), high = by > 0 ? extent : extent - Dim(1);
  const auto first = clamp_bound(call, start, extent, low, high), last = clamp_bound(call, end, extent, low, high);
  if (!first || !last) {
    return error("whether " + (first ? end : start).str() + " counts from the end of axis " + std::to_string(axis) +
                 " depends on the number of samples");
  }
  return Cut{axis, *first, by > 0 ? places(*first, *last, by) : places(*last, *first, -by), by};
}

}  // namespace

Result<std::vector<Cut>> cuts_of(const OpCall* call, const Shape& from, const SliceLists& lists) {
  const auto& [starts, ends, given_axes, given_steps] = lists;
  Shape axes;
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (given_axes) axes = *given_axes;
  const Shape steps = given_steps ? *given_steps : Shape(starts.size(), Dim(1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    return error("starts " + str(starts) + ", ends " + str(ends) + ", axes " + str(axes) + " and steps " + str(steps) +
                 " differ in length");
  }
  std::vector<Cut> cuts;
  for (size_t i = 0; i < starts.size(); ++i) {
    if (!axes[i].is_constant()) return error("axes " + str(axes) + " are not numbers");
    RANNC_ASSIGN(const int64_t axis, checked_axis(axes[i].constant(), from.size()));
    if (std::any_of(cuts.begin(), cuts.end(), [&](const Cut& cut) { return cut.axis == axis; })) {
      return error("axis " + std::to_string(axis) + " is cut twice");
    }
    RANNC_ASSIGN(Cut cut, cut_of(call, from, axis, starts[i], ends[i], steps[i]));
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

std::optional<Dim> mini_batches(const OpCall& call, const BatchLayout& layout, const Dim& extent) {
  if (extent == Dim(0)) return extent;
  const auto count = exact_div(extent, batch_dim(call) * layout.inner);
  return count && !count->uses(call.batch_symbol) ? count : std::nullopt;
}

std::optional<BatchLayout> cut_samples(const OpCall& call, const BatchLayout& layout, const Cut& cut,
                                       const Dim& extent) {
  BatchLayout left = layout;
  if (cut.step == 1) {
    const auto start = mini_batches(call, layout, cut.start), count = mini_batches(call, layout, cut.count);
    if (!start || !count || *count == Dim(0)) return std::nullopt;
    left.outer = *count;
    return left;
  }
  const bool first = cut.step > 1 && cut.start.is_constant() && cut.start.constant() < cut.step;
  const auto inner = first ? exact_div(layout.inner, Dim(cut.step)) : std::nullopt;
  if (!inner || !(cut.count * Dim(cut.step) == extent)) return std::nullopt;
  left.inner = *inner;
  return left;
}

Shape pads_from_last(const Shape& pads, size_t first) {
  const size_t rank = pads.size() / 2;
  Shape list;
  for (size_t i = rank; i-- > first;) {
    list.push_back(pads[i]);
    list.push_back(pads[i + rank]);
  }
  return list;
}

size_t first_padded(const Shape& pads) {
  const size_t rank = pads.size() / 2;
  size_t first = 0;
  while (first + 1 < rank && pads[first] == Dim(0) && pads[first + rank] == Dim(0)) ++first;
  return first;
}

std::optional<size_t> first_listed(const Shape& pads) {
  constexpr size_t kMostBefore = 2, kMostListed = 3;
  const size_t rank = pads.size() / 2, first = std::min(first_padded(pads), kMostBefore);
  const bool listed = first >= 1 && first < rank && rank - first <= kMostListed;
  return listed ? std::optional(first) : std::nullopt;
}

std::vector<size_t> padded_axes(const Shape& pads) {
  const size_t rank = pads.size() / 2;
  std::vector<size_t> axes;
  for (size_t i = 0; i < rank; ++i) {
    if (!(pads[i] == Dim(0)) || !(pads[i + rank] == Dim(0))) axes.push_back(i);
  }
  return axes;
}

Shape around_axis(const Shape& shape, size_t axis) {
  const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  return {1, element_count(Shape(shape.begin(), at)), *at, element_count(Shape(at + 1, shape.end()))};
}

}  // namespace rannc::ir::ops
