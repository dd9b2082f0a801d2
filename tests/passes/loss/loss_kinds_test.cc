// Losses beside cross entropy and squares: their spelling, what they add to a graph, what does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/loss/attach_loss.h"
#include "tests/support/totals.h"

namespace rannc::passes {
namespace {

using ir::Graph;
using ir::LossTerm;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LossKinds, SpellingRoundTrips) {
  for (const std::string text :
       {"soft_cross_entropy(axis=1,class_weights=0.5/0/2,label_smoothing=0.1)", "bce_with_logits(pos_weight=3)",
        "l1(output=y,reduction=sum,count=mask)", "huber(delta=0.25)+smooth_l1(beta=0)+smooth_l1(labels=t,beta=0.5)",
        "cross_entropy(weight=2,class_weights=1e-05/1)"}) {
    const auto terms = parse_losses(text);
    ASSERT_TRUE(terms.ok()) << terms.diagnostic().str();
    EXPECT_EQ(str(*terms), text);
  }
}

TEST(LossKinds, ErrorsNameWhatIsAllowed) {
  const std::pair<std::string, std::string> faults[] = {
      {"mse(class_weights=1/2)", "a loss mse has no option `class_weights`"},
      {"cross_entropy(pos_weight=1)", "a loss cross_entropy has no option `pos_weight`"},
      {"huber(beta=1)", "a loss huber has no option `beta`"},
      {"in_graph(count=mask)", "a loss in_graph has no option `count`"},
      {"huber(delta=0)", "`delta` of a loss is 0; it must be positive"},
      {"smooth_l1(beta=-1)", "`beta` of a loss is -1"},
      {"cross_entropy(label_smoothing=1.5)", "from 0 to 1"},
      {"cross_entropy(class_weights=1/)", "`class_weights` of a loss is a number, found ``"},
      {"cross_entropy(class_weights=1/-2)", "`class_weights` of a loss is -2; it must be 0 or more"},
      {"bce_with_logits(pos_weight=inf)", "finite"},
      {"l1(other=1)", "has no option `other`"}};
  for (const auto& [text, named] : faults) {
    const auto terms = parse_losses(text);
    ASSERT_FALSE(terms.ok()) << text;
    EXPECT_THAT(terms.diagnostic().message, HasSubstr(named));
  }
}

constexpr char kModel[] = R"(rannc.graph 1
batch batch
input %x: f32[batch,6,3] samples 0
input %mask: f32[batch] samples 0
#0 %logits: f32[batch,6,3] samples 0 = core.tanh(%x)
inputs [%x, %mask]
outputs [%logits]
)";

Result<Graph> attached(const std::string& losses) {
  RANNC_ASSIGN(Graph graph, ir::parse_graph(kModel, "t.rir"));
  PassContext context;
  RANNC_ASSIGN(const std::vector<LossSpec> terms, parse_losses(losses));
  RANNC_TRY(AttachLoss(terms).run(graph, context));
  RANNC_TRY(ir::as_result(ir::verify(graph)));
  return graph;
}

// Operators behind the model's own.
std::vector<std::string> added(const Graph& graph) {
  std::vector<std::string> ops;
  for (uint32_t i = 1; i < graph.task_count(); ++i) ops.push_back(graph.op(TaskId(i)).name.substr(5));
  return ops;
}

struct Case {
  std::string losses;
  std::vector<std::string> ops;
  std::string divisor;
  double weight;
};

TEST(LossKinds, AreSumsAndTheirDivisors) {
  const Case cases[] = {
      {"cross_entropy(label_smoothing=0.1)", {"cross_entropy_sum"}, "sum(ne(labels/logits, -100))", 1},
      {"cross_entropy(class_weights=1/2/3)",
       {"cross_entropy_sum"},
       "sum(where(ne(labels/logits, -100), gather([…], where(ne(labels/logits, -100), labels/logits, 0)), 0))",
       1},
      {"cross_entropy(class_weights=1/2/3,reduction=sum)", {"cross_entropy_sum"}, "", 1},
      {"soft_cross_entropy", {"log_softmax", "mul", "sum", "neg"}, "size(18)", 3},
      {"soft_cross_entropy(axis=1,class_weights=1/2/3/4/5/6,weight=0.5)",
       {"log_softmax", "mul", "mul", "sum", "neg"},
       "size(18)",
       3},
      {"soft_cross_entropy(label_smoothing=0.5,reduction=samples)",
       {"log_softmax", "mul", "add", "mul", "sum", "neg"},
       "size(1)",
       1},
      {"bce_with_logits(pos_weight=2)", {"bce_with_logits_sum"}, "size(18)", 1},
      {"l1", {"sub", "abs", "sum"}, "size(18)", 1},
      {"huber(delta=0.5)", {"huber_sum"}, "size(18)", 1},
      {"smooth_l1(beta=0.5)", {"huber_sum"}, "size(18)", 2},
      {"smooth_l1(beta=0)", {"sub", "abs", "sum"}, "size(18)", 1},
      {"smooth_l1(beta=0.5,reduction=sum,count=mask)", {"huber_sum"}, "sum(mask)", 2}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.losses);
    const auto graph = attached(c.losses);
    ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
    EXPECT_EQ(added(*graph), c.ops);
    ASSERT_EQ(graph->losses().size(), 1U);
    const LossTerm& term = graph->losses()[0];
    EXPECT_EQ(testing::coefficient_text(*graph, term.divisor), c.divisor);
    EXPECT_EQ(term.weight, c.weight);
    EXPECT_TRUE(graph->type(term.numerator).batch.is_partial());
  }
}

TEST(LossKinds, WeightsAreConstantsOfTheModelsType) {
  const auto graph = attached("cross_entropy(class_weights=1/0.5/3)");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  const ValueId weights = graph->inputs(graph->producer(graph->losses()[0].numerator))[2];
  EXPECT_EQ(graph->kind(weights), ir::ValueKind::kConstant);
  EXPECT_EQ(graph->type(weights).dtype, ir::DType::kF32);
  EXPECT_THAT(ir::decode_numbers(graph->type(weights), graph->value(weights).data, 8).value(), ElementsAre(1, 0.5, 3));
}

// One of the model's own inputs, or a number for each sample.
TEST(LossKinds, CountsAreInputs) {
  const auto graph = attached("l1(count=mask)+l1(count=boxes)");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(testing::coefficient_text(*graph, graph->losses()[0].divisor), "sum(mask)");
  const ValueId made = graph->find("labels/boxes");
  EXPECT_EQ(testing::coefficient_text(*graph, graph->losses()[1].divisor), "sum(labels/boxes)");
  EXPECT_EQ(ir::str(*graph->type(made).shape), "[batch]");
  EXPECT_EQ(graph->type(made).batch.axis, 0);
}

TEST(LossKinds, WhatDoesNotFitIsNamed) {
  const std::pair<std::string, std::string> faults[] = {
      {"cross_entropy(class_weights=1/2)",
       "2 class weights on output %logits of shape [batch,6,3], which has 3 classes"},
      {"soft_cross_entropy(axis=0)", "axis 0 holds the samples"},
      {"bce_with_logits(pos_weight=1/2)", "2 numbers of pos_weight on output %logits of shape [batch,6,3]"}};
  for (const auto& [losses, named] : faults) {
    const auto graph = attached(losses);
    ASSERT_FALSE(graph.ok()) << losses;
    EXPECT_THAT(graph.diagnostic().str(), HasSubstr(named));
  }
}

}  // namespace
}  // namespace rannc::passes
