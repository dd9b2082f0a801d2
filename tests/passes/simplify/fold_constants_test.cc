#include "passes/simplify/fold_constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/constant.h"
#include "ir/op/fold.h"
#include "ir/op/op.h"
#include "passes/evaluator.h"
#include "passes/simplify/infer_shapes.h"

namespace rannc::passes {
namespace {

using ir::core;
using ir::Dim;
using ir::Graph;
using ir::Shape;
using ir::ValueKind;
using ::testing::ElementsAre;

const Dim kBatch = Dim::symbol("batch");

// Doubles its operand and remembers that it was asked.
class Doubling : public Evaluator {
 public:
  Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op,
                                                 std::span<const ir::StoredTensor* const> operands,
                                                 const ir::Attributes&) const override {
    requested.push_back(op.name);
    if (op.name == "core.sin") return error("not here");
    auto numbers = ir::decode_numbers(operands[0]->type, operands[0]->data, 100).value();
    for (double& number : numbers) number *= 2;
    return std::vector<ir::StoredTensor>{{operands[0]->type, ir::encode_numbers(operands[0]->type.dtype, numbers)}};
  }
  mutable std::vector<std::string> requested;
};

class FoldConstantsTest : public ::testing::Test {
 protected:
  FoldConstantsTest() {
    graph_.set_batch_symbol("batch");
    ir::ValueType type;
    type.shape = Shape{kBatch, 12, 64};
    type.batch.axis = 0;
    x_ = graph_.add_value(ValueKind::kInput, "x", type);
    graph_.add_input(x_);
  }
  ValueId integers(std::string_view name, std::vector<int64_t> shape, std::vector<int64_t> values) {
    return ir::add_constant(graph_, name, ir::DType::kI64, shape, std::span<const int64_t>(values));
  }
  ValueId floats(std::string_view name, std::vector<double> values, ValueKind kind = ValueKind::kConstant) {
    const ValueId id = ir::add_constant(graph_, name, ir::DType::kF32, {static_cast<int64_t>(values.size())},
                                        std::span<const double>(values));
    graph_.set_kind(id, kind);
    return id;
  }
  bool run() {
    EXPECT_TRUE(InferShapes().run(graph_, context_).ok());
    return FoldConstants().run(graph_, context_).value().changed;
  }
  std::vector<std::string> operators() const {
    std::vector<std::string> names;
    for (const TaskId task : graph_.tasks()) names.push_back(graph_.op(task).name);
    return names;
  }
  std::vector<int64_t> data_of(std::string_view name) const {
    const Graph::Value& value = graph_.value(graph_.find(name));
    EXPECT_EQ(value.kind, ValueKind::kConstant);
    return ir::decode_integers(value.type, value.data, 1000).value();
  }

  Graph graph_;
  PassContext context_;
  ValueId x_;
};

// Shape -> Slice -> Concat -> Reshape, as exporters write it.
TEST_F(FoldConstantsTest, ShapeArithmeticVanishes) {
  const ValueId sizes = graph_.add(core("shape"), {x_});
  const ValueId front = graph_.add(core("slice"), {sizes, integers("a", {1}, {0}), integers("b", {1}, {-1})});
  const ValueId heads = integers("heads", {2}, {4, 16});
  const ValueId to = graph_.add(core("concat"), {front, heads}, {{"axis", Dim(0)}});
  graph_.add_output(graph_.add(core("reshape"), {x_, to}, {}, "y"));
  EXPECT_TRUE(run());
  EXPECT_THAT(operators(), ElementsAre("core.reshape"));
  EXPECT_EQ(graph_.inputs(TaskId(0)).size(), 1u);
  EXPECT_EQ(*graph_.attributes(TaskId(0)).list("shape"), (Shape{kBatch, 12, 4, 16}));
  EXPECT_EQ(graph_.value(graph_.outputs()[0]).name, "y");
  EXPECT_EQ(graph_.type(graph_.outputs()[0]).shape, (Shape{kBatch, 12, 4, 16}));
  for (const ValueId id : graph_.values()) EXPECT_NE(graph_.value(id).kind, ValueKind::kConstant);
  EXPECT_FALSE(run());
}

TEST_F(FoldConstantsTest, ScalarOperandsBecomeScalarAttributes) {
  const ValueId sizes = graph_.add(core("shape"), {x_}, {{"end", Dim(1)}});
  const ValueId batch = graph_.add(core("squeeze"), {sizes}, {{"axes", Shape{0}}});
  graph_.add_output(graph_.add(core("range"), {integers("zero", {}, {0}), batch, integers("one", {}, {1})}));
  EXPECT_TRUE(run());
  EXPECT_THAT(operators(), ElementsAre("core.range"));
  EXPECT_TRUE(graph_.inputs(TaskId(0)).empty());
  EXPECT_EQ(std::get<Dim>(*graph_.attributes(TaskId(0)).find("limit")), kBatch);
}

TEST_F(FoldConstantsTest, SizesReadAsDataReadNoOtherValue) {
  const ValueId sizes = graph_.add(core("shape"), {x_}, {}, "sizes");
  const ValueId numbers = graph_.add(core("cast"), {sizes}, {{"dtype", ir::DType::kF32}});
  graph_.add_output(graph_.add(core("sqrt"), {numbers}));
  EXPECT_TRUE(run());
  EXPECT_THAT(operators(), ElementsAre("core.full", "core.concat", "core.cast", "core.sqrt"));
  EXPECT_FALSE(graph_.has_uses(x_));
  EXPECT_EQ(graph_.type(graph_.find("sizes")).contents, (ir::Contents{kBatch, 12, 64}));
  EXPECT_FALSE(run());
}

TEST_F(FoldConstantsTest, KnownNumbersBecomeConstants) {
  const ValueId sizes = graph_.add(core("shape"), {x_}, {{"start", Dim(1)}}, "sizes");
  const ValueId numbers = graph_.add(core("cast"), {sizes}, {{"dtype", ir::DType::kF32}});
  graph_.add_output(numbers);
  EXPECT_TRUE(run());
  EXPECT_THAT(operators(), ElementsAre("core.cast"));
  EXPECT_THAT(data_of("sizes"), ElementsAre(12, 64));
}

TEST_F(FoldConstantsTest, IntegerTensorsAreComputedHere) {
  const ValueId a = integers("a", {2, 3}, {1, -2, 3, 4, 5, 6}), b = integers("b", {3}, {2, 2, -2});
  const ValueId quotient = graph_.add(core("div"), {a, b}, {{"rounding", std::string("trunc")}}, "quotient");
  const ValueId turned = graph_.add(core("permute"), {quotient}, {{"dims", Shape{1, 0}}}, "turned");
  const ValueId late = graph_.add(core("ge"), {turned, integers("two", {}, {2})}, {}, "late");
  const ValueId spread = graph_.add(core("expand"), {late}, {{"shape", Shape{2, 1, 1}}}, "spread");
  for (const ValueId id : {quotient, turned, late, spread}) graph_.add_output(id);
  EXPECT_TRUE(run());
  EXPECT_THAT(data_of("quotient.value"), ElementsAre(0, -1, -1, 2, 2, -3));
  EXPECT_THAT(data_of("turned.value"), ElementsAre(0, 2, -1, 2, -1, -3));
  EXPECT_THAT(data_of("late.value"), ElementsAre(0, 1, 0, 1, 0, 0));
  EXPECT_THAT(data_of("spread.value"), ElementsAre(0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0));
}

// Stages return what their tasks make.
TEST_F(FoldConstantsTest, OutputsAreMadeByTasks) {
  const ValueId known = graph_.add(core("neg"), {integers("n", {2}, {1, 2})}, {}, "known");
  const ValueId sizes = graph_.add(core("shape"), {x_}, {{"start", Dim(1)}}, "sizes");
  graph_.set_outputs({known, sizes});
  EXPECT_TRUE(run());
  EXPECT_THAT(operators(), ElementsAre("core.identity", "core.identity"));
  for (const ValueId output : graph_.outputs()) EXPECT_TRUE(graph_.producer(output).valid());
  EXPECT_EQ(graph_.value(graph_.outputs()[1]).name, "sizes");
  EXPECT_THAT(data_of("known.value"), ElementsAre(-1, -2));
  EXPECT_FALSE(run());
}

// A line of half a million elements: what takes the square of its length does not end.
TEST_F(FoldConstantsTest, RunningSumsAreFoldedInOneWalk) {
  constexpr int64_t kLong = 1 << 19;
  const ValueId line = integers("line", {kLong}, std::vector<int64_t>(kLong, 3));
  const ValueId sums = graph_.add(core("cumsum"), {line}, {{"axis", Dim(0)}, {"exclusive", true}, {"reverse", true}});
  graph_.add_output(graph_.add(core("slice"), {sums}, {{"starts", Shape{0}}, {"ends", Shape{2}}}, "first"));
  EXPECT_TRUE(run());
  EXPECT_THAT(data_of("first.value"), ElementsAre(3 * (kLong - 1), 3 * (kLong - 2)));
}

TEST_F(FoldConstantsTest, TooManyElementsStay) {
  ir::ValueType type{ir::DType::kI8, Shape{ir::kMostFoldedIntegers + 1}, {}, {}};
  const ValueId many = graph_.add_value(ValueKind::kConstant, "many", type,
                                        ir::TensorData::in_memory(std::vector<std::byte>(ir::kMostFoldedIntegers + 1)));
  graph_.add_output(graph_.add(core("neg"), {many}));
  EXPECT_FALSE(run());
  EXPECT_THAT(operators(), ElementsAre("core.neg"));
}

// A constant rearranged by a shape that is computed: both fold, and the shape is not built.
TEST_F(FoldConstantsTest, ConstantsRearrangedByKnownShapes) {
  const ValueId table = integers("table", {2, 3}, {1, 2, 3, 4, 5, 6});
  const ValueId length = graph_.add(core("shape"), {table}, {{"start", Dim(1)}});
  const ValueId to = graph_.add(core("concat"), {length, integers("rest", {1}, {-1})}, {{"axis", Dim(0)}});
  const ValueId turned = graph_.add(core("reshape"), {table, to}, {}, "turned");
  graph_.add_output(graph_.add(core("slice"), {turned, integers("s", {1}, {-1}), integers("e", {1}, {9})}, {}, "last"));
  EXPECT_TRUE(run());
  EXPECT_THAT(operators(), ElementsAre("core.identity"));
  EXPECT_THAT(data_of("last.value"), ElementsAre(5, 6));
  EXPECT_FALSE(graph_.find("turned").valid());
}

TEST_F(FoldConstantsTest, LargeResultsStayTasks) {
  const ValueId one = integers("one", {1, 1}, {7});
  graph_.add_output(graph_.add(core("expand"), {one}, {{"shape", Shape{1000, 1000}}}));
  EXPECT_FALSE(run());
  EXPECT_THAT(operators(), ElementsAre("core.expand"));
}

TEST_F(FoldConstantsTest, DivisionByZeroIsLeftToRunTime) {
  const ValueId a = integers("a", {1, 2}, {1, 2});
  graph_.add_output(graph_.add(core("div"), {a, integers("zero", {}, {0})}, {{"rounding", std::string("trunc")}}));
  EXPECT_FALSE(run());
  EXPECT_THAT(operators(), ElementsAre("core.div"));
}

TEST_F(FoldConstantsTest, FloatsGoThroughTheEvaluator) {
  const ValueId c = floats("c", {1, 2});
  const ValueId w = floats("w", {3, 4}, ValueKind::kParameter);
  graph_.add_output(graph_.add(core("erf"), {c}, {}, "folded"));
  graph_.add_output(graph_.add(core("sin"), {c}, {}, "refused"));
  graph_.add_output(graph_.add(core("erf"), {w}, {}, "trained"));
  EXPECT_FALSE(run());
  Doubling evaluator;
  context_.evaluator = &evaluator;
  EXPECT_TRUE(run());
  EXPECT_THAT(operators(), ElementsAre("core.sin", "core.erf", "core.identity"));
  EXPECT_THAT(evaluator.requested, ElementsAre("core.erf", "core.sin"));
  const Graph::Value& folded = graph_.value(graph_.find("folded.value"));
  EXPECT_THAT(ir::decode_numbers(folded.type, folded.data, 10).value(), ElementsAre(2, 4));
}

TEST_F(FoldConstantsTest, UnreadTasksAreDroppedAndLossesKept) {
  graph_.add(core("relu"), {x_}, {}, "unread");
  const ValueId kept = graph_.add(core("tanh"), {x_}, {}, "kept");
  graph_.add_loss({kept});
  EXPECT_TRUE(run());
  EXPECT_THAT(operators(), ElementsAre("core.tanh"));
  EXPECT_EQ(graph_.losses()[0].numerator, graph_.find("kept"));
}

}  // namespace
}  // namespace rannc::passes
