// Interval rules of the operators used in index arithmetic.
#include "ir/op/rules/interval.h"

#include "ir/op/rules/windows.h"

namespace rannc::ir::ops::interval {

namespace {

// The union of two ranges; nothing if their factors differ.
Found joined(const Found& a, const Found& b) {
  if (!a || !b || !(a->factor == b->factor)) return std::nullopt;
  return IndexRange{a->factor, smaller(a->low, b->low), larger(a->high, b->high)};
}

// The number or size that all elements equal, or nothing.
std::optional<Dim> single(const Found& range) {
  if (!range || !(range->factor == Dim(0)) || !(range->low == range->high)) return std::nullopt;
  return range->low;
}

IndexRange scaled(const IndexRange& range, const Dim& by) {
  const Dim low = range.low * by, high = range.high * by;
  if (never_negative(by)) return {range.factor * by, low, high};
  return {range.factor * by, smaller(low, high), larger(low, high)};
}

bool within(const Dim& number, const Dim& extent) {
  return never_negative(number) && never_negative(extent - Dim(1) - number);
}

// floor(number / by), `by` positive.
Dim quotient(const Dim& number, const Dim& by) { return within(number, by) ? Dim(0) : floor_div(number, by); }

// A bound of a range: the attribute, else the operand's contents, else `otherwise`.
Found bound(const IntervalCall& call, size_t operand, std::string_view name, int64_t otherwise) {
  if (const Attribute* given = call.attributes().find(name)) {
    const auto* dim = std::get_if<Dim>(given);
    return dim ? range_of({*dim}) : Found();
  }
  if (!call.has(operand)) return range_of({otherwise});
  const auto& contents = call.in(operand).contents;
  return contents ? range_of(*contents) : Found();
}

// Whether a type of less than four bytes holds every number of the range.
bool fits(const IndexRange& range, DType dtype) {
  const auto low = bounds_of(range.low).low, high = bounds_of(range.high).high;
  return range.factor == Dim(0) && low && high && wrapped(dtype, *low) == low && wrapped(dtype, *high) == high;
}

}  // namespace

Found range(const IntervalCall& call) {
  const ValueType& type = call.out();
  const auto start = single(bound(call, 0, "start", 0)), step = single(bound(call, 2, "delta", 1));
  if (!start || !step) return std::nullopt;
  if (type.batch.has_batch()) {
    if (!(type.batch.outer == Dim(1))) return std::nullopt;
    const Dim last = *start + *step * (type.batch.inner - Dim(1));
    if (never_negative(*step)) return IndexRange{*step * type.batch.inner, *start, last};
    return never_positive(*step) ? Found({*step * type.batch.inner, last, *start}) : std::nullopt;
  }
  const Dim last = *start + *step * ((*type.shape)[0] - Dim(1));
  if (never_negative(*step)) return IndexRange{0, *start, last};
  return never_positive(*step) ? Found({0, last, *start}) : std::nullopt;
}

// Positions in a plane of the operand, if ATen's own padding suffices.
Found max_pool(const IntervalCall& call) {
  const auto window = window_of(call.attributes(), call.attributes().integers("kernel"));
  const auto& x = call.in(0).shape;
  if (call.result != 1 || !window.ok() || !aten_pads(*window) || !x || x->size() < 3) return std::nullopt;
  return IndexRange{0, 0, element_count(Shape(x->begin() + 2, x->end())) - Dim(1)};
}

Found argmax(const IntervalCall& call) {
  const auto& x = call.in(0).shape;
  if (!x || x->empty()) return std::nullopt;
  const int64_t axis = call.attributes().integer("axis"), rank = static_cast<int64_t>(x->size());
  if (axis < -rank || axis >= rank) return std::nullopt;
  return IndexRange{0, 0, (*x)[static_cast<size_t>(axis < 0 ? axis + rank : axis)] - Dim(1)};
}

Found topk(const IntervalCall& call) { return call.result == 1 ? argmax(call) : std::nullopt; }

Found one_hot(const IntervalCall&) { return IndexRange{0, 0, 1}; }

Found identity(const IntervalCall& call) { return call.aligned(0); }

Found cast(const IntervalCall& call) {
  const DType from = call.in(0).dtype, to = call.out().dtype;
  if (to == DType::kBool && from != DType::kBool) return IndexRange{0, 0, 1};
  Found found = call.aligned(0);
  if (found && is_integer(to) && byte_size(to) < 4 && !fits(*found, to)) return std::nullopt;
  return found;
}

Found expand(const IntervalCall& call) { return call.aligned(0); }

// If the last axis of the result has extent 1, the whole value is one component.
Found view(const IntervalCall& call) {
  const Shape& shape = *call.out().shape;
  const bool whole = call.component < 0 || (call.component == 0 && !shape.empty() && shape.back() == Dim(1));
  return whole ? call.operand(0, -1) : std::nullopt;
}

Found permute(const IntervalCall& call) { return call.component < 0 ? call.operand(0, -1) : std::nullopt; }

Found concat(const IntervalCall& call) {
  const auto rank = static_cast<int64_t>(call.out().shape->size());
  const int64_t given = call.attributes().integer("axis");
  const bool along_components = call.component >= 0 && (given < 0 ? given + rank : given) == rank - 1;
  const size_t parts = call.graph.inputs(call.task).size();
  if (!along_components) {
    Found found = call.operand(0, call.component);
    for (size_t i = 1; i < parts; ++i) found = joined(found, call.operand(i, call.component));
    return found;
  }
  int64_t component = call.component;
  for (size_t i = 0; i < parts; ++i) {
    const Dim& extent = call.in(i).shape->back();
    if (!extent.is_constant()) return std::nullopt;
    if (component < extent.constant()) return call.operand(i, component);
    component -= extent.constant();
  }
  return std::nullopt;
}

Found add(const IntervalCall& call) {
  const Found a = call.aligned(0), b = call.aligned(1);
  if (!a || !b) return std::nullopt;
  return IndexRange{a->factor + b->factor, a->low + b->low, a->high + b->high};
}

Found sub(const IntervalCall& call) {
  const Found a = call.aligned(0), b = call.aligned(1);
  if (!a || !b) return std::nullopt;
  return IndexRange{a->factor - b->factor, a->low - b->high, a->high - b->low};
}

Found mul(const IntervalCall& call) {
  const Found a = call.aligned(0), b = call.aligned(1);
  if (!a || !b) return std::nullopt;
  if (const auto by = single(b)) return scaled(*a, *by);
  if (const auto by = single(a)) return scaled(*b, *by);
  const auto is_natural = [](const Found& range) { return range->factor == Dim(0) && never_negative(range->low); };
  if (!is_natural(a) || !is_natural(b)) return std::nullopt;
  return IndexRange{0, a->low * b->low, a->high * b->high};
}

// Rounding towards zero equals rounding down for non-negative numbers.
Found div(const IntervalCall& call) {
  const Found a = call.aligned(0);
  const auto by = single(call.aligned(1));
  if (!a || !by || sign(*by) != 1 || !is_integer(call.out().dtype)) return std::nullopt;
  const bool downwards = call.attributes().text("rounding") == "floor";
  if (!downwards && !(never_negative(a->factor) && never_negative(a->low))) return std::nullopt;
  const auto factor = exact_div(a->factor, *by);
  if (!factor) return std::nullopt;
  return IndexRange{*factor, quotient(a->low, *by), quotient(a->high, *by)};
}

// Remainder with the divisor's sign.
Found mod(const IntervalCall& call) {
  const Found a = call.aligned(0);
  const auto by = single(call.aligned(1));
  if (!a || !by || sign(*by) != 1 || !is_integer(call.out().dtype)) return std::nullopt;
  if (!exact_div(a->factor, *by)) return std::nullopt;
  const Dim turns = quotient(a->low, *by);
  if (!(turns == quotient(a->high, *by))) return IndexRange{0, 0, *by - Dim(1)};
  return IndexRange{0, a->low - turns * *by, a->high - turns * *by};
}

Found maximum(const IntervalCall& call) {
  const Found a = call.aligned(0), b = call.aligned(1);
  if (!a || !b || !(a->factor == b->factor)) return std::nullopt;
  return IndexRange{a->factor, larger(a->low, b->low), larger(a->high, b->high)};
}

Found minimum(const IntervalCall& call) {
  const Found a = call.aligned(0), b = call.aligned(1);
  if (!a || !b || !(a->factor == b->factor)) return std::nullopt;
  return IndexRange{a->factor, smaller(a->low, b->low), smaller(a->high, b->high)};
}

// If the bounds cross, the upper one wins.
Found clamp(const IntervalCall& call) {
  Found found = call.aligned(0);
  if (!found || !(found->factor == Dim(0)) || !is_integer(call.out().dtype)) return std::nullopt;
  for (const char* name : {"min", "max"}) {
    const Attribute* given = call.attributes().find(name);
    if (given == nullptr) continue;
    const auto number = integer_element(*given, call.out().dtype);
    if (!number) return std::nullopt;
    const auto cut = std::string_view(name) == "min" ? larger : smaller;
    *found = {0, cut(found->low, *number), cut(found->high, *number)};
  }
  return found;
}

Found where(const IntervalCall& call) { return joined(call.aligned(1), call.aligned(2)); }

}  // namespace rannc::ir::ops::interval
