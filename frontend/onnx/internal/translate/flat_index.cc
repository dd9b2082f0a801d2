#include "frontend/onnx/internal/translate/flat_index.h"

#include <algorithm>

namespace rannc::frontend {

namespace {

constexpr ir::Capture kX{0}, kLeft{1}, kRight{2};
constexpr size_t kMostTerms = 16;

struct Term {
  ValueId value;
  ir::Dim stride;
};

/// Splits a product with a size into its factors. Any other value has the stride 1.
Term term_of(const Node& node, ValueId value) {
  if (const auto product = node.match(value, ir::op("mul", ir::any(kLeft), ir::any(kRight)))) {
    for (const auto& [factor, other] : {std::pair(kLeft, kRight), std::pair(kRight, kLeft)}) {
      const auto size = node.contents((*product)[factor]);
      if (size && size->size() == 1) return {(*product)[other], size->front()};
    }
  }
  return {value, ir::Dim(1)};
}

void collect_terms(const Node& node, ValueId value, std::vector<Term>& terms) {
  const auto sum = node.match(value, ir::op("add", ir::any(kLeft), ir::any(kRight)));
  if (!sum || terms.size() > kMostTerms) return terms.push_back(term_of(node, value));
  collect_terms(node, (*sum)[kLeft], terms);
  collect_terms(node, (*sum)[kRight], terms);
}

/// Returns the strides of x's first axes after they are flattened to one axis of `rows`. Returns nothing if no axes
/// have that product, if it is a single axis, or if two strides are equal.
std::vector<ir::Dim> strides_of(const ir::Shape& x, const ir::Dim& rows) {
  ir::Dim count = 1;
  size_t axes = 0;
  while (axes < x.size() && !(count == rows)) count = count * x[axes++];
  if (axes < 2 || !(count == rows)) return {};
  std::vector<ir::Dim> strides(axes, ir::Dim(1));
  for (size_t axis = axes - 1; axis-- > 0;) strides[axis] = strides[axis + 1] * x[axis + 1];
  for (size_t axis = 0; axis + 1 < axes; ++axis) {
    if (x[axis + 1] == ir::Dim(1)) return {};
  }
  return strides;
}

/// Replaces negative indices by one beyond the axis, which is an error at run time. Flattened, they would pick from the
/// sample before.
ValueId never_from_end(Node& node, ValueId index, const ir::Dim& extent) {
  if (node.never_negative(index)) return index;
  const ir::DType dtype = node.dtype(index);
  const ValueId beyond = node.emit("full", {}, {{"shape", ir::Shape{}}, {"value", extent}, {"dtype", dtype}});
  return node.emit("where", {node.emit("lt", {index, node.scalar(0, dtype)}), beyond, index});
}

}  // namespace

std::optional<Places> places_in_samples(Node& node, ValueId flat, ValueId index) {
  const auto laid = node.match(flat, ir::op("reshape", ir::any(kX)));
  if (!laid) return std::nullopt;
  Places places{(*laid)[kX], {}};
  const ir::ValueType& type = node.type(places.x);
  const auto& rows = node.type(flat).shape;
  if (!type.shape || !rows || rows->empty() || !type.batch.has_batch() || type.batch.axis != 0) return std::nullopt;
  const ir::Shape sizes = *type.shape;  // a copy, because adding tasks moves the shapes of values
  const std::vector<ir::Dim> strides = strides_of(sizes, rows->front());
  std::vector<Term> terms;
  collect_terms(node, index, terms);
  if (strides.empty()) return std::nullopt;
  for (const Term& term : terms) {
    if (std::find(strides.begin(), strides.end(), term.stride) == strides.end()) return std::nullopt;
  }
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    ValueId sum;
    for (const Term& term : terms) {
      if (term.stride == strides[axis]) sum = sum.valid() ? node.emit("add", {sum, term.value}) : term.value;
    }
    if (!sum.valid()) return std::nullopt;
    places.each.push_back(axis == 0 ? sum : never_from_end(node, sum, sizes[axis]));
  }
  return places;
}

}  // namespace rannc::frontend
