// What whole mini-batches count, as losses need it.
#include "runtime/aten/totals.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/loss/attach_loss.h"
#include "passes/loss/open_loss.h"
#include "tests/support/totals.h"

namespace rannc::runtime {
namespace {

using passes::LossSpec;
using testing::coefficient_text;

ir::Graph prepared(const std::string& text, const std::string& losses) {
  ir::Graph graph = ir::parse_graph("rannc.graph 1\nbatch n\n" + text, "t.rir").value();
  passes::PassContext context;
  const auto terms = passes::parse_losses(losses).value();
  passes::OpenLoss(terms).run(graph, context).value();
  passes::AttachLoss(terms).run(graph, context).value();
  EXPECT_TRUE(ir::verify(graph).empty()) << ir::verify(graph)[0].str();
  return graph;
}

using Inputs = std::map<std::string, at::Tensor>;

// The divisor of the only term.
Result<double> divisor(const ir::Graph& graph, const Inputs& inputs, ir::Bindings sizes) {
  RANNC_ASSIGN(const TotalsRun totals, TotalsRun::load(graph));
  const auto input = [&](const std::string& name) -> Result<at::Tensor> { return inputs.at(name); };
  RANNC_ASSIGN(const Tensors counts, totals.count(input, sizes));
  RANNC_ASSIGN(const Tensors coefficients, totals.coefficients(counts));
  return totals.scale(graph.losses().at(0), coefficients).divisor;
}

const std::string kLogits =
    "input %x: f32[n,2,3] samples 0\ninput %w: f32[n] samples 0\n"
    "#0 %z: f32[n,2,3] samples 0 = core.tanh(%x)\ninputs [%x, %w]\noutputs [%z]\n";

at::Tensor labels(std::initializer_list<int64_t> numbers) { return at::tensor(numbers, at::kLong).reshape({-1, 2}); }

double counted(const std::string& loss, const Inputs& inputs, int64_t samples) {
  return divisor(prepared(kLogits, loss), inputs, {{"n", samples}}).value();
}

// Also labels of 32 bits against a mark that 32 bits cannot hold.
TEST(Totals, CountLabelsThatAreNotIgnored) {
  const Inputs inputs = {{"labels/z", labels({0, 2, -100, 0})}};
  EXPECT_EQ(counted("cross_entropy", inputs, 2), 3);
  EXPECT_EQ(counted("cross_entropy(ignore_index=0)", inputs, 2), 2);
  const std::string narrow = "cross_entropy(ignore_index=-9223372036854775808)";
  EXPECT_EQ(counted(narrow, {{"labels/z", labels({0, 2, 1, 0}).to(at::kInt)}}, 2), 4);
}

TEST(Totals, SumWeightsOfClasses) {
  const std::string loss = "cross_entropy(class_weights=0.5/0.25/8";
  EXPECT_EQ(counted(loss + ")", {{"labels/z", labels({0, 1, -100, 0})}}, 2), 1.25);
  EXPECT_EQ(counted(loss + ")", {{"labels/z", labels({-100, -100})}}, 1), 0);
  EXPECT_EQ(counted(loss + ",ignore_index=2)", {{"labels/z", labels({2, 2, 1, 2})}}, 2), 0.25);
  const auto outside = divisor(prepared(kLogits, loss + ")"), {{"labels/z", labels({0, 3})}}, {{"n", 1}});
  ASSERT_FALSE(outside.ok());
  EXPECT_THAT(outside.diagnostic().str(),
              ::testing::HasSubstr("batch: what is counted of 'labels/z': core.gather: index out of range"));
}

TEST(Totals, CountSizesAndSumInputs) {
  EXPECT_EQ(counted("mse", {}, 5), 30);
  EXPECT_EQ(counted("mse(reduction=samples)", {}, 5), 5);
  EXPECT_EQ(counted("mse(reduction=sum)", {}, 5), 1);
  EXPECT_EQ(counted("mse(count=w)", {{"w", at::tensor({0.5, 1.0, 2.0}, at::kFloat)}}, 3), 3.5);
}

// A mask on other axes than the first, with samples in the middle of one.
const std::string kMask =
    "input %x: f32[3,n,2] samples 1\ninput %m: f32[3,2*n] samples 1 inner [2]\nparameter %p: f32[2]\n"
    "#0 %q: f32[3,n,2] samples 1 = core.mul(%x, %p)\n#1 %s: f32[] partial = core.sum(%q)\n"
    "#2 %c: f32[] partial = core.sum(%m)\n#3 %loss: f32[] mixed = core.div(%s, %c)\ninputs [%x, %m]\noutputs [%loss]\n";

// Sums keep the order of the samples, so that they are those of single samples wherever these are counted.
TEST(Totals, HaveARowForEachSample) {
  const ir::Graph graph = prepared(kMask, "in_graph");
  ASSERT_EQ(coefficient_text(graph, graph.losses().at(0).divisor), "sum(m)");
  const TotalsRun totals = TotalsRun::load(graph).value();
  const at::Tensor mask = at::rand({3, 8});
  const auto rows = [&](const at::Tensor& given, int64_t samples) {
    return totals.rows(0, [&](const std::string&) -> Result<at::Tensor> { return given; }, {{"n", samples}}).value();
  };
  const at::Tensor all = rows(mask, 4);
  ASSERT_EQ(all.sizes(), at::IntArrayRef({4}));
  for (int64_t n = 0; n < 4; ++n) EXPECT_TRUE(rows(mask.narrow(1, 2 * n, 2), 1).equal(all.narrow(0, n, 1)));
  EXPECT_NEAR(totals.total(all).item<double>(), mask.sum().item<double>(), 1e-5);
  EXPECT_EQ(totals.no_rows(0, 4).sizes(), all.sizes());
}

// Coefficients are evaluated once, of the counts of all samples.
TEST(Totals, CoefficientsMayBeAnyFunctionOfCounts) {
  const std::string head = kMask.substr(0, kMask.find("#3"));
  const auto with = [&](const std::string& tasks, const std::string& by) {
    return prepared(
        head + tasks + "#5 %loss: f32[] mixed = core.div(%s, " + by + ")\ninputs [%x, %m]\noutputs [%loss]\n",
        "in_graph");
  };
  const Inputs inputs = {{"m", at::tensor({0.5, 0.0, 1.0, 0.5, 0.0, 0.25}, at::kDouble).reshape({3, 2})}};
  const std::string one = "#3 %one: f32[] = core.full() {dtype = !f32, shape = [], value = 0x1p+0}\n";
  const ir::Graph least = with(one + "#4 %d: f32[] mixed = core.minimum(%c, %one)\n", "%d");
  EXPECT_EQ(coefficient_text(least, least.losses()[0].divisor), "minimum(sum(m), 1)");
  EXPECT_EQ(divisor(least, inputs, {{"n", 1}}).value(), 1);
  const ir::Graph root = with(one + "#4 %d: f32[] mixed = core.sqrt(%c)\n", "%d");
  EXPECT_EQ(divisor(root, inputs, {{"n", 1}}).value(), 1.5);
}

}  // namespace
}  // namespace rannc::runtime
