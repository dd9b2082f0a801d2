#include "passes/batch/internal/sample_places.h"

#include <algorithm>

namespace rannc::passes {

using ir::BatchLayout;
using ir::Dim;
using ir::Shape;
using ir::ValueType;

Shape with_samples(Shape shape, const BatchLayout& layout, const Samples& samples) {
  shape[static_cast<size_t>(layout.axis)] = layout.outer * samples.dim() * layout.inner;
  return shape;
}

ValueType with_samples(ValueType type, const BatchLayout& layout, const Samples& samples) {
  type.shape = with_samples(std::move(*type.shape), layout, samples);
  type.batch = layout;
  type.contents.reset();
  return type;
}

bool is_same_when_baked(const ValueType& now, const ValueType& before, const Samples& samples) {
  if (now.dtype != before.dtype || now.shape.has_value() != before.shape.has_value()) return false;
  if (!now.shape) return true;
  return std::equal(now.shape->begin(), now.shape->end(), before.shape->begin(), before.shape->end(),
                    [&](const Dim& a, const Dim& b) { return a.substitute(samples.symbol, samples.baked) == b; });
}

std::vector<BatchLayout> possible_places(const Shape& shape, const Samples& samples) {
  std::vector<BatchLayout> places;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto rest = ir::exact_div(shape[axis], samples.baked);
    if (!rest || *rest == Dim(0)) continue;
    places.push_back({static_cast<int32_t>(axis), 1, *rest});
    if (!(*rest == Dim(1))) places.push_back({static_cast<int32_t>(axis), *rest, 1});
  }
  return places;
}

std::vector<BatchLayout> places_after_reshape(const Shape& from, const BatchLayout& layout, const Shape& to,
                                              const Samples& samples) {
  const auto at = from.begin() + layout.axis;
  const Dim left = ir::element_count(Shape(from.begin(), at)) * layout.outer;
  const Dim right = ir::element_count(Shape(at + 1, from.end())) * layout.inner;
  std::vector<BatchLayout> places;
  Dim before = 1;
  for (size_t k = 0; k < to.size(); before = before * to[k], ++k) {
    const auto outer = ir::exact_div(left, before);
    const auto inner =
        ir::exact_div(right, ir::element_count(Shape(to.begin() + static_cast<int64_t>(k) + 1, to.end())));
    if (outer && inner && *outer * samples.baked * *inner == to[k]) {
      places.push_back({static_cast<int32_t>(k), *outer, *inner});
    }
  }
  const auto rank = [](const BatchLayout& place) {
    return place.outer == Dim(1) ? (place.inner == Dim(1) ? 0 : 1) : 2;
  };
  std::stable_sort(places.begin(), places.end(),
                   [&](const BatchLayout& a, const BatchLayout& b) { return rank(a) < rank(b); });
  return places;
}

}  // namespace rannc::passes
