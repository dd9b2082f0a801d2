#include "passes/simplify/infer_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "passes/pipeline.h"

namespace rannc::passes {
namespace {

using ir::core;
using ir::Dim;
using ir::Graph;
using ir::Shape;
using ir::ValueKind;
using ::testing::HasSubstr;

const Dim kBatch = Dim::symbol("batch");

ir::ValueType typed(ir::DType dtype, Shape shape, int axis = -1, Dim inner = 1) {
  ir::ValueType type;
  type.dtype = dtype;
  type.shape = std::move(shape);
  type.batch.axis = axis;
  type.batch.inner = inner;
  return type;
}

class InferShapesTest : public ::testing::Test {
 protected:
  InferShapesTest() { graph_.set_batch_symbol("batch"); }
  ValueId input(std::string_view name, ir::DType dtype, Shape shape, int axis = 0) {
    const ValueId id = graph_.add_value(ValueKind::kInput, name, typed(dtype, std::move(shape), axis));
    graph_.add_input(id);
    return id;
  }
  ValueId integers(std::string_view name, std::vector<int64_t> shape, std::vector<int64_t> values) {
    return ir::add_constant(graph_, name, ir::DType::kI64, shape, std::span<const int64_t>(values));
  }
  Result<Outcome> run() { return InferShapes().run(graph_, context_); }
  // `range(0, batch)` as indices of a gather_nd, with `position` as the second component.
  ValueId sample_and(ValueId numbers, ValueId position) {
    const ValueId column = graph_.add(core("unsqueeze"), {numbers}, {{"axes", Shape{1, 2}}});
    const ValueId rows = graph_.add(core("expand"), {column}, {{"shape", Shape{kBatch, 3, 1}}});
    const ValueId positions = graph_.add(core("expand"), {position}, {{"shape", Shape{kBatch, 3, 1}}});
    return graph_.add(core("concat"), {rows, positions}, {{"axis", Dim(2)}});
  }

  Graph graph_;
  PassContext context_;
};

struct IndexedBy {
  const char* op;
  std::vector<int64_t> shape, right, wrong;  ///< of the constant indices into f32[3,4], and their elements
  ir::Attributes attributes;
  bool updates = false;
};

TEST(ConstantIndicesTest, AreInRange) {
  const std::vector<IndexedBy> cases = {
      {"gather", {2}, {-3, 2}, {0, 3}, {{"axis", Dim(0)}}},
      {"gather", {2}, {-4, 3}, {0, -5}, {{"axis", Dim(1)}}},
      {"gather_elements", {1, 2}, {0, 3}, {4, 0}, {{"axis", Dim(1)}}},
      {"gather_nd", {1, 2}, {2, 3}, {3, 2}, {}},
      {"gather_nd", {2, 1}, {2, 0}, {0, 3}, {}},
      {"scatter_elements", {1, 2}, {0, 3}, {4, 0}, {{"axis", Dim(1)}}, true},
      {"scatter_nd", {1, 2}, {-3, -4}, {-4, 0}, {}, true},
  };
  for (const IndexedBy& each : cases) {
    for (const bool right : {true, false}) {
      Graph graph;
      const ValueId x = graph.add_value(ValueKind::kInput, "x", typed(ir::DType::kF32, {3, 4}));
      graph.add_input(x);
      const auto& elements = right ? each.right : each.wrong;
      const ValueId indices =
          ir::add_constant(graph, "i", ir::DType::kI64, each.shape, std::span<const int64_t>(elements));
      std::vector<ValueId> operands = {x, indices};
      if (each.updates) {
        Shape updates(each.shape.begin(), each.shape.end());
        if (each.op == std::string("scatter_nd")) updates.pop_back();
        operands.push_back(graph.add_value(ValueKind::kInput, "u", typed(ir::DType::kF32, updates)));
        graph.add_input(operands.back());
      }
      const std::string name = "y";
      graph.add_output(graph.outputs(graph.add_task(core(each.op), operands, each.attributes, {&name, 1}))[0]);
      PassContext context;
      EXPECT_TRUE(InferShapes(ConstantIndices::kUnchecked).run(graph, context).ok()) << each.op;
      Graph whole = graph.clone();
      const auto outcome = InferShapes().run(graph, context);
      ASSERT_EQ(outcome.ok(), right) << each.op << (right ? ": " + outcome.diagnostic().str() : "");
      if (right) continue;
      EXPECT_THAT(outcome.diagnostic().message, HasSubstr("of the constant indices %i is ")) << each.op;
      const RunReport report = standard_pipeline({}).run(whole, context);
      ASSERT_FALSE(report.ok()) << each.op;
      EXPECT_EQ(report.failure->message, outcome.diagnostic().message);
    }
  }
}

TEST_F(InferShapesTest, FillsTypesAndSaysWhetherAnythingChanged) {
  const ValueId x = input("x", ir::DType::kF32, {kBatch, 4});
  const ValueId shape = integers("shape", {3}, {0, 2, 2});
  graph_.set_type(shape, typed(ir::DType::kI64, {3}));  // as a frontend that does not read constants leaves it
  const ValueId starts = integers("starts", {1}, {1});
  const ValueId sizes = graph_.add(core("slice"), {shape, starts}, {{"ends", Shape{3}}});
  const ValueId batch = graph_.add(core("shape"), {x}, {{"end", Dim(1)}});
  const ValueId to = graph_.add(core("concat"), {batch, sizes}, {{"axis", Dim(0)}});
  const ValueId y = graph_.add(core("reshape"), {x, to});
  EXPECT_TRUE(run().value().changed);
  EXPECT_EQ(graph_.type(y).shape, (Shape{kBatch, 2, 2}));
  EXPECT_EQ(graph_.type(y).batch.axis, 0);
  EXPECT_FALSE(run().value().changed);
}

TEST_F(InferShapesTest, TwoNamesOfOneSizeBecomeOne) {
  const Dim s = Dim::symbol("s"), t = Dim::symbol("t");
  const ValueId a = input("a", ir::DType::kF32, {kBatch, s});
  const ValueId b = input("b", ir::DType::kF32, {Dim::symbol("other"), t});
  const ValueId y = graph_.add(core("add"), {a, b});
  const ValueId z = graph_.add(core("reshape"), {b}, {{"shape", Shape{Dim::symbol("other") * t}}});
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(graph_.type(y).shape, (Shape{kBatch, s}));
  EXPECT_EQ(graph_.type(b).shape, (Shape{kBatch, s}));
  EXPECT_EQ(graph_.type(z).shape, (Shape{kBatch * s}));
  ASSERT_EQ(context_.remarks.size(), 2u);
  EXPECT_EQ(context_.remarks[0].message, "t is the same size as s");
  EXPECT_EQ(context_.remarks[1].message, "other is the same size as batch");
}

TEST_F(InferShapesTest, DrawsFollowWhatTheyStandBeside) {
  const Dim s = Dim::symbol("s"), t = Dim::symbol("t");
  const ValueId a = input("a", ir::DType::kF32, {kBatch, s});
  const ValueId b = input("b", ir::DType::kF32, {kBatch, t});
  const ValueId sum = graph_.add(core("add"), {a, b});
  const ValueId drawn = graph_.add_random_input("drawn", graph_.type(sum), {.of = ir::RandomInput::Of::kNormal});
  const ValueId y = graph_.add(core("mul"), {sum, drawn});
  ASSERT_FALSE(graph_.type(drawn).shape);
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(graph_.type(drawn).shape, (Shape{kBatch, s}));
  EXPECT_EQ(graph_.type(drawn), graph_.type(y));
  EXPECT_FALSE(run().value().changed);
}

TEST_F(InferShapesTest, TheBatchIsNeverReplacedByANumber) {
  const ValueId a = input("a", ir::DType::kF32, {kBatch, 3});
  const ValueId table = graph_.add_value(ValueKind::kConstant, "table", typed(ir::DType::kF32, {8, 3}));
  const std::vector<ValueId> operands = {a, table};
  const std::vector<std::string> names = {"y"};
  graph_.add_task(core("add"), operands, {}, names, {"m.onnx", 0, 0, "add_1"});
  const auto found = run();
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().where.node, "add_1");
  EXPECT_THAT(found.diagnostic().message, HasSubstr("batch against 8"));
}

TEST_F(InferShapesTest, GatherBySampleNumberIsProved) {
  const ValueId mask = input("mask", ir::DType::kBool, {kBatch, 12});
  const ValueId numbers = graph_.add(core("range"), {}, {{"limit", kBatch}});
  const ValueId positions = integers("positions", {1, 3, 1}, {0, 5, 11});
  const ValueId y = graph_.add(core("gather_nd"), {mask, sample_and(numbers, positions)});
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(graph_.type(y).shape, (Shape{kBatch, 3}));
  EXPECT_EQ(graph_.type(y).batch.axis, 0);
}

TEST_F(InferShapesTest, ScatterBySampleNumberIsProved) {
  const ValueId mask = input("mask", ir::DType::kBool, {kBatch, 12});
  const ValueId updates = input("updates", ir::DType::kBool, {kBatch, 3});
  const ValueId numbers = graph_.add(core("range"), {}, {{"limit", kBatch}});
  const ValueId positions = integers("positions", {1, 3, 1}, {0, 5, 11});
  const ValueId y = graph_.add(core("scatter_nd"), {mask, sample_and(numbers, positions), updates});
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(graph_.type(y).shape, (Shape{kBatch, 12}));
  EXPECT_EQ(graph_.type(y).batch.axis, 0);
}

TEST_F(InferShapesTest, ScatterIntoOtherSamplesIsAnError) {
  const ValueId mask = input("mask", ir::DType::kBool, {kBatch, 12});
  const ValueId updates = input("updates", ir::DType::kBool, {kBatch, 3});
  const ValueId numbers = graph_.add(core("range"), {}, {{"start", Dim(1)}, {"limit", kBatch + Dim(1)}});
  const ValueId positions = integers("positions", {1, 3, 1}, {0, 5, 11});
  graph_.add(core("scatter_nd"), {mask, sample_and(numbers, positions), updates}, {}, "written");
  const auto found = run();
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.diagnostic().message, HasSubstr("core.scatter_nd picks samples along axis 0 of [batch,12]"));
}

TEST_F(InferShapesTest, GatherByOtherSamplesIsAnError) {
  const ValueId mask = input("mask", ir::DType::kBool, {kBatch, 12});
  const ValueId numbers = graph_.add(core("range"), {}, {{"start", Dim(1)}, {"limit", kBatch + Dim(1)}});
  const ValueId positions = integers("positions", {1, 3, 1}, {0, 5, 11});
  graph_.add(core("gather_nd"), {mask, sample_and(numbers, positions)}, {}, "picked");
  const auto found = run();
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.diagnostic().message, HasSubstr("not provably each sample's own index"));
}

// As a legacy export fetches a padding mask: flattened, at sample * 12 + position.
class FlatGather : public InferShapesTest, public ::testing::WithParamInterface<int64_t> {};

TEST_P(FlatGather, NeedsPositionsInsideTheSample) {
  const int64_t last = GetParam();
  const ValueId mask = input("mask", ir::DType::kBool, {kBatch, 12});
  const ValueId flat = graph_.add(core("reshape"), {mask}, {{"shape", Shape{-1}}});
  const ValueId numbers = graph_.add(core("range"), {}, {{"limit", kBatch}});
  const ValueId column = graph_.add(core("unsqueeze"), {numbers}, {{"axes", Shape{1}}});
  const ValueId starts = graph_.add(core("mul"), {column, integers("length", {}, {12})});
  const ValueId index = graph_.add(core("add"), {integers("positions", {2}, {0, last}), starts});
  const ValueId y = graph_.add(core("gather"), {flat, index}, {{"axis", Dim(0)}});
  EXPECT_EQ(run().ok(), last < 12);
  if (last >= 12) return;
  EXPECT_EQ(graph_.type(y).shape, (Shape{kBatch, 2}));
}
INSTANTIATE_TEST_SUITE_P(Last, FlatGather, ::testing::Values(11, 12));

TEST_F(InferShapesTest, SumsOverSamplesAreRefused) {
  const ValueId x = input("x", ir::DType::kF32, {kBatch, 3});
  const std::vector<ValueId> operands = {x};
  const std::vector<std::string> names = {"y"};
  const TaskId task = graph_.add_task(core("mean"), operands, {{"axes", Shape{0}}}, names, {"m.onnx", 0, 0, "mean_3"});
  graph_.add_output(graph_.outputs(task)[0]);
  const auto found = run();
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().where.node, "mean_3");
  EXPECT_THAT(found.diagnostic().message, HasSubstr("core.mean over axis 0 of [batch,3] would mix the samples"));
  EXPECT_TRUE(found.diagnostic().notes.empty()) << "three numbers are no loss";
}

TEST_F(InferShapesTest, AnOutputThatCanBeALossIsNamed) {
  const ValueId x = input("x", ir::DType::kF32, {kBatch, 3});
  const std::vector<ValueId> operands = {x};
  const std::vector<std::string> names = {"y"};
  const TaskId task =
      graph_.add_task(core("mean"), operands, {{"axes", Shape{0, 1}}}, names, {"m.onnx", 0, 0, "mean_3"});
  graph_.add_output(graph_.outputs(task)[0]);
  const auto found = run();
  ASSERT_FALSE(found.ok());
  ASSERT_EQ(found.diagnostic().notes.size(), 1U);
  EXPECT_THAT(found.diagnostic().notes[0].message, HasSubstr("--loss 'in_graph(output=y)'"));
}

// With two micro-batches a plain output would be the sum over the first of them alone.
TEST_F(InferShapesTest, SumsOverSamplesArePassedOnAndNotGivenOut) {
  const ValueId x = input("x", ir::DType::kF32, {kBatch, 3}), labels = input("labels", ir::DType::kI64, {kBatch});
  const std::vector<ValueId> operands = {x, labels};
  const std::vector<std::string> names = {"nll"};
  const TaskId task = graph_.add_task(core("cross_entropy_sum"), operands, {}, names, {"m.onnx", 0, 0, "loss_1"});
  const ValueId sum = graph_.outputs(task)[0];
  EXPECT_TRUE(run().ok()) << "what nobody reads does no harm";
  graph_.add_output(sum);
  const auto found = run();
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().where.node, "loss_1");
  EXPECT_THAT(found.diagnostic().message, HasSubstr("%nll a sum over the samples of a micro-batch"));
  graph_.set_outputs({});
  graph_.add_loss({sum});
  EXPECT_TRUE(run().ok());
  const ValueId negative = graph_.add(core("neg"), {sum});
  EXPECT_TRUE(run().ok()) << "a sum is homogeneous in its parts";
  EXPECT_TRUE(graph_.type(negative).batch.is_partial());
  graph_.add(core("exp"), {sum});
  EXPECT_THAT(run().diagnostic().message, HasSubstr("exp of %nll, a sum over samples, would mix the samples"));
}

TEST_F(InferShapesTest, SumsOfALossOverAFixedBatchAreNumbersLikeOthers) {
  const ValueId x = input("x", ir::DType::kF32, {8, 3}, -1), target = input("target", ir::DType::kF32, {8, 3}, -1);
  graph_.add_output(graph_.add(core("mse_sum"), {x, target}));
  EXPECT_TRUE(run().ok());
}

}  // namespace
}  // namespace rannc::passes
