#include "passes/training/mixed_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/constant.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "passes/simplify/infer_shapes.h"
#include "tests/passes/typed_graph.h"

namespace rannc::passes {
namespace {

using ir::Graph;
using ::testing::HasSubstr;

/// A graph of these statements, types inferred, whose samples `batch` counts.
Graph graph_of(const std::string& statements) { return typed_graph("batch batch\n" + statements); }

struct Mixed {
  Graph graph;
  PassContext context;
  bool changed = false;
  std::string type(const std::string& name) const {
    const ValueId value = graph.find(name);
    return value.valid() ? std::string(ir::str(graph.type(value).dtype)) : "nothing";
  }
  size_t count(const std::string& op) const {
    size_t found = 0;
    for (const TaskId task : graph.tasks()) found += graph.op(task).name == "core." + op ? 1 : 0;
    return found;
  }
};

/// The graph after the pass. Verifies it, and that its types are those that infer-shapes finds.
Mixed mixed(Graph graph, ir::DType narrow = ir::DType::kBF16) {
  Mixed made{std::move(graph), {}, false};
  const auto done = MixedPrecision(narrow).run(made.graph, made.context);
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  made.changed = done.ok() && done->changed;
  const auto sound = ir::as_result(ir::verify(made.graph));
  EXPECT_TRUE(sound.ok()) << sound.diagnostic().str();
  PassContext context;
  EXPECT_FALSE(InferShapes().run(made.graph, context).value().changed) << ir::print(made.graph);
  return made;
}
Mixed mixed(const std::string& statements) { return mixed(graph_of(statements)); }

const std::string kLayers = R"(input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
parameter %b: f32[4]
parameter %s: f32[4]
#0 %h: f32[batch,4] samples 0 = core.linear(%x, %w, %b)
#1 %a: f32[batch,4] samples 0 = core.gelu(%h)
#2 %r: f32[batch,4] samples 0 = core.add(%a, %x)
#3 %n: f32[batch,4] samples 0 = core.layer_norm(%r, %s, %b)
#4 %y: f32[batch,4] samples 0 = core.linear(%n, %w)
#5 %z: f32[batch,4] samples 0 = core.linear(%n, %w)
#6 %p: f32[batch,4] samples 0 = core.mul(%y, %z)
inputs [%x]
outputs [%p]
)";

TEST(MixedPrecision, OperatorsHaveTheTypesOfTheirClasses) {
  const Mixed made = mixed(kLayers);
  EXPECT_TRUE(made.changed);
  EXPECT_EQ(made.type("h"), "bf16") << "a product";
  EXPECT_EQ(made.type("a"), "bf16") << "of its operand";
  EXPECT_EQ(made.type("r"), "f32") << "the wider of its operands";
  EXPECT_EQ(made.type("n"), "f32") << "a norm";
  EXPECT_EQ(made.type("y"), "bf16");
  for (const char* parameter : {"w", "b", "s", "x"}) EXPECT_EQ(made.type(parameter), "f32") << parameter;
}

TEST(MixedPrecision, ResultsOfTheGraphKeepNameAndType) {
  const Mixed made = mixed(kLayers);
  EXPECT_EQ(made.type("p"), "f32");
  EXPECT_EQ(made.type("p.bf16"), "bf16");
  EXPECT_EQ(made.graph.outputs()[0], made.graph.find("p"));
}

TEST(MixedPrecision, EachValueIsCastOnce) {
  const Mixed made = mixed(kLayers);
  EXPECT_EQ(made.count("cast"), 6U) << "of x, w, b, a, n and p\n" << ir::print(made.graph);
}

TEST(MixedPrecision, CopiesOfParametersAreMadeOncePerStep) {
  const Mixed made = mixed(kLayers);
  const auto frequency = ir::execution_frequency(made.graph);
  for (const char* name : {"w.bf16", "b.bf16"}) {
    const ValueId copy = made.graph.find(name);
    ASSERT_TRUE(copy.valid()) << name;
    EXPECT_EQ(frequency[made.graph.producer(copy).index()], ir::Frequency::kStep) << name;
  }
}

// A product with a constant of one element, by which x is scaled.
Graph scaled(double by) {
  Graph graph;
  graph.set_batch_symbol("batch");
  ir::ValueType type;
  type.shape = ir::Shape{ir::Dim::symbol("batch"), 4};
  type.batch.axis = 0;
  const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", type);
  graph.add_input(x);
  const std::vector<double> ones(16, 1.0);
  const ValueId w = ir::add_constant(graph, "w", ir::DType::kF32, {4, 4}, std::span<const double>(ones));
  graph.set_kind(w, ir::ValueKind::kParameter);
  const ValueId factor = ir::add_constant(graph, "factor", ir::DType::kF32, {}, std::span<const double>(&by, 1));
  const ValueId h = graph.add(ir::core("linear"), {x, w}, {}, "h");
  const ValueId y = graph.add(ir::core("mul"), {h, factor}, {}, "y");
  const ValueId z = graph.add(ir::core("relu"), {y}, {}, "z");
  graph.add_output(z);
  PassContext context;
  EXPECT_TRUE(InferShapes().run(graph, context).ok());
  return graph;
}

TEST(MixedPrecision, ConstantsThatWouldBeRoundedWiden) {
  EXPECT_EQ(mixed(scaled(0.125)).type("y"), "bf16");
  EXPECT_EQ(mixed(scaled(-HUGE_VAL)).type("y"), "bf16");
  EXPECT_EQ(mixed(scaled(1 / 0.9)).type("y"), "f32");
  EXPECT_EQ(mixed(scaled(65504.0 * 2)).type("y"), "f32");
  EXPECT_EQ(mixed(scaled(65504.0), ir::DType::kF16).type("y"), "f16");
  EXPECT_EQ(mixed(scaled(65536.0), ir::DType::kF16).type("y"), "f32") << "infinite in f16";
}

/// Numbers of a program, which no file stores.
TEST(MixedPrecision, NumbersOfTasksAreConstants) {
  for (const auto& [number, type] : {std::pair{"0x1p-1", "bf16"}, std::pair{"0x1.004189374bc6ap+0", "f32"}}) {
    const Mixed made = mixed(std::string("input %x: f32[batch,4] samples 0\nparameter %w: f32[4,4]\n"
                                         "#0 %h: f32[batch,4] samples 0 = core.linear(%x, %w)\n"
                                         "#1 %n: f32[] = core.full() {dtype = !f32, shape = [], value = ") +
                             number +
                             "}\n#2 %m: f32[batch,4] samples 0 = core.mul(%h, %n)\n"
                             "#3 %y: f32[batch,4] samples 0 = core.relu(%m)\ninputs [%x]\noutputs [%y]\n");
    EXPECT_EQ(made.type("m"), type) << number;
  }
}

TEST(MixedPrecision, LossesAndStatisticsStayFloat32) {
  const Mixed made = mixed(R"(input %x: f32[batch,4] samples 0
input %labels: i64[batch] samples 0
parameter %w: f32[4,4]
parameter %s: f32[4]
buffer %rm: f32[4]
buffer %rv: f32[4]
#0 %h: f32[batch,4] samples 0 = core.linear(%x, %w)
#1 %y: f32[batch,4] samples 0, %mean: f32[4], %variance: f32[4] = core.batch_norm(%h, %s, %s, %rm, %rv) {training = true}
#2 %l: f32[batch,4] samples 0 = core.linear(%y, %w)
#3 %loss: f32[] partial = core.cross_entropy_sum(%l, %labels)
inputs [%x, %labels]
outputs [%l]
loss %loss weight 0x1p+0
statistics %rm, %rv = %mean, %variance
)");
  for (const char* name : {"y", "mean", "variance", "loss", "l"}) EXPECT_EQ(made.type(name), "f32") << name;
  EXPECT_EQ(made.type("l.bf16"), "bf16");
}

TEST(MixedPrecision, RefusesOtherParameters) {
  Graph graph = graph_of(R"(input %x: f64[batch,4] samples 0
parameter %w: f64[4,4]
#0 %y: f64[batch,4] samples 0 = core.linear(%x, %w)
inputs [%x]
outputs [%y]
)");
  PassContext context;
  const auto done = MixedPrecision(ir::DType::kBF16).run(graph, context);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.diagnostic().str(), HasSubstr("parameter 'w' is f64; parameters must be f32"));
}

TEST(MixedPrecision, WarnsWhereNoTaskIsNarrow) {
  Graph graph = graph_of(R"(input %x: f32[batch,4] samples 0
#0 %y: f32[batch,4] samples 0 = core.exp(%x)
inputs [%x]
outputs [%y]
)");
  const std::string before = ir::print(graph);
  const Mixed made = mixed(std::move(graph));
  EXPECT_FALSE(made.changed);
  EXPECT_EQ(ir::print(made.graph), before);
  ASSERT_EQ(made.context.warnings.size(), 1U);
  EXPECT_THAT(made.context.warnings[0].message, HasSubstr("no task can compute in bf16"));
}

TEST(MixedPrecision, IsSpelledWithItsType) {
  const auto pass = make_pass("mixed-precision{bf16}");
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ((*pass)->spelling(), "mixed-precision{bf16}");
  const auto wrong = make_pass("mixed-precision{f32}");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.diagnostic().str(), HasSubstr("`f32` is not a 16-bit float type; expected f16 or bf16"));
}

}  // namespace
}  // namespace rannc::passes
