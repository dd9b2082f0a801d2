// Graphs, their copies, dimensions.
#include "ir/graph/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/graph/assumptions.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/support/random_graph.h"

namespace rannc::ir {
namespace {

TEST(Graph, CloneEqualsItsOriginal) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph({.seed = seed});
    const Graph copy = graph.clone();
    EXPECT_TRUE(equal(graph, copy));
    EXPECT_TRUE(verify(copy).empty());
  }
}

// Attributes compare as they print: every NaN alike, 0 and -0 apart.
TEST(Graph, AttributesWithoutNumbersEqualTheirCopies) {
  const Attributes nan{{"value", std::nan("")}}, other{{"value", -std::nan("1")}}, zero{{"value", 0.0}};
  EXPECT_EQ(nan, nan);
  EXPECT_EQ(nan, other);
  EXPECT_EQ(nan.hash(), other.hash());
  EXPECT_NE(nan, zero);
  EXPECT_NE(zero, (Attributes{{"value", -0.0}}));
  const Attributes list{{"values", std::vector<double>{1, std::nan("")}}};
  EXPECT_EQ(list, list);
  EXPECT_NE(list, (Attributes{{"values", std::vector<double>{1}}}));
  EXPECT_NE(nan, Attributes());
}

TEST(Graph, CopiesGoTheirOwnWays) {
  const ValueType type{DType::kF32, Shape{Dim::symbol("b"), 4}, {}, {}};
  Graph copy;
  {
    Graph graph;
    for (int i = 0; i < 1000; ++i) graph.add_value(ValueKind::kConstant, "first" + std::to_string(i), type);
    copy = graph.clone();
    graph.add_value(ValueKind::kConstant, "only in the original", {});
    copy.add_value(ValueKind::kConstant, "only in the copy", {DType::kI64, Shape{7}, {}, {}});
    EXPECT_FALSE(graph.find("only in the copy").valid());
    EXPECT_EQ(graph.value(graph.find("only in the original")).name, "only in the original");
    EXPECT_EQ(graph.type(graph.find("only in the original")), ValueType());
  }
  EXPECT_FALSE(copy.find("only in the original").valid());
  EXPECT_EQ(copy.type(copy.find("only in the copy")).shape, Shape{7});
  for (int i = 0; i < 1000; ++i) {
    const ValueId id = copy.find("first" + std::to_string(i));
    ASSERT_EQ(id, ValueId::from(static_cast<size_t>(i)));
    EXPECT_EQ(copy.type(id), type);
  }
}

TEST(Graph, TypesAndAttributesHaveEqualNumbersExactlyWhereTheyAreEqual) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph({.seed = seed});
    for (const ValueId a : graph.values()) {
      EXPECT_LT(graph.type_number(a), graph.type_count());
      for (const ValueId b : graph.values()) {
        EXPECT_EQ(graph.type_number(a) == graph.type_number(b), graph.type(a) == graph.type(b));
      }
    }
    for (const TaskId a : graph.tasks()) {
      for (const TaskId b : graph.tasks()) {
        EXPECT_EQ(graph.attributes_number(a) == graph.attributes_number(b), graph.attributes(a) == graph.attributes(b));
      }
    }
  }
}

TEST(Graph, NumbersThatPrintOtherwiseStayApart) {
  Graph graph;
  const ValueId x = graph.add_value(ValueKind::kInput, "x", {DType::kF32, Shape{4}, {}, {}});
  graph.add_input(x);
  const ValueId a = graph.add(core("leaky_relu"), {x}, {{"alpha", 0.0}}, "a");
  const ValueId b = graph.add(core("leaky_relu"), {x}, {{"alpha", -0.0}}, "b");
  EXPECT_FALSE(std::signbit(graph.attributes(graph.producer(a)).number("alpha")));
  EXPECT_TRUE(std::signbit(graph.attributes(graph.producer(b)).number("alpha")));
}

// What a rule has answered once holds for that question alone.
TEST(Graph, TypesFollowTheirOperandsAndTheBatch) {
  Graph graph;
  graph.set_batch_symbol("b");
  ValueType type{DType::kF32, Shape{Dim::symbol("b"), 4}, {}, {}};
  type.batch.axis = 0;
  const ValueId x = graph.add_value(ValueKind::kInput, "x", type);
  const ValueId y = graph.add(core("relu"), {x}, {}, "y");
  ASSERT_TRUE(infer_types(graph, graph.producer(y)).ok());
  EXPECT_EQ(graph.type(y), type);
  type.shape = Shape{Dim::symbol("b"), 8};
  graph.set_type(x, type);
  ASSERT_TRUE(infer_types(graph, graph.producer(y)).ok());
  EXPECT_EQ(graph.type(y), type);
  graph.set_type(x, {DType::kF64, Shape{3}, {}, {}});
  ASSERT_TRUE(infer_types(graph, graph.producer(y)).ok());
  EXPECT_EQ(graph.type(y).dtype, DType::kF64);
}

// What was inferred before is not the answer after sizes were assumed to be equal.
TEST(Graph, TypesFollowItsAssumptions) {
  Graph graph;
  const ValueId x = graph.add_value(ValueKind::kInput, "x", {DType::kF32, Shape{Dim::symbol("s"), 3}, {}, {}});
  graph.add_input(x);
  const Attributes bounds = {{"axes", Shape{0}}, {"starts", Shape{0}}, {"ends", Shape{INT64_MAX}}, {"steps", Shape{2}}};
  const ValueId made = graph.add(core("slice"), {x}, bounds, "every_second");
  const TaskId task = graph.producer(made);
  ASSERT_TRUE(infer_types(graph, task).ok());
  const Dim half = graph.type(made).shape->front();
  ASSERT_FALSE(half.is_constant());
  std::vector<bool> changed;
  ASSERT_TRUE(assume(graph, {half, Dim(4)}, {}, changed).ok());
  ASSERT_TRUE(infer_types(graph, task).ok());
  EXPECT_EQ(str(*graph.type(made).shape), "[4,3]");
}

TEST(Graph, UsesAreThoseOfTheOperands) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph({.seed = seed});
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> uses(graph.value_count());
    for (const TaskId task : graph.tasks()) {
      for (uint32_t i = 0; i < graph.inputs(task).size(); ++i)
        uses[graph.inputs(task)[i].index()].emplace_back(task.index(), i);
    }
    for (const ValueId value : graph.values()) {
      std::vector<std::pair<uint32_t, uint32_t>> found;
      for (const Graph::Use use : graph.uses(value)) found.emplace_back(use.task.index(), use.operand);
      EXPECT_EQ(found, uses[value.index()]);
      EXPECT_EQ(graph.has_uses(value), !found.empty());
    }
  }
}

TEST(Graph, NamesAreUnique) {
  Graph graph;
  const ValueType type{DType::kF32, Shape{}, {}, {}};
  EXPECT_EQ(graph.value(graph.add_value(ValueKind::kConstant, "a", type)).name, "a");
  EXPECT_EQ(graph.value(graph.add_value(ValueKind::kConstant, "a.1", type)).name, "a.1");
  EXPECT_EQ(graph.value(graph.add_value(ValueKind::kConstant, "a", type)).name, "a.2");
  EXPECT_EQ(graph.value(graph.add_value(ValueKind::kConstant, "v4", type)).name, "v4");
  EXPECT_NE(graph.value(graph.add_value(ValueKind::kConstant, "", type)).name, "v4");
  EXPECT_TRUE(verify(graph).empty());
}

TEST(Rewriter, CopyOfEveryTaskIsTheSameGraphButForIds) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph({.seed = seed});
    Rewriter rewriter(graph);
    for (const TaskId task : graph.tasks()) rewriter.copy(task);
    const Graph copy = std::move(rewriter).finish();
    EXPECT_TRUE(verify(copy).empty());
    EXPECT_EQ(print(copy), print(graph));  // leaves stand first in both
  }
}

// A task of the result is read, gives an output, or keeps statistics; nothing that was needed is gone.
TEST(Rewriter, RemoveDeadLeavesWhatIsNeeded) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = testing::random_graph({.seed = seed});
    const size_t inputs = graph.inputs().size(), outputs = graph.outputs().size();
    std::vector<bool> output(graph.value_count());
    remove_dead(graph);
    EXPECT_TRUE(verify(graph).empty());
    EXPECT_EQ(graph.inputs().size(), inputs);
    EXPECT_EQ(graph.outputs().size(), outputs);
    for (const ValueId id : graph.outputs()) output[id.index()] = true;
    for (const TaskId task : graph.tasks()) {
      bool needed = false;
      for (const ValueId id : graph.outputs(task)) needed = needed || graph.has_uses(id) || output[id.index()];
      EXPECT_TRUE(needed) << "task #" << task.index();
    }
    EXPECT_FALSE(remove_dead(graph)) << "it is idempotent";
  }
}

// Nothing else reads what becomes running statistics.
TEST(Rewriter, RemoveDeadLeavesWhatStatisticsNeed) {
  const std::string text = R"(rannc.graph 1
batch batch
input %x: f32[batch,3] samples 0
parameter %s: f32[3]
parameter %b: f32[3]
parameter %unread: f32[3]
buffer %rm: f32[3]
buffer %rv: f32[3]
#0 %y: f32[batch,3] samples 0, %m: f32[3], %v: f32[3] = core.batch_norm(%x, %s, %b, %rm, %rv) {training = true}
inputs [%x]
outputs [%x]
statistics %rm, %rv = %m, %v
)";
  Graph graph = parse_graph(text, "t.rir").value();
  EXPECT_TRUE(remove_dead(graph));
  EXPECT_EQ(graph.task_count(), 1u);
  EXPECT_FALSE(graph.find("unread").valid());
  std::string kept = text;
  kept.erase(kept.find("parameter %unread"), std::string("parameter %unread: f32[3]\n").size());
  EXPECT_EQ(print(graph), kept);
}

// --- dimensions

Dim random_dim(std::mt19937_64& random, int depth) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  if (depth == 0 || below(4) == 0) {
    return below(2) == 0 ? Dim(below(12) - 3) : Dim::symbol(std::string(1, static_cast<char>('a' + below(3))));
  }
  const Dim a = random_dim(random, depth - 1), b = random_dim(random, depth - 1);
  switch (below(7)) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return floor_div(a, b);
    case 4:
      return mod(a, b);
    case 5:
      return max(a, b);
    default:
      return min(a, b);
  }
}

TEST(Dim, ParsesItsOwnText) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const Dim dim = random_dim(random, 3);
    const auto again = Dim::parse(dim.str());
    ASSERT_TRUE(again.ok()) << again.diagnostic().str();
    ASSERT_TRUE(*again == dim) << dim.str() << " became " << again->str();
  }
}

// Simplification keeps the value: a sum, product … of expressions evaluates to the sum, product … of their values.
TEST(Dim, ArithmeticAgreesWithIntegers) {
  std::mt19937_64 random(2);
  const auto floor_quotient = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); };
  int compared = 0;
  for (int i = 0; i < 20000; ++i) {
    const Dim a = random_dim(random, 2), b = random_dim(random, 2);
    const Bindings bindings = {{"a", 1 + static_cast<int64_t>(random() % 7)},
                               {"b", 1 + static_cast<int64_t>(random() % 7)},
                               {"c", 1 + static_cast<int64_t>(random() % 7)}};
    const auto x = a.evaluate(bindings), y = b.evaluate(bindings);
    if (!x || !y) continue;
    ++compared;
    const std::string pair = a.str() + " and " + b.str();
    ASSERT_EQ((a + b).evaluate(bindings), *x + *y) << pair;
    ASSERT_EQ((a - b).evaluate(bindings), *x - *y) << pair;
    ASSERT_EQ((a * b).evaluate(bindings), *x * *y) << pair;
    ASSERT_EQ(max(a, b).evaluate(bindings), std::max(*x, *y)) << pair;
    ASSERT_EQ(min(a, b).evaluate(bindings), std::min(*x, *y)) << pair;
    if (*y == 0) continue;
    ASSERT_EQ(floor_div(a, b).evaluate(bindings), floor_quotient(*x, *y)) << pair;
    ASSERT_EQ(mod(a, b).evaluate(bindings), *x - floor_quotient(*x, *y) * *y) << pair;
  }
  EXPECT_GT(compared, 10000);
}

// Sizes of chunks: ceil(3 * batch / 3).
TEST(Dim, WholeMultiplesLeaveAQuotient) {
  const Dim batch = Dim::symbol("batch"), other = Dim::symbol("s");
  EXPECT_EQ(floor_div(Dim(3) * batch + Dim(2), 3), batch);
  EXPECT_EQ(floor_div(Dim(4) * batch - Dim(1), 2), Dim(2) * batch - Dim(1));
  EXPECT_EQ(mod(Dim(3) * batch - Dim(1), 3), Dim(2));
  EXPECT_EQ(floor_div(Dim(3) * batch + other, 3).str(), "floor((3*batch + s)/(3))");
}

TEST(Dim, SubstitutionAgreesWithBinding) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const Dim dim = random_dim(random, 3), by = random_dim(random, 1);
    const Bindings bindings = {{"a", 2}, {"b", 5}, {"c", 3}};
    const auto value = by.evaluate(bindings);
    if (!value) continue;
    Bindings bound = bindings;
    bound["a"] = *value;
    const auto expected = dim.evaluate(bound);
    if (!expected) continue;
    ASSERT_EQ(dim.substitute("a", by).evaluate(bindings), expected) << dim.str() << " with a = " << by.str();
  }
}

TEST(Dim, TheLeastIntegerPrintsParsesAndComputes) {
  const Dim least(INT64_MIN), x = Dim::symbol("x");
  for (const Dim& dim : {least, least * x, x + least, least * x * x + least * x + Dim(1)}) {
    const auto again = Dim::parse(dim.str());
    ASSERT_TRUE(again.ok()) << dim.str();
    EXPECT_EQ(*again, dim) << dim.str();
  }
  EXPECT_FALSE(Dim::parse("9223372036854775808").ok());
  EXPECT_FALSE(Dim::parse("-9223372036854775809").ok());
  EXPECT_EQ(max(least, Dim(5)), Dim(5));
  EXPECT_EQ(min(least, Dim(5)), least);
  EXPECT_EQ(mod(least, Dim(3)), Dim(1));
  EXPECT_EQ(mod(Dim(5), least), Dim(INT64_MIN + 5));
}

// An overflown difference orders nothing.
TEST(Dim, ExtremaOfFarValuesStayOpen) {
  const Dim x = Dim::symbol("x");
  const Dim low = x + Dim(INT64_MIN), high = x + Dim(INT64_MAX);
  EXPECT_EQ(max(low, high).evaluate({{"x", 0}}), INT64_MAX);
  EXPECT_EQ(min(low, high).evaluate({{"x", 0}}), INT64_MIN);
}

TEST(Dim, HostileTextEndsSoon) {
  std::string product = "(a0+b0)", quotient = "a", deep;
  for (int i = 1; i < 200; ++i) product += "*(a" + std::to_string(i) + "+b" + std::to_string(i) + ")";
  for (int i = 0; i < 600; ++i) quotient += "//b";
  for (int i = 0; i < 2000; ++i) deep += "(";
  EXPECT_TRUE(Dim::parse(product).ok());
  EXPECT_TRUE(Dim::parse(quotient).ok());
  EXPECT_FALSE(Dim::parse(deep).ok());
  EXPECT_FALSE(Dim::parse(std::string(100000, '1')).ok());
  EXPECT_FALSE(exact_div(Dim(INT64_MIN), Dim(-1)) == std::nullopt);
}

}  // namespace
}  // namespace rannc::ir
