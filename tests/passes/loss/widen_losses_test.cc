// Losses of 16-bit models are summed in float32.
#include "passes/loss/widen_losses.h"

#include <gtest/gtest.h>

#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/loss/attach_loss.h"
#include "passes/loss/open_loss.h"
#include "passes/simplify/infer_shapes.h"
#include "passes/simplify/remove_dead.h"

namespace rannc::passes {
namespace {

using ir::DType;
using ir::Graph;

constexpr char kModel[] = R"(rannc.graph 1
batch batch
input %x: f16[batch,3] samples 0
input %target: f16[batch,3] samples 0
parameter %w: f16[3,3]
#0 %y: f16[batch,3] samples 0 = core.linear(%x, %w)
#1 %off: f16[batch,3] samples 0 = core.sub(%y, %target)
#2 %size: f16[batch,3] samples 0 = core.abs(%off)
#3 %mean: f16[] = core.mean(%size) {keepdim = false}
#4 %square: f16[3,3] = core.mul(%w, %w)
#5 %penalty: f16[] = core.sum(%square) {keepdim = false}
#6 %loss: f16[] = core.add(%mean, %penalty)
inputs [%x, %target]
outputs [%y, %loss]
)";

void infer(Graph& graph) {
  for (const TaskId task : graph.tasks()) ASSERT_TRUE(ir::infer_types(graph, task).ok());
}

Graph prepared(const std::string& losses) {
  Graph graph = ir::parse_graph(kModel, "t.rir").value();
  PassContext context;
  const auto terms = parse_losses(losses).value();
  // What a loss of the model's own mixes is taken apart before shapes are an error.
  infer(graph);
  EXPECT_TRUE(OpenLoss(terms).run(graph, context).ok());
  if (terms[0].kind != LossSpec::Kind::kInGraph) graph.set_outputs({graph.find("y")});
  ir::remove_dead(graph);
  EXPECT_TRUE(AttachLoss(terms).run(graph, context).ok());
  const auto outcome = WidenLosses().run(graph, context);
  EXPECT_TRUE(outcome.ok());
  EXPECT_TRUE(RemoveDead().run(graph, context).ok());
  EXPECT_TRUE(ir::verify(graph).empty()) << ir::verify(graph)[0].str();
  return graph;
}

// Every sum is made of what was cast first; what is said of one sample stays in the model's type.
void expect_wide_sums(const Graph& graph) {
  ASSERT_FALSE(graph.losses().empty());
  size_t sums = 0;
  for (const ir::LossTerm& term : graph.losses()) EXPECT_EQ(graph.type(term.numerator).dtype, DType::kF32);
  for (const TaskId task : graph.tasks()) {
    const auto& layout = graph.type(graph.outputs(task)[0]).batch;
    if (layout.is_partial()) {
      ++sums;
      EXPECT_EQ(graph.type(graph.outputs(task)[0]).dtype, DType::kF32) << graph.value(graph.outputs(task)[0]).name;
    }
  }
  EXPECT_GE(sums, 1U);
  for (const std::string name : {"y", "size"}) {
    if (graph.find(name).valid()) EXPECT_EQ(graph.type(graph.find(name)).dtype, DType::kF16) << name;
  }
}

TEST(WidenLosses, OfTheModelItself) {
  const Graph graph = prepared("in_graph(output=loss)");
  EXPECT_EQ(graph.losses().size(), 2U);
  expect_wide_sums(graph);
  EXPECT_TRUE(graph.find("size").valid());
}

TEST(WidenLosses, AttachedOnesReadFloat32Labels) {
  for (const std::string loss : {"mse", "l1", "huber", "bce_with_logits(pos_weight=2)", "soft_cross_entropy",
                                 "cross_entropy(class_weights=1/2/3)", "smooth_l1", "l1(count=mask)"}) {
    SCOPED_TRACE(loss);
    const Graph graph = prepared(loss);
    expect_wide_sums(graph);
    for (const ValueId input : graph.inputs()) {
      const std::string name(graph.value(input).name);
      if (!name.starts_with("labels/")) continue;
      EXPECT_EQ(graph.type(input).dtype, loss.starts_with("cross") ? DType::kI64 : DType::kF32) << name;
    }
  }
}

TEST(WidenLosses, LabelsOfTheModelsOwnMayBeOfItsType) {
  const Graph graph = prepared("mse(labels=target)");
  expect_wide_sums(graph);
  const auto read = graph.inputs(graph.producer(graph.losses()[0].numerator));
  EXPECT_EQ(graph.inputs(graph.producer(read[1]))[0], graph.find("target"));
  EXPECT_EQ(graph.inputs().size(), 2U);
}

TEST(WidenLosses, LeavesOtherModelsAlone) {
  std::string text = kModel;
  for (size_t at = text.find("f16"); at != std::string::npos; at = text.find("f16")) text.replace(at, 3, "f32");
  Graph graph = ir::parse_graph(text, "t.rir").value();
  PassContext context;
  infer(graph);
  ASSERT_TRUE(OpenLoss(parse_losses("in_graph(output=loss)").value()).run(graph, context).ok());
  EXPECT_FALSE(WidenLosses().run(graph, context).value().changed);
}

}  // namespace
}  // namespace rannc::passes
