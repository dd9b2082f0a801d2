// The text of stage programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/torchscript_source.h"
#include "ir/op/op.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::codegen {
namespace {

using testing::build_plan;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TorchscriptSource, IsOneReadableFunction) {
  const ir::Plan plan = build_plan(testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}, .micro_batches = {2}});
  EXPECT_EQ(torchscript_source(plan, StageId(0)).value(),
            "def forward(self,\n"
            "    v0: Tensor,\n"
            "    v2_t0: Tensor,\n"
            "    v3_t0: Tensor,\n"
            "    v4_t2: Tensor,\n"
            "    v5_t2: Tensor,\n"
            "    batch: int) -> Tuple[Tensor, Tensor]:\n"
            "    # #0 core.linear\n"
            "    v9 = torch.linear(v0, v2_t0, v3_t0)\n"
            "    # #1 core.relu\n"
            "    v10 = torch.relu(v9)\n"
            "    # #2 core.linear\n"
            "    v11 = torch.linear(v10, v4_t2, v5_t2)\n"
            "    return (v10, v11, )\n");
}

TEST(TorchscriptSource, ClonesConstantTasksAndPartsReadersOfAParameter) {
  const ir::Plan plan = build_plan(testing::token_model(ir::DType::kF32), {.cuts = {5}, .micro_batches = {2}});
  const std::string last = torchscript_source(plan, StageId(1)).value();
  EXPECT_THAT(last, HasSubstr("torch.permute("));
  const ir::Plan whole = build_plan(testing::token_model(ir::DType::kF32), {.micro_batches = {2}});
  const std::string text = torchscript_source(whole, StageId(0)).value();
  const std::string table = "v" + std::to_string(whole.graph.find("table").index());
  size_t readings = 0;
  for (size_t at = 0; (at = text.find(table + "_t", at)) != std::string::npos; ++at) ++readings;
  EXPECT_EQ(readings, 4U) << "two arguments, each used once:\n" << text;
}

TEST(TorchscriptSource, NamesEveryOperatorWithoutLowering) {
  ir::Graph graph;
  const ir::ValueType type = {.dtype = ir::DType::kF32, .shape = ir::Shape{2}};
  const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", type);
  graph.add_input(x);
  const ValueId a = graph.add(graph.foreign_op("user_one"), {x}, {}, "a", {.file = "m.onnx", .node = "first"});
  const ValueId b = graph.add(graph.foreign_op("user_two"), {a}, {}, "b", {.file = "m.onnx", .node = "second"});
  graph.set_type(a, type);
  graph.set_type(b, type);
  graph.add_output(b);
  const auto source = torchscript_source(build_plan(std::move(graph), {.training = false}), StageId(0));
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(source.diagnostic().str(), HasSubstr("'first': error: operator `user_one`"));
  EXPECT_THAT(source.diagnostic().str(), HasSubstr("user_two"));
}

TEST(TorchscriptSource, RefusesSymbolsThatAreWordsOfPrograms) {
  for (const char* name : {"lambda", "self", "v3", "v1_t0"}) {
    ir::Graph graph;
    graph.set_batch_symbol(name);
    const ir::ValueType type = {
        .dtype = ir::DType::kF32, .shape = ir::Shape{ir::Dim::symbol(name)}, .batch = {.axis = 0}};
    const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", type);
    graph.add_input(x);
    const ValueId y = graph.add(ir::core("neg"), {x}, {}, "y");
    graph.set_type(y, type);
    graph.add_output(y);
    const auto source = torchscript_source(build_plan(std::move(graph), {.training = false}), StageId(0));
    ASSERT_FALSE(source.ok()) << name;
    EXPECT_THAT(source.diagnostic().str(), HasSubstr(name));
  }
}

TEST(TorchscriptSource, KeepsNamesOfTheModelInsideComments) {
  ir::Graph graph;
  const ir::ValueType type = {.dtype = ir::DType::kF32, .shape = ir::Shape{2}};
  const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", type);
  graph.add_input(x);
  const ValueId y = graph.add(ir::core("neg"), {x}, {}, "y", {.file = "m.onnx", .node = "evil\n    import os\n"});
  graph.set_type(y, type);
  graph.add_output(y);
  const std::string source = torchscript_source(build_plan(std::move(graph), {.training = false}), StageId(0)).value();
  EXPECT_THAT(source, Not(HasSubstr("\n    import")));
}

}  // namespace
}  // namespace rannc::codegen
