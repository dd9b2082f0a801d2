#include "passes/batch/rebatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/simplify/infer_shapes.h"
#include "tests/passes/typed_graph.h"

namespace rannc::passes {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Shape;
using ::testing::HasSubstr;

const Dim kBatch = Dim::symbol("batch");

/// The graph after the pass and the checks of the types that it rests on.
Graph rebatched(const std::string& statements, BakedBatch baked = {}) {
  Graph graph = typed_graph(statements);
  PassContext context;
  const auto done = Rebatch(std::move(baked)).run(graph, context);
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  EXPECT_TRUE(!done.ok() || done->changed);
  EXPECT_TRUE(ir::as_result(ir::verify(graph)).ok());
  const auto typed = InferShapes().run(graph, context);
  EXPECT_TRUE(typed.ok()) << typed.diagnostic().str();
  return graph;
}

std::string refusal(const std::string& statements, BakedBatch baked = {}) {
  Graph graph = typed_graph(statements);
  PassContext context;
  const auto done = Rebatch(std::move(baked)).run(graph, context);
  EXPECT_FALSE(done.ok()) << ir::print(graph);
  return done.ok() ? "" : done.diagnostic().message;
}

Shape shape_of(const Graph& graph, std::string_view name) {
  const ValueId value = graph.find(name);
  EXPECT_TRUE(value.valid()) << name;
  return value.valid() ? *graph.type(value).shape : Shape{};
}

TEST(Rebatch, ShapesHoldTheSymbolWhereTheSamplesAre) {
  const Graph graph = rebatched(R"(
input %x: f32[8,12,64]
#0 %heads: f32[*] = core.reshape(%x) {shape = [8,12,8,8]}
#1 %turned: f32[*] = core.permute(%heads) {dims = [0,2,1,3]}
#2 %merged: f32[*] = core.reshape(%turned) {shape = [64,12,8]}
#3 %columns: f32[*] = core.permute(%merged) {dims = [0,2,1]}
#4 %scores: f32[*] = core.matmul(%merged, %columns)
#5 %apart: f32[*] = core.reshape(%scores) {shape = [8,8,12,12]}
#6 %flat: f32[*] = core.reshape(%x) {shape = [96,64]}
inputs [%x]
outputs [%apart, %flat]
)");
  EXPECT_EQ(graph.batch_symbol(), "batch");
  EXPECT_EQ(shape_of(graph, "x"), (Shape{kBatch, 12, 64}));
  EXPECT_EQ(shape_of(graph, "merged"), (Shape{kBatch * 8, 12, 8}));
  EXPECT_EQ(graph.type(graph.find("merged")).batch, (ir::BatchLayout{0, 1, 8}));
  EXPECT_EQ(shape_of(graph, "apart"), (Shape{kBatch, 8, 12, 12}));
  EXPECT_EQ(shape_of(graph, "flat"), (Shape{kBatch * 12, 64}));
}

TEST(Rebatch, MiniBatchesOneAfterAnotherAreCutWhereTheyMeet) {
  const Graph graph = rebatched(R"(
input %a: f32[6,6]
input %b: f32[6,6]
#0 %both: f32[*] = core.concat(%a, %b) {axis = 0}
#1 %r: f32[*] = core.relu(%both)
#2 %first: f32[*] = core.slice(%r) {axes = [0], starts = [0], ends = [6]}
#3 %second: f32[*] = core.slice(%r) {axes = [0], starts = [-6], ends = [9223372036854775807]}
#4 %left: f32[*], %right: f32[*] = core.split(%r) {axis = 0, sizes = [6,6]}
#5 %apart: f32[*] = core.reshape(%r) {shape = [2,6,6]}
inputs [%a, %b]
outputs [%first, %second, %left, %right, %apart]
)");
  for (const char* half : {"first", "second", "left", "right"}) EXPECT_EQ(shape_of(graph, half), (Shape{kBatch, 6}));
  EXPECT_EQ(shape_of(graph, "apart"), (Shape{2, kBatch, 6}));
}

// A mask of two samples, three places: the same for both.
TEST(Rebatch, TablesThatAreAlikeForAllSamplesAreStretched) {
  const Graph graph = rebatched(R"(
input %x: f32[2,3]
constant %mask: f32[2,3] = hex "000000000000803f00000040000000000000803f00000040"
#0 %y: f32[*] = core.add(%x, %mask)
inputs [%x]
outputs [%y]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 3}));
  EXPECT_EQ(graph.type(graph.find("y")).batch.axis, 0);
  EXPECT_EQ(shape_of(graph, "mask"), (Shape{1, 3}));
}

TEST(Rebatch, TablesThatDifferAreNamed) {
  const std::string statements = R"(
input %x: f32[2,3]
constant %mask: f32[2,3] = hex "000000000000803f00000040000000000000803f00000041"
#0 %y: f32[*] = core.add(%x, %mask)
inputs [%x]
outputs [%y]
)";
  const std::string why = refusal(statements);
  EXPECT_THAT(why, HasSubstr("core.add has a fixed batch size of 2 samples"));
  EXPECT_THAT(why, HasSubstr("%mask of [2,3] has different numbers for each of the 2 samples along axis 0"));
}

TEST(Rebatch, AParameterWithARowForEachSampleIsNoTable) {
  const std::string statements = R"(
input %x: f32[2,1]
constant %w: f32[2,1] = hex "0000803f0000803f"
#0 %y: f32[*] = core.add(%x, %w)
inputs [%x]
outputs [%y]
)";
  BakedBatch baked;
  baked.file.listed["w"] = ir::ValueKind::kParameter;
  EXPECT_THAT(refusal(statements, baked), HasSubstr("%w of [2,1] is a parameter with a row for each sample"));
  rebatched(statements);
}

// Masks are fetched at (sample, place); the table's rows are the numbers of three samples.
TEST(Rebatch, TablesOfSampleNumbersCountOn) {
  const Graph graph = rebatched(R"(
input %mask: f32[3,2]
constant %places: i64[3,2,2] = hex "000000000000000000000000000000000000000000000000010000000000000001000000000000000000000000000000010000000000000001000000000000000200000000000000000000000000000002000000000000000100000000000000"
#0 %y: f32[*] = core.gather_nd(%mask, %places)
inputs [%mask]
outputs [%y]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 2}));
  const std::string why = refusal(R"(
input %mask: f32[3,2]
constant %places: i64[3,2,2] = hex "000000000000000000000000000000000000000000000000010000000000000001000000000000000000000000000000010000000000000001000000000000000000000000000000000000000000000000000000000000000100000000000000"
#0 %y: f32[*] = core.gather_nd(%mask, %places)
inputs [%mask]
outputs [%y]
)");
  EXPECT_THAT(why, HasSubstr("does not grow evenly from sample to sample"));
}

TEST(Rebatch, WhatIsMadeForTheSamplesIsMadeForAnyNumber) {
  const Graph graph = rebatched(R"(
input %x: f32[4,3,2]
constant %token: f32[1,1,2] = hex "0000803f00000040"
#0 %tokens: f32[*] = core.expand(%token) {shape = [4,1,2]}
#1 %y: f32[*] = core.concat(%tokens, %x) {axis = 1}
#2 %zeros: f32[*] = core.full() {shape = [2,4,2], value = 0x0p+0, dtype = !f32}
#3 %turned: f32[*] = core.permute(%x) {dims = [1,0,2]}
#4 %first: f32[*] = core.slice(%turned) {axes = [0], starts = [0], ends = [2]}
#5 %z: f32[*] = core.concat(%zeros, %first) {axis = 0}
inputs [%x]
outputs [%y, %z]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 4, 2}));
  EXPECT_EQ(shape_of(graph, "z"), (Shape{4, kBatch, 2}));
}

// Nothing in the shapes tells where one sample is: of [12,4,16] only its own axis between the two can be meant, since a
// product over places would mix samples otherwise.
TEST(Rebatch, OneSampleIsFoundByWhatFollows) {
  const Graph graph = rebatched(R"(
input %x: f32[1,12,64]
constant %token: f32[1,1,64]
#0 %y: f32[*] = core.concat(%token, %x) {axis = 1}
#1 %turned: f32[*] = core.permute(%y) {dims = [1,0,2]}
#2 %heads: f32[*] = core.reshape(%turned) {shape = [13,4,16]}
#3 %rows: f32[*] = core.permute(%heads) {dims = [1,0,2]}
#4 %columns: f32[*] = core.permute(%heads) {dims = [1,2,0]}
#5 %scores: f32[*] = core.matmul(%rows, %columns)
#6 %weights: f32[*] = core.softmax(%scores) {axis = -1}
#7 %mean: f32[*] = core.matmul(%weights, %rows)
#8 %back: f32[*] = core.permute(%mean) {dims = [1,0,2]}
#9 %out: f32[*] = core.reshape(%back) {shape = [13,64]}
inputs [%x]
outputs [%out]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 13, 64}));
  EXPECT_EQ(shape_of(graph, "heads"), (Shape{13, kBatch * 4, 16}));
  EXPECT_EQ(shape_of(graph, "scores"), (Shape{kBatch * 4, 13, 13}));
}

// What is left for the -1 would be samples * 5; the axis in front fits as well, and a product over places follows.
TEST(Rebatch, OneSampleStaysOnTheAxisInFront) {
  const Graph graph = rebatched(R"(
input %x: f32[1,5,8]
#0 %heads: f32[*] = core.reshape(%x) {shape = [1,-1,2,4]}
#1 %flat: f32[*] = core.reshape(%heads) {shape = [1,-1]}
inputs [%x]
outputs [%heads, %flat]
)");
  EXPECT_EQ(shape_of(graph, "heads"), (Shape{kBatch, 5, 2, 4}));
  EXPECT_EQ(shape_of(graph, "flat"), (Shape{kBatch, 40}));
}

// A buffer of one row, from which samples pick: the exporter took the expand of one row to one row out.
TEST(Rebatch, ATableThatSamplesPickFromIsStretched) {
  const Graph graph = rebatched(R"(
input %ids: i64[1,2]
constant %types: i64[1,3] = hex "000000000000000001000000000000000200000000000000"
#0 %y: i64[*] = core.gather_elements(%types, %ids) {axis = 1}
inputs [%ids]
outputs [%y]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 2}));
  EXPECT_EQ(graph.type(graph.find("y")).batch, (ir::BatchLayout{0, 1, 1}));
}

// A place that follows from the sample itself, in rows of all samples: of one sample the file adds 0 times the length.
TEST(Rebatch, ComputedPlacesAreEachSamplesOwn) {
  const Graph graph = rebatched(R"(
input %x: f32[1,4,2]
input %ids: i64[1,4]
constant %base: i64[1] = hex "0000000000000000"
#0 %end: i64[*] = core.argmax(%ids) {axis = 1}
#1 %place: i64[*] = core.add(%end, %base)
#2 %rows: f32[*] = core.reshape(%x) {shape = [4,2]}
#3 %y: f32[*] = core.gather(%rows, %place) {axis = 0}
inputs [%x, %ids]
outputs [%y]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 2}));
  const std::string free = R"(
input %x: f32[1,4,2]
input %place: i64[1,3]
#0 %flat: i64[*] = core.reshape(%place) {shape = [3]}
#1 %rows: f32[*] = core.reshape(%x) {shape = [4,2]}
#2 %y: f32[*] = core.gather(%rows, %flat) {axis = 0}
inputs [%x, %place]
outputs [%y]
)";
  EXPECT_THAT(refusal(free), HasSubstr("not provably each sample's own index"));
}

// Zeros that each sample's part of x is written into, at a place that is a number of the file.
TEST(Rebatch, WritesAreEachSamplesOwn) {
  const Graph graph = rebatched(R"(
input %x: f32[1,1,2]
constant %place: i64[1,1,2] = hex "00000000000000000200000000000000"
#0 %zeros: f32[*] = core.full() {shape = [1,4,2], value = 0x0p+0, dtype = !f32}
#1 %y: f32[*] = core.scatter_nd(%zeros, %place, %x)
inputs [%x]
outputs [%y]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 4, 2}));
}

TEST(Rebatch, WhatNothingReadsMayMixSamples) {
  const Graph graph = rebatched(R"(
input %x: f32[1,4]
#0 %turned: f32[*] = core.permute(%x) {dims = [1,0]}
#1 %all: f32[*] = core.matmul(%x, %turned)
#2 %y: f32[*] = core.exp(%x)
inputs [%x]
outputs [%y]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 4}));
}

TEST(Rebatch, OneSampleWithoutItsAxis) {
  const Graph graph = rebatched(R"(
input %x: f32[1,3]
#0 %flat: f32[*] = core.squeeze(%x) {axes = [0]}
#1 %y: f32[*] = core.relu(%flat)
#2 %z: f32[*] = core.unsqueeze(%y) {axes = [0]}
inputs [%x]
outputs [%y]
)");
  EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch * 3}));
}

TEST(Rebatch, WhatMixesSamplesStaysForOtherPasses) {
  Graph graph = typed_graph(R"(
input %x: f32[4,3]
#0 %y: f32[*] = core.mean(%x) {axes = [0]}
inputs [%x]
outputs [%y]
)");
  PassContext context;
  ASSERT_TRUE(Rebatch().run(graph, context).ok());
  EXPECT_FALSE(InferShapes().run(graph, context).ok());
}

TEST(Rebatch, SamplesOnTheSecondAxisAreAskedFor) {
  BakedBatch two;
  two.samples = 2;
  const Graph graph = rebatched(R"(
input %x: f32[5,2,3]
input %y: f32[4,2,3]
#0 %z: f32[*] = core.concat(%x, %y) {axis = 0}
#1 %w: f32[*] = core.reshape(%z) {shape = [9,6]}
inputs [%x, %y]
outputs [%w]
)",
                                two);
  EXPECT_EQ(shape_of(graph, "w"), (Shape{9, kBatch * 3}));
}

// A sum over four samples that is divided by their number, and one that has a weight.
TEST(Rebatch, SumsThatNumbersOfSamplesDivideAreRefused) {
  const auto of = [](const std::string& op, const std::string& number) {
    return "input %x: f32[4,3]\nconstant %c: f32[] = hex \"" + number + "\"\n" +
           "#0 %sum: f32[*] = core.sum(%x) {axes = [0,1]}\n#1 %loss: f32[*] = core." + op +
           "(%sum, %c)\ninputs [%x]\noutputs [%loss]\n";
  };
  for (const auto& [op, number] : {std::pair{"div", "00008040"}, {"mul", "0000803e"}, {"div", "00004041"}}) {
    EXPECT_THAT(refusal(of(op, number)), HasSubstr("which may be a multiple of their number")) << op << number;
  }
  Graph weighted = typed_graph(of("mul", "0000003f"));
  PassContext context;
  EXPECT_TRUE(Rebatch().run(weighted, context).ok());
}

TEST(Rebatch, LeavesGraphsWithABatchAlone) {
  Graph graph = typed_graph("batch batch\ninput %x: f32[batch,3] samples 0\ninputs [%x]\noutputs [%x]\n");
  PassContext context;
  EXPECT_FALSE(Rebatch().run(graph, context)->changed);
}

TEST(Rebatch, InputsOfDifferentExtentsSayNoNumber) {
  const std::string statements = "input %x: f32[4,3]\ninput %y: f32[5,2]\ninputs [%x, %y]\noutputs [%x, %y]\n";
  EXPECT_THAT(refusal(statements), HasSubstr("no common first extent"));
  BakedBatch four;
  four.samples = 4;
  EXPECT_EQ(shape_of(rebatched(statements, four), "y"), (Shape{5, 2}));
}

// --- random numbers

ir::BatchLayout layout_of_draw(const Graph& graph) {
  for (const ValueId value : graph.values()) {
    const bool read = graph.any_use(value, [](Graph::Use) { return true; });
    if (graph.random_input(value) != nullptr && read) return graph.type(value).batch;
  }
  ADD_FAILURE() << "nothing is drawn";
  return {};
}

std::string drawing(const std::string& samples, const std::string& rest) {
  return "input %x: f32[" + samples + ",4]\n" + rest;
}

// Of one sample the mask of a dropout fits all samples as it is: each has its own all the same.
TEST(Rebatch, DrawsAreEachSamplesOwn) {
  const std::string dropout = "#0 %y: f32[*] = core.mul(%x, %d)\ninputs [%x]\noutputs [%y]\n";
  for (const char* const samples : {"1", "3"}) {
    const std::string own = "random %d: f32[" + std::string(samples) + ",4] = bernoulli drop 0x1p-2 key 7\n";
    const Graph graph = rebatched(drawing(samples, own + dropout));
    EXPECT_EQ(layout_of_draw(graph), (ir::BatchLayout{0, 1, 1})) << samples;
    EXPECT_EQ(shape_of(graph, "y"), (Shape{kBatch, 4}));
    const Graph shared = rebatched(drawing(samples, "random %d: f32[4] = bernoulli drop 0x1p-2 key 7\n" + dropout));
    EXPECT_FALSE(layout_of_draw(shared).has_batch()) << "a vector is that of all samples, of " << samples;
  }
}

TEST(Rebatch, DrawsAreEachSamplesOwnBeforeTheyMeetIt) {
  const std::string scaled =
      "#0 %two: f32[] = core.full() {shape = [], value = 0x1p+1, dtype = !f32}\n#1 %n: f32[*] = core.mul(%d, %two)\n"
      "#2 %row: f32[*] = core.reshape(%n) {shape = [1,4]}\n#3 %y: f32[*] = core.add(%x, %row)\ninputs "
      "[%x]\noutputs [%y]\n";
  const Graph graph = rebatched(drawing("1", "random %d: f32[1,2,2] = normal key 7\n" + scaled));
  EXPECT_EQ(layout_of_draw(graph), (ir::BatchLayout{0, 1, 1}));
}

TEST(Rebatch, DrawsThatAreGivenOutAreEachSamplesOwn) {
  for (const char* const samples : {"1", "3"}) {
    const std::string size = samples;
    const std::string given = "random %d: f32[" + size + ",4] = normal key 7\n#0 %y: f32[*] = core.add(%x, %x)\n" +
                              "#1 %z: f32[*] = core.exp(%d)\ninputs [%x]\noutputs [%y, %z]\n";
    const Graph graph = rebatched(drawing(size, given));
    EXPECT_EQ(shape_of(graph, "z"), (Shape{kBatch, 4})) << samples;
    EXPECT_EQ(layout_of_draw(graph), (ir::BatchLayout{0, 1, 1}));
  }
  const std::string mixed =
      "random %d: f32[4,3] = normal key 7\n#0 %y: f32[*] = core.add(%x, %x)\n#1 %z: f32[*] = core.permute(%d) {dims = "
      "[1,0]}\n#2 %s: f32[*] = core.softmax(%z) {axis = 0}\ninputs [%x]\noutputs [%y, %s]\n";
  EXPECT_THAT(refusal(drawing("3", mixed)), HasSubstr("random numbers are not provably separate"));
}

// --- the judge

TEST(Rebatch, AsksTheJudgeLast) {
  const std::string statements = drawing("3", "#0 %y: f32[*] = core.exp(%x)\ninputs [%x]\noutputs [%y]\n");
  std::vector<std::string> seen;
  BakedBatch baked;
  baked.judge = [&](const Graph& file, const Graph& made, int64_t samples, PassContext&) -> Result<void> {
    seen = {ir::str(shape_of(file, "y")), ir::str(shape_of(made, "y")), std::to_string(samples)};
    return error("numbers differ");
  };
  EXPECT_THAT(refusal(statements, baked), HasSubstr("numbers differ"));
  EXPECT_THAT(seen, ::testing::ElementsAre("[3,4]", "[batch,4]", "3"));
}

}  // namespace
}  // namespace rannc::passes
