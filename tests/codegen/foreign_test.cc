// Calls of the dispatcher that have no core operator: run, differentiated, measured.
#include "ir/op/foreign.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/torchscript/foreign.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/simplify/infer_shapes.h"
#include "passes/simplify/set_precision.h"
#include "passes/training/cut_functions.h"
#include "passes/training/differentiate.h"
#include "runtime/aten/graph_run.h"
#include "runtime/measure/measure_tasks.h"
#include "tests/codegen/joint_run.h"

namespace rannc::test {
namespace {

using ::testing::HasSubstr;

/// A task on `%x: f32[batch,4,3]`, and on the parameter `%c: f32[5,3]`.
std::string task(const std::string& results, const std::string& name, const std::string& operands,
                 const std::string& attributes) {
  return "rannc.graph 1\nbatch batch\ninput %x: f32[batch,4,3] samples 0\nparameter %c: f32[5,3]\n#0 " + results +
         " = " + name + "(" + operands + ") {" + attributes + "}\ninputs [%x]\n";
}

const std::string kCdist = task("%y: f32[batch,4,5] samples 0", "aten.cdist", "%x, %c",
                                "call.operands = \"x1 x2\", call.schema = \"aten::cdist\", call.types = "
                                "\"f32[n,p,d] samples 0, f32[q,d] -> f32[n,p,q] samples 0\", p = 0x1.8p+0");

ir::Graph parsed(const std::string& text) {
  auto graph = ir::parse_graph(text, "test.rir");
  RANNC_CHECK(graph.ok()) << graph.diagnostic().str();
  for (const Diagnostic& fault : ir::verify(*graph)) ADD_FAILURE() << fault.str();
  return std::move(*graph);
}

struct Given {
  at::Tensor x = at::randn({2, 4, 3}), c = at::randn({5, 3});
};

Result<runtime::GraphValues> run(const ir::Graph& graph, const Given& given) {
  runtime::GraphValues values(graph.value_count());
  values[graph.find("x").index()] = given.x;
  values[graph.find("c").index()] = given.c;
  RANNC_TRY(runtime::run_graph(graph, {.sizes = {{"batch", 2}}}, values));
  return values;
}

TEST(Foreign, RunsAsLibTorchDoes) {
  const Given given;
  const ir::Graph graph = parsed(kCdist);
  const auto values = run(graph, given);
  ASSERT_TRUE(values.ok()) << values.diagnostic().str();
  const at::Tensor expected = at::cdist(given.x, given.c, 1.5);
  EXPECT_TRUE(at::equal(*(*values)[graph.find("y").index()], expected));
}

TEST(Foreign, TuplesAndListsAreResults) {
  const Given given;
  const ir::Graph pair = parsed(task("%a: f32[batch,4] samples 0, %b: i64[batch,4] samples 0", "aten.mode", "%x",
                                     "call.operands = \"self\", call.schema = \"aten::mode\", call.types = "
                                     "\"f32[n,p,d] samples 0 -> f32[n,p] samples 0, i64[n,p] samples 0\", dim = 2"));
  const auto expected = at::mode(given.x, 2);
  auto values = run(pair, given);
  ASSERT_TRUE(values.ok()) << values.diagnostic().str();
  EXPECT_TRUE(at::equal(*(*values)[pair.find("a").index()], std::get<0>(expected)));
  EXPECT_TRUE(at::equal(*(*values)[pair.find("b").index()], std::get<1>(expected)));

  const std::string attributes =
      "call.list = true, call.view = true, call.operands = \"self\", call.schema = \"aten::tensor_split.sections\", ";
  const ir::Graph parts = parsed(task(
      "%a: f32[batch,4,2] samples 0, %b: f32[batch,4,1] samples 0", "aten.tensor_split", "%x",
      attributes + "call.types = \"f32[n,p,3] samples 0 -> f32[n,p,2] samples 0, f32[n,p,1] samples 0\", dim = -1, "
                   "sections = 2"));
  values = run(parts, given);
  ASSERT_TRUE(values.ok()) << values.diagnostic().str();
  const auto split = at::tensor_split(given.x, 2, -1);
  EXPECT_TRUE(at::equal(*(*values)[parts.find("b").index()], split[1]));

  const ir::Graph one = parsed(
      task("%a: f32[batch,4,3] samples 0", "aten.tensor_split", "%x",
           attributes + "call.types = \"f32[n,p,d] samples 0 -> f32[n,p,d] samples 0\", dim = -1, sections = 1"));
}

TEST(Foreign, ListsAreOperands) {
  const Given given;
  const ir::Graph graph = parsed(task("%y: f32[10,3]", "aten.row_stack", "%c, %c",
                                      "call.operands = \"tensors*2\", call.schema = \"aten::row_stack\", call.types = "
                                      "\"f32[5,3], f32[5,3] -> f32[10,3]\""));
  const auto values = run(graph, given);
  ASSERT_TRUE(values.ok()) << values.diagnostic().str();
  EXPECT_TRUE(at::equal(*(*values)[graph.find("y").index()], at::cat({given.c, given.c})));
}

// The declared type is wrong: nobody notices unless it was guessed.
TEST(Foreign, WhatIsGuessedIsAsserted) {
  const Given given;
  const auto graph = [](const char* sizes, const char* guessed) {
    return parsed(
        task(std::string("%y: f32[batch,") + sizes + "] samples 0", "aten.cdist", "%x, %c",
             "call.operands = \"x1 x2\", call.schema = \"aten::cdist\", call.guessed = " + std::string(guessed) +
                 ", call.types = \"f32[n,4,d] samples 0, f32[5,d] -> f32[n," + sizes + "] samples 0\""));
  };
  EXPECT_TRUE(run(graph("4,5", "true"), given).ok());
  EXPECT_TRUE(run(graph("5,4", "false"), given).ok());
  const auto wrong = run(graph("5,4", "true"), given);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.diagnostic().str(),
              HasSubstr("aten.cdist: aten::cdist gives sizes [2, 4, 5] of type 6, not [2, 5, 4] of 6"));
}

const std::string kLoss =
    "#1 %z: f32[batch,4] samples 0 = core.sum(%y) {axes = [2]}\n"
    "#2 %s: f32[] partial = core.sum(%z) {axes = [0,1]}\n"
    "outputs [%y]\nloss %s weight 0x1p+0\n";

TEST(Foreign, GradientIsThatOfTheTape) {
  const Given given;
  const ir::Graph graph = parsed(kCdist + kLoss);
  const auto joint = passes::differentiate(graph);
  ASSERT_TRUE(joint.ok()) << joint.diagnostic().str();
  runtime::GraphValues leaves(joint->graph.value_count()), inputs(joint->graph.value_count());
  leaves[joint->graph.find("c").index()] = given.c;
  inputs[joint->graph.find("x").index()] = given.x;
  auto program = JointRun::load(*joint, leaves);
  ASSERT_TRUE(program.ok()) << program.diagnostic().str();
  const JointRun::MicroBatch micro_batch{inputs, {{"batch", 2}}};
  const auto step = program->step({&micro_batch, 1}, {0.5});
  ASSERT_TRUE(step.ok()) << step.diagnostic().str();
  const at::Tensor c = given.c.clone().requires_grad_();
  (at::cdist(given.x, c, 1.5).sum() * 0.5).backward();
  EXPECT_TRUE(at::allclose(step->gradients[0], c.grad(), 1e-5, 1e-6));
  EXPECT_GT(c.grad().abs().max().item<double>(), 0);
}

// Types that a pass renames, makes symbolic or widens.
TEST(Foreign, PassesTakeTypesAlong) {
  const std::string text =
      "rannc.graph 1\nbatch batch\ninput %x: f32[batch,s] samples 0\ninput %z: f32[batch,t] samples 0\n"
      "#0 %u: f32[batch,s] samples 0 = core.add(%x, %z)\n"
      "#1 %v: f32[batch,2*t] samples 0 = mine.twice(%z) {call.operands = \"x\", call.schema = \"mine::twice\", size = "
      "[batch,t], call.types = \"f32[batch,t] samples 0 -> f32[batch,2*t] samples 0\"}\n"
      "inputs [%x, %z]\noutputs [%u, %v]\n";
  auto graph = ir::parse_graph(text, "test.rir");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  passes::PassContext context;
  const auto renamed = passes::InferShapes().run(*graph, context);
  ASSERT_TRUE(renamed.ok()) << renamed.diagnostic().str();
  const ir::Dim s = ir::Dim::symbol("s");
  EXPECT_EQ((*graph->type(graph->find("v")).shape)[1], ir::Dim(2) * s);
  EXPECT_EQ((*graph->attributes(TaskId(1)).list("size"))[1], s);
  EXPECT_TRUE(ir::verify(*graph).empty());

  ir::Graph wide = parsed(kCdist);
  ASSERT_TRUE(passes::SetPrecision(ir::DType::kF64).run(wide, context).ok());
  ASSERT_TRUE(passes::InferShapes().run(wide, context).ok());
  EXPECT_EQ(wide.type(wide.find("y")).dtype, ir::DType::kF64);
  EXPECT_TRUE(ir::verify(wide).empty());
  Given given{at::randn({2, 4, 3}, at::kDouble), at::randn({5, 3}, at::kDouble)};
  const auto values = run(wide, given);
  ASSERT_TRUE(values.ok()) << values.diagnostic().str();
  EXPECT_TRUE(at::equal(*(*values)[wide.find("y").index()], at::cdist(given.x, given.c, 1.5)));
}

// Tasks of what the frontend finds out: by the dispatcher as by the text that is printed, which names no overload.
TEST(Foreign, WhatIsFoundOutRunsAsPrinted) {
  using frontend::torchscript::ForeignArgument;
  struct Case {
    const char* schema;
    std::vector<const char*> tensors;  // parameters that take x, c
    std::vector<std::pair<const char*, ir::Attribute>> more;
  };
  const ir::Dim one = 1, two = 2;
  const std::vector<Case> cases = {
      {"aten::cdist", {"x1", "x2"}, {{"p", one}}},
      {"aten::hardshrink", {"self"}, {{"lambd", 0.25}}},
      {"aten::celu", {"self"}, {{"alpha", 1.5}}},
      {"aten::logcumsumexp", {"self"}, {{"dim", two}}},
      {"aten::mode", {"self"}, {{"dim", two}, {"keepdim", true}}},
      {"aten::kthvalue", {"self"}, {{"k", two}, {"dim", one}}},
      {"aten::tensor_split.indices", {"self"}, {{"indices", ir::Shape{1, 3}}, {"dim", one}}},
      {"aten::renorm", {"self"}, {{"p", two}, {"dim", ir::Dim(0)}, {"maxnorm", 0.5}}},
      {"aten::diff", {"self"}, {{"n", one}, {"dim", two}}},
      {"aten::movedim.int", {"self"}, {{"source", one}, {"destination", two}}},
      {"aten::cross", {"self", ""}, {{"dim", two}}},
      {"aten::nan_to_num", {"self"}, {{"nan", 0.5}}},
      {"aten::roll", {"self"}, {{"shifts", ir::Shape{1, 1}}, {"dims", ir::Shape{1, 2}}}},
      {"aten::new_full", {"self"}, {{"size", ir::Shape{ir::Dim::symbol("batch"), 2}}, {"fill_value", 0.5}}},
      {"aten::std.correction", {"self"}, {{"dim", ir::Shape{1}}, {"correction", one}, {"keepdim", true}}},
      {"aten::upsample_linear1d.vec",
       {"input"},
       {{"align_corners", false}, {"scale_factors", std::vector<double>{1.5}}}},
      {"aten::linalg_vector_norm", {"self"}, {{"ord", 3.0}, {"dim", ir::Shape{1, 2}}, {"dtype", ir::DType::kF64}}},
  };
  size_t ran = 0;
  for (const Case& each : cases) {
    SCOPED_TRACE(each.schema);
    ir::Graph graph =
        parsed("rannc.graph 1\nbatch batch\ninput %x: f32[batch,4,3] samples 0\nparameter %c: f32[5,3]\ninputs [%x]\n");
    const ValueId leaves[] = {graph.find("x"), graph.find("c")};
    std::vector<ForeignArgument> arguments;
    std::vector<ValueId> operands;
    for (size_t i = 0; i < each.tensors.size(); ++i) {
      if (*each.tensors[i] == 0) continue;
      arguments.push_back({each.tensors[i], graph.type(leaves[i])});
      operands.push_back(leaves[i]);
    }
    if (each.schema == std::string("aten::cross")) {
      arguments.push_back({"other", graph.type(leaves[0])});
      operands.push_back(leaves[0]);
    }
    if (each.schema == std::string("aten::upsample_linear1d.vec"))
      arguments.push_back({"output_size", ForeignArgument::None{}});
    for (const auto& [name, value] : each.more) arguments.push_back({name, value});
    const auto task = frontend::torchscript::foreign_task(each.schema, arguments, "batch");
    ASSERT_TRUE(task.ok()) << task.diagnostic().str();
    const std::vector<std::string> names(task->results.size());
    const TaskId made = graph.add_task(graph.foreign_op(task->op), operands, task->attributes, names);
    ASSERT_TRUE(ir::infer_types(graph, made).ok());
    ASSERT_TRUE(ir::verify(graph).empty()) << ir::verify(graph).front().str();
    const Given given;
    const auto values = run(graph, given);
    ASSERT_TRUE(values.ok()) << values.diagnostic().str();
    for (const ValueId result : graph.outputs(made)) {
      EXPECT_FALSE(graph.type(result).batch.mix != ir::Mix::kNone || !graph.type(result).batch.has_batch());
      EXPECT_EQ((*values)[result.index()]->size(graph.type(result).batch.axis), 2);
      ++ran;
    }
  }
  EXPECT_EQ(ran, 21U);
}

TEST(Foreign, IsMeasured) {
  const ir::Graph graph = parsed(kCdist + kLoss);
  const TaskId task(0);
  const auto cut = [](const ir::StageGraph& stage) { return passes::cut_functions(stage); };
  const auto times = runtime::measure_tasks(graph, {&task, 1}, runtime::GraphFacts(graph), {{"batch", 8}}, {cut});
  ASSERT_TRUE(times.ok()) << times.diagnostic().str();
  EXPECT_GT(times->forward_ns, 0);
  EXPECT_GT(times->weight_gradient_ns, 0);
}

}  // namespace
}  // namespace rannc::test
