#include "ir/op/interval.h"

#include <algorithm>

#include "ir/dim/dim_bounds.h"
#include "ir/graph/constant.h"

namespace rannc::ir {

namespace {

using Found = std::optional<IndexRange>;

constexpr int kMaxDepth = 64;
constexpr int64_t kMaxElements = 1 << 16;
constexpr int64_t kFar = int64_t{1} << 62;  // sums of two numbers within it do not wrap

bool is_far(const Dim& dim) { return dim.is_constant() && (dim.constant() > kFar || dim.constant() < -kFar); }

Found of_contents(const ValueType& type, int64_t component) {
  const Contents& contents = *type.contents;
  if (component < 0) return range_of(contents);
  if (type.shape->empty() || component >= static_cast<int64_t>(contents.size())) return std::nullopt;
  return range_of({contents[component]});
}

Found of_constant(const Graph::Value& value, int64_t component) {
  const auto values = decode_integers(value.type, value.data, kMaxElements);
  if (!values || values->empty()) return std::nullopt;
  const Shape& shape = *value.type.shape;
  const int64_t last = shape.empty() ? 1 : shape.back().constant();
  if (component >= last) return std::nullopt;
  const auto step = static_cast<size_t>(component < 0 ? 1 : last);
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (auto i = static_cast<size_t>(std::max<int64_t>(component, 0)); i < values->size(); i += step) {
    low = std::min(low, (*values)[i]);
    high = std::max(high, (*values)[i]);
  }
  return IndexRange{0, low, high};
}

}  // namespace

Found range_of(const Contents& contents) {
  if (contents.empty()) return std::nullopt;
  IndexRange found{0, contents[0], contents[0]};
  for (const Dim& dim : contents) {
    found.low = smaller(found.low, dim);
    found.high = larger(found.high, dim);
  }
  return found;
}

Found Intervals::of(ValueId id, int64_t component) {
  const std::pair<uint32_t, int64_t> key(id.index(), component);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  if (depth_ == kMaxDepth) return std::nullopt;
  ++depth_;
  Found found = find(id, component);
  --depth_;
  if (found && (is_far(found->factor) || is_far(found->low) || is_far(found->high))) found.reset();
  known_.emplace(key, found);
  return found;
}

Found Intervals::find(ValueId id, int64_t component) {
  const Graph::Value& value = graph_.value(id);
  if (!value.type.shape) return std::nullopt;
  if (value.type.contents) return of_contents(value.type, component);
  if (value.kind == ValueKind::kConstant) return of_constant(value, component);
  if (!value.producer.valid()) return std::nullopt;
  const OpInfo& op = graph_.op(value.producer);
  const auto results = graph_.outputs(value.producer);
  const auto place = static_cast<size_t>(std::find(results.begin(), results.end(), id) - results.begin());
  const Found found = op.interval ? op.interval({graph_, value.producer, component, *this, place}) : std::nullopt;
  return !found && value.type.dtype == DType::kBool ? IndexRange{0, 0, 1} : found;
}

bool IntervalCall::has(size_t operand) const {
  const auto inputs = graph.inputs(task);
  return operand < inputs.size() && inputs[operand].valid();
}

const ValueType& IntervalCall::in(size_t operand) const { return graph.type(graph.inputs(task)[operand]); }
const ValueType& IntervalCall::out() const { return graph.type(graph.outputs(task)[result]); }

Found IntervalCall::operand(size_t i, int64_t of_component) const {
  return intervals.of(graph.inputs(task)[i], of_component);
}

Found IntervalCall::aligned(size_t i) const {
  const auto& shape = in(i).shape;
  if (component < 0 || !shape) return operand(i, -1);
  const bool spread = shape->empty() || !(shape->back() == out().shape->back());
  return operand(i, spread ? -1 : component);
}

}  // namespace rannc::ir
