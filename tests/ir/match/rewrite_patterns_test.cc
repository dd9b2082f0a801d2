// Rewriting by patterns: which match wins, what is refused, when it ends, what it costs.
#include "ir/match/rewrite_patterns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/support/random_graph.h"

namespace rannc::ir {
namespace {

constexpr Capture kX{0}, kY{1}, kZ{2};

// relu(a + b) becomes a maximum: no arithmetic of anybody, but a shape that is easy to count.
Rewrite fuse() {
  return {"fuse", op("relu", op("add", any(kX), any(kY))), [](const Match&, Builder& make) {
            return make.result("maximum", {make[kX], make[kY]});
          }};
}

Rewrite cancel(const char* name) {
  return {"cancel", op(name, op(name, any(kX))), [](const Match&, Builder& make) { return std::vector{make[kX]}; }};
}

Graph read(const std::string& body, const std::string& outputs) {
  return parse_graph("rannc.graph 1\ninput %x: f32[4]\ninput %y: f32[4]\n" + body + "inputs [%x, %y]\noutputs [" +
                         outputs + "]\n",
                     "test.rir")
      .value();
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) names.push_back(graph.op(task).name.substr(5));
  return names;
}

using Names = std::vector<std::string>;

Rewritten apply(Graph& graph, const std::vector<Rewrite>& rules, uint32_t most_sweeps = 32) {
  const Rewritten done = rewrite(graph, rules, most_sweeps);
  EXPECT_TRUE(verify(graph).empty());
  EXPECT_TRUE(equal(parse_graph(print(graph), "again.rir").value(), graph));
  return done;
}

TEST(Rewrite, TasksBecomeOneUnderItsName) {
  Graph graph =
      read("#0 %s: f32[4] = core.add(%x, %y)\n#1 %r: f32[4] = core.relu(%s)\n#2 %z: f32[4] = core.neg(%r)\n", "%z");
  const Rewritten done = apply(graph, {fuse()});
  EXPECT_EQ(ops_of(graph), (Names{"maximum", "neg"}));
  EXPECT_EQ(graph.value(graph.outputs(TaskId(0))[0]).name, "r");
  EXPECT_EQ(graph.type(graph.find("r")), graph.type(graph.find("x")));
  EXPECT_EQ(done.counts, (std::vector<size_t>{1}));
  EXPECT_EQ(done.sweeps, 1u);
  EXPECT_TRUE(done.settled);
}

TEST(Rewrite, WhatDoesNotMatchStaysAsItIs) {
  Graph graph = read("#0 %s: f32[4] = core.add(%x, %y)\n#1 %r: f32[4] = core.neg(%s)\n", "%r");
  const std::string before = print(graph);
  const Rewritten done = apply(graph, {fuse()});
  EXPECT_EQ(print(graph), before);
  EXPECT_EQ(done.total(), 0u);
  EXPECT_EQ(done.sweeps, 0u);
  EXPECT_TRUE(done.settled);
}

TEST(Rewrite, AValueThatAnotherTaskReadsIsNotConsumed) {
  Graph graph =
      read("#0 %s: f32[4] = core.add(%x, %y)\n#1 %r: f32[4] = core.relu(%s)\n#2 %z: f32[4] = core.neg(%s)\n", "%r, %z");
  EXPECT_EQ(apply(graph, {fuse()}).total(), 0u);
}

TEST(Rewrite, AnOutputOfTheGraphIsNotConsumed) {
  Graph graph = read("#0 %s: f32[4] = core.add(%x, %y)\n#1 %r: f32[4] = core.relu(%s)\n", "%r, %s");
  EXPECT_EQ(apply(graph, {fuse()}).total(), 0u);
}

TEST(Rewrite, ALossIsNotConsumed) {
  Graph graph = read("#0 %s: f32[] = core.mse_sum(%x, %y)\n#1 %r: f32[] = core.neg(%s)\n", "%r");
  graph.add_loss({.numerator = graph.find("s")});
  const Rewrite rule = {"negated", op("neg", op("mse_sum", any(kX), any(kY))), [](const Match&, Builder& make) {
                          return make.result("mse_sum", {make[kY], make[kX]});
                        }};
  EXPECT_EQ(apply(graph, {rule}).total(), 0u);
  graph.set_losses({});
  EXPECT_EQ(apply(graph, {rule}).total(), 1u);
}

TEST(Rewrite, WhatBecomesRunningStatisticsIsNotConsumed) {
  Graph graph = parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,3] samples 0
parameter %s: f32[3]
buffer %rm: f32[3]
buffer %rv: f32[3]
#0 %y: f32[batch,3] samples 0, %m: f32[3], %v: f32[3] = core.batch_norm(%x, %s, %s, %rm, %rv) {training = true}
#1 %z: f32[batch,3] samples 0 = core.relu(%y)
inputs [%x]
outputs [%z]
statistics %rm, %rv = %m, %v
)",
                            "t.rir")
                    .value();
  const Rewrite rule = {"relu",
                        op("relu", op("batch_norm", any(kX), any(kY), any(kZ), any(Capture{3}), any(Capture{4}))),
                        [](const Match&, Builder& make) { return make.result("relu", {make[kX]}); }};
  EXPECT_EQ(rewrite(graph, std::span(&rule, 1)).total(), 0U);
  graph.set_statistics({});
  EXPECT_EQ(rewrite(graph, std::span(&rule, 1)).total(), 1U);
}

TEST(Rewrite, AValueReadTwiceWithinTheMatchIsConsumed) {
  Graph graph = read("#0 %s: f32[4] = core.neg(%x)\n#1 %r: f32[4] = core.mul(%s, %s)\n", "%r");
  const Rewrite rule = {"square", op("mul", op("neg", any(kX)).as(kY), same(kY)), [](const Match&, Builder& make) {
                          return make.result("mul", {make[kX], make[kX]});
                        }};
  EXPECT_EQ(apply(graph, {rule}).total(), 1u);
  EXPECT_EQ(ops_of(graph), (Names{"mul"}));
}

// The left sum is needed elsewhere, the right one is not.
TEST(Rewrite, ARefusedWayLeavesTheOther) {
  Graph graph =
      read("#0 %a: f32[4] = core.neg(%x)\n#1 %b: f32[4] = core.neg(%y)\n#2 %r: f32[4] = core.add(%a, %b)\n", "%r, %a");
  const Rewrite rule = {"difference", commutative(op("add", op("neg", any(kX)), any(kY))),
                        [](const Match&, Builder& make) {
                          return make.result("sub", {make[kY], make[kX]});
                        }};
  EXPECT_EQ(apply(graph, {rule}).total(), 1u);
  EXPECT_EQ(ops_of(graph), (Names{"neg", "sub"}));
}

TEST(Rewrite, TheFirstRuleListedWins) {
  const std::string body = "#0 %s: f32[4] = core.add(%x, %y)\n#1 %r: f32[4] = core.relu(%s)\n";
  const Rewrite other = {"other", op("relu", any(kX)),
                         [](const Match&, Builder& make) { return make.result("abs", {make[kX]}); }};
  Graph graph = read(body, "%r");
  EXPECT_EQ(apply(graph, {fuse(), other}).counts, (std::vector<size_t>{1, 0}));
  graph = read(body, "%r");
  EXPECT_EQ(apply(graph, {other, fuse()}).counts, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(ops_of(graph), (Names{"add", "abs"}));
}

// Three negations are one pair and one left over: the pair next to the result goes.
TEST(Rewrite, ATaskGoesWithOneMatchFromTheResultsBackwards) {
  Graph graph = read(
      "#0 %a: f32[4] = core.neg(%x)\n#1 %b: f32[4] = core.neg(%a)\n#2 %c: f32[4] = core.neg(%b)\n"
      "#3 %r: f32[4] = core.abs(%c)\n",
      "%r");
  const Rewritten done = apply(graph, {cancel("neg")});
  EXPECT_EQ(done.counts, (std::vector<size_t>{1}));
  EXPECT_EQ(ops_of(graph), (Names{"neg", "abs"}));
  EXPECT_EQ(graph.value(graph.outputs(TaskId(0))[0]).name, "a");
}

TEST(Rewrite, GoesOnUntilNothingMatches) {
  std::string body;
  for (int i = 0; i < 64; ++i)
    body += fmt::format("#{} %v{}: f32[4] = core.relu({})\n", i, i, i == 0 ? "%x" : fmt::format("%v{}", i - 1));
  const Rewrite shorten = {"shorten", op("relu", op("relu", any(kX))),
                           [](const Match&, Builder& make) { return make.result("relu", {make[kX]}); }};
  Graph graph = read(body, "%v63");
  const Rewritten done = apply(graph, {shorten});
  EXPECT_EQ(done.counts, (std::vector<size_t>{63}));
  EXPECT_EQ(done.sweeps, 6u);
  EXPECT_TRUE(done.settled);
  graph = read(body, "%v63");
  const Rewritten stopped = apply(graph, {shorten}, 2);
  EXPECT_EQ(stopped.sweeps, 2u);
  EXPECT_FALSE(stopped.settled);
  EXPECT_EQ(graph.task_count(), 16u);
}

TEST(Rewrite, ARuleThatFeedsItselfIsStopped) {
  Graph graph = read("#0 %r: f32[4] = core.add(%x, %y)\n", "%r");
  const Rewrite swap = {"swap", op("add", any(kX), any(kY)), [](const Match&, Builder& make) {
                          return make.result("add", {make[kY], make[kX]});
                        }};
  const Rewritten done = apply(graph, {swap}, 5);
  EXPECT_EQ(done.counts, (std::vector<size_t>{5}));
  EXPECT_FALSE(done.settled);
}

TEST(Rewrite, DoneAgainItChangesNothing) {
  const std::vector<Rewrite> rules = {
      fuse(), cancel("neg"), cancel("relu"), {"drop", op("identity", any(kX)), [](const Match&, Builder& make) {
                                                return std::vector{make[kX]};
                                              }}};
  size_t total = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = testing::random_graph({.seed = seed});
    const Rewritten done = apply(graph, rules);
    total += done.total();
    EXPECT_TRUE(done.settled);
    const std::string once = print(graph);
    EXPECT_EQ(apply(graph, rules).total(), 0u);
    EXPECT_EQ(print(graph), once);
  }
  EXPECT_GT(total, 100u);
}

TEST(Rewrite, AnOutputKeepsItsName) {
  Graph graph = read("#0 %a: f32[4] = core.neg(%x)\n#1 %r: f32[4] = core.neg(%a)\n", "%r");
  const std::vector<Rewrite> rules = {cancel("neg"), {"drop", op("identity", any(kX)), [](const Match&, Builder& make) {
                                                        return std::vector{make[kX]};
                                                      }}};
  EXPECT_EQ(apply(graph, rules).counts, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(ops_of(graph), (Names{"identity"}));
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "r");
}

TEST(Rewrite, WhatComesBetweenHasAFreshNameAndAType) {
  Graph graph =
      read("#0 %s: f32[4] = core.add(%x, %y)\n#1 %r: f32[4] = core.relu(%s)\n#2 %\"r.abs\": f32[4] = core.neg(%r)\n",
           "%\"r.abs\"");
  const Rewrite rule = {"two", op("relu", op("add", any(kX), any(kY))), [](const Match&, Builder& make) {
                          return make.result("maximum", {make.emit("abs", {make[kX]}), make[kY]});
                        }};
  EXPECT_EQ(apply(graph, {rule}).total(), 1u);
  EXPECT_EQ(graph.value(graph.outputs(TaskId(0))[0]).name, "r.abs.1");
  EXPECT_EQ(graph.type(graph.outputs(TaskId(0))[0]), graph.type(graph.find("x")));
}

TEST(Rewrite, WithoutTypesItWorksAlike) {
  Graph graph =
      read("#0 %s: f32[*] = core.add(%x, %y)\n#1 %r: f32[*] = core.relu(%s)\n#2 %z: f32[*] = core.neg(%r)\n", "%z");
  EXPECT_EQ(apply(graph, {fuse()}).total(), 1u);
}

TEST(Rewrite, ALocationNamesTheNodesOfAllTasks) {
  Graph graph = read(
      "#0 %a: f32[4] = core.neg(%x) at \"m.onnx\" node \"/neg\"\n"
      "#1 %s: f32[4] = core.add(%a, %y) at \"m.onnx\" node \"/add\"\n"
      "#2 %t: f32[4] = core.relu(%s) at \"m.onnx\" node \"/add\"\n"
      "#3 %r: f32[4] = core.abs(%t) at \"m.onnx\" node \"/abs\"\n",
      "%r");
  const Rewrite inner = fuse();
  const Rewrite outer = {"outer", op("abs", op("maximum", op("neg", any(kX)), any(kY))),
                         [](const Match&, Builder& make) {
                           return make.result("minimum", {make.emit("exp", {make[kX]}), make[kY]});
                         }};
  EXPECT_EQ(apply(graph, {inner, outer}).counts, (std::vector<size_t>{1, 1}));
  for (const TaskId task : graph.tasks())
    EXPECT_EQ(graph.location(task), (Location{"m.onnx", 0, 0, "/neg, /add, /abs"}));
  const Graph tasks = read("#0 %r: f32[4] = core.neg(%x) at \"m.onnx\":3:4\n", "%r");
  EXPECT_EQ(fused_location(tasks, std::array{TaskId(0)}), (Location{"m.onnx", 3, 4, ""}));
}

TEST(Rewrite, ARuleThatBreaksItsPromiseIsOurBug) {
  const auto body = "#0 %s: f32[4] = core.add(%x, %y)\n#1 %r: f32[4] = core.relu(%s)\n";
  const Pattern pattern = op("relu", op("add", any(kX), any(kY)).as(kZ));
  using Build = std::function<std::vector<ValueId>(const Match&, Builder&)>;
  const auto run = [&](const Build& build) {
    Graph graph = read(body, "%r");
    rewrite(graph, std::vector{Rewrite{"broken", pattern, build}});
  };
  EXPECT_THROW(run([](const Match&, Builder&) { return std::vector<ValueId>(); }), InternalError) << "no value";
  EXPECT_THROW(run([](const Match&, Builder&) { return std::vector{ValueId()}; }), InternalError) << "left out";
  EXPECT_THROW(run([](const Match&, Builder& make) { return std::vector{make[kZ]}; }), InternalError) << "consumed";
  EXPECT_THROW(run([](const Match&, Builder& make) { return make.result("sum", {make[kX]}); }), InternalError)
      << "type";
  Graph graph = read(body, "%r");
  const Build same = [](const Match&, Builder& make) { return std::vector{make[kX]}; };
  EXPECT_THROW(rewrite(graph, std::vector{Rewrite{"leaf", any(kX), same}}), InternalError);
}

// Blocks of four tasks of which two are one afterwards; between blocks nothing matches.
Graph blocks(uint32_t tasks) {
  Graph graph;
  const ValueType type{DType::kF32, Shape{4}, {}, {}};
  ValueId x = graph.add_value(ValueKind::kInput, "x", type);
  graph.add_input(x);
  const OpInfo &add = core("add"), &relu = core("relu"), &exp = core("exp"), &neg = core("neg");
  for (uint32_t i = 0; i < tasks; i += 4) {
    const ValueId sum = graph.add(add, {x, x}), result = graph.add(relu, {sum}), wave = graph.add(exp, {result});
    x = graph.add(neg, {wave});
    for (const ValueId value : {sum, result, wave, x}) graph.set_type(value, type);
  }
  graph.add_output(x);
  return graph;
}

// A pattern that walks far at each task before it fails: the costliest kind.
Rewrite never() {
  return {"never", op("neg", through({"exp", "relu", "add", "maximum", "neg"}, op("sin"))),
          [](const Match&, Builder& make) { return make.result("neg", {make[kX]}); }};
}

TEST(Rewrite, AMillionTasksTakeStepsInProportion) {
  std::vector<uint64_t> steps;
  for (const uint32_t tasks : {250'000u, 1'000'000u}) {
    Graph graph = blocks(tasks);
    const Rewritten done = rewrite(graph, std::vector{never(), fuse()});
    EXPECT_EQ(done.counts, (std::vector<size_t>{0, tasks / 4}));
    EXPECT_EQ(done.sweeps, 1u);
    EXPECT_TRUE(done.settled);
    EXPECT_EQ(graph.task_count(), tasks / 4 * 3);
    steps.push_back(done.steps);
  }
  EXPECT_NEAR(static_cast<double>(steps[1]) / static_cast<double>(steps[0]), 4, 0.01);
}

// One value that every block reads: whether it may be consumed is known at its first reader elsewhere.
TEST(Rewrite, AValueOfManyReadersIsRefusedAtOnce) {
  constexpr uint32_t kReaders = 300'000;
  Graph graph = blocks(4);
  const ValueId shared = graph.add(core("neg"), {graph.inputs()[0]});
  for (uint32_t i = 0; i < kReaders; ++i) graph.add_output(graph.add(core("neg"), {shared}));
  const Rewritten done = rewrite(graph, std::vector{cancel("neg")});
  EXPECT_EQ(done.total(), 0u);
  EXPECT_LT(done.steps, 4u * kReaders);
}

}  // namespace
}  // namespace rannc::ir
