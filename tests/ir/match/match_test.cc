// Patterns: each way to describe a shape of tasks, and what does not fit it.
#include "ir/match/match.h"

#include <gtest/gtest.h>

#include <array>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::ir {
namespace {

constexpr Capture kX{0}, kY{1}, kC{2}, kTask{3};

class Patterns : public ::testing::Test {
 protected:
  ValueId make(std::string_view name, std::initializer_list<ValueId> operands, Attributes attributes = {}) {
    return graph.add(core(name), operands, std::move(attributes));
  }
  ValueId stored(std::vector<double> numbers, std::vector<int64_t> shape = {}) {
    return add_constant(graph, "", DType::kF32, shape, numbers);
  }
  bool holds(ValueId value, const Pattern& pattern) const { return match(graph, value, pattern).has_value(); }

  Graph graph;
  const ValueType type{DType::kF32, Shape{4}, {}, {}};
  const ValueId x = graph.add_value(ValueKind::kInput, "x", type), y = graph.add_value(ValueKind::kInput, "y", type);
};

TEST_F(Patterns, AnOperatorIsAnyOfThoseNamed) {
  const ValueId sum = make("add", {x, y});
  EXPECT_TRUE(holds(sum, op("add")));
  EXPECT_TRUE(holds(sum, op({"mul", "add"})));
  EXPECT_FALSE(holds(sum, op({"mul", "sub"})));
  EXPECT_FALSE(holds(x, op("add")));
  EXPECT_FALSE(holds(ValueId(), op("add")));
  EXPECT_TRUE(match(graph, graph.producer(sum), op("add")).has_value());
}

TEST_F(Patterns, AForeignOperatorIsNoneOfOurs) {
  EXPECT_FALSE(holds(graph.add(graph.foreign_op("aten.add"), {x, y}), op("add")));
}

TEST_F(Patterns, AnUnknownNameIsOurBug) { EXPECT_THROW(op("ad"), InternalError); }

TEST_F(Patterns, OperandsAreThoseDescribed) {
  const ValueId product = make("mul", {make("relu", {x}), y});
  const auto found = match(graph, product, op("mul", op("relu", any(kX)), any(kY)));
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)[kX], x);
  EXPECT_EQ((*found)[kY], y);
  EXPECT_EQ(found->tasks(), (std::vector{TaskId(1), TaskId(0)}));
  EXPECT_FALSE(holds(product, op("mul", any(), op("relu", any()))));
  EXPECT_FALSE(holds(product, op("mul", any(), any(), any())));
}

TEST_F(Patterns, FurtherOperandsAreAbsent) {
  const ValueId with = make("linear", {x, y, x}), without = make("linear", {x, y}),
                skipped = make("linear", {x, y, ValueId()});
  const Pattern two = op("linear", any(), any()), three = op("linear", any(), any(), any());
  EXPECT_FALSE(holds(with, two));
  EXPECT_TRUE(holds(with, three));
  for (const ValueId value : {without, skipped}) {
    EXPECT_TRUE(holds(value, two));
    EXPECT_FALSE(holds(value, three));
    EXPECT_TRUE(holds(value, op("linear", any(), any(), absent())));
  }
  EXPECT_FALSE(holds(with, op("linear", any(), any(), absent())));
}

TEST_F(Patterns, AnOptionalOperandIsKeptWhereItIs) {
  const Pattern pattern = op("linear", any(), any(), maybe(input(kC)));
  EXPECT_EQ((*match(graph, make("linear", {x, y, x}), pattern))[kC], x);
  const auto without = match(graph, make("linear", {x, y}), pattern);
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->has(kC));
  EXPECT_THROW((*without)[kC], InternalError);
  EXPECT_FALSE(holds(make("linear", {x, y, make("relu", {x})}), pattern));
}

TEST_F(Patterns, EitherOrderIsTriedWhereAsked) {
  const Pattern pattern = op("add", any(kX), constant(kC));
  const ValueId two = stored({2});
  EXPECT_TRUE(holds(make("add", {x, two}), pattern));
  EXPECT_FALSE(holds(make("add", {two, x}), pattern));
  const auto found = match(graph, make("add", {two, x}), commutative(pattern));
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)[kX], x);
  EXPECT_EQ(found->number(kC), 2);
  EXPECT_FALSE(holds(make("add", {x, y}), commutative(pattern)));
}

TEST_F(Patterns, TheOrderThatIsWrittenIsTriedFirst) {
  const auto found = match(graph, make("mul", {x, y}), commutative(op("mul", any(kX), any(kY))));
  EXPECT_EQ((*found)[kX], x);
}

// The first order fits the sum itself; what follows asks for the other.
TEST_F(Patterns, AnEarlierChoiceIsTakenBack) {
  const ValueId product = make("mul", {make("add", {x, y}), y});
  const auto found = match(graph, product, op("mul", commutative(op("add", any(kX), any(kY))), same(kX)));
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)[kX], y);
  EXPECT_EQ((*found)[kY], x);
}

TEST_F(Patterns, EitherOrderIsOfTwoOperands) {
  EXPECT_THROW(commutative(op("relu", any())), InternalError);
  EXPECT_THROW(commutative(any()), InternalError);
}

TEST_F(Patterns, AConstantIsOneNumber) {
  EXPECT_EQ(match(graph, stored({3}), constant(kC))->number(kC), 3);
  EXPECT_EQ(match(graph, stored({3}, {1, 1}), constant(kC))->number(kC), 3);
  EXPECT_EQ(match(graph, make("full", {}, {{"value", 0.5}}), constant(kC))->number(kC), 0.5);
  EXPECT_EQ(match(graph, make("full", {}, {{"value", Dim(7)}}), constant(kC))->number(kC), 7);
  EXPECT_TRUE(holds(stored({3}), constant(3.0)));
  EXPECT_FALSE(holds(stored({3}), constant(2.0)));
  EXPECT_FALSE(holds(stored({3, 3}, {2}), constant()));
  EXPECT_FALSE(holds(stored({}, {0}), constant()));
  EXPECT_FALSE(holds(make("full", {}, {{"value", Dim::symbol("n")}}), constant()));
  EXPECT_FALSE(holds(x, constant()));
  EXPECT_FALSE(holds(graph.add_value(ValueKind::kConstant, "elsewhere", {DType::kF32, Shape{}, {}, {}}), constant()));
  EXPECT_FALSE(holds(graph.add_value(ValueKind::kParameter, "trained", {DType::kF32, Shape{}, {}, {}},
                                     encode_numbers(DType::kF32, std::array{1.0})),
                     constant()));
}

TEST_F(Patterns, AKindIsOfValuesNoTaskMakes) {
  EXPECT_TRUE(holds(x, input()));
  EXPECT_FALSE(holds(stored({1}), input()));
  EXPECT_TRUE(holds(stored({1}), of_kind(ValueKind::kConstant)));
  EXPECT_FALSE(holds(make("relu", {x}), input()));
}

TEST_F(Patterns, TheSameValueStandsTwice) {
  const ValueId square = make("mul", {x, x}), product = make("mul", {x, y});
  for (const Pattern& pattern : {op("mul", any(kX), same(kX)), op("mul", any(kX), any(kX))}) {
    EXPECT_TRUE(holds(square, pattern));
    EXPECT_FALSE(holds(product, pattern));
  }
  EXPECT_THROW(match(graph, square, op("mul", same(kX), any(kX))), InternalError);
}

TEST_F(Patterns, ATaskIsListedOnce) {
  const ValueId half = make("relu", {x});
  const auto found = match(graph, make("mul", {half, half}), op("mul", op("relu", any()), op("relu", any())));
  EXPECT_EQ(found->tasks(), (std::vector{TaskId(1), TaskId(0)}));
}

TEST_F(Patterns, AttributesAreAskedFor) {
  const ValueId over = make("sum", {x}, {{"axes", Shape{0}}}), all = make("sum", {x});
  EXPECT_TRUE(holds(over, op("sum").with("axes", Shape{0})));
  EXPECT_FALSE(holds(over, op("sum").with("axes", Shape{1})));
  EXPECT_FALSE(holds(all, op("sum").with("axes", Shape{0})));
  EXPECT_TRUE(holds(all, op("sum").without("axes")));
  EXPECT_FALSE(holds(over, op("sum").without("axes")));
  EXPECT_THROW(any().with("axes", Shape{0}), InternalError);
}

TEST_F(Patterns, AConditionReadsWhatWasKept) {
  const auto longer = [](const Match& found) {
    return found.attributes(kTask).integers("axes").size() == 1 && found[kX].valid();
  };
  const Pattern pattern = op("sum", any(kX)).as(kTask).where(longer);
  EXPECT_TRUE(holds(make("sum", {x}, {{"axes", Shape{0}}}), pattern));
  EXPECT_FALSE(holds(make("sum", {x}, {{"axes", Shape{0, 1}}}), pattern));
  EXPECT_FALSE(holds(make("add", {x, y}), commutative(op("add", any(kX), any()).where([this](const Match& found) {
                       return found[kX] != x && found[kX] != y;
                     }))));
  EXPECT_THROW(match(graph, x, any(kX).where([](const Match& found) { return found.task(kX).valid(); })),
               InternalError);
}

TEST_F(Patterns, AnOutputIsTheFirstUnlessSaid) {
  const std::array names = {std::string("a"), std::string("b")};
  const std::array operands = {x};
  const TaskId task = graph.add_task(core("split"), operands, {{"axis", Dim(0)}, {"sizes", Shape{2, 2}}}, names);
  const auto outputs = graph.outputs(task);
  EXPECT_TRUE(holds(outputs[0], op("split")));
  EXPECT_FALSE(holds(outputs[1], op("split")));
  EXPECT_TRUE(holds(outputs[1], op("split").output(1)));
  EXPECT_FALSE(holds(outputs[0], op("split").output(2)));
}

TEST_F(Patterns, OneUseIsOfOneReaderAndNoResult) {
  const ValueId twice = make("relu", {x}), once = make("relu", {x}), given_out = make("relu", {x}),
                numerator = make("relu", {x});
  const ValueId square = make("mul", {once, once});
  make("neg", {twice}), make("abs", {twice}), make("neg", {given_out}), make("neg", {numerator});
  graph.add_output(given_out);
  graph.add_loss({.numerator = numerator});
  const Pattern pattern = one_use(op("relu", any()));
  EXPECT_TRUE(holds(once, pattern));
  EXPECT_TRUE(holds(square, op("mul", pattern, pattern)));
  EXPECT_FALSE(holds(twice, pattern));
  EXPECT_FALSE(holds(given_out, pattern));
  EXPECT_FALSE(holds(numerator, pattern));
}

TEST_F(Patterns, ThroughSeesPastNoneOrMore) {
  const Pattern pattern = through({"cast", "reshape"}, input(kX));
  const ValueId once = make("cast", {x}), twice = make("reshape", {once, y});
  EXPECT_TRUE(match(graph, x, pattern)->tasks().empty());
  EXPECT_EQ(match(graph, twice, pattern)->tasks(), (std::vector{TaskId(1), TaskId(0)}));
  EXPECT_EQ((*match(graph, twice, pattern))[kX], x);
  EXPECT_FALSE(holds(make("cast", {make("relu", {x})}), pattern));
  EXPECT_FALSE(holds(make("relu", {x}), pattern));
}

TEST_F(Patterns, ThroughGoesAsFarAsItMatches) {
  const ValueId once = make("cast", {x}), twice = make("cast", {once});
  EXPECT_EQ((*match(graph, twice, through("cast", any(kX))))[kX], x);
  EXPECT_EQ((*match(graph, twice, through("cast", op("cast", any(kX)))))[kX], x);
  EXPECT_EQ((*match(graph, twice, through("cast", op("cast").as(kX))))[kX], once);
  EXPECT_EQ((*match(graph, twice, through("cast", input()).as(kX)))[kX], twice);
}

TEST_F(Patterns, ThroughExactStopsWhereACastMayChangeTheNumber) {
  const Pattern exact = through_exact({"cast", "reshape"}, input());
  const auto cast = [&](ValueId value, DType to) {
    const ValueId made = make("cast", {value});
    graph.set_type(made, {to, {}, {}, {}});
    return made;
  };
  const auto kind = [&](DType dtype) {
    graph.set_type(x, {dtype, {}, {}, {}});
    return x;
  };
  EXPECT_FALSE(holds(cast(cast(kind(DType::kF32), DType::kI64), DType::kF32), exact));
  EXPECT_FALSE(holds(cast(kind(DType::kF64), DType::kBool), exact));
  EXPECT_TRUE(holds(cast(kind(DType::kF64), DType::kF32), exact));
  EXPECT_FALSE(holds(cast(cast(kind(DType::kI64), DType::kBool), DType::kI64), exact));
  EXPECT_TRUE(holds(cast(cast(kind(DType::kI64), DType::kI32), DType::kF32), exact));
  EXPECT_TRUE(holds(cast(cast(kind(DType::kBool), DType::kI64), DType::kF32), exact));
}

TEST_F(Patterns, ThroughHasAnEnd) {
  ValueId value = x;
  for (size_t i = 0; i < kMostThrough; ++i) value = make("cast", {value});
  EXPECT_TRUE(holds(value, through("cast", input())));
  EXPECT_FALSE(holds(make("cast", {value}), through("cast", input())));
}

TEST_F(Patterns, EitherTakesTheFirstThatFits) {
  const ValueId pow = make("pow", {x, stored({2})});
  const Pattern square = either({op("mul", any(kX), same(kX)), op("pow", any(kX), constant(2.0))});
  EXPECT_TRUE(holds(pow, square));
  EXPECT_TRUE(holds(make("mul", {x, x}), square));
  EXPECT_FALSE(holds(make("pow", {x, stored({3})}), square));
  EXPECT_EQ((*match(graph, pow, either({any(kX), any(kY)})))[kX], pow);
}

// Sums of sums of any order have 2^n ways; the search gives up.
TEST_F(Patterns, ASearchIsBounded) {
  ValueId sum = x;
  Pattern pattern = any();
  for (int i = 0; i < 40; ++i) {
    sum = make("add", {sum, sum});
    pattern = commutative(op("add", pattern, any()));
  }
  EXPECT_TRUE(holds(sum, pattern));
  EXPECT_FALSE(holds(sum, pattern.where([](const Match&) { return false; })));
}

TEST_F(Patterns, LeadsToFollowsReaders) {
  const TaskId scores = graph.producer(make("matmul", {x, y}));
  const ValueId scaled = make("div", {graph.outputs(scores)[0], y});
  make("softmax", {make("where", {y, scaled, y})}, {{"axis", Dim(0)}});
  const Path path = {.through = {"div", "where"}, .to = "softmax"};
  EXPECT_TRUE(leads_to(graph, scores, path));
  EXPECT_FALSE(leads_to(graph, scores, {.through = {"div"}, .to = "softmax"}));
  EXPECT_FALSE(leads_to(graph, scores, {.through = {"div", "where"}, .to = "log_softmax"}));
  EXPECT_FALSE(
      leads_to(graph, graph.producer(graph.find(graph.value(scaled).name)), {.through = {"div"}, .to = "sin"}));
  EXPECT_TRUE(leads_to(graph, scores, path, 3));
  EXPECT_FALSE(leads_to(graph, scores, path, 2));
}

}  // namespace
}  // namespace rannc::ir
