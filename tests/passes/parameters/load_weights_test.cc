#include "passes/parameters/load_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/state/state.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"

namespace rannc::passes {
namespace {

using ir::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The weight is stored transposed, the table is folded into a constant, the positions are integers.
ir::Graph model() {
  ir::Graph graph = ir::parse_graph(
                        "rannc.graph 1\nbatch batch\ninput %x: f32[batch,2] samples 0\n"
                        "constant %val_0: f32[2,1] = hex \"0000803f00000040\"\n"
                        "constant %table: f32[2] = hex \"0000803f00000040\"\n"
                        "constant %positions: i64[1] = hex \"0100000000000000\"\n"
                        "#0 %t: f32[2] = core.neg(%table)\n"
                        "#1 %h: f32[batch,2] samples 0 = core.add(%x, %t)\n"
                        "#2 %y: f32[batch,1] samples 0 = core.matmul(%h, %val_0)\n"
                        "inputs [%x]\noutputs [%y]\n"
                        "state \"fc.weight\" [1,2] = %val_0 from [0,0] extent [2,1] axes [1,0]\n"
                        "state \"table\" [2] = %table\nstate \"positions\" [1] = %positions\n",
                        "t.rir")
                        .value();
  return graph;
}

ir::StoredTensor tensor(std::vector<int64_t> shape, std::vector<double> values, DType dtype = DType::kF32) {
  ir::ValueType type;
  type.dtype = dtype;
  type.shape = ir::Shape(shape.begin(), shape.end());
  if (ir::is_float(dtype)) return {type, ir::encode_numbers(dtype, values)};
  return {type, ir::encode_integers(dtype, std::vector<int64_t>(values.begin(), values.end()))};
}

GivenWeights given() {
  return {"w.safetensors",
          {{"fc.weight", tensor({1, 2}, {5, 6})},
           {"table", tensor({2}, {7, 8})},
           {"positions", tensor({1}, {1}, DType::kI64)}}};
}

std::vector<double> numbers(const ir::Graph& graph, const char* name) {
  const auto& value = graph.value(graph.find(name));
  return ir::decode_numbers(value.type, value.data, 100).value();
}

TEST(LoadWeights, StandsBeforeWhateverReadsNumbers) {
  PipelineOptions options;
  options.weights = given();
  options.precision = DType::kF64;
  const auto names = standard_pipeline(options).names();
  const auto at = [&](const char* name) { return std::find(names.begin(), names.end(), name); };
  EXPECT_LT(at("recover-parameters"), at("load-weights"));
  EXPECT_LT(at("set-precision"), at("load-weights"));
  EXPECT_LT(at("load-weights"), at("fold-constants"));
  options.weights.reset();
  EXPECT_THAT(standard_pipeline(options).names(), ::testing::Not(::testing::Contains("load-weights")));
}

TEST(LoadWeights, PutsNumbersWhereTheStateHasThem) {
  ir::Graph graph = model();
  PassContext context;
  EXPECT_TRUE(LoadWeights(given()).run(graph, context).value().changed);
  EXPECT_THAT(numbers(graph, "val_0"), ElementsAre(5, 6));
  EXPECT_THAT(numbers(graph, "table"), ElementsAre(7, 8));
  ASSERT_EQ(context.remarks.size(), 1U);
  EXPECT_EQ(context.remarks[0].message, "loaded 2 stored tensors from w.safetensors");
  EXPECT_TRUE(context.warnings.empty());
  ir::Graph same = model();
  EXPECT_FALSE(LoadWeights().run(same, context).value().changed);
  EXPECT_TRUE(ir::equal(same, model()));
}

TEST(LoadWeights, RefusesIntegersThatDiffer) {
  ir::Graph graph = model();
  PassContext context;
  GivenWeights other = given();
  other.tensors["positions"] = tensor({1}, {2}, DType::kI64);
  const auto refused = LoadWeights(other).run(graph, context);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("w.safetensors: error: integer tensors differ from those that "
                                                    "the model was exported with: positions"));
}

TEST(LoadWeights, IsAsStrictAsItIsTold) {
  ir::Graph graph = model();
  PassContext context;
  GivenWeights other = given();
  other.tensors.erase("table");
  other.tensors["more"] = tensor({1}, {2});
  const auto refused = LoadWeights(other).run(graph, context);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("missing: table"));
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("unexpected: more"));
  other.partial = true;
  EXPECT_TRUE(LoadWeights(other).run(graph, context).ok());
  EXPECT_THAT(numbers(graph, "val_0"), ElementsAre(5, 6));
  EXPECT_THAT(numbers(graph, "table"), ElementsAre(1, 2));
  ASSERT_EQ(context.warnings.size(), 2U);
  EXPECT_THAT(context.warnings[0].message, HasSubstr("1 tensors of the model are missing and stay as they are: table"));
  EXPECT_THAT(context.warnings[1].message, HasSubstr("1 tensors are unknown to the model and excluded: more"));
}

TEST(LoadWeights, ConvertsFloatsWhereAPrecisionIsDemanded) {
  GivenWeights wide = given();
  wide.tensors["fc.weight"] = tensor({1, 2}, {0.1, 6}, DType::kF64);
  PassContext context;
  ir::Graph graph = model();
  EXPECT_FALSE(LoadWeights(wide).run(graph, context).ok());
  wide.converts = true;
  graph = model();
  ASSERT_TRUE(LoadWeights(wide).run(graph, context).ok());
  EXPECT_THAT(numbers(graph, "val_0"), ElementsAre(0.1F, 6));
}

}  // namespace
}  // namespace rannc::passes
