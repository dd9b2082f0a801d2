// Losses that an ONNX file computes: how they are translated, and opened into sums over samples.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ir/op/op.h"
#include "ir/verify.h"
#include "passes/loss/join_loss.h"
#include "passes/loss/open_loss.h"
#include "passes/parameters/recover_parameters.h"
#include "passes/simplify/infer_shapes.h"
#include "tests/frontend/support/onnx_text.h"
#include "tests/support/totals.h"

namespace rannc::frontend {
namespace {

using ir::LossTerm;
using passes::LossSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kOpset = 18;

Result<ir::Graph> open(Result<ir::Graph> graph, std::vector<LossSpec> terms) {
  if (!graph.ok()) return graph;
  passes::PassContext context;
  RANNC_TRY(passes::OpenLoss(std::move(terms)).run(*graph, context));
  RANNC_TRY(ir::as_result(ir::verify(*graph)));
  RANNC_TRY(passes::InferShapes().run(*graph, context));
  RANNC_TRY(ir::as_result(ir::verify(*graph)));
  return graph;
}

// Of a graph whose inputs are `x` [batch, 5], labels `t` [batch], and what else is declared; its output is `loss`.
Result<ir::Graph> opened(const std::string& body, const std::string& more = "", const std::string& values = "") {
  const std::string text = "agraph (float[batch, 5] x, int64[batch] t" + more + ") => (float loss) <" +
                           (values.empty() ? "float[1] unused = {0}" : values) + "> {" + body + "}";
  return open(test::import_graph(text, kOpset), {{.kind = LossSpec::Kind::kInGraph, .output = "loss"}});
}

// The operator that makes the numerator of the only term.
std::string numerator(const ir::Graph& graph) {
  EXPECT_EQ(graph.losses().size(), 1U);
  return graph.op(graph.producer(graph.losses()[0].numerator)).name.substr(5);
}

// «weight / divisor» or «weight * factor / divisor».
std::string words(const ir::Graph& graph, const LossTerm& term) {
  const std::string factor = testing::coefficient_text(graph, term.factor),
                    divisor = testing::coefficient_text(graph, term.divisor);
  return fmt::format("{:g}{}{}", term.weight, factor.empty() ? "" : " * " + factor,
                     divisor.empty() ? "" : " / " + divisor);
}

std::string only(const ir::Graph& graph) {
  EXPECT_EQ(graph.losses().size(), 1U);
  return words(graph, graph.losses()[0]);
}

const std::string kWeights = "float[5] w = {0.5, 1, 2, 0.25, 1}";

// The mean over what a mask picks, as of masked tokens.
TEST(OnnxLosses, MeansOfPickedRows) {
  const auto graph = opened(
      R"(m = Equal(t, two) n = NonZero(m) p = Squeeze(n, zero) rows = Gather(x, p) squares = Mul(rows, rows)
         loss = ReduceMean <keepdims = 0> (squares))",
      "", "int64 two = {2}, int64[1] zero = {0}");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(numerator(*graph), "sum");
  EXPECT_EQ(only(*graph), "0.2 / sum(eq(t, 2))");
}

TEST(OnnxLosses, CrossEntropiesInAllForms) {
  const auto plain = opened("loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (x, t)");
  ASSERT_TRUE(plain.ok()) << plain.diagnostic().str();
  EXPECT_EQ(numerator(*plain), "cross_entropy_sum");
  EXPECT_EQ(only(*plain), "1 / sum(ne(t, -100))");
  for (const auto& [attribute, counts] :
       {std::pair<std::string, std::string>{"<ignore_index = 3>",
                                            "1 / sum(where(ne(t, 3), gather([…], where(ne(t, 3), t, 0)), 0))"},
        {"", "1 / sum(gather([…], t))"}}) {
    SCOPED_TRACE(attribute);
    const auto weighted = opened("loss = SoftmaxCrossEntropyLoss " + attribute + " (x, t, w)", "", kWeights);
    ASSERT_TRUE(weighted.ok()) << weighted.diagnostic().str();
    EXPECT_EQ(numerator(*weighted), "cross_entropy_sum");
    EXPECT_EQ(only(*weighted), counts);
    EXPECT_EQ(weighted->task_count(), 1U) << "what counted is gone";
  }
  const auto sum = opened("loss = SoftmaxCrossEntropyLoss <reduction = \"sum\"> (x, t, w)", "", kWeights);
  ASSERT_TRUE(sum.ok()) << sum.diagnostic().str();
  EXPECT_EQ(only(*sum), "1");
}

TEST(OnnxLosses, ALossOfEachSampleMayBeReducedOutside) {
  const auto mean = opened(
      "e = SoftmaxCrossEntropyLoss <reduction = \"none\", ignore_index = 1> (x, t)\n"
      "loss = ReduceMean <keepdims = 0> (e)");
  ASSERT_TRUE(mean.ok()) << mean.diagnostic().str();
  EXPECT_EQ(numerator(*mean), "sum");
  EXPECT_EQ(only(*mean), "1 / size(1)");
}

TEST(OnnxLosses, LogProbabilitiesAreASecondOutput) {
  const auto graph = test::import_graph(
      "agraph (float[batch, 5, 3] x, int32[batch, 3] t) => (float loss, float[batch, 5, 3] log) {"
      "loss, log = SoftmaxCrossEntropyLoss (x, t) }",
      kOpset);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  const auto left = open(graph->clone(), {{.kind = LossSpec::Kind::kInGraph, .output = "loss"}});
  ASSERT_TRUE(left.ok()) << left.diagnostic().str();
  ASSERT_EQ(left->outputs().size(), 1U);
  EXPECT_EQ(ir::str(*left->type(left->outputs()[0]).shape), "[batch,5,3]");
  EXPECT_EQ(left->type(left->outputs()[0]).batch.axis, 0);
}

TEST(OnnxLosses, NegativeLogLikelihoods) {
  const std::string nll = "loss = NegativeLogLikelihoodLoss <ignore_index = 2> (l, t, w)";
  const auto behind = opened("l = LogSoftmax <axis = 1> (x)\n" + nll, "", kWeights);
  ASSERT_TRUE(behind.ok()) << behind.diagnostic().str();
  EXPECT_EQ(numerator(*behind), "cross_entropy_sum") << "of the logits";
  EXPECT_EQ(behind->task_count(), 1U);
  const auto alone = opened("l = Log (x)\n" + nll, "", kWeights);
  ASSERT_TRUE(alone.ok()) << alone.diagnostic().str();
  EXPECT_EQ(numerator(*alone), "sum");
  EXPECT_EQ(only(*alone), "1 / sum(where(ne(t, 2), gather([…], where(ne(t, 2), t, 0)), 0))");
  const auto deep = test::import_graph(
      "agraph (float[batch, 5, 2, 3] x, int64[batch, 2, 3] t) => (float[batch, 2, 3] y) {"
      "y = NegativeLogLikelihoodLoss <reduction = \"none\"> (x, t) }",
      kOpset);
  ASSERT_TRUE(deep.ok()) << deep.diagnostic().str();
  EXPECT_EQ(deep->type(deep->outputs()[0]).batch.axis, 0);
}

// --- losses written out

TEST(OpenedLosses, MeansOverSamplesAreSumsAndTheirNumber) {
  const auto l1 = opened("d = Sub (x, y)\n a = Abs (d)\n loss = ReduceMean <keepdims = 0> (a)", ", float[batch, 5] y");
  ASSERT_TRUE(l1.ok()) << l1.diagnostic().str();
  EXPECT_EQ(only(*l1), "0.2 / size(1)");
  const auto twice = opened(
      "q = Mul (x, x)\n m = ReduceMean <keepdims = 0> (q, zero)\n s = ReduceSum <keepdims = 0> (m)\n"
      "loss = Div (s, two)",
      "", "int64[1] zero = {0}, float two = {2}");
  ASSERT_TRUE(twice.ok()) << twice.diagnostic().str();
  EXPECT_EQ(only(*twice), "0.5 / size(1)");
}

TEST(OpenedLosses, SymbolicExtentsAreThoseOfAnInput) {
  const auto graph = test::import_graph(
      "agraph (float[batch, s, 4] x, float[batch, s] y) => (float loss) { a = Abs (x)\n"
      "loss = ReduceMean <keepdims = 0> (a) }",
      kOpset);
  const auto left = open(graph->clone(), {{.kind = LossSpec::Kind::kInGraph}});
  ASSERT_TRUE(left.ok()) << left.diagnostic().str();
  EXPECT_EQ(only(*left), "1 / size(4*s)");
}

TEST(OpenedLosses, MaskedMeansCountTheMask) {
  const std::string values = "float[1] half = {0.5}, int64 one = {1}, int64[1] last = {1}";
  const auto marked = opened(
      "q = Mul (x, x)\n m = ReduceMean <keepdims = 0> (q, last)\n e = Equal (t, one)\n n = Not (e)\n"
      "f = Cast <to = 1> (n)\n k = Mul (m, f)\n s = ReduceSum <keepdims = 0> (k)\n i = Cast <to = 7> (n)\n"
      "c = ReduceSum <keepdims = 0> (i)\n d = Cast <to = 1> (c)\n loss = Div (s, d)",
      "", values);
  ASSERT_TRUE(marked.ok()) << marked.diagnostic().str();
  EXPECT_EQ(only(*marked), "1 / sum(logical_not(eq(t, 1)))");
  const auto masked = opened(
      "q = ReduceSum <keepdims = 0> (x, last)\n k = Mul (q, mask)\n s = ReduceSum <keepdims = 0> (k)\n"
      "d = ReduceSum <keepdims = 0> (mask)\n loss = Div (s, d)",
      ", float[batch] mask", values);
  ASSERT_TRUE(masked.ok()) << masked.diagnostic().str();
  EXPECT_EQ(only(*masked), "1 / sum(mask)");
}

// A penalty of parameters is the same in every micro-batch: it counts once.
TEST(OpenedLosses, WhatHasNoSamplesCountsOnce) {
  const auto graph = opened(
      "a = Abs (x)\n m = ReduceMean <keepdims = 0> (a)\n q = Mul (p, p)\n"
      "s = ReduceSum <keepdims = 0> (q)\n loss = Add (m, s)",
      "", "float[3] p = {1, 2, 3}");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  ASSERT_EQ(graph->losses().size(), 2U);
  EXPECT_EQ(words(*graph, graph->losses()[1]), "1 / size(1)");
  EXPECT_TRUE(graph->type(graph->losses()[1].numerator).batch.is_partial());
}

// Each addend is a term, so that it can be in the stage of its parameters. A zero is none.
TEST(OpenedLosses, AddendsWithoutSamplesAreTermsOfTheirOwn) {
  const std::string mean = "a = Abs (x)\n m = ReduceMean <keepdims = 0> (a)\n";
  const std::string values =
      "float[3] p = {1, 2, 3}, float[2] q = {1, 2}, float zero = {0}, float half = {0.5}, int64[1] c = {1}";
  const std::string penalties = "s = ReduceSum <keepdims = 0> (p)\n r = ReduceSum <keepdims = 0> (q)\n";
  const std::string stacked = mean + penalties +
                              "rs = Reshape (s, c)\n rr = Reshape (r, c)\n"
                              "j = Concat <axis = 0> (rs, rr)\n";
  for (const auto& [body, weights] : {
           std::pair<std::string, std::vector<double>>{mean + "loss = Add (zero, m)", {0.2}},
           {mean + "loss = Sub (m, zero)", {0.2}},
           {mean + "loss = Sub (zero, m)", {-0.2}},
           {mean + "loss = Add (m, half)", {0.2, 0.5}},
           {mean + "loss = Sub (half, m)", {0.5, -0.2}},
           {mean + penalties + "z = Add (s, r)\n w = Mul (z, half)\n loss = Add (m, w)", {0.2, 0.5, 0.5}},
           {stacked + "z = ReduceSum <keepdims = 0> (j)\n loss = Add (m, z)", {0.2, 1, 1}},
           {stacked + "z = ReduceMean <keepdims = 0> (j)\n loss = Add (m, z)", {0.2, 0.5, 0.5}},
       }) {
    SCOPED_TRACE(body);
    const auto graph = opened(body, "", values);
    ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
    std::vector<double> found;
    for (const LossTerm& term : graph->losses()) {
      found.push_back(term.weight);
      EXPECT_EQ(testing::coefficient_text(*graph, term.divisor), "size(1)");
      EXPECT_TRUE(graph->type(term.numerator).batch.is_partial());
    }
    EXPECT_EQ(found, weights);
  }
}

// A tensor that only a penalty reads is trained like any other; a number of the code is not.
TEST(OpenedLosses, ParametersOfAPenaltyAreTrained) {
  auto graph = opened(
      "a = Abs (x)\n m = ReduceMean <keepdims = 0> (a)\n q = Mul (p, p)\n"
      "s = ReduceSum <keepdims = 0> (q)\n z = Add (m, s)\n loss = Add (z, half)",
      "", "float[3] p = {1, 2, 3}, float half = {0.5}");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  passes::PassContext context;
  ASSERT_TRUE(passes::RecoverParameters().run(*graph, context).ok());
  EXPECT_EQ(graph->kind(graph->find("p")), ir::ValueKind::kParameter);
  EXPECT_FALSE(graph->find("half").valid()) << "a weight of its term";
  EXPECT_EQ(graph->losses().back().weight, 0.5);
}

// Means beside the loss, for a log, are metrics if they are functions of sums; else they are left out by name. Outputs
// of samples and of parameters stay.
TEST(OpenedLosses, OtherOutputsThatCombineSamplesAreMetrics) {
  auto graph = test::import_graph(
      "agraph (float[batch, 5] x) => (float loss, float size, float[batch, 5] a, float s, float[batch, 5] share) "
      "<float[3] p = "
      "{1, 2, 3}, float[5,5] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}> {"
      "y = MatMul (x, w)\n a = Abs (y)\n loss = ReduceMean <keepdims = 0> (a)\n q = Mul (a, a)\n"
      "m = ReduceMean <keepdims = 0> (q)\n size = Sqrt (m)\n s = ReduceSum <keepdims = 0> (p)\n"
      "share = Div (a, m) }",
      kOpset);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  passes::PassContext context;
  const passes::OpenLoss pass({{.kind = LossSpec::Kind::kInGraph, .output = "loss"}});
  ASSERT_TRUE(pass.run(*graph, context).ok());
  EXPECT_TRUE(ir::verify(*graph).empty());
  ASSERT_EQ(graph->totals().sums.size(), 1U);
  EXPECT_THAT(graph->outputs(), ElementsAre(graph->find("a"), graph->find("s"), graph->totals().sums[0]));
  EXPECT_TRUE(graph->type(graph->totals().sums[0]).batch.is_partial());
  const ir::Graph& metrics = graph->totals().metrics->graph();
  ASSERT_EQ(metrics.outputs().size(), 1U);
  EXPECT_EQ(metrics.value(metrics.outputs()[0]).name, "size");
  ASSERT_EQ(context.open.size(), 1U);
  EXPECT_THAT(context.open[0].message, HasSubstr("output 'share' is excluded"));
  EXPECT_TRUE(passes::InferShapes().run(*graph, context).ok()) << "a sum that a metric reads may be an output";
}

// Such as the number of correct predictions.
TEST(OpenedLosses, PlainSumsOverSamplesAreMetrics) {
  const std::string weights = "float[5,5] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}";
  for (const std::string loss : {"loss = ReduceMean <keepdims = 0> (a)", "loss = Add (total, total)"}) {
    SCOPED_TRACE(loss);
    auto graph = test::import_graph("agraph (float[batch, 5] x) => (float loss, float total) <" + weights +
                                        "> {y = MatMul (x, w)\n a = Abs (y)\n total = ReduceSum <keepdims = 0> (a)\n" +
                                        loss + "}",
                                    kOpset);
    ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
    const auto left = open(std::move(graph), {{.kind = LossSpec::Kind::kInGraph, .output = "loss"}});
    ASSERT_TRUE(left.ok()) << left.diagnostic().str();
    EXPECT_THAT(left->totals().sums, ElementsAre(left->find("total")));
    EXPECT_THAT(left->outputs(), ElementsAre(left->find("total")));
    const ir::Graph& metrics = left->totals().metrics->graph();
    ASSERT_EQ(metrics.outputs().size(), 1U);
    EXPECT_EQ(metrics.value(metrics.outputs()[0]).name, "total");
  }
}

// A micro-batch has another number of samples, and other indices of them.
TEST(OpenedLosses, OutputsThatCountSamplesAreMetricsOrExcluded) {
  for (const bool has_loss : {false, true}) {
    SCOPED_TRACE(has_loss);
    auto graph = test::import_graph(
        "agraph (float[batch, 5] x) => (float[batch, 5] a, int64[2] sizes, float count, int64[batch] index, int64 "
        "last, "
        "int64[1] width, float loss) <int64 zero = {0}, int64 one = {1}> {"
        "a = Abs (x)\n sizes = Shape (x)\n n = Shape <start = 0, end = 1> (x)\n m = Squeeze (n)\n"
        "count = Cast <to = 1> (m)\n index = Range (zero, m, one)\n last = Sub (m, one)\n"
        "width = Shape <start = 1> (x)\n loss = ReduceMean <keepdims = 0> (a) }",
        kOpset);
    ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
    passes::PassContext context;
    std::vector<LossSpec> terms;
    if (has_loss) terms.push_back({.kind = LossSpec::Kind::kInGraph, .output = "loss"});
    ASSERT_TRUE(passes::OpenLoss(terms).run(*graph, context).ok());
    EXPECT_TRUE(ir::verify(*graph).empty());
    std::vector<std::string> left, metrics;
    for (const ValueId output : graph->outputs()) left.emplace_back(graph->value(output).name);
    const ir::Graph& body = graph->totals().metrics->graph();
    for (const ValueId output : body.outputs()) metrics.emplace_back(body.value(output).name);
    EXPECT_THAT(left, ::testing::IsSupersetOf({"a", "width"}));
    EXPECT_THAT(left, ::testing::Not(::testing::Contains("index")));
    EXPECT_THAT(metrics, ::testing::IsSupersetOf({"sizes", "count", "last"}));
    ASSERT_EQ(context.open.size(), 1U);
    EXPECT_THAT(context.open[0].message, HasSubstr("output 'index' is excluded: it depends on the number of samples"));
  }
}

TEST(OpenedLosses, WhatMixesSamplesOtherwiseIsRefused) {
  // What inputs alone determine would be a coefficient.
  const std::string mean = "y = MatMul (x, w)\n a = Abs (y)\n m = ReduceMean <keepdims = 0> (a)\n";
  const std::string weights = "float[5,5] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}";
  for (const auto& [body, named] : {std::pair<std::string, std::string>{mean + "loss = Sqrt (m)", "core.sqrt"},
                                    {mean + "loss = Mul (m, m)", "core.mul"},
                                    {mean + "loss = Exp (m)", "core.exp"},
                                    {mean + "s = ReduceSum <keepdims = 0> (x)\n loss = Div (s, m)", "core.div"}}) {
    const auto graph = opened(body, "", weights);
    ASSERT_FALSE(graph.ok()) << body;
    EXPECT_THAT(graph.diagnostic().str(), HasSubstr("%loss, made by " + named));
    EXPECT_THAT(graph.diagnostic().str(), HasSubstr("%m;")) << "by its name in the file";
  }
}

// Deviations of labels from their mean need the mean before they are summed, as in R².
TEST(OpenedLosses, CountsOfCountsAreRefused) {
  const auto graph = opened(
      "d = Sub (x, y)\n e = Mul (d, d)\n s = ReduceSum <keepdims = 0> (e)\n m = ReduceMean <keepdims = 0> (y)\n"
      "v = Sub (y, m)\n q = Mul (v, v)\n r = ReduceSum <keepdims = 0> (q)\n loss = Div (s, r)",
      ", float[batch, 5] y");
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.diagnostic().str(), HasSubstr("itself known only of a whole mini-batch"));
}

// Of a micro-batch the number of samples is another one.
TEST(OpenedLosses, PartsOfSamplesDividedByTheirNumberAreAMean) {
  const std::string count = "n = Shape <start = 0, end = 1> (x)\n f = Cast <to = 1> (n)\n";
  for (const char* const body : {"q = Div (x, f)\n loss = ReduceSum <keepdims = 0> (q)",
                                 "q = Div (x, f)\n s = ReduceSum <keepdims = 0> (q)\n loss = Identity (s)",
                                 "s = ReduceSum <keepdims = 0> (x)\n q = Div (s, f)\n loss = Squeeze (q)"}) {
    const auto opened_up = opened(count + body);
    ASSERT_TRUE(opened_up.ok()) << body << opened_up.diagnostic().str();
    EXPECT_EQ(only(*opened_up), "1 / size(1)") << body;
  }
  const auto times = opened(count + "q = Mul (x, f)\n loss = ReduceSum <keepdims = 0> (q)");
  ASSERT_TRUE(times.ok()) << times.diagnostic().str();
  EXPECT_EQ(only(*times), "1 * size(1)");
}

// Where no loss of the file's own is opened: predictions, or a loss that is asked for by name.
TEST(OpenedLosses, PredictionsMadeOfTheNumberOfSamplesAreRefused) {
  const auto inferred = [](const std::string& body) {
    auto graph = test::import_graph(
        "agraph (float[batch, 5] x) => (float[batch, 5] y) <int64 zero = {0}, int64 one = "
        "{1}, int64[1] none = {0}, int64[1] last = {1}> {" +
            body + "}",
        kOpset);
    EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
    passes::PassContext context;
    const auto made = passes::InferShapes().run(*graph, context);
    return made.ok() ? "" : made.diagnostic().str();
  };
  const std::string count = "n = Shape <start = 0, end = 1> (x)\n f = Cast <to = 1> (n)\n";
  EXPECT_THAT(inferred(count + "[share] y = Div (x, f)"),
              ::testing::AllOf(HasSubstr("share"), HasSubstr("core.div makes %y"), HasSubstr("from %f")));
  const std::string own = "n = Shape <start = 0, end = 1> (x)\n m = Squeeze (n)\n r = Range (zero, m, one)\n";
  EXPECT_THAT(inferred(own + "[number] f = Cast <to = 1> (r)\n u = Unsqueeze (f, last)\n y = Add (x, u)"),
              ::testing::AllOf(HasSubstr("number"), HasSubstr("core.cast makes %f")));
  EXPECT_THAT(inferred(own + "two = Constant <value_int = 2> ()\n p = Mod (r, two)\n e = Equal (p, zero)\n"
                             "u = Unsqueeze (e, last)\n k = Neg (x)\n [odd] y = Where (u, x, k)"),
              ::testing::AllOf(HasSubstr("odd"), HasSubstr("core.where makes %y")));
  EXPECT_EQ(inferred(own + "u = Unsqueeze (r, last)\n y = GatherND (x, u)"), "");
  EXPECT_EQ(inferred("s = Shape (x)\n w = Gather (s, one)\n f = Cast <to = 1> (w)\n y = Div (x, f)"), "");
}

// What keeps a count from being zero belongs to the mini-batch, as the count does.
TEST(OpenedLosses, CountsMayBeBoundedAndAddedTo) {
  const std::string values = "float least = {1}, int64 one = {1}, int64[1] last = {1}, float two = {2}";
  const std::string counted =
      "e = Equal (t, one)\n n = Not (e)\n f = Cast <to = 1> (n)\n c = ReduceSum <keepdims = 0> (f)\n";
  const std::string sums = "m = ReduceSum <keepdims = 0> (x, last)\n c = ReduceSum <keepdims = 0> (mask)\n";
  const std::string masked = "k = Mul (m, mask)\n s = ReduceSum <keepdims = 0> (k)\n";
  const std::string size = "n = Shape <start = 0, end = 1> (x)\n c = Cast <to = 1> (n)\n a = Abs (x)\n";
  const std::string whole = "s = ReduceSum <keepdims = 0> (x)\n", quotient = "loss = Div (s, d)";
  const std::string mask = "sum(mask)", others = "sum(logical_not(eq(t, 1)))";
  const std::string weigh = "m = ReduceSum <keepdims = 0> (x, last)\n", sum = "c = ReduceSum <keepdims = 0> (i)\n";
  struct {
    std::string body, counts;
  } const cases[] = {
      {counted + whole + "d = Max (c, least)\n" + quotient, "maximum(" + others + ", 1)"},
      {counted + whole + "d = Clip (c, two)\n" + quotient, "clamp(" + others + ")"},
      {sums + masked + "d = Clip (c, least)\n" + quotient, "clamp(" + mask + ")"},
      {sums + masked + "d = Add (c, two)\n" + quotient, "add(" + mask + ", 2)"},
      {sums + masked + "b = Add (least, c)\n d = Max (two, b)\n" + quotient, "maximum(2, add(1, " + mask + "))"},
      {size + "g = Add (c, two)\n s = ReduceSum <keepdims = 0> (a)\nloss = Div (s, g)", "add(size(1), 2)"},
      {sums + masked + "b = Max (c, least)\n d = Add (b, two)\n" + quotient, "add(maximum(" + mask + ", 1), 2)"},
      {sums + masked + "d = Clip (c, least, two)\n" + quotient, "clamp(" + mask + ")"},
      {sums + masked + "d = Min (c, two)\n" + quotient, "minimum(" + mask + ", 2)"},
      {sums + masked + "d = Sqrt (c)\n" + quotient, "sqrt(" + mask + ")"},
      {weigh + masked + "i = Cast <to = 7> (mask)\n" + sum + "d = Cast <to = 1> (c)\n" + quotient, mask},
  };
  for (const auto& c : cases) {
    const auto opened_up = opened(c.body, ", float[batch] mask", values);
    ASSERT_TRUE(opened_up.ok()) << c.body << opened_up.diagnostic().str();
    EXPECT_EQ(only(*opened_up), "1 / " + c.counts) << c.body;
  }
}

// As language models predict the next token: the labels are those behind the first, padded by one that is ignored.
TEST(OpenedLosses, LabelsMayBeShifted) {
  const std::string head =
      "agraph (float[batch, 6, 5] x, int64[batch, 6] t, float[batch, 6] mask) => (float loss) <int64[1] one = {1}, "
      "int64[1] two = {2}, int64[1] last = {-1}, int64[1] end = {9223372036854775807}, int64[1] axis = {1}, int64[4] "
      "behind = {0, 0, 0, 1}, int64[4] before = {0, 1, 0, 0}, int64 ignored = {-100}, int64 other = {3}, float zero = "
      "{0}, int64[1] flat = {-1}, int64[2] rows = {-1, 5}, int64[1] zeros = {0}, float[5] w = "
      "{0.5, 1, 2, 0.25, 1}> {";
  const std::string logits = "l = Reshape (x, rows)\n",
                    few = "f = Slice (x, zeros, last, axis)\n l = Reshape (f, rows)\n";
  const std::string entropy = "r = Reshape (s, flat)\n loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (l, r";
  const std::string padded = "p = Pad (t, behind, ignored)\n s = Slice (p, one, end, axis)\n";
  const auto opened_up = [&](const std::string& body) {
    return open(test::import_graph(head + body + "}", kOpset), {{.kind = LossSpec::Kind::kInGraph, .output = "loss"}});
  };
  for (const auto& [body, labels] :
       {std::pair<std::string, std::string>{logits + padded + entropy + ")", "slice(pad(t))"},
        {few + "s = Slice (t, one, end, axis)\n" + entropy + ")", "slice(t)"},
        {few + "s = Slice (t, zeros, last, axis)\n" + entropy + ")", "slice(t)"},
        // Padding that counts.
        {logits + "p = Pad (t, behind, other)\n s = Slice (p, one, end, axis)\n" + entropy + ")", "slice(pad(t))"},
        // Every second label.
        {"f = Slice (x, zeros, end, axis, two)\n l = Reshape (f, rows)\n"
         "s = Slice (t, zeros, end, axis, two)\n" +
             entropy + ")",
         "slice(t)"}}) {
    const auto graph = opened_up(body);
    ASSERT_TRUE(graph.ok()) << body << graph.diagnostic().str();
    EXPECT_EQ(only(*graph), "1 / sum(ne(" + labels + ", -100))") << body;
  }
  const auto weighted = opened_up(logits + padded + entropy + ", w)");
  ASSERT_TRUE(weighted.ok()) << weighted.diagnostic().str();
  EXPECT_THAT(only(*weighted), HasSubstr("gather([…], where(ne(slice(pad(t)), -100)"));
  const auto masked = opened_up(
      "q = ReduceSum <keepdims = 0> (x, two)\n k = Slice (q, one, end, axis)\n m = Slice (mask, one, end, axis)\n"
      "z = Mul (k, m)\n a = ReduceSum <keepdims = 0> (z)\n c = ReduceSum <keepdims = 0> (m)\n loss = Div (a, c)");
  ASSERT_TRUE(masked.ok()) << masked.diagnostic().str();
  EXPECT_EQ(only(*masked), "1 / sum(slice(mask))");
}

// --- a loss in a file of its own

const char* const kModel =
    "agraph (float[batch, 4] x, float[batch] mask) => (float[batch, 5] logits, float[batch, 4] h) {"
    "h = Tanh (x)\n logits = MatMul (h, w) }";

Result<ir::Graph> model() {
  std::string text = kModel;
  text.replace(text.find(" {h"), 2, " <float[4,5] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2}> {");
  return test::import_graph(text, kOpset);
}

Result<ir::Graph> joined(const std::string& loss, const passes::LossGraph& how = {.file = "loss.onnx"}) {
  RANNC_ASSIGN(ir::Graph graph, model());
  RANNC_ASSIGN(const ir::Graph other, test::import_graph(loss, kOpset));
  RANNC_ASSIGN(const std::vector<LossSpec> terms, passes::join_loss(graph, other, how));
  RANNC_TRY(ir::as_result(ir::verify(graph)));
  return open(std::move(graph), terms);
}

const std::string kLoss =
    "lgraph (float[N, C] logits, int64[N] y) => (float loss) { loss = SoftmaxCrossEntropyLoss (logits, y) }";

TEST(JoinedLosses, ReadOutputsByNameAndBringLabels) {
  const auto graph = joined(kLoss);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(numerator(*graph), "cross_entropy_sum");
  const ValueId labels = graph->find("labels/y");
  EXPECT_EQ(graph->inputs().back(), labels);
  EXPECT_EQ(ir::str(*graph->type(labels).shape), "[batch]");
  EXPECT_EQ(graph->type(labels).batch.axis, 0);
  EXPECT_EQ(graph->outputs().size(), 2U) << "the model's stay, the loss is none";
}

TEST(JoinedLosses, DrawNumbersThatTheModelDoesNot) {
  auto graph = test::import_graph(
      "agraph (float[batch, 4] x) => (float[batch, 4] h) { r = RandomNormalLike (x)\n h = Mul (x, r) }", kOpset);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  const auto loss = test::import_graph(
      "lgraph (float[N, 4] h) => (float loss) { r = RandomNormalLike (h)\n e = Mul (h, r)\n loss = ReduceSum <keepdims "
      "= 0> "
      "(e) }",
      kOpset);
  ASSERT_TRUE(loss.ok()) << loss.diagnostic().str();
  ASSERT_TRUE(passes::join_loss(*graph, *loss, {.file = "loss.onnx"}).ok());
  std::set<uint64_t> keys;
  for (const ValueId value : graph->values()) {
    const ir::RandomInput* const draw = graph->random_input(value);
    if (draw != nullptr) keys.insert(draw->key);
  }
  EXPECT_EQ(keys.size(), 2U);
}

TEST(JoinedLosses, SeveralOutputsAreWeighted) {
  const auto declared = joined(
      "lgraph (float[N, 4] hidden, float[N] mask, float[N, 4] goal) => (float a, float b) <int64[1] one = {1}> {"
      "d = Sub (hidden, goal)\n e = Abs (d)\n a = ReduceMean <keepdims = 0> (e)\n"
      "r = ReduceSum <keepdims = 0> (e, one)\n k = Mul (r, mask)\n s = ReduceSum <keepdims = 0> (k)\n"
      "n = ReduceSum <keepdims = 0> (mask)\n b = Div (s, n) }",
      {.file = "loss.onnx", .inputs = {{"hidden", "h"}}, .weights = {{"b", 0.25}}});
  ASSERT_TRUE(declared.ok()) << declared.diagnostic().str();
  ASSERT_EQ(declared->losses().size(), 2U);
  EXPECT_EQ(words(*declared, declared->losses()[0]), "0.25 / size(1)");
  EXPECT_EQ(words(*declared, declared->losses()[1]), "0.25 / sum(mask)") << "an input of the model";
}

TEST(JoinedLosses, ErrorsNameBothSides) {
  const auto fails = [](const std::string& loss, const passes::LossGraph& how, const std::vector<std::string>& named) {
    const auto graph = joined(loss, how);
    ASSERT_FALSE(graph.ok()) << loss;
    for (const std::string& part : named) EXPECT_THAT(graph.diagnostic().str(), HasSubstr(part));
  };
  const passes::LossGraph plain{.file = "loss.onnx"};
  fails("lgraph (double[N, 5] logits) => (double loss) { loss = ReduceSum <keepdims = 0> (logits) }", plain,
        {"%logits of the loss is f64[N,5]", "%logits of the model is f32[batch,5]"});
  fails("lgraph (float[N, 7] logits) => (float loss) { loss = ReduceSum <keepdims = 0> (logits) }", plain,
        {"f32[N,7]", "f32[batch,5]"});
  fails("lgraph (float[N, 5] scores) => (float loss) { loss = ReduceSum <keepdims = 0> (scores) }", plain,
        {"inputs are scores", "the model's outputs logits h"});
  fails("lgraph (float[N, 5] logits) => (float[N, 5] loss) { loss = Abs (logits) }", plain,
        {"%loss", "a float scalar"});
  fails(kLoss, {.file = "loss.onnx", .inputs = {{"logits", "nothing"}}}, {"nothing", "does not have"});
  fails(kLoss, {.file = "loss.onnx", .inputs = {{"z", "h"}}}, {"no input z"});
  fails(kLoss, {.file = "loss.onnx", .weights = {{"z", 1}}}, {"no output z"});
}

}  // namespace
}  // namespace rannc::frontend
