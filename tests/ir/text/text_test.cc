// Text of graphs: round trips, located errors, hostile input.
#include "ir/text/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/op/op.h"
#include "ir/text/form.h"
#include "ir/verify.h"
#include "tests/support/random_graph.h"

namespace rannc::ir {
namespace {

constexpr char kMlp[] =
    R"(rannc.graph 1
graph "mlp"
batch batch
input %x: f32[batch,20] samples 0
parameter %w: f32[10,20]
parameter %b: f32[10] = file "w.bin" offset 64 bytes 40
constant %half: f32[] = hex "0000003f"  // 0.5
#0 %y: f32[batch,10] samples 0 = core.linear(%x, %w, %b) {layout = "oi"} at "mlp.onnx" node "/fc1/Gemm"
#1 %z: f32[batch,10] samples 0 = core.leaky_relu(%y) {alpha = 0x1.999999999999ap-4} at "mlp.py":12:3  // alpha = 0.1
#2 %out: f32[batch,10] samples 0 = core.mul(%z, %half)
inputs [%x]
outputs [%out]
)";

Graph parsed(std::string_view text) { return parse_graph(text, "test.rir").value(); }

TEST(TextGraph, PrintsWhatItParsed) { EXPECT_EQ(print(parsed(kMlp)), kMlp); }

TEST(TextGraph, ReadsEveryPart) {
  const Graph graph = parsed(kMlp);
  EXPECT_TRUE(verify(graph).empty()) << verify(graph)[0].str();
  EXPECT_EQ(graph.name(), "mlp");
  EXPECT_EQ(graph.batch_symbol(), "batch");
  ASSERT_EQ(graph.task_count(), 3u);
  EXPECT_EQ(graph.location(TaskId(0)), (Location{"mlp.onnx", 0, 0, "/fc1/Gemm"}));
  EXPECT_EQ(graph.location(TaskId(1)), (Location{"mlp.py", 12, 3, ""}));
  EXPECT_DOUBLE_EQ(graph.attributes(TaskId(1)).number("alpha"), 0.1);
  EXPECT_EQ(graph.value(graph.find("b")).data, TensorData::in_file("w.bin", 64, 40));
  EXPECT_EQ(graph.type(graph.find("x")).batch.axis, 0);
}

TEST(TextGraph, DataOfFilesIsRelativeToTheText) {
  const Graph graph = parse_graph(kMlp, "some/folder/mlp.rir").value();
  EXPECT_EQ(graph.value(graph.find("b")).data.path(), "some/folder/w.bin");
}

// Such as the number of batches that a normalization has seen.
TEST(TextGraph, FormLacksNumbersThatNothingReads) {
  const auto form = [](const std::string& seen, const std::string& read) {
    const Graph graph = parsed("rannc.graph 1\nconstant %seen: i64[] = hex \"" + seen +
                               "00000000000000\"\nconstant %read: i64[] = hex \"" + read +
                               "00000000000000\"\n#0 %y: i64[] = core.neg(%read)\ninputs []\noutputs [%y]\n"
                               "state \"seen\" [] = %seen\n");
    return print_form(graph, [](std::string_view) { return false; }).value();
  };
  EXPECT_EQ(form("01", "02"), form("03", "02"));
  EXPECT_NE(form("01", "02"), form("01", "04"));
}

TEST(TextGraph, RandomGraphsRoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph({.seed = seed, .tasks = 1 + static_cast<uint32_t>(seed) / 4});
    ASSERT_TRUE(verify(graph).empty()) << verify(graph)[0].str();
    const std::string text = print(graph);
    const auto again = parse_graph(text, "test.rir");
    ASSERT_TRUE(again.ok()) << again.diagnostic().str();
    EXPECT_TRUE(equal(graph, *again));
    EXPECT_EQ(print(*again), text);
  }
}

// Everything that a value or an attribute can hold, names of any bytes, leaves after tasks, absent operands.
TEST(TextGraph, OddThingsRoundTrip) {
  Graph graph;
  std::string bytes;
  for (int c = 1; c < 256; ++c) bytes += static_cast<char>(c);
  graph.set_name(bytes);
  graph.set_batch_symbol("s0");
  const Dim batch = Dim::symbol("s0");
  ValueType type{DType::kBF16, Shape{3, batch * Dim(12), floor_div(Dim::symbol("a.b"), Dim(7))}, {1, 1, 12}, {}};
  const ValueId x = graph.add_value(ValueKind::kInput, bytes, type);
  graph.add_input(x);
  const OpInfo& foreign = graph.foreign_op("my op::x\n");
  const ValueId operands[] = {x, ValueId(), x};
  const std::string names[] = {"/a//b", "true", "%x"};
  Attributes attributes{{"flag", true},
                        {"off", false},
                        {"dim", batch * Dim(2) + Dim(1)},
                        {"named true", Dim::symbol("true")},
                        {"less than false", Dim::symbol("false") - Dim(1)},
                        {"number", -0.1},
                        {"inf", INFINITY},
                        {"text", bytes},
                        {"dtype", DType::kU8},
                        {"dims", Shape{max(batch, Dim(3)), -1}},
                        {"no dims", Shape{}},
                        {"numbers", std::vector<double>{1.5, -INFINITY, 0}},
                        {"no numbers", std::vector<double>{}}};
  const TaskId task = graph.add_task(foreign, operands, attributes, names, {"", 3, 0, bytes});
  graph.set_type(graph.outputs(task)[0], {DType::kI64, Shape{2}, {}, Contents{batch, -4}});
  graph.set_type(graph.outputs(task)[1], {DType::kBool, std::nullopt, {}, {}});
  graph.add_value(ValueKind::kBuffer, "late", {DType::kF64, Shape{0}, {}, {}}, TensorData::in_memory({}));
  graph.add_value(ValueKind::kConstant, "far", {DType::kI8, Shape{5}, {}, {}}, TensorData::in_file("/a \"b\"/c", 1, 5));
  graph.add_random_input("drawn", type, {RandomInput::Of::kBernoulli, 0.1, UINT64_MAX});
  graph.add_random_input("evenly", {DType::kF64, std::nullopt, {}, {}}, {.of = RandomInput::Of::kUniform, .key = 1});
  graph.add_random_input("", {DType::kF16, Shape{}, {}, {}}, {.of = RandomInput::Of::kNormal});
  const std::vector<std::string> none;
  graph.add_task(graph.foreign_op("aten.print"), operands, {}, none);
  graph.add_output(graph.outputs(task)[2]);
  graph.add_loss({graph.outputs(task)[0], 0.25});
  graph.add_loss({graph.outputs(task)[0], -1, 0, 7});
  graph.add_loss({graph.outputs(task)[0], 1, {}, 2});
  Totals totals{.given = {{x, 3}}, .sums = {x, graph.outputs(task)[2]}};
  for (std::optional<Body>* const body : {&totals.coefficients, &totals.metrics}) {
    Graph inside;
    inside.add_input(inside.add_value(ValueKind::kInput, "count.0", {DType::kI64, Shape{}, {}, {}}));
    inside.add_output(inside.add(core("cast"), {inside.inputs()[0]}, {{"dtype", DType::kF64}}, "a \"b\""));
    totals.counts.emplace_back(inside.clone());
    body->emplace(std::move(inside));
  }
  graph.set_totals(std::move(totals));
  const std::string text = print(graph);
  const auto again = parse_graph(text, "test.rir");
  ASSERT_TRUE(again.ok()) << again.diagnostic().str() << "\n" << text;
  EXPECT_TRUE(equal(graph, *again)) << text << print(*again);
  EXPECT_EQ(print(*again), text);
}

// Of texts that were written when dropout was an operator.
TEST(TextGraph, OldDropoutIsAProductWithADraw) {
  const std::string head = "rannc.graph 1\nbatch batch\ninput %x: f32[batch,4] samples 0\n";
  const std::string tail = "inputs [%x]\noutputs [%y]\n";
  const auto old = parse_graph(head +
                                   "#0 %y: f32[batch,4] samples 0 = core.dropout(%x) {key = 7, ratio = "
                                   "0x1.999999999999ap-4} at \"m.onnx\" node \"/drop\"\n" +
                                   tail,
                               "old.rir");
  ASSERT_TRUE(old.ok()) << old.diagnostic().str();
  const auto now =
      parse_graph(head +
                      "random %y.random: f32[batch,4] samples 0 = bernoulli drop 0x1.999999999999ap-4 key 7\n"
                      "#0 %y: f32[batch,4] samples 0 = core.mul(%x, %y.random) at \"m.onnx\" node "
                      "\"/drop\"\n" +
                      tail,
                  "now.rir");
  ASSERT_TRUE(now.ok()) << now.diagnostic().str();
  EXPECT_TRUE(equal(*old, *now)) << print(*old);
  EXPECT_TRUE(verify(*old).empty());
  // What was not said: half of the elements, and the number of the task.
  const auto bare = parse_graph(head + "#0 %y: f32[batch,4] samples 0 = core.dropout(%x)\n" + tail, "old.rir");
  ASSERT_TRUE(bare.ok()) << bare.diagnostic().str();
  EXPECT_EQ(*bare->random_input(bare->find("y.random")), (RandomInput{RandomInput::Of::kBernoulli, 0.5, 0}));
}

struct Fault {
  std::string text, place, message;
};

TEST(TextGraph, ErrorsSayWhere) {
  const std::string head = "rannc.graph 1\ninput %x: f32[4]\n";
  const Fault faults[] = {
      {"", "t.rir:1:1", "rannc.graph 1"},
      {"rannc.plan 1\n", "t.rir:1:1", "rannc.graph 1"},
      {"rannc.graph 2\n", "t.rir:1:13", "version 2"},
      {head + "frob %x\n", "t.rir:3:1", "a statement"},
      {head + "input %x: f32[4]\n", "t.rir:3:7", "%x is defined a second time"},
      {head + "input %y: f31[4]\n", "t.rir:3:11", "an element type"},
      {head + "input %y: f32[4\n", "t.rir:3:16", "`]`"},
      {head + "input %y: f32[4,]\n", "t.rir:3:17", "an integer expression"},
      {head + "input %y: f32[a b]\n", "t.rir:3:15", "dimension 'a b'"},
      {head + "input %\"\": f32[4]\n", "t.rir:3:7", "empty name"},
      {head + "input %\"a\\q\": f32[4]\n", "t.rir:3:10", "unknown escape"},
      {head + "input %\"a: f32[4]\n", "t.rir:3:8", "no end"},
      {head + "random %y: f32[4]\n", "t.rir:3:18", "`=`"},
      {head + "random %y: f32[4] = dice key 1\n", "t.rir:3:21", "a distribution"},
      {head + "random %y: f32[4] = bernoulli key 1\n", "t.rir:3:31", "`drop`"},
      {head + "random %y: f32[4] = normal\n", "t.rir:3:27", "`key`"},
      {head + "#0 %y: f32[4] = core.dropout()\n", "t.rir:3:1", "one operand"},
      {head + "#0 %y: f32[4] = core.dropout(%x) {ratio = true}\n", "t.rir:3:1", "a number ratio"},
      {head + "#0 %y: f32[4] = core.dropout(%x) {key = s}\n", "t.rir:3:1", "an integer key"},
      {head + "#1 %y: f32[4] = core.relu(%x)\n", "t.rir:3:1", "expected task #0"},
      {head + "#0 %y: f32[4] = core.relu(%z)\n", "t.rir:3:27", "%z is not defined"},
      {head + "#0 %y: f32[4] = core.relux(%x)\n", "t.rir:3:17", "no operator core.relux"},
      {head + "#0 %y: f32[4], %y: f32[4] = core.relu(%x)\n", "t.rir:3:16", "%y is defined a second time"},
      {head + "#0 %y: f32[4] = core.relu(%x) {a = 1, a = 2}\n", "t.rir:3:39", "given twice"},
      {head + "#0 %y: f32[4] = core.relu(%x) {a = 0x}\n", "t.rir:3:36", "hexadecimal"},
      {head + "#0 %y: f32[4] = core.relu(%x) extra\n", "t.rir:3:31", "the end of the statement"},
      {head + "constant %c: f32[1] = hex \"0g\"\n", "t.rir:3:28", "hexadecimal digit"},
      {head + "constant %c: f32[1] = hex \"000\"\n", "t.rir:3:27", "odd number"},
      {head + "constant %c: f32[1] = file \"f\" offset -1 bytes 4\n", "t.rir:3:39", "an offset"},
      {head + "outputs [%x]\noutputs [%x]\n", "t.rir:4:1", "second list"},
      {head + "loss %x weight 0x1p+0 per moon\n", "t.rir:3:23", "the end of the statement"},
      {head + "loss %x weight 0x1p+0 divisor %x\n", "t.rir:3:31", "a coefficient"},
      {head + "count @b0\n", "t.rir:3:7", "a body that stands before"},
      {head + "given %x 1\n", "t.rir:3:10", "="},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.text);
    const auto result = parse_graph(fault.text, "t.rir");
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.diagnostic().where.str(), fault.place) << result.diagnostic().str();
    EXPECT_NE(result.diagnostic().message.find(fault.message), std::string::npos) << result.diagnostic().str();
  }
}

// Mutated text gives a diagnostic or a graph; what verifies round-trips.
TEST(TextGraph, MutatedTextNeverCrashes) {
  std::mt19937_64 random(20);
  const std::string bases[] = {kMlp, print(testing::random_graph({.seed = 1, .tasks = 12}))};
  const std::string_view pieces[] = {"%",           "#0",
                                     "[",           "]",
                                     "(",           ")",
                                     "{",           "}",
                                     "\"",          "0x",
                                     "-",           "//",
                                     "batch",       "9999999999999999999",
                                     "hex",         "samples 0",
                                     ",",           "=",
                                     "\n",          "floor((a)/(0))",
                                     "*",           "core.split",
                                     "contents [1]"};
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = bases[i % 2];
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
      if (text.empty()) text = " ";
    }
    const auto result = parse_graph(text, "t.rir");
    if (!result.ok()) continue;
    ++accepted;
    if (!verify(*result).empty()) continue;
    const std::string printed = print(*result);
    const auto again = parse_graph(printed, "t.rir");
    ASSERT_TRUE(again.ok()) << "mutation " << i << ": " << again.diagnostic().str() << "\n" << printed;
    ASSERT_TRUE(equal(*result, *again)) << "mutation " << i << "\n" << printed;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace rannc::ir
