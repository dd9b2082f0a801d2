// Products with stored matrices, turned or with a bias added: linear.
// Example: `tests/passes/golden/fuse_linear.rir`.
#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kWeight{1}, kBias{2}, kTurned{3}, kProduct{4};

bool is_matrix(const Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  return shape && shape->size() == 2;
}

/// x has rows of features, and what is added is one number for each feature of the result.
bool multiplies_rows(const Match& match) {
  const Graph& graph = match.graph();
  const ValueType& x = graph.type(match[kX]);
  if (!x.shape || x.shape->size() < 2 || !is_matrix(graph, match[kWeight])) return false;
  if (x.batch.axis == static_cast<int32_t>(x.shape->size()) - 1) return false;  // sums over samples
  if (!match.has(kBias)) return true;
  const ValueType &bias = graph.type(match[kBias]), &made = graph.type(match[kProduct]);
  return made.shape && bias.dtype == x.dtype && bias.shape == Shape{made.shape->back()};
}

bool turns_matrix(const Match& match) {
  return match.attributes(kTurned).integers("dims") == std::vector<int64_t>{1, 0};
}

Attributes attributes(const Match& match) { return {{"layout", std::string(match.has(kTurned) ? "oi" : "io")}}; }

}  // namespace

std::vector<Rewrite> linear() {
  const Pattern stored = of_kind(ValueKind::kParameter, kWeight);
  const Pattern weight = either({op("permute", stored).as(kTurned).where(turns_matrix), stored});
  const Pattern product = op("matmul", any(kX), weight).as(kProduct);
  const Becomes rows{"linear", {kX, kWeight, kBias}, attributes};
  return {rule("linear", commutative(op("add", product, any(kBias))).where(multiplies_rows), rows),
          rule("linear without bias", product.where(multiplies_rows), rows)};
}

}  // namespace rannc::passes::fusion
