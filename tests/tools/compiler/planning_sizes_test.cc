// Sizes that planning chooses for itself: the preferred ones, or the nearest that a model accepts.
#include "tools/compiler/planning_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace rannc::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::Graph parsed(const std::string& statements) {
  auto graph = ir::parse_graph("rannc.graph 1\ngraph \"sizes\"\nbatch n\n" + statements, "sizes.rir");
  EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  return std::move(*graph);
}

struct Case {
  std::string name;
  std::string statements;
  ir::Bindings given, sizes;
};

const std::string kPositions = R"(
input %ids: i64[n,s] samples 0
parameter %table: f32[40,2]
#0 %place: i64[s] = core.range() {start = 0, limit = s, delta = 1, dtype = i64}
#1 %rows: f32[s,2] = core.gather(%table, %place)
inputs [%ids]
outputs [%rows]
)";

const Case kCases[] = {
    {"tokens", "input %ids: i64[n,s] samples 0\ninputs [%ids]\n", {}, {{"s", 128}}},
    {"image", "input %x: f32[n,3,a,b] samples 0\ninputs [%x]\n", {}, {{"a", 224}, {"b", 224}}},
    {"a name counts more than a type",
     "input %x: f32[n,3,frames,image_width] samples 0\ninputs [%x]\n",
     {},
     {{"frames", 128}, {"image_width", 224}}},
    {"features", "input %x: f32[n,a] samples 0\ninputs [%x]\n", {}, {{"a", 64}}},
    {"edges", "input %x: i64[edges]\ninputs [%x]\n", {}, {{"edges", 64}}},
    {"an affine axis", "input %x: f32[n,3,32*k,32*k + 8] samples 0\ninputs [%x]\n", {}, {{"k", 7}}},
    {"given sizes stay", "input %x: f32[n,3,a,b] samples 0\ninputs [%x]\n", {{"a", 5}}, {{"a", 5}, {"b", 224}}},
    {"a table cut to a length",
     "assume equal [min(40, s),s]\ninput %ids: i64[n,s] samples 0\ninputs [%ids]\n",
     {},
     {{"s", 40}}},
    {"multiples", "assume equal [100*floor(a/100),a]\ninput %x: f32[n,a] samples 0\ninputs [%x]\n", {}, {{"a", 100}}},
    {"smaller before larger",
     "assume equal [48*floor(a/48),a]\ninput %x: f32[n,a] samples 0\ninputs [%x]\n",
     {},
     {{"a", 48}}},
    {"two sizes in one condition",
     "assume equal [a*b,30]\ninput %x: f32[n,a] samples 0\ninput %y: f32[n,b] samples 0\ninputs [%x, %y]\n",
     {},
     {{"a", 30}, {"b", 1}}},
    {"two conditions on one size",
     "assume equal [min(20, s),s]\nassume equal [8*floor(s/8),s]\ninput %ids: i64[n,s] samples 0\ninputs [%ids]\n",
     {},
     {{"s", 16}}},
    {"rows of a table of positions", kPositions, {}, {{"s", 40}}},
    {"pads that may be empty",
     "input %x: f32[n,3,a,b] samples 0\ninput %pad: f32[n,3,mod(32 - mod(a, 32), 32),b] samples 0\ninputs [%x, %pad]\n",
     {},
     {{"a", 224}, {"b", 224}}},
    {"a length that leaves something",
     R"(input %x: f32[n,a] samples 0
#0 %y: f32[n,a - 399] samples 0 = core.slice(%x) {axes = [1], starts = [399], ends = [a], steps = [1]}
inputs [%x]
outputs [%y]
)",
     {},
     {{"a", 400}}},
};

TEST(PlanningSizes, AreTheNearestThatTheModelAccepts) {
  for (const Case& c : kCases) {
    const ir::Graph graph = parsed(c.statements);
    const auto found = planning_sizes(graph, c.given);
    ASSERT_TRUE(found.ok()) << c.name << ": " << found.diagnostic().str();
    EXPECT_EQ(found->sizes, c.sizes) << c.name;
    EXPECT_EQ(found->guessed.size(), c.sizes.size() - c.given.size()) << c.name;
  }
}

TEST(PlanningSizes, OthersMayBePreferred) {
  const ir::Graph graph =
      parsed("input %x: f32[n,3,a,b] samples 0\ninput %ids: i64[n,s] samples 0\ninputs [%x, %ids]\n");
  EXPECT_EQ(planning_sizes(graph, {}, {8, 9, 10})->sizes, (ir::Bindings{{"a", 9}, {"b", 9}, {"s", 8}}));
}

TEST(PlanningSizes, ThatDoNotExistAreAnError) {
  const ir::Graph graph = parsed(
      "assume equal [2*floor(a/2),a] at \"m.onnx\" node \"/half\"\nassume equal [2*floor(a/2) + 1,a]\n"
      "input %x: f32[n,a] samples 0\ninputs [%x]\n");
  const auto found = planning_sizes(graph, {});
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.diagnostic().str(), HasSubstr("--assume a=N"));
}

TEST(PlanningSizes, AreDescribedWithTheFlags) {
  EXPECT_EQ(describe_guess({{{"a", 5}}, {}}), "");
  const std::string text = describe_guess({{{"a", 5}, {"b", 224}, {"s", 128}}, {"b", "s"}});
  EXPECT_THAT(text, HasSubstr("b = 224, s = 128"));
  EXPECT_THAT(text, HasSubstr("--assume b=224 --assume s=128"));
  EXPECT_THAT(text, HasSubstr("--size b=N"));
}

}  // namespace
}  // namespace rannc::tools
