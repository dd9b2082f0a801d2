// Losses: their spelling, attached ones, ones that a model computes itself.
#include "passes/loss/attach_loss.h"

#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/loss/open_loss.h"
#include "passes/simplify/infer_shapes.h"
#include "tests/support/totals.h"

namespace rannc::passes {
namespace {

using ir::Dim;
using ir::Graph;
using ir::LossTerm;
using ir::Shape;

// --- spelling

TEST(LossSpec, SpellingRoundTrips) {
  for (const std::string text :
       {"cross_entropy", "mse(output=y)", "in_graph(output=loss,weight=0.5)",
        "cross_entropy(output=a+b,labels=l,axis=1,ignore_index=-1,weight=0.25,reduction=samples)+mse(reduction=sum)"}) {
    const auto terms = parse_losses(text);
    ASSERT_TRUE(terms.ok()) << terms.diagnostic().str();
    EXPECT_EQ(str(*terms), text);
  }
}

TEST(LossSpec, SpacesSurroundTermsAndOptions) {
  const auto terms = parse_losses(" cross_entropy( output=a b , labels=l,axis=1 ) + mse\t+ mse (weight=0.5)");
  ASSERT_TRUE(terms.ok()) << terms.diagnostic().str();
  EXPECT_EQ(str(*terms), "cross_entropy(output=a b,labels=l,axis=1)+mse+mse(weight=0.5)");
}

TEST(LossSpec, ErrorsNameTheTerm) {
  for (const auto& [text, named] :
       {std::pair("mse + hinge(output=y)", "`hinge` is no loss"),
        std::pair("mse + l1( output )", "`output` is no option=value"), std::pair("mse + ", "`` is no loss")}) {
    const auto terms = parse_losses(text);
    ASSERT_FALSE(terms.ok()) << text;
    EXPECT_NE(terms.diagnostic().message.find(named), std::string::npos) << terms.diagnostic().str();
    EXPECT_NE(terms.diagnostic().message.find("(term 2 of the loss)"), std::string::npos) << terms.diagnostic().str();
  }
}

TEST(LossSpec, ErrorsNameWhatIsAllowed) {
  const std::pair<std::string, std::string> faults[] = {
      {"", "cross_entropy, mse, in_graph"}, {"hinge", "`hinge` is no loss"},         {"mse(output)", "`output`"},
      {"mse(weight=x)", "`weight`"},        {"mse(weight=inf)", "weight"},           {"mse(class=1)", "`class`"},
      {"mse(reduction=max)", "mean"},       {"mse(output=y", "closing parenthesis"}, {"mse+", "`` is no loss"}};
  for (const auto& [text, named] : faults) {
    const auto terms = parse_losses(text);
    ASSERT_FALSE(terms.ok()) << text;
    EXPECT_NE(terms.diagnostic().message.find(named), std::string::npos) << terms.diagnostic().str();
  }
}

// --- attached

constexpr char kModel[] = R"(rannc.graph 1
batch batch
input %x: f32[batch,12,20] samples 0
input %weak: i64[batch,12] samples 0
parameter %w: f32[10,20]
parameter %v: f32[4]
#0 %logits: f32[batch,12,10] samples 0 = core.linear(%x, %w)
#1 %box: f32[batch,12,10] samples 0 = core.relu(%logits)
#2 %plain: f32[4] = core.neg(%v)
#3 %kind: i64[batch,12] samples 0 = core.argmax(%box) {axis = 2, keepdim = false}
inputs [%x, %weak]
outputs [%logits, %box, %plain, %kind]
)";

Graph model() { return ir::parse_graph(kModel, "t.rir").value(); }

Result<Outcome> attach(Graph& graph, std::string_view losses) {
  PassContext context;
  return AttachLoss(parse_losses(losses).value()).run(graph, context);
}

TEST(AttachLoss, UnknownOutputOfAFileWithoutNamesSuggestsTheFlag) {
  const auto refusal_of = [](std::string_view first, std::string_view second) {
    std::string text = kModel;
    for (const auto& [from, to] : {std::pair(std::string_view("logits"), first), {"box", second}}) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    }
    Graph graph = ir::parse_graph(text, "t.rir").value();
    return attach(graph, "mse(output=scores)").diagnostic().str();
  };
  const std::string unnamed = refusal_of("output_0", "output_1"), named = refusal_of("logits", "output_of_box");
  EXPECT_NE(unnamed.find("its outputs are output_0 output_1"), std::string::npos) << unnamed;
  EXPECT_NE(unnamed.find("note: --output-name NAME, once per output in order"), std::string::npos) << unnamed;
  EXPECT_NE(named.find("its outputs are logits output_of_box"), std::string::npos) << named;
  EXPECT_EQ(named.find("--output-name"), std::string::npos) << named;
}

TEST(AttachLoss, CrossEntropyCountsLabelsThatAreNotIgnored) {
  Graph graph = model();
  ASSERT_TRUE(attach(graph, "cross_entropy(output=logits,ignore_index=-7,weight=0.5)").value().changed);
  EXPECT_TRUE(ir::verify(graph).empty()) << ir::verify(graph)[0].str();
  const ValueId labels = graph.find("labels/logits");
  ASSERT_TRUE(labels.valid());
  EXPECT_EQ(graph.inputs().back(), labels);
  EXPECT_EQ(graph.type(labels).dtype, ir::DType::kI64);
  EXPECT_EQ(graph.type(labels).shape, (Shape{Dim::symbol("batch"), 12}));
  EXPECT_EQ(graph.type(labels).batch.axis, 0);
  ASSERT_EQ(graph.losses().size(), 1u);
  const LossTerm& term = graph.losses()[0];
  EXPECT_EQ(term.numerator, graph.find("loss/logits"));
  EXPECT_EQ(term.weight, 0.5);
  EXPECT_EQ(testing::coefficient_text(graph, term.divisor), "sum(ne(labels/logits, -7))");
  const TaskId task = graph.value(term.numerator).producer;
  EXPECT_EQ(graph.op(task).name, "core.cross_entropy_sum");
  EXPECT_EQ(graph.attributes(task).integer("axis"), 2);
  EXPECT_EQ(graph.attributes(task).integer("ignore_index"), -7);
  EXPECT_EQ(graph.outputs().size(), 4u) << "outputs stay";
}

TEST(AttachLoss, ClassesMayStandOnAnyAxisButThatOfTheSamples) {
  Graph graph = model();
  ASSERT_TRUE(attach(graph, "cross_entropy(output=logits,axis=1)").ok());
  EXPECT_EQ(graph.type(graph.find("labels/logits")).shape, (Shape{Dim::symbol("batch"), 10}));
  const auto mixed = attach(graph, "cross_entropy(output=logits,axis=0)");
  ASSERT_FALSE(mixed.ok());
  EXPECT_NE(mixed.diagnostic().message.find("axis 0 holds the samples"), std::string::npos) << mixed.diagnostic().str();
  EXPECT_FALSE(attach(graph, "cross_entropy(output=logits,axis=3)").ok());
}

TEST(AttachLoss, MeanSquaredErrorCountsElements) {
  Graph graph = model();
  ASSERT_TRUE(attach(graph, "mse(output=box,labels=target)").ok());
  EXPECT_TRUE(ir::verify(graph).empty());
  const ValueId labels = graph.find("labels/target");
  ASSERT_TRUE(labels.valid());
  EXPECT_EQ(graph.type(labels), graph.type(graph.find("box")));
  EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[0].divisor), "size(120)");
}

TEST(AttachLoss, OtherReductionsCountNoLabels) {
  Graph graph = model();
  ASSERT_TRUE(attach(graph, "mse(output=box,reduction=sum)+cross_entropy(output=logits,reduction=samples)").ok());
  EXPECT_TRUE(ir::verify(graph).empty());
  ASSERT_EQ(graph.losses().size(), 2u);
  EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[0].divisor), "");
  EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[1].divisor), "size(1)");
}

TEST(AttachLoss, TermsMayShareLabelsAndUseInputsOfTheModel) {
  Graph graph = model();
  ASSERT_TRUE(attach(graph, "cross_entropy(output=logits,labels=weak)+cross_entropy(output=box,labels=weak)").ok());
  EXPECT_EQ(graph.inputs().size(), 2u);
  EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[0].divisor), "sum(ne(weak, -100))");
  ASSERT_TRUE(attach(graph, "mse(output=logits,labels=t)+mse(output=box,labels=t)").ok());
  EXPECT_EQ(graph.inputs().size(), 3u);
  const auto unequal = attach(graph, "mse(output=box,labels=weak)");
  ASSERT_FALSE(unequal.ok());
  EXPECT_NE(unequal.diagnostic().message.find("labels %weak"), std::string::npos) << unequal.diagnostic().str();
}

TEST(AttachLoss, RefusesByName) {
  const std::pair<std::string, std::string> faults[] = {
      {"mse(output=nothing)", "logits box plain kind"},
      {"mse", "names no output"},
      {"mse(output=plain)", "has no batch axis"},
      {"mse(output=kind)", "it is i64"},
  };
  for (const auto& [losses, named] : faults) {
    Graph graph = model();
    const auto outcome = attach(graph, losses);
    ASSERT_FALSE(outcome.ok()) << losses;
    EXPECT_NE(outcome.diagnostic().message.find(named), std::string::npos) << outcome.diagnostic().str();
  }
}

// --- opened

const std::string kInside = R"(rannc.graph 1
batch batch
input %x: f32[batch,20] samples 0
input %labels: i64[batch] samples 0
input %target: f32[batch,10] samples 0
parameter %w: f32[10,20]
constant %two: f32[] = hex "00000040"
constant %quarter: f32[] = hex "0000803e"
#0 %logits: f32[*] = core.linear(%x, %w)
#1 %sum: f32[*] = core.cross_entropy_sum(%logits, %labels) {axis = 1, ignore_index = -100}
#2 %ignored: i64[*] = core.full() {dtype = !i64, shape = [], value = -100}
#3 %counted: bool[*] = core.ne(%labels, %ignored)
#4 %ones: f32[*] = core.cast(%counted) {dtype = !f32}
#5 %count: f32[*] = core.sum(%ones) {keepdim = false}
#6 %ce: f32[*] = core.div(%sum, %count)
#7 %difference: f32[*] = core.sub(%logits, %target)
#8 %square: f32[*] = core.pow(%difference, %two)
#9 %mse: f32[*] = core.mean(%square) {keepdim = false}
#10 %scaled: f32[*] = core.mul(%mse, %quarter)
#11 %both: f32[*] = core.sub(%ce, %scaled)
#12 %max: f32[*] = core.amax(%logits) {keepdim = false}
inputs [%x, %labels, %target]
)";

Graph opened(const std::string& output) {
  Graph graph = ir::parse_graph(kInside + "outputs [%logits, %" + output + "]\n", "t.rir").value();
  PassContext context;
  EXPECT_TRUE(OpenLoss({{.kind = LossSpec::Kind::kInGraph, .output = output}}).run(graph, context).value().changed);
  EXPECT_TRUE(ir::verify(graph).empty()) << ir::verify(graph)[0].str();
  const auto inferred = InferShapes().run(graph, context);
  EXPECT_TRUE(inferred.ok()) << inferred.diagnostic().str();
  EXPECT_EQ(graph.outputs().size(), 1u) << "the loss is no output any more";
  return graph;
}

TEST(OpenLoss, AMeanOverSamplesHasNoTypeBefore) {
  Graph graph = ir::parse_graph(kInside + "outputs [%ce]\n", "t.rir").value();
  PassContext context;
  EXPECT_FALSE(InferShapes().run(graph, context).ok());
}

TEST(OpenLoss, MeanCrossEntropy) {
  const Graph graph = opened("ce");
  ASSERT_EQ(graph.losses().size(), 1u);
  EXPECT_EQ(graph.losses()[0].numerator, graph.find("sum"));
  EXPECT_EQ(graph.losses()[0].weight, 1);
  EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[0].divisor), "sum(ne(labels, -100))");
  EXPECT_EQ(graph.task_count(), 2u) << "the count is gone";
}

TEST(OpenLoss, MeanSquaredDifference) {
  const Graph graph = opened("mse");
  ASSERT_EQ(graph.losses().size(), 1u);
  EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[0].divisor), "size(10)");
  const TaskId task = graph.value(graph.losses()[0].numerator).producer;
  EXPECT_EQ(graph.op(task).name, "core.mse_sum");
  EXPECT_EQ(graph.value(graph.inputs(task)[0]).name, "logits");
}

TEST(OpenLoss, SumsAndFactors) {
  const Graph graph = opened("both");
  ASSERT_EQ(graph.losses().size(), 2u);
  EXPECT_EQ(graph.losses()[0].weight, 1);
  EXPECT_EQ(graph.losses()[1].weight, -0.25);
}

std::string inside_with(const std::string& from, const std::string& to) {
  std::string text = kInside;
  return text.replace(text.find(from), from.size(), to);
}

// A square does not say which side it was taken from, a product not which factor is the number.
TEST(OpenLoss, OtherSpellingsAreTheSameLoss) {
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"core.sub(%logits, %target)", "core.sub(%target, %logits)"},
        {"core.pow(%difference, %two)", "core.mul(%difference, %difference)"},
        {"core.mul(%mse, %quarter)", "core.mul(%quarter, %mse)"},
        {"{keepdim = false}\n#10", "{axes = [0,1], keepdim = false}\n#10"}}) {
    SCOPED_TRACE(to);
    Graph graph = ir::parse_graph(inside_with(from, to) + "outputs [%scaled]\n", "t.rir").value();
    PassContext context;
    ASSERT_TRUE(OpenLoss({{.kind = LossSpec::Kind::kInGraph}}).run(graph, context).ok());
    ASSERT_EQ(graph.losses().size(), 1u);
    EXPECT_EQ(graph.losses()[0].weight, 0.25);
    EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[0].divisor), "size(10)");
    const auto operands = graph.inputs(graph.producer(graph.losses()[0].numerator));
    EXPECT_EQ(graph.value(operands[0]).name, "logits");
  }
}

// Means of anything else are sums over samples, too.
TEST(OpenLoss, OtherMeansAreSumsOfWhatIsMeant) {
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"core.pow(%difference, %two)", "core.pow(%difference, %quarter)"},
        {"core.pow(%difference, %two)", "core.mul(%difference, %logits)"},
        {"core.sub(%logits, %target)", "core.sub(%logits, %logits)"}}) {
    SCOPED_TRACE(to);
    Graph graph = ir::parse_graph(inside_with(from, to) + "outputs [%mse]\n", "t.rir").value();
    PassContext context;
    ASSERT_TRUE(OpenLoss({{.kind = LossSpec::Kind::kInGraph}}).run(graph, context).ok());
    ASSERT_EQ(graph.losses().size(), 1u);
    EXPECT_EQ(graph.op(graph.producer(graph.losses()[0].numerator)).name, "core.sum");
    EXPECT_EQ(graph.losses()[0].weight, 0.1);
    EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[0].divisor), "size(1)");
  }
  Graph graph =
      ir::parse_graph(inside_with("{keepdim = false}\n#10", "{axes = [0], keepdim = false}\n#10") + "outputs [%mse]\n",
                      "t.rir")
          .value();
  PassContext context;
  const auto outcome = OpenLoss({{.kind = LossSpec::Kind::kInGraph}}).run(graph, context);
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.diagnostic().message.find("%mse is f32[10]; it must be a float number"), std::string::npos);
}

TEST(OpenLoss, ASumIsTakenAsItIs) {
  const Graph graph = opened("sum");
  EXPECT_EQ(testing::coefficient_text(graph, graph.losses()[0].divisor), "");
}

TEST(OpenLoss, RefusesByName) {
  Graph graph = ir::parse_graph(kInside + "outputs [%max]\n", "t.rir").value();
  PassContext context;
  const auto outcome = OpenLoss({{.kind = LossSpec::Kind::kInGraph}}).run(graph, context);
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.diagnostic().message.find("%max, made by core.amax"), std::string::npos)
      << outcome.diagnostic().str();
}

// A count of other labels, or of all but another label, is another coefficient.
TEST(OpenLoss, CountsMayBeOfAnything) {
  for (const auto& [from, to, count] :
       {std::tuple<std::string, std::string, std::string>{"value = -100", "value = -1", "sum(ne(labels, -1))"},
        {"core.ne(%labels, %ignored)", "core.ne(%other, %ignored)", "sum(ne(other, -100))"}}) {
    std::string text = kInside;
    text.replace(text.find(from), from.size(), to);
    text.replace(text.find("input %target"), 0, "input %other: i64[batch] samples 0\n");
    text.replace(text.find("inputs [%x"), 10, "inputs [%other, %x");
    Graph graph = ir::parse_graph(text + "outputs [%ce]\n", "t.rir").value();
    PassContext context;
    ASSERT_TRUE(OpenLoss({{.kind = LossSpec::Kind::kInGraph}}).run(graph, context).ok()) << to;
    EXPECT_EQ(testing::coefficient_text(graph, graph.losses().at(0).divisor), count);
  }
}

// A length that is picked from the sizes of an input counts no samples, although those sizes do.
TEST(OpenLoss, LengthsAreNoCounts) {
  constexpr char kRows[] = R"(rannc.graph 1
batch batch
input %x: f32[batch,5] samples 0
constant %one: i64[1] = hex "0100000000000000"
constant %within: i64[5] = hex "00000000000000000100000000000000020000000000000003000000000000000400000000000000"
parameter %w: f32[5]
#0 %sizes: i64[2] contents [batch,5] = core.shape(%x)
#1 %length: i64[1] contents [5] = core.gather(%sizes, %one) {axis = 0}
#2 %sample: i64[batch] samples 0 = core.range() {delta = 1, dtype = !i64, limit = batch, start = 0}
#3 %column: i64[batch,1] samples 0 = core.reshape(%sample) {shape = [batch,1]}
#4 %first: i64[batch,1] samples 0 = core.mul(%column, %length)
#5 %places: i64[batch,5] samples 0 = core.add(%first, %within)
#6 %flat: f32[5*batch] samples 0 inner [5] = core.reshape(%x) {shape = [5*batch]}
#7 %picked: f32[batch,5] samples 0 = core.gather(%flat, %places) {axis = 0}
#8 %weighed: f32[batch,5] samples 0 = core.mul(%picked, %w)
#9 %bent: f32[batch,5] samples 0 = core.exp(%weighed)
#10 %loss: f32[*] = core.mean(%bent)
inputs [%x]
outputs [%loss]
)";
  Graph graph = ir::parse_graph(kRows, "t.rir").value();
  ASSERT_EQ(graph.type(graph.find("length")).contents, ir::Shape{5});
  PassContext context;
  const auto outcome = OpenLoss({{.kind = LossSpec::Kind::kInGraph}}).run(graph, context);
  ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  EXPECT_EQ(testing::coefficient_text(graph, graph.losses().at(0).divisor), "size(1)");
  const auto inferred = InferShapes().run(graph, context);
  EXPECT_TRUE(inferred.ok()) << inferred.diagnostic().str();
}

}  // namespace
}  // namespace rannc::passes
