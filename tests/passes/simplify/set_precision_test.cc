#include "passes/simplify/set_precision.h"

#include <gtest/gtest.h>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::passes {
namespace {

using ir::core;
using ir::DType;
using ir::ValueKind;

TEST(SetPrecision, WidensTypesBytesAndCasts) {
  ir::Graph graph;
  PassContext context;
  ir::ValueType type;
  type.shape = ir::Shape{ir::Dim::symbol("batch"), 2};
  const ValueId x = graph.add_value(ValueKind::kInput, "x", type);
  graph.add_input(x);
  const std::vector<double> numbers = {0.1f, -3};
  const ValueId w = ir::add_constant(graph, "w", DType::kF32, {2}, std::span<const double>(numbers));
  graph.set_kind(w, ValueKind::kParameter);
  const ValueId h = ir::add_constant(graph, "h", DType::kF16, {1}, std::span<const double>(&numbers[1], 1));
  const std::vector<int64_t> one = {1};
  const ValueId n = ir::add_constant(graph, "n", DType::kI64, {1}, std::span<const int64_t>(one));
  const ValueId cast = graph.add(core("cast"), {h}, {{"dtype", DType::kF32}});
  const ValueId whole = graph.add(core("cast"), {x}, {{"dtype", DType::kI32}});
  const ValueId sum = graph.add(core("add"), {x, w});
  for (const TaskId task : graph.tasks()) {
    EXPECT_TRUE(graph.outputs(task)[0] == sum || ir::infer_types(graph, task).ok());
  }
  ASSERT_TRUE(SetPrecision(DType::kF64).run(graph, context).value().changed);
  for (const ValueId id : {x, w, h, cast, sum}) EXPECT_EQ(graph.type(id).dtype, DType::kF64) << graph.value(id).name;
  EXPECT_EQ(graph.type(n).dtype, DType::kI64);
  EXPECT_EQ(graph.type(whole).dtype, DType::kI32);
  EXPECT_EQ(graph.attributes(graph.value(cast).producer).dtype("dtype"), DType::kF64);
  EXPECT_EQ(graph.attributes(graph.value(whole).producer).dtype("dtype"), DType::kI32);
  EXPECT_EQ(ir::decode_numbers(graph.type(w), graph.value(w).data, 10).value(), numbers);
  EXPECT_EQ(graph.value(w).data.size(), 16u);
  EXPECT_FALSE(SetPrecision(DType::kF64).run(graph, context).value().changed);
}

TEST(SetPrecision, KeepsModelsWithoutWeights) {
  ir::Graph graph;
  PassContext context;
  ir::ValueType type;
  type.shape = ir::Shape{2};
  const ValueId w = graph.add_value(ValueKind::kParameter, "w", type);
  ASSERT_TRUE(SetPrecision(DType::kF64).run(graph, context).ok());
  EXPECT_EQ(graph.type(w).dtype, DType::kF64);
  EXPECT_FALSE(graph.value(w).data.present());
}

TEST(SetPrecision, NamesTheInitializerThatCannotBeRead) {
  ir::Graph graph;
  PassContext context;
  ir::ValueType type;
  type.shape = ir::Shape{3};
  const std::vector<double> two = {1, 2};
  graph.add_value(ValueKind::kParameter, "short", type, ir::encode_numbers(DType::kF32, two));
  const auto found = SetPrecision(DType::kF64).run(graph, context);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().where.node, "short");
}

TEST(SetPrecision, NamesTheFileThatCannotBeRead) {
  ir::Graph graph;
  PassContext context;
  ir::ValueType type;
  type.shape = ir::Shape{3};
  graph.add_value(ValueKind::kParameter, "w", type, ir::TensorData::in_file("no/such/weights.bin", 0, 12));
  const auto found = SetPrecision(DType::kF64).run(graph, context);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().where.file, "no/such/weights.bin");
  EXPECT_EQ(found.diagnostic().where.node, "w");
}

}  // namespace
}  // namespace rannc::passes
