// Intervals of integer values: what each rule says, in literals, and that every element computed for small numbers of
// samples lies in it.
#include "ir/op/interval.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/op/fold.h"
#include "tests/ir/op/interval_cases.h"

namespace rannc::ir {
namespace {

using testing::interval_cases;
using testing::IntervalCase;
using testing::Maker;

StoredTensor evaluate(const Graph& graph, ValueId id) {
  const Graph::Value value = graph.value(id);
  if (value.kind == ValueKind::kConstant) return {value.type, value.data};
  if (value.type.contents) {
    std::vector<int64_t> numbers;
    for (const Dim& dim : *value.type.contents) numbers.push_back(dim.constant());
    return {value.type, encode_integers(value.type.dtype, numbers)};
  }
  std::vector<StoredTensor> stored;
  std::vector<const StoredTensor*> operands;
  for (const ValueId input : graph.inputs(value.producer)) stored.push_back(evaluate(graph, input));
  for (const StoredTensor& each : stored) operands.push_back(&each);
  const auto found =
      fold_integers(graph.op(value.producer), operands, graph.attributes(value.producer), std::span(&value.type, 1));
  EXPECT_TRUE(found.has_value()) << graph.op(value.producer).name;
  return found.value().front();
}

/// The number of the sample of each element; 0 without samples.
std::vector<int64_t> samples_of(const ValueType& symbolic, const ValueType& concrete, const Bindings& numbers) {
  std::vector<int64_t> samples(static_cast<size_t>(*static_count(concrete)), 0);
  if (!symbolic.batch.has_batch()) return samples;
  const auto axis = static_cast<size_t>(symbolic.batch.axis);
  int64_t below = symbolic.batch.inner.evaluate(numbers).value();
  for (size_t i = axis + 1; i < concrete.shape->size(); ++i) below *= (*concrete.shape)[i].constant();
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<int64_t>(i) / below % numbers.at("batch");
  }
  return samples;
}

class IntervalRule : public ::testing::TestWithParam<IntervalCase> {};

TEST_P(IntervalRule, SaysWhatItShould) {
  const IntervalCase& c = GetParam();
  Maker m;
  const auto found = Intervals(m.graph).of(c.build(m), c.component);
  ASSERT_EQ(found.has_value(), c.factor != nullptr);
  if (!found) return;
  EXPECT_EQ(found->factor.str(), c.factor);
  EXPECT_EQ(found->low, Dim::parse(c.low).value()) << found->low.str();
  EXPECT_EQ(found->high, Dim::parse(c.high).value()) << found->high.str();
}

TEST_P(IntervalRule, HoldsEveryElement) {
  const IntervalCase& c = GetParam();
  Maker m;
  const ValueId id = c.build(m);
  const auto found = Intervals(m.graph).of(id, c.component);
  if (!found || c.of_data) return;
  for (const Bindings& numbers :
       {Bindings{{"batch", 1}, {"s", 1}}, Bindings{{"batch", 3}, {"s", 2}}, Bindings{{"batch", 5}, {"s", 7}}}) {
    Maker concrete(numbers);
    const StoredTensor value = evaluate(concrete.graph, c.build(concrete));
    const auto elements = decode_integers(value.type, value.data, 1000).value();
    const auto samples = samples_of(m.graph.type(id), value.type, numbers);
    const int64_t low = found->low.evaluate(numbers).value(), high = found->high.evaluate(numbers).value();
    const int64_t components = value.type.shape->empty() ? 1 : value.type.shape->back().constant();
    for (size_t i = 0; i < elements.size(); ++i) {
      if (c.component >= 0 && static_cast<int64_t>(i) % components != c.component) continue;
      const int64_t rest = elements[i] - found->factor.evaluate(numbers).value() * samples[i];
      EXPECT_TRUE(low <= rest && rest <= high) << elements[i] << " of sample " << samples[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, IntervalRule, ::testing::ValuesIn(interval_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(IntervalRules, AllHaveACase) {
  std::set<std::string> said;
  for (const IntervalCase& c : interval_cases()) {
    Maker m;
    const ValueId id = c.build(m);
    if (c.factor != nullptr && m.graph.value(id).producer.valid()) {
      said.insert(m.graph.op(m.graph.value(id).producer).name);
    }
  }
  for (const OpInfo& op : core_ops()) {
    if (op.interval != nullptr) {
      EXPECT_TRUE(said.contains(op.name)) << op.name << " has an interval rule, but no case";
    }
  }
}

// A walk that visits a value once for each of its readers would not end.
TEST(Intervals, VisitSharedValuesOnce) {
  Maker m;
  ValueId value = m.samples();
  for (int i = 0; i < 60; ++i) value = m.op("add", {value, value});
  EXPECT_EQ(Intervals(m.graph).of(value)->factor, Dim(int64_t{1} << 60));
}

TEST(Intervals, EndAfterManySteps) {
  Maker m;
  ValueId value = m.samples();
  for (int i = 0; i < 100000; ++i) value = m.op("identity", {value});
  EXPECT_FALSE(Intervals(m.graph).of(value));
}

TEST(Intervals, SayNothingOfInputs) {
  Maker m;
  const ValueType type{.dtype = DType::kI64, .shape = Shape{m.batch}, .batch = {.axis = 0}};
  const ValueId input = m.graph.add_value(ValueKind::kInput, "x", type);
  EXPECT_FALSE(Intervals(m.graph).of(input));
  EXPECT_FALSE(Intervals(m.graph).of(m.op("add", {input, m.samples()})));
}

}  // namespace
}  // namespace rannc::ir
