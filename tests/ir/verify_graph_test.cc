// Each rule of graphs, broken on purpose.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "ir/plan/stage_graph.h"
#include "ir/state/statistics.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/support/random_graph.h"

namespace rannc::ir {
namespace {

const std::string kHead = R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
)";
const std::string kTail = "inputs [%x]\n";

/// That the text breaks `rule`, be it in the parser or the verifier, with a message that holds `named`.
void expect_broken(const std::string& text, std::string_view rule, std::string_view named) {
  SCOPED_TRACE(text);
  const auto graph = parse_graph(text, "t.rir");
  std::vector<Diagnostic> found = graph.ok() ? verify(*graph) : std::vector{graph.diagnostic()};
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, rule) << found[0].str();
  EXPECT_NE(found[0].message.find(named), std::string::npos) << found[0].str();
}

TEST(VerifyGraph, HoldsForAGoodGraph) {
  const Graph graph =
      parse_graph(kHead + "#0 %y: f32[batch,4] samples 0 = core.matmul(%x, %w)\noutputs [%y]\n" + kTail, "t.rir")
          .value();
  const auto found = verify(graph);
  EXPECT_TRUE(found.empty()) << found[0].str();
}

TEST(VerifyGraph, EveryBreachIsNamedHoweverOftenItIsTheSame) {
  const std::string text = kHead +
                           "input %a: f32[2,4] samples 0\ninput %b: f32[2,4] samples 0\n"
                           "#0 %y: f32[5,4] = core.relu(%w)\n#1 %z: f32[5,4] = core.relu(%w)\n"
                           "inputs [%x, %a, %b]\n";
  std::string broken;
  for (const Diagnostic& found : verify(parse_graph(text, "t.rir").value())) {
    broken += found.rule + " " + found.message.substr(0, found.message.find(':')) + "; ";
  }
  EXPECT_EQ(broken, "G10 samples of %a; G10 samples of %b; G8 task #0; G8 task #1; ");
}

const std::string kSum = "#0 %p: f32[4] partial = core.sum(%x) {axes = [0], keepdim = false}\n";
const std::string kLoss = "loss %l weight 0x1p+0\n";

TEST(VerifyGraph, G16_WhatIsNotHomogeneousMixesSamples) {
  const std::pair<std::string, std::string> steps[] = {
      {"core.add(%p, %n)", "p + n"},       {"core.mul(%p, %p)", "p * p"},
      {"core.sub(%p, %c)", "p - counted"}, {"core.mul(%p, %c)", "p * counted"},
      {"core.div(%p, %c)", "p / counted"}, {"core.div(%n, %p)", "n / p"},
      {"core.relu(%p)", "relu"},           {"core.pad(%p) {pads = [0,0], value = 0x1p+0}", "pad by 1"}};
  for (const auto& [step, what] : steps) {
    SCOPED_TRACE(what);
    const std::string before = kHead + "input %n: f32[4]\n" + kSum +
                               "#1 %c: f32[] counted = core.full() {shape = [], value = batch, dtype = !f32}\n";
    const std::string after = " = core.sum(%m)\ninputs [%x, %n]\n" + kLoss;
    const std::string text = before + "#2 %m: f32[4] mixed = " + step + "\n#3 %l: f32[] mixed" + after;
    expect_broken(text, "G16", "%m");
    const std::string hidden = before + "#2 %m: f32[4] partial = " + step + "\n#3 %l: f32[] partial" + after;
    expect_broken(hidden, "G8", "mixed");
  }
}

TEST(VerifyGraph, SumsOverSamplesArePassedOn) {
  for (const std::string step : {"core.add(%p, %p)", "core.sub(%p, %p)", "core.mul(%p, %n)", "core.mul(%n, %p)",
                                 "core.div(%p, %n)", "core.neg(%p)", "core.reshape(%p) {shape = [4]}",
                                 "core.identity(%p)", "core.matmul(%p, %w)", "core.cumsum(%p) {axis = 0}"}) {
    const std::string text = kHead + "input %n: f32[4]\n" + kSum + "#1 %m: f32[4] partial = " + step +
                             "\n#2 %l: f32[] partial = core.sum(%m)\ninputs [%x, %n]\n" + kLoss;
    const auto graph = parse_graph(text, "t.rir");
    ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
    const auto found = verify(*graph);
    EXPECT_TRUE(found.empty()) << found[0].str();
  }
}

TEST(VerifyGraph, ATotalIsWhole) {
  const std::string text = kHead + kSum + "#1 %t: f32[4] = core.total(%p)\n#2 %r: f32[4] = core.relu(%t)\n" +
                           "#3 %l: f32[] partial = core.sum(%p)\n" + kTail + kLoss;
  const auto graph = parse_graph(text, "t.rir");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  const auto found = verify(*graph);
  EXPECT_TRUE(found.empty()) << found[0].str();
}

TEST(VerifyGraph, G10_ASumWithSamplesOnAnAxis) {
  Graph graph = parse_graph(kHead + kTail, "t.rir").value();
  ValueType type = graph.type(graph.find("x"));
  type.batch.mix = Mix::kPartial;
  graph.set_type(graph.find("x"), type);
  const auto found = verify(graph);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "G10") << found[0].str();
}

TEST(VerifyGraph, G1_NameTwice) { expect_broken(kHead + "input %x: f32[4]\n" + kTail, "G1", "%x"); }

TEST(VerifyGraph, G2_ReadBeforeDefined) {
  expect_broken(kHead + "#0 %y: f32[*] = core.relu(%z)\n#1 %z: f32[*] = core.relu(%x)\n" + kTail, "G2", "%z");
}

TEST(VerifyGraph, G2_TasksOutOfOrder) { expect_broken(kHead + "#1 %y: f32[*] = core.relu(%x)\n" + kTail, "G2", "#1"); }

TEST(VerifyGraph, G3_Operands) {
  expect_broken(kHead + "#0 %y: f32[*] = core.relu(%x, %w)\n" + kTail, "G3", "core.relu");
  expect_broken(kHead + "#0 %y: f32[*] = core.matmul(%x)\n" + kTail, "G3", "found 1");
  expect_broken(kHead + "#0 %y: f32[*] = core.matmul(_, %x)\n" + kTail, "G3", "operand 0");
  expect_broken(kHead + "#0 %y: f32[*], %z: f32[*] = core.relu(%x)\n" + kTail, "G3", "found 2");
  expect_broken(kHead + "#0 %y: f32[*] = core.no_such(%x)\n" + kTail, "G3", "core.no_such");
}

TEST(VerifyGraph, G8_OutputsThatTheRuleCounts) {
  expect_broken(kHead + "#0 %y: f32[batch,2] samples 0 = core.split(%x) {axis = 1, sizes = [2,2]}\n" + kTail, "G8",
                "core.split");
}

TEST(VerifyGraph, G4_Attributes) {
  expect_broken(kHead + "#0 %y: f32[*] = core.relu(%x) {alpha = 0x1p+0}\n" + kTail, "G4", "alpha");
  expect_broken(kHead + "#0 %y: f32[*] = core.softmax(%x) {axis = \"last\"}\n" + kTail, "G4", "axis");
  expect_broken(kHead + "#0 %y: f32[*] = core.softmax(%x) {axis = batch}\n" + kTail, "G4", "axis");
  expect_broken(kHead + "#0 %y: f32[*] = core.permute(%x) {dims = [batch]}\n" + kTail, "G4", "dims");
  expect_broken(kHead + "#0 %y: f32[*] = core.leaky_relu(%x) {alpha = 1}\n" + kTail, "G4", "alpha");
}

// Every attribute of every operator may be given any value: the verifier answers, the type rules never see it.
TEST(VerifyGraph, G4_AnyAttributeOfAnyOperatorIsAnswered) {
  const Attribute values[] = {true,
                              Dim(3),
                              Dim::symbol("s"),
                              0.5,
                              std::string("x"),
                              DType::kI8,
                              Shape{1, Dim::symbol("s")},
                              Shape{0, 1},
                              std::vector<double>{1}};
  const ValueType types[] = {{DType::kF32, Shape{Dim::symbol("batch"), 4}, {}, {}},
                             {DType::kI64, Shape{2}, {}, Contents{1, 0}}};
  for (const OpInfo& op : core_ops()) {
    for (const AttributeInfo& attribute : op.attributes) {
      const std::string name(attribute.name);
      for (const Attribute& value : values) {
        for (const ValueType& type : types) {
          SCOPED_TRACE(op.name + " " + name);
          Graph graph;
          graph.set_batch_symbol("batch");
          const ValueId x = graph.add_value(ValueKind::kInput, "x", type);
          graph.add_input(x);
          const std::vector<ValueId> operands(std::max(op.min_inputs(), 1u), x);
          const std::vector<std::string> outputs(1);
          const TaskId task = graph.add_task(op, operands, {{name, value}}, outputs);
          graph.set_type(graph.outputs(task)[0], type);
          EXPECT_NO_THROW(verify(graph));
        }
      }
    }
  }
}

TEST(VerifyGraph, G5_Kinds) {
  expect_broken(kHead + "activation %a: f32[4]\n" + kTail, "G5", "%a");
  expect_broken("rannc.graph 1\ninput %x: f32[1] = hex \"00000000\"\n" + kTail, "G5", "%x");
  Graph graph = testing::random_graph({.seed = 1});
  graph.set_kind(graph.outputs(TaskId(0))[0], ValueKind::kParameter);
  const auto found = verify(graph);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "G5") << found[0].str();
}

TEST(VerifyGraph, G6_IntegerParameter) { expect_broken(kHead + "parameter %p: i64[4]\n" + kTail, "G6", "%p"); }

TEST(VerifyGraph, G7_Signature) {
  expect_broken(kHead + "inputs [%w]\n", "G7", "%w");
  expect_broken(kHead, "G7", "%x");
  expect_broken(kHead + "inputs [%x, %x]\n", "G7", "twice");
  Graph graph = testing::random_graph({.seed = 1});
  graph.add_output(ValueId(graph.value_count()));
  EXPECT_EQ(verify(graph).at(0).rule, "G7");
}

const std::string kCut = R"(rannc.graph 1
batch batch
assume equal [min(40, s),s] at "m.onnx" node "/Add"
input %x: f32[batch,s] samples 0
input %y: f32[batch,min(40, s)] samples 0
#0 %z: f32[batch,s] samples 0 = core.add(%x, %y)
inputs [%x, %y]
outputs [%z]
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(VerifyGraph, AssumptionsArePrintedParsedAndCarried) {
  Graph graph = parse_graph(kCut, "t.rir").value();
  EXPECT_TRUE(verify(graph).empty()) << verify(graph)[0].str();
  EXPECT_EQ(print(graph), replaced(kCut, "[batch,min(40, s)]", "[batch,s]"));
  EXPECT_FALSE(equal(graph, parse_graph(replaced(kCut, "/Add", "/Sub"), "t.rir").value()));
  Rewriter rewriter(graph);
  rewriter.copy(TaskId(0));
  EXPECT_TRUE(equal(std::move(rewriter).finish(), graph));
}

// A part of a graph that computes from constants alone keeps the assumptions about its sizes, though no input of its
// own has their symbols.
TEST(VerifyGraph, G14_AssumptionsOfConstantTasks) {
  const Graph graph = parse_graph(R"(rannc.graph 1
batch batch
assume equal [min(40, s),s]
input %x: f32[batch,s] samples 0
constant %places: f32[1,40]
#0 %cut: f32[1,s] = core.slice(%places) {axes = [1], starts = [0], ends = [s]}
#1 %z: f32[batch,s] samples 0 = core.add(%x, %cut)
inputs [%x]
outputs [%z]
)",
                                  "t.rir")
                          .value();
  ASSERT_TRUE(verify(graph).empty()) << verify(graph)[0].str();
  const StageGraph part = stage_graph(graph, {TaskId(0)}, {{graph.find("cut")}}, {});
  EXPECT_EQ(part.graph.assumptions().size(), 1U);
  EXPECT_TRUE(verify(part.graph).empty()) << verify(part.graph)[0].str();
}

TEST(VerifyGraph, G14_AssumptionThatIsDecided) {
  const std::string line = "equal [min(40, s),s]";
  expect_broken(replaced(kCut, line, "equal [min(40, s),s + 1]"), "G14", "can never hold");
  expect_broken(replaced(kCut, line, "equal [s,s]"), "G14", "is certain");
  expect_broken(replaced(kCut, line, "equal [min(40, batch),batch]"), "G14", "speaks of batch");
  expect_broken(replaced(kCut, line, "equal [min(40, t),t]"), "G14", "speaks of t, which no value has");
  expect_broken(replaced(kCut, line, line + "\nassume equal [s,min(40, s)]"), "G14", "stands twice");
}

// No type has a symbol that a number replaces, so no input can bind it.
TEST(VerifyGraph, AssumptionsReplaceSymbols) {
  const Graph graph = parse_graph(replaced(kCut, "equal [min(40, s),s]", "equal [8,s]"), "t.rir").value();
  EXPECT_TRUE(verify(graph).empty()) << verify(graph)[0].str();
  EXPECT_EQ(graph.type(graph.find("y")).shape, (Shape{Dim::symbol("batch"), 8}));
}

TEST(VerifyGraph, G15_EqualityThatNobodyAssumes) {
  const std::string line = "assume equal [min(40, s),s] at \"m.onnx\" node \"/Add\"\n";
  expect_broken(replaced(kCut, line, ""), "G15", "min(40, s) to equal s");
  expect_broken(replaced(kCut, "[min(40, s),s]", "[min(41, s),s]"), "G15", "min(40, s) to equal s");
}

TEST(VerifyGraph, G8_Types) {
  expect_broken(kHead + "#0 %y: f32[batch,5] samples 0 = core.relu(%x)\n" + kTail, "G8", "%y");
  expect_broken(kHead + "#0 %y: f64[batch,4] samples 0 = core.relu(%x)\n" + kTail, "G8", "f64");
  expect_broken(kHead + "#0 %y: f32[batch,4] = core.relu(%x)\n" + kTail, "G8", "%y");
  expect_broken(kHead + "#0 %y: f32[4,batch] = core.matmul(%w, %x)\n" + kTail, "G8", "core.matmul");
}

TEST(VerifyGraph, G9_Data) {
  expect_broken(kHead + "constant %c: f32[2] = hex \"00000000\"\n" + kTail, "G9", "4 bytes");
  expect_broken(kHead + "constant %c: f32[batch] = hex \"00000000\"\n" + kTail, "G9", "batch");
  expect_broken(kHead + "constant %c: f32[*] = hex \"00000000\"\n" + kTail, "G9", "[*]");
  expect_broken(kHead + "constant %c: f32[1000000000,1000000000,1000000000] = hex \"00000000\"\n" + kTail, "G9", "%c");
}

TEST(VerifyGraph, G10_BatchLayout) {
  expect_broken("rannc.graph 1\nbatch b\ninput %x: f32[b,4] samples 2\n" + kTail, "G10", "axis 2");
  expect_broken("rannc.graph 1\nbatch b\ninput %x: f32[b,4] samples 1\n" + kTail, "G10", "is 4, not b");
  expect_broken("rannc.graph 1\nbatch b\ninput %x: f32[6*b] samples 0 outer [2]\n" + kTail, "G10", "not 2*b");
  expect_broken("rannc.graph 1\ninput %x: f32[b] samples 0\n" + kTail, "G10", "no batch symbol");
  expect_broken("rannc.graph 1\nbatch b\ninput %x: f32[*] samples 0\n" + kTail, "G10", "not known");
}

TEST(VerifyGraph, G11_Symbols) {
  expect_broken("rannc.graph 1\nbatch \"1 b\"\n", "G11", "1 b");
  Graph graph;
  graph.add_input(graph.add_value(ValueKind::kInput, "x", {DType::kF32, Shape{Dim::symbol("a b")}, {}, {}}));
  ASSERT_EQ(verify(graph).size(), 1u);
  EXPECT_EQ(verify(graph)[0].rule, "G11");
}

TEST(VerifyGraph, G17_Draws) {
  const std::string good = kHead +
                           "random %d: f32[batch,4] samples 0 = bernoulli drop 0x1p-1 key 3\n"
                           "#0 %y: f32[batch,4] samples 0 = core.mul(%x, %d)\noutputs [%y]\n" +
                           kTail;
  EXPECT_TRUE(verify(parse_graph(good, "t.rir").value()).empty());
  expect_broken(kHead + "random %d: i64[4] = uniform key 1\n" + kTail, "G17", "%d");
  for (const char* share : {"0x1p+0", "-0x1p-4", "0xnan"}) {
    expect_broken(kHead + "random %d: f32[4] = bernoulli drop " + share + " key 1\n" + kTail, "G17", "%d");
  }
  expect_broken(kHead + "random %d: f32[4] = normal key 1\noutputs [%d]\n" + kTail, "G17", "%d");
  Graph graph = parse_graph(kHead + kTail, "t.rir").value();
  graph.set_kind(graph.find("w"), ValueKind::kRandomInput);
  EXPECT_EQ(verify(graph).at(0).rule, "G17");
}

TEST(VerifyGraph, G5_DrawsHoldNothing) {
  Graph graph = parse_graph(kHead + "random %d: f32[1] = normal key 1\n" + kTail, "t.rir").value();
  graph.set_data(graph.find("d"), TensorData::in_memory(std::vector<std::byte>(4)));
  EXPECT_EQ(verify(graph).at(0).rule, "G5");
}

const std::string kNorm = R"(rannc.graph 1
batch batch
input %x: f32[batch,3,5] samples 0
parameter %s: f32[3]
parameter %b: f32[3]
buffer %rm: f32[3]
buffer %rv: f32[3]
#0 %y: f32[batch,3,5] samples 0, %m: f32[3], %v: f32[3] = core.batch_norm(%x, %s, %b, %rm, %rv) {momentum = 0x1p-2, training = true}
inputs [%x]
)";

TEST(VerifyGraph, G18_Statistics) {
  const std::string good = kNorm + "outputs [%y]\nstatistics %rm, %rv = %m, %v\n";
  const Graph graph = parse_graph(good, "t.rir").value();
  EXPECT_TRUE(verify(graph).empty()) << verify(graph)[0].str();
  EXPECT_EQ(averaged_over(graph, graph.statistics()[0])->str(), "5*batch");
  EXPECT_EQ(momentum_of(graph, graph.statistics()[0]), 0.25);
  EXPECT_EQ(makes_statistics(graph), std::vector<bool>{true});
  expect_broken(kNorm, "G18", "trains with buffers %rm and %rv");
  expect_broken(kNorm + "statistics %rm, %rv = %m, %m\n", "G18", "not two results of one task");
  expect_broken(kNorm + "statistics %rm, %rv = %x, %v\n", "G18", "not two results of one task");
  expect_broken(kNorm + "statistics %s, %rv = %m, %v\n", "G18", "%s is of kind parameter");
  expect_broken(kNorm + "statistics %rm, %rv = %y, %v\n", "G18", "differ in type");
  expect_broken(good + "#1 %z: f32[3] = core.relu(%m)\n", "G18", "nothing but %rm and %rv may read it");
  expect_broken(kNorm + "outputs [%y, %v]\nstatistics %rm, %rv = %m, %v\n", "G18", "%v is of one micro-batch");
  expect_broken(kNorm + "statistics %rm, %none = %m, %v\n", "G2", "%none");
  std::string wild = good;
  wild.replace(wild.find("0x1p-2"), 6, "0x1p+2");
  expect_broken(wild, "G18", "momentum of 4");
  expect_broken(kHead +
                    "buffer %m: f32[4]\nbuffer %v: f32[4]\n"
                    "#0 %a: f32[batch,4] samples 0, %b: f32[4], %c: f32[4] = my_norm(%x, %m, %v)\n" +
                    kTail + "statistics %m, %v = %b, %c\n",
                "G18", "my_norm has no momentum");
  std::string words = good;
  words.replace(words.find("0x1p-2"), 6, "\"low\"");
  expect_broken(words, "G4", "momentum");
  expect_broken("rannc.graph 1\nbuffer %other: f32[3]\n" + kNorm.substr(kNorm.find("batch batch")) +
                    "statistics %other, %rv = %m, %v\n",
                "G18", "%other is not read by the task that makes %m");
}

TEST(VerifyGraph, G20_State) {
  const std::string stored = kHead + "constant %u: f32[1,8,3]\nparameter %k: f64[4]\n" + kTail;
  const std::string good =
      stored +
      "state \"fc.weight\" [4,4] = %w from [0,0] extent [4,4] axes [1,0]\nstate \"all\" [16] = %w\n"
      "state \"rows\" [3,4,2] = %u from [0,4,0] extent [1,4,2] axes [1,0,2] + %u from [0,0,0] "
      "extent [1,8,2] axes [0,1,2]\n";
  const Graph graph = parse_graph(good, "t.rir").value();
  EXPECT_TRUE(verify(graph).empty()) << verify(graph)[0].str();
  EXPECT_EQ(print(parse_graph(print(graph), "t.rir").value()), print(graph));
  expect_broken(good + "state \"all\" [16] = %w\n", "G20", "\"all\" needs a name of its own");
  expect_broken(stored + "state \"\" [16] = %w\n", "G20", "needs a name");
  expect_broken(stored + "state \"s\" [-16,-1] = %w\n", "G20", "shape [-16,-1]");
  expect_broken(stored + "state \"s\" [17] = %w\n", "G20", "has 17 elements as [17], its parts have 16");
  expect_broken(stored + "state \"s\" [3,5] = %w\n", "G20", "16 elements of %w for rows of 5");
  expect_broken(stored + "state \"s\" [4] = %x\n", "G20", "needs the shape of %x, which is unknown");
  expect_broken(stored + "state \"s\" [4] = %x from [0] extent [4] axes [0]\n", "G20", "%x, which is of kind input");
  expect_broken(stored + "state \"s\" [20] = %w + %k\n", "G20", "parts of f32 and of f64");
  expect_broken(stored + "state \"s\" [8] = %w from [3,0] extent [2,4] axes [0,1]\n", "G20",
                "[2,4] from [3,0] on of %w, which is [4,4]");
  expect_broken(stored + "state \"s\" [16] = %w from [0,0] extent [4,4] axes [1,1]\n", "G20", "axes of %w as [1,1]");
  expect_broken(stored + "state \"s\" [16] = %none\n", "G2", "%none");
}

TEST(VerifyGraph, G19_Bodies) {
  const std::string branch =
      "  batch batch\n  input %a: f32[batch,4] samples 0\n  #0 %b: f32[batch,4] samples 0 = core.relu(%a)\n"
      "  inputs [%a]\n  outputs [%b]\n";
  const auto text = [&](const std::string& then, const std::string& otherwise) {
    return "rannc.graph 1\nbatch batch\ninput %c: bool[]\ninput %x: f32[batch,4] samples 0\nbody @b0\n" + otherwise +
           "end @b0\nbody @b1\n" + then +
           "end @b1\n#0 %y: f32[batch,4] samples 0 = core.if(%c, %x) {else = @b0, then = @b1}\n"
           "inputs [%c, %x]\noutputs [%y]\n";
  };
  const Graph graph = parse_graph(text(branch, branch), "t.rir").value();
  EXPECT_TRUE(verify(graph).empty()) << verify(graph)[0].str();
  EXPECT_EQ(print(graph), text(branch, branch));
  const auto changed = [&](std::string from, std::string to) {
    std::string body = branch;
    body.replace(body.find(from), from.size(), to);
    return text(body, branch);
  };
  expect_broken(changed("  batch batch\n", ""), "G19", "body `then` has the batch symbol \"\"");
  expect_broken(changed("  #0", "  constant %k: f32[] = hex \"0000803f\"\n  #0"), "G19",
                "%k, which is not among its inputs");
  expect_broken(changed("outputs [%b]\n", "outputs [%b]\n  loss %b weight 0x1p+0\n"), "G19", "losses");
  expect_broken(changed("#0 %b: f32[batch,4]", "#0 %b: f32[batch,5]"), "G8", "body `then`: task #0");
  std::string narrow = branch;
  for (size_t at = narrow.find("batch,4"); at != std::string::npos; at = narrow.find("batch,4")) narrow[at + 6] = '3';
  expect_broken(text(narrow, branch), "G8", "its body takes %a as f32[batch,3]");
  expect_broken("rannc.graph 1\nbody @b1\n", "", "expected body @b0, found @b1");
  expect_broken("rannc.graph 1\nbody @b0\n  input %a: f32[4]\n", "", "body @b0 has no `end @b0`");
  expect_broken("rannc.graph 1\nbody @b0\nend @b1\n", "", "@b1 ends where @b0 is open");
  expect_broken("rannc.graph 1\ninput %c: bool[]\n#0 %y: f32[4] = core.if(%c) {else = @b0, then = @b0}\n", "",
                "a body that stands before");
  std::string deep = "rannc.graph 1\n";
  for (int i = 0; i < 1000; ++i) deep += "body @b0\n";
  expect_broken(deep, "", "bodies are nested more than 64 deep");
}

TEST(VerifyGraph, G12_Losses) {
  const std::string task =
      kHead + "#0 %y: f32[batch,4] samples 0 = core.relu(%x)\n#1 %l: f32[] = core.mse_sum(%y, %x)\n" + kTail;
  expect_broken(task + "loss %y weight 0x1p+0\n", "G12", "%y");
  expect_broken(task + "loss %x weight 0x1p+0\n", "G12", "%x");
  expect_broken(task + "loss %l weight 0xnan\n", "G12", "weight");
  expect_broken(task + "loss %l weight 0x1p+0 divisor 0\n", "G12", "coefficient 0, which does not exist");
  const std::string one =
      "body @b0\n#0 %n: f32[] = core.full() {dtype = !f32, shape = [], value = 0x1p+0}\noutputs [%n]\n"
      "end @b0\ncoefficients @b0\n";
  expect_broken(task + one + "loss %l weight 0x1p+0 factor 1\n", "G12", "coefficient 1, which does not exist");
  expect_broken(task + one + "loss %l weight 0x1p+0 factor 0\n", "G12", "it must be an f64 scalar");
}

TEST(VerifyGraph, G21_Totals) {
  const std::string task = kHead + "#0 %y: f32[batch,4] samples 0 = core.relu(%x)\n" + kTail;
  const auto count = [&](const std::string& body) { return task + "body @b0\n" + body + "end @b0\ncount @b0\n"; };
  const std::string samples =
      "batch batch\n#0 %n: i64[batch] samples 0 = core.full() {dtype = !i64, shape = [batch], value = 1}\noutputs "
      "[%n]\n";
  expect_broken(count("#0 %n: i64[] = core.full() {dtype = !i64, shape = [], value = 1}\noutputs [%n]\n"), "G21",
                "has another batch symbol");
  expect_broken(count("batch batch\n#0 %n: i64[] = core.full() {dtype = !i64, shape = [], value = 1}\noutputs [%n]\n"),
                "G21", "has no samples on axis 0");
  expect_broken(count("batch batch\ninput %z: i64[batch] samples 0\ninputs [%z]\noutputs [%z]\n"), "G21",
                "reads %z, which is no input of the graph");
  expect_broken(count("batch batch\ninput %x: f32[batch,4] samples 0\ninputs [%x]\noutputs [%x]\n"), "G21",
                "expected i64 or f64");
  expect_broken(count("batch batch\n"), "G21", "has 0 results");
  const std::string reads = "body @b1\ninput %n: f32[]\ninputs [%n]\noutputs [%n]\nend @b1\n";
  expect_broken(count(samples) + reads + "coefficients @b1\n", "G21", "coefficients read count 0 as f32[]");
  expect_broken(task + "body @b0\ninput %n: f32[]\ninputs [%n]\noutputs [%n]\nend @b0\ncoefficients @b0\n", "G21",
                "read 1 numbers; there are 0 counts");
  const std::string made =
      "body @b0\n#0 %n: f64[] = core.full() {dtype = !f64, shape = [], value = 0x1p+0}\noutputs [%n]\n"
      "end @b0\ncoefficients @b0\n";
  expect_broken(task + made + "given %y = 0\n", "G21", "given to what is no input");
  expect_broken(task + made + "given %x = 0\n", "G7", "is among the inputs");
  expect_broken(task + "body @b0\nend @b0\nmetrics @b0 [%x]\n", "G21", "a sum that is no output");
}

TEST(VerifyGraph, G13_Contents) {
  expect_broken("rannc.graph 1\ninput %x: f32[1] contents [1]\n" + kTail, "G13", "%x");
  expect_broken("rannc.graph 1\ninput %x: i64[2] contents [1]\n" + kTail, "G13", "%x");
  expect_broken("rannc.graph 1\ninput %x: i64[1,1] contents [1]\n" + kTail, "G13", "%x");
}

TEST(VerifyGraph, OneErrorCarriesTheOthersAsNotes) {
  const Graph graph = parse_graph("rannc.graph 1\nparameter %p: i64[1]\nparameter %q: i64[1]\n", "t.rir").value();
  const auto result = as_result(verify(graph));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.diagnostic().message.find("%p"), std::string::npos);
  ASSERT_EQ(result.diagnostic().notes.size(), 1u);
  EXPECT_NE(result.diagnostic().notes[0].message.find("%q"), std::string::npos);
}

}  // namespace
}  // namespace rannc::ir
