#include "passes/training/trainify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/parameters/recover_parameters.h"
#include "passes/pipeline.h"
#include "passes/simplify/infer_shapes.h"
#include "tests/passes/typed_graph.h"

namespace rannc::passes {
namespace {

using ir::Graph;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A graph of these statements, types inferred, whose samples `batch` counts.
Graph graph_of(const std::string& statements) { return typed_graph("batch batch\n" + statements); }

struct Trained {
  Graph graph;
  PassContext context;
  bool changed = false;
};

/// The graph after the pass, which verifies and has the types that infer-shapes finds.
Trained trained(const std::string& statements, const TrainingRequest& requested, const ir::TrainingNotes& notes = {}) {
  Trained made{graph_of(statements), {}, false};
  const auto done = Trainify(requested, notes).run(made.graph, made.context);
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  made.changed = done.ok() && done->changed;
  const auto sound = ir::as_result(ir::verify(made.graph));
  EXPECT_TRUE(sound.ok()) << sound.diagnostic().str();
  PassContext context;
  EXPECT_FALSE(InferShapes().run(made.graph, context).value().changed);
  return made;
}

Diagnostic refusal(const std::string& statements, const TrainingRequest& requested,
                   const ir::TrainingNotes& notes = {}) {
  Graph graph = graph_of(statements);
  PassContext context;
  const auto done = Trainify(requested, notes).run(graph, context);
  EXPECT_FALSE(done.ok()) << ir::print(graph);
  return done.ok() ? error("") : done.diagnostic();
}

std::string message(const std::string& statements, const TrainingRequest& requested,
                    const ir::TrainingNotes& notes = {}) {
  return refusal(statements, requested, notes).message;
}

/// Again with the same demands changes nothing.
void expect_settled(const Trained& once, const TrainingRequest& requested, const ir::TrainingNotes& notes = {}) {
  Graph again = once.graph.clone();
  PassContext context;
  const auto done = Trainify(requested, notes).run(again, context);
  ASSERT_TRUE(done.ok()) << done.diagnostic().str();
  EXPECT_FALSE(done->changed);
  EXPECT_TRUE(ir::equal(again, once.graph)) << ir::print(again);
}

bool trains(const Graph& graph, std::string_view value) {
  const TaskId task = graph.producer(graph.find(value));
  return graph.op(task).depends_on_training(graph.attributes(task));
}

const std::string kLeaves = R"(
input %x: f32[batch,2,3,3] samples 0
constant %a.weight: f32[2] = hex "0000803f00000040"
constant %a.bias: f32[2] = hex "0000803f00000040"
constant %a.running_mean: f32[2] = hex "0000803f00000040"
constant %a.running_var: f32[2] = hex "0000803f00000040"
constant %b.weight: f32[2] = hex "0000803f00000040"
constant %b.bias: f32[2] = hex "0000803f00000040"
constant %b.running_mean: f32[2] = hex "0000803f00000040"
constant %b.running_var: f32[2] = hex "0000803f00000040"
)";
const std::string kNorms = R"(
#0 %y: f32[*] = core.batch_norm(%x, %a.weight, %a.bias, %a.running_mean, %a.running_var) {momentum = 0x1p-2} at "f" node "first/norm"
#1 %r: f32[*] = core.relu(%y) at "f" node "relu"
#2 %z: f32[*] = core.batch_norm(%r, %b.weight, %b.bias, %b.running_mean, %b.running_var) at "f" node "second/norm"
)";
const std::string kEnds = "inputs [%x]\noutputs [%z]\n";

TEST(Trainify, BatchNormsTrainAndTheirStatisticsAreBuffersThatFollow) {
  const TrainingRequest requested{.batch_norm = true};
  Trained made = trained(kLeaves + kNorms + kEnds, requested);
  EXPECT_TRUE(made.changed);
  EXPECT_TRUE(trains(made.graph, "y"));
  EXPECT_TRUE(trains(made.graph, "z"));
  const auto id = [&](const char* name) { return made.graph.find(name); };
  EXPECT_THAT(made.graph.statistics(),
              ElementsAre(ir::Statistics{id("y.mean"), id("y.variance"), id("a.running_mean"), id("a.running_var")},
                          ir::Statistics{id("z.mean"), id("z.variance"), id("b.running_mean"), id("b.running_var")}));
  EXPECT_EQ(made.graph.kind(id("a.running_mean")), ir::ValueKind::kBuffer);
  EXPECT_EQ(made.graph.attributes(made.graph.producer(id("y"))).number("momentum"), 0.25);
  EXPECT_EQ(made.graph.attributes(made.graph.producer(id("z"))).number("momentum"), 0.1) << "PyTorch's";
  EXPECT_THAT(made.context.remarks,
              ElementsAre(Field(&Note::message, AllOf(HasSubstr("'y' trains"), HasSubstr("'a.running_mean'"))),
                          Field(&Note::message, HasSubstr("'z' trains"))));
  EXPECT_THAT(made.context.open, IsEmpty());
  expect_settled(made, requested);

  PassContext context;
  ASSERT_TRUE(RecoverParameters().run(made.graph, context).ok());
  EXPECT_EQ(made.graph.kind(id("a.weight")), ir::ValueKind::kParameter);
  EXPECT_EQ(made.graph.kind(id("b.running_var")), ir::ValueKind::kBuffer);
  EXPECT_THAT(made.graph.statistics(), SizeIs(2)) << "it finds the same";
}

TEST(Trainify, MomentumCanBeSaid) {
  const Trained made = trained(kLeaves + kNorms + kEnds, {.batch_norm = true, .momentum = 0.5});
  for (const char* const name : {"y", "z"}) {
    EXPECT_EQ(made.graph.attributes(made.graph.producer(made.graph.find(name))).number("momentum"), 0.5);
  }
}

TEST(Trainify, StatisticsWithoutMomentumAreOpen) {
  std::string still = kNorms;
  still.replace(still.find("0x1p-2"), 6, "0x0p+0");
  EXPECT_THAT(trained(kLeaves + still + kEnds, {.batch_norm = true}).context.open,
              ElementsAre(Field(&Note::message, HasSubstr("momentum=None: --batch-norm-momentum"))));
}

TEST(Trainify, PatternsNameModulesNodesAndValues) {
  ir::TrainingNotes notes;
  notes.modules["second/norm"] = "layers.1.norm";
  notes.called = {"layers.1", "layers.1.norm"};
  for (const char* const pattern : {"layers.1.norm", "layers.1", "*norm", "second*", "z", "layers.?.norm"}) {
    const Trained made = trained(kLeaves + kNorms + kEnds, {.batch_norms = {pattern}}, notes);
    EXPECT_EQ(trains(made.graph, "y"), std::string_view(pattern) == "*norm") << pattern;
    EXPECT_TRUE(trains(made.graph, "z")) << pattern;
  }
  const Trained one = trained(kLeaves + kNorms + kEnds, {.batch_norms = {"z"}}, notes);
  EXPECT_THAT(one.context.open, ElementsAre(Field(&Note::message, HasSubstr("1 batch normalisations use fixed"))));
}

TEST(Trainify, PatternsThatFindNothingAreRefusedWithNearNames) {
  EXPECT_THAT(message(kLeaves + kNorms + kEnds, {.batch_norms = {"secnd/*"}}),
              AllOf(HasSubstr("--train-batch-norm=secnd/*: matches none of the model's 2"),
                    HasSubstr("similar names: 'second/norm'")));
  EXPECT_THAT(message(kLeaves + kNorms + kEnds, {.batch_norms = {"relu"}}), HasSubstr("matches none"))
      << "it names another task";
  EXPECT_THAT(message(kLeaves + kNorms + kEnds, {.dropout = {{"rely", 0.5}}}),
              AllOf(HasSubstr("--dropout rely=0.5: matches no module, node or value"), HasSubstr("'relu'")));
  EXPECT_THAT(
      message("input %x: f32[batch,2] samples 0\n#0 %z: f32[*] = core.relu(%x)\n" + kEnds, {.batch_norm = true}),
      HasSubstr("no batch normalisation of its own"));
}

TEST(Trainify, StatisticsThatOthersReadAreRefused) {
  const Diagnostic read = refusal(
      kLeaves + kNorms +
          "#3 %w: f32[*] = core.add(%z, %z)\n#4 %m: f32[*] = core.exp(%a.running_mean) at \"f\" node \"exp\"\n" + kEnds,
      {.batch_norm = true});
  EXPECT_EQ(read.where.node, "first/norm");
  EXPECT_THAT(read.message, HasSubstr("running mean %a.running_mean has other readers"));
  EXPECT_THAT(read.notes, Contains(Field(&Note::message, HasSubstr("task #4 core.exp (node 'exp')"))));
  std::string twice = kNorms;
  twice.replace(twice.find("%b.running_var"), 14, "%a.running_var");
  EXPECT_THAT(message(kLeaves + twice + kEnds, {.batch_norm = true}),
              HasSubstr("running variance %a.running_var has other readers"));
  EXPECT_THAT(message(kLeaves + kNorms + "inputs [%x]\noutputs [%z, %b.running_var]\n", {.batch_norm = true}),
              HasSubstr("%b.running_var is an output"));
  const std::string computed =
      "#0 %m: f32[*] = core.exp(%a.running_mean)\n#1 %z: f32[*] = core.batch_norm(%x, "
      "%a.weight, %a.bias, %m, %a.running_var)\n";
  EXPECT_THAT(message(kLeaves + computed + kEnds, {.batch_norm = true}),
              HasSubstr("running mean %m is computed or an input"));
}

// --- written out as arithmetic

/// PyTorch's FrozenBatchNorm2d.
const std::string kScaledFirst = R"(
#0 %w: f32[*] = core.reshape(%a.weight) {shape = [1,2,1,1]}
#1 %b: f32[*] = core.reshape(%a.bias) {shape = [1,2,1,1]}
#2 %v: f32[*] = core.reshape(%a.running_var) {shape = [1,2,1,1]}
#3 %m: f32[*] = core.reshape(%a.running_mean) {shape = [1,2,1,1]}
#4 %e: f32[*] = core.full() {shape = [], value = 0x1p-10, dtype = !f32}
#5 %raised: f32[*] = core.add(%v, %e)
#6 %root: f32[*] = core.sqrt(%raised)
#7 %one: f32[*] = core.full() {shape = [], value = 0x1p+0, dtype = !f32}
#8 %inverse: f32[*] = core.div(%one, %root)
#9 %s: f32[*] = core.mul(%w, %inverse)
#10 %ms: f32[*] = core.mul(%m, %s)
#11 %t: f32[*] = core.sub(%b, %ms)
#12 %xs: f32[*] = core.mul(%x, %s)
#13 %z: f32[*] = core.add(%xs, %t) at "f" node "frozen/Add"
)";
/// (x - m) * rsqrt(v + e) * w + b, or with other statements in place of the last ones.
std::string centred_first(const std::string& rest) {
  return R"(
#0 %m: f32[*] = core.unsqueeze(%a.running_mean) {axes = [1,2]}
#1 %w: f32[*] = core.unsqueeze(%a.weight) {axes = [1,2]}
#2 %b: f32[*] = core.unsqueeze(%a.bias) {axes = [1,2]}
#3 %e: f32[*] = core.full() {shape = [], value = 0x1p-10, dtype = !f32}
#4 %raised: f32[*] = core.add(%e, %a.running_var)
#5 %c: f32[*] = core.sub(%x, %m)
)" + rest;
}

TEST(Trainify, ArithmeticThatAPatternNamesIsABatchNorm) {
  const std::vector<std::string> forms = {
      kScaledFirst,
      centred_first(
          "#6 %i: f32[*] = core.rsqrt(%raised)\n#7 %j: f32[*] = core.unsqueeze(%i) {axes = [1,2]}\n"
          "#8 %n: f32[*] = core.mul(%c, %j)\n#9 %ws: f32[*] = core.mul(%w, %n)\n#10 %z: f32[*] = core.add(%ws, %b)\n"),
      centred_first(
          "#6 %i: f32[*] = core.sqrt(%raised)\n#7 %j: f32[*] = core.unsqueeze(%i) {axes = [1,2]}\n"
          "#8 %n: f32[*] = core.div(%c, %j)\n#9 %ws: f32[*] = core.mul(%n, %w)\n#10 %z: f32[*] = core.add(%b, %ws)\n"),
      centred_first(
          "#6 %i: f32[*] = core.rsqrt(%raised)\n#7 %j: f32[*] = core.unsqueeze(%i) {axes = [1,2]}\n"
          "#8 %n: f32[*] = core.mul(%w, %j)\n#9 %ws: f32[*] = core.mul(%c, %n)\n#10 %z: f32[*] = core.add(%ws, %b)\n"),
  };
  for (const std::string& form : forms) {
    const TrainingRequest requested{.batch_norms = {"z"}};
    const Trained made = trained(kLeaves + form + kEnds, requested);
    ASSERT_THAT(made.graph.statistics(), SizeIs(1)) << ir::print(made.graph);
    EXPECT_EQ(made.graph.value(made.graph.statistics()[0].running_mean).name, "a.running_mean");
    EXPECT_EQ(made.graph.value(made.graph.statistics()[0].running_variance).name, "a.running_var");
    const ir::Graph::Task task = made.graph.task(made.graph.producer(made.graph.find("z")));
    EXPECT_EQ(task.attributes.number("epsilon"), 0x1p-10);
    EXPECT_EQ(made.graph.value(task.inputs[1]).name, "a.weight");
    EXPECT_EQ(made.graph.value(task.inputs[2]).name, "a.bias");
    EXPECT_THAT(made.context.remarks, Contains(Field(&Note::message, HasSubstr("written out as arithmetic"))));
    expect_settled(made, requested);
  }
}

TEST(Trainify, ArithmeticIsLeftAloneWhereNoPatternNamesIt) {
  const Trained made = trained(kLeaves + kScaledFirst + kEnds, {});
  EXPECT_FALSE(made.changed);
  EXPECT_THAT(
      made.context.open,
      ElementsAre(Field(&Note::message, HasSubstr("1 batch normalisations by fixed statistics are written out"))));
  EXPECT_THAT(message(kLeaves + kScaledFirst + kEnds, {.batch_norm = true}),
              HasSubstr("1 are written out as arithmetic, which --train-batch-norm=PATTERN trains"));
}

TEST(Trainify, OtherArithmeticIsNoBatchNorm) {
  std::string other_mean = kScaledFirst;  // b - m * w: no normalisation
  other_mean.replace(other_mean.find("core.mul(%m, %s)"), 16, "core.mul(%m, %w)");
  std::string along_rows = kScaledFirst;  // numbers per row of the image
  for (size_t at; (at = along_rows.find("[1,2,1,1]")) != std::string::npos;) along_rows.replace(at, 9, "[1,1,2,1]");
  std::string rows = kLeaves;
  rows.replace(rows.find("f32[batch,2,3,3]"), 16, "f32[batch,2,2,3]");
  EXPECT_THAT(trained(kLeaves + other_mean + kEnds, {}).context.open, IsEmpty());
  EXPECT_THAT(trained(rows + along_rows + kEnds, {}).context.open, IsEmpty());
}

// --- dropout

/// Two layers of a product and a sum, and what is read beside them.
const std::string kLayers = R"(
input %x: f32[batch,2] samples 0
constant %k: f32[2,2] = hex "0000803f00000040000040400000803f"
constant %c: f32[2] = hex "0000803f00000040"
#0 %p: f32[*] = core.matmul(%x, %k) at "f" node "l0/MatMul"
#1 %q: f32[*] = core.add(%p, %c) at "f" node "l0/Add"
#2 %h: i64[*] = core.shape(%p) at "f" node "Shape"
#3 %r: f32[*] = core.relu(%q) at "f" node "act"
#4 %s: f32[*] = core.matmul(%r, %k) at "f" node "l1/MatMul"
#5 %z: f32[*] = core.add(%s, %c) at "f" node "l1/Add"
inputs [%x]
outputs [%z, %h]
)";

ir::TrainingNotes layers() {
  ir::TrainingNotes notes;
  notes.modules = {{"l0/MatMul", "net.0"}, {"l0/Add", "net.0"}, {"l1/MatMul", "net.1"}, {"l1/Add", "net.1"}};
  notes.called = {"net.0", "net.1"};
  return notes;
}

std::vector<std::string> dropped(const Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) {
    for (const ValueId input : graph.inputs(task)) {
      if (graph.random_input(input) != nullptr) names.emplace_back(graph.value(graph.outputs(task)[0]).name);
    }
  }
  return names;
}

TEST(Trainify, DropoutsStandBehindWhatLeavesAPart) {
  const std::map<std::string, std::vector<std::string>> expected = {
      {"net.0", {"q"}}, {"net.*", {"q", "z"}}, {"net*1", {"z"}},         {"act", {"r"}},
      {"q", {"q"}},     {"l0/*", {"q"}},       {"*/MatMul", {"p", "s"}}, {"?", {"p", "q", "r", "s", "z"}}};
  for (const auto& [pattern, values] : expected) {
    const TrainingRequest requested{.dropout = {{pattern, 0.25}}};
    const Trained made = trained(kLayers, requested, layers());
    EXPECT_EQ(dropped(made.graph), values) << pattern;
    EXPECT_THAT(made.context.remarks, SizeIs(values.size()));
    EXPECT_EQ(made.graph.outputs()[0], made.graph.find("z")) << "the dropout has the name of what it drops";
    expect_settled(made, requested, layers());
  }
}

TEST(Trainify, DropoutsAreProductsWithDrawsOfTheirOwn) {
  const Trained both = trained(kLayers, {.dropout = {{"net.*", 0.25}}}, layers());
  const Trained one = trained(kLayers, {.dropout = {{"net.1", 0.5}}}, layers());
  const auto draw = [](const Trained& made, const char* name) {
    return *made.graph.random_input(made.graph.find(name));
  };
  EXPECT_EQ(draw(both, "q.random").of, ir::RandomInput::Of::kBernoulli);
  EXPECT_EQ(draw(both, "q.random").drop, 0.25);
  EXPECT_NE(draw(both, "q.random").key, draw(both, "z.random").key);
  EXPECT_EQ(draw(one, "z.random").key, draw(both, "z.random").key) << "whatever else is asked for";
  EXPECT_EQ(both.graph.type(both.graph.find("q.random")).batch.axis, 0);
  EXPECT_TRUE(both.graph.find("q.whole").valid());
}

TEST(Trainify, KeysDifferFromThoseInTheFile) {
  const Trained alone = trained(kLayers, {.dropout = {{"q", 0.5}}});
  const uint64_t key = alone.graph.random_input(alone.graph.find("q.random"))->key;
  std::string taken = kLayers;
  taken.insert(1, "random %u: f32[batch,2] samples 0 = uniform key " + std::to_string(key) + "\n");
  const Trained made = trained(taken, {.dropout = {{"q", 0.5}}});
  EXPECT_EQ(made.graph.random_input(made.graph.find("u"))->key, key);
  EXPECT_EQ(made.graph.random_input(made.graph.find("q.random"))->key, key + 1);
}

TEST(Trainify, DropoutsThatAreThereGetTheShareThatIsAskedFor) {
  std::string there = kLayers;
  there.insert(1, "random %u: f32[batch,2] samples 0 = bernoulli drop 0x1p-1 key 7\n");
  there.replace(there.find("core.relu(%q)"), 13, "core.mul(%q, %u)");
  for (const char* const pattern : {"act", "net.0", "q"}) {
    const TrainingRequest requested{.dropout = {{pattern, 0.25}}};
    const Trained made = trained(there, requested, layers());
    EXPECT_THAT(dropped(made.graph), ElementsAre("r")) << pattern;
    EXPECT_EQ(*made.graph.random_input(made.graph.find("u")),
              (ir::RandomInput{ir::RandomInput::Of::kBernoulli, 0.25, 7}));
    expect_settled(made, requested, layers());
  }
  EXPECT_FALSE(trained(there, {.dropout = {{"act", 0.5}}}, layers()).changed);
}

TEST(Trainify, SharesThatCannotBeAreRefused) {
  for (const double share : {0.0, 1.0, 1.5, -0.5}) {
    EXPECT_THAT(message(kLayers, {.dropout = {{"q", share}}}), HasSubstr("expected a ratio above 0 and below 1"));
  }
  EXPECT_THAT(message(kLayers, {.dropout = {{"net.0", 0.25}, {"q", 0.5}}}, layers()),
              AllOf(HasSubstr("net.0=0.25 and q=0.5"), HasSubstr("both name 'q'")));
  EXPECT_THAT(message(kLayers, {.dropout = {{"Shape", 0.25}}}), HasSubstr("no float result"));
  EXPECT_THAT(message(kLayers, {.momentum = 0.5}), HasSubstr("--batch-norm-momentum requires --train-batch-norm"));
  EXPECT_THAT(message(kLayers, {.batch_norm = true, .momentum = 1.5}), HasSubstr("--batch-norm-momentum 1.5"));
}

TEST(Trainify, LostDropoutsComeBackWithTheirShares) {
  ir::TrainingNotes notes = layers();
  notes.dropouts = {{"r", {0.25, true}}, {"z", {0.125, false}}};
  const Trained made = trained(kLayers, {.dropout = {{"net.1", 0.5}}, .lost_dropout = true}, notes);
  EXPECT_EQ(made.graph.random_input(made.graph.find("r.random"))->drop, 0.25);
  EXPECT_EQ(made.graph.random_input(made.graph.find("z.random"))->drop, 0.5) << "a pattern says otherwise";
  EXPECT_THAT(made.context.warnings, IsEmpty());
  EXPECT_THAT(made.context.open, IsEmpty());

  const Trained left = trained(kLayers, {}, notes);
  EXPECT_FALSE(left.changed);
  EXPECT_THAT(left.context.warnings,
              ElementsAre(Field(&Note::message, HasSubstr("1 dropouts of the exported program"))));
  EXPECT_THAT(left.context.open, ElementsAre(Field(&Note::message, HasSubstr("1 dropouts are off"))));
  EXPECT_THAT(message(kLayers, {.lost_dropout = true}), HasSubstr("--train-dropout: the file has no dropout"));
}

TEST(Trainify, NormalisationsThatWereInTrainingAreAWarningWhereTheyAreLeft) {
  ir::TrainingNotes notes;
  notes.normalised = {"y"};
  const Trained left = trained(kLeaves + kNorms + kEnds, {}, notes);
  EXPECT_THAT(left.context.warnings,
              ElementsAre(Field(&Note::message,
                                HasSubstr("1 batch normalisations of the exported program were in training mode"))));
  EXPECT_THAT(left.context.open, ElementsAre(Field(&Note::message, HasSubstr("1 batch normalisations use fixed"))));
  EXPECT_THAT(trained(kLeaves + kNorms + kEnds, {.batch_norm = true}, notes).context.warnings, IsEmpty());
}

TEST(Trainify, SpellingsAreReadAsTheyAreWritten) {
  const TrainingRequest requested{.batch_norm = true,
                                  .batch_norms = {"a*", "b"},
                                  .momentum = 0.25,
                                  .dropout = {{"net:1", 0.5}, {"x", 0.125}},
                                  .lost_dropout = true};
  const std::string text = str(requested);
  EXPECT_EQ(text, "batch-norm,batch-norm=a*,batch-norm=b,momentum=0.25,dropout=net:1:0.5,dropout=x:0.125,lost-dropout");
  EXPECT_EQ(str(parse_training(text).value()), text);
  EXPECT_EQ(make_pass("trainify{" + text + "}").value()->spelling(), "trainify{" + text + "}");
  EXPECT_EQ(make_pass("trainify").value()->spelling(), "trainify");
  for (const char* const wrong : {"dropout=x", "dropout=x:half", "momentum=", "batch-norm=", "other", "dropout=x:2"}) {
    EXPECT_FALSE(make_pass("trainify{" + std::string(wrong) + "}").ok()) << wrong;
  }
}

}  // namespace
}  // namespace rannc::passes
