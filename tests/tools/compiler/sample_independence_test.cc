// Samples computed together are those computed one by one, and what is not so is found.
#include "tools/compiler/sample_independence.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "ir/text/text.h"
#include "passes/batch/rebatch.h"
#include "passes/simplify/infer_shapes.h"
#include "tests/frontend/support/shared_models.h"
#include "tests/support/totals.h"
#include "tools/common/scratch.h"
#include "tools/compiler/compiler.h"
#include "tools/compiler/synthetic_samples.h"

namespace rannc::tools {
namespace {

using ir::Graph;
using ::testing::AllOf;
using ::testing::HasSubstr;

const CompareLimits kNone{.free_bytes = 1e9, .flops = 1e9};

Graph parsed(const std::string& statements) {
  auto graph = ir::parse_graph("rannc.graph 1\ngraph \"small\"\n" + statements, "small.rir");
  EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  return std::move(*graph);
}

/// Types inferred.
Graph typed(const std::string& statements) {
  Graph graph = parsed(statements);
  passes::PassContext context;
  const auto done = passes::InferShapes().run(graph, context);
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  return graph;
}

Graph rebatched(const Graph& file) {
  Graph graph = file.clone();
  passes::PassContext context;
  const auto done = passes::Rebatch().run(graph, context);
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  return graph;
}

/// What it says; empty: all agrees.
std::string found(const Graph& file, const Graph& made, int64_t samples, const CompareLimits& limits = kNone) {
  const auto compared = compare_with_file(file, made, samples, {}, limits);
  return compared.ok() ? compared->not_compared : "error: " + compared.diagnostic().str();
}

/// Statements between inputs of so many samples and the outputs, `B` standing for their number.
std::string with_samples(std::string text, const std::string& samples) {
  for (size_t at = text.find('B'); at != std::string::npos; at = text.find('B', at + samples.size())) {
    text.replace(at, 1, samples);
  }
  return samples == "batch" ? "batch batch\n" + text : text;
}

const char* const kAttention = R"(
input %x: f32[B,5,4]
#0 %t: f32[*] = core.permute(%x) {dims = [0,2,1]}
#1 %s: f32[*] = core.matmul(%x, %t)
#2 %p: f32[*] = core.softmax(%s) {axis = 2}
#3 %y: f32[*] = core.matmul(%p, %x)
#4 %flat: f32[*] = core.reshape(%y) {shape = [B,20]}
inputs [%x]
outputs [%flat]
)";

TEST(SampleIndependence, AgreeWhereThePassIsRight) {
  for (const int64_t samples : {1, 2, 3, 11}) {
    const Graph file = typed(with_samples(kAttention, std::to_string(samples)));
    EXPECT_EQ(found(file, rebatched(file), samples), "") << samples;
  }
}

// What each of them says is that of a task whose type does not tell: the types are written down, none is inferred.
TEST(SampleIndependence, MixedSamplesAreFoundByTheirNumbers) {
  const Graph file =
      typed("input %x: f32[3,4]\n#0 %y: f32[*] = core.softmax(%x) {axis = 1}\ninputs [%x]\noutputs [%y]\n");
  const std::string head = "batch batch\ninput %x: f32[batch,4] samples 0\n", tail = "inputs [%x]\noutputs [%y]\n";
  const Graph over_samples =
      parsed(head + "#0 %y: f32[batch,4] samples 0 = core.softmax(%x) {axis = 0} at \"m.onnx\" node \"norm\"\n" + tail);
  EXPECT_THAT(found(file, over_samples, 3), AllOf(HasSubstr("error: "), HasSubstr("m.onnx: 'norm'"),
                                                  HasSubstr("numeric check: an element of %y of sample"),
                                                  HasSubstr("in a mini-batch of 3"), HasSubstr("alone")));
}

TEST(SampleIndependence, NumbersThatCountSamplesAreFound) {
  const std::string scaled = R"(
input %x: f32[B,4]SAMPLES
#0 %n: f32[] = core.full() {shape = [], value = VALUE, dtype = !f32}
#1 %y: f32[B,4]SAMPLES = core.add(%x, %n)
inputs [%x]
outputs [%y]
)";
  const auto graph = [&](const std::string& batch, const std::string& samples, const std::string& value) {
    std::string text = with_samples(scaled, batch);
    for (const auto& [from, to] :
         {std::pair("SAMPLES", samples), std::pair("SAMPLES", samples), std::pair("VALUE", value)}) {
      text.replace(text.find(from), std::string(from).size(), to);
    }
    return parsed(text);
  };
  const Graph file = graph("3", "", "0x1.8p+1");
  EXPECT_EQ(found(file, graph("batch", " samples 0", "0x1.8p+1"), 3), "");
  EXPECT_THAT(found(file, graph("batch", " samples 0", "0x1p+1"), 3), HasSubstr("in the file's own graph"))
      << "alike in whole and parts, but another function";
}

TEST(SampleIndependence, WhatRunsForOneNumberAloneIsFound) {
  const std::string table = "constant %t: f32[3,1] = hex \"0000803f0000004000004040\"\n";
  const auto graph = [&](const std::string& head, const std::string& type) {
    return parsed(head + table + "#0 %y: " + type + " = core.add(%x, %t)\ninputs [%x]\noutputs [%y]\n");
  };
  EXPECT_THAT(found(graph("input %x: f32[3,4]\n", "f32[3,4]"),
                    graph("batch batch\ninput %x: f32[batch,4] samples 0\n", "f32[batch,4] samples 0"), 3),
              HasSubstr("it does not run, but the file's own graph does"));
}

TEST(SampleIndependence, IntegersLookUpWhatIsThere) {
  const std::string text = R"(
input %ids: i32[B,6]
constant %table: f32[7,1] = hex "00000000000080bf0000003f000040400000a04000001041000030c1"
#0 %wide: i64[*] = core.cast(%ids) {dtype = !i64}
#1 %rows: f32[*] = core.gather(%table, %wide) {axis = 0}
inputs [%ids]
outputs [%rows]
)";
  const Graph file = typed(with_samples(text, "2"));
  const Graph made = rebatched(file);
  EXPECT_EQ(index_limit(made, made.inputs()[0], {{"batch", 2}}), 7);
  EXPECT_EQ(found(file, made, 2), "");
}

// Of tuples and of windows, too, which have no attribute for the axis.
TEST(SampleIndependence, IntegersLookUpWhatIsThereOnAnyAxis) {
  for (const std::string_view task :
       {"core.gather_nd(%x, %ids) {batch_dims = 0}", "core.scatter_nd(%x, %ids, %y) {reduction = \"add\"}",
        "core.gather_elements(%x, %ids) {axis = 0}"}) {
    const Graph graph = typed(fmt::format(
        "input %x: f32[5,6]\ninput %y: f32[4]\ninput %ids: i64[4,2]\n#0 %made: f32[*] = {}\ninputs [%x, %y, %ids]\n"
        "outputs [%made]\n",
        task));
    EXPECT_EQ(index_limit(graph, graph.inputs()[2], {}), 5) << task;
  }
}

/// Of labels that are picked by tuples of a sample and a class.
TEST(SampleIndependence, IntegersDoNotDependOnTheNumberOfSamples) {
  const std::string text = R"(
input %x: f32[B,5]
input %y: i64[B]
#0 %sample: i64[*] = core.range() {delta = 1, dtype = !i64, limit = B, start = 0}
#1 %first: i64[*] = core.unsqueeze(%sample) {axes = [1]}
#2 %second: i64[*] = core.unsqueeze(%y) {axes = [1]}
#3 %places: i64[*] = core.concat(%first, %second) {axis = 1}
#4 %picked: f32[*] = core.gather_nd(%x, %places) {batch_dims = 0}
inputs [%x, %y]
outputs [%picked]
)";
  const Graph file = typed(with_samples(text, "4"));
  const Graph made = rebatched(file);
  EXPECT_EQ(index_limit(made, made.inputs()[1], {{"batch", 2}}), 5);
  EXPECT_EQ(found(file, made, 4), "");
}

TEST(SampleIndependence, RandomNumbersAreThoseOfEachSample) {
  for (const char* const samples : {"1", "3"}) {
    const Graph file =
        typed(with_samples("input %x: f32[B,4]\nrandom %d: f32[B,4] = normal key 7\n"
                           "#0 %y: f32[*] = core.mul(%x, %d)\ninputs [%x]\noutputs [%y]\n",
                           samples));
    EXPECT_EQ(found(file, rebatched(file), std::stoi(samples)), "");
  }
}

TEST(SampleIndependence, NothingIsSaidOfWhatIsNotRun) {
  const Graph file = typed(with_samples(kAttention, "3"));
  const Graph made = rebatched(file);
  EXPECT_THAT(found(file, made, 3, {.free_bytes = 100}), HasSubstr("0.1 KiB are free"));
  EXPECT_THAT(found(file, made, 3, {.free_bytes = 1e9, .flops = 1}), HasSubstr("Gflop"));
  const std::string weighted =
      "input %x: f32[B,1]\nconstant %w: f32[1,1]\n#0 %y: f32[*] = core.mul(%x, %w)\n"
      "inputs [%x]\noutputs [%y]\n";
  const Graph light = typed(with_samples(weighted, "3"));
  EXPECT_THAT(found(light, rebatched(light), 3), HasSubstr("the weights of %w are absent"));
  const std::string flat = "input %x: f32[B,4]\n#0 %y: f32[*] = core.sub(%x, %x)\ninputs [%x]\noutputs [%y]\n";
  const Graph alike = typed(with_samples(flat, "3"));
  EXPECT_THAT(found(alike, rebatched(alike), 3), HasSubstr("equal for all"));
}

std::string losses(const std::string& reduction) {
  const Graph graph = parsed(
      "batch batch\ninput %x: f32[batch,4] samples 0\ninput %t: f32[batch,4] samples 0\n"
      "#0 %d: f32[batch,4] samples 0 = core.sub(%x, %t)\n#1 %e: f32[batch,4] samples 0 = core.mul(%d, %d)\n"
      "#2 %l: f32[] partial = core." +
      reduction + "(%e) {keepdim = false}\ninputs [%x, %t]\noutputs []\nloss %l weight 0x1p+0\n");
  const auto compared = compare_losses(graph, std::nullopt, {}, kNone);
  return compared.ok() ? compared->not_compared : compared.diagnostic().message;
}

TEST(SampleIndependence, NumeratorsOfSamplesAddUp) {
  EXPECT_EQ(losses("sum"), "");
  EXPECT_THAT(losses("mean"), AllOf(HasSubstr("numeric check: the loss %l of 3 samples is"), HasSubstr("add up to")));
}

TEST(SampleIndependence, ALossInTheFileIsWhatWasMadeOfIt) {
  const auto judged = [](bool divides) {
    const std::string error = "#0 %d: f32[SHAPE]PLACE = core.sub(%x, %t)\n#1 %e: f32[SHAPE]PLACE = core.mul(%d, %d)\n";
    const auto with = [](std::string text, const std::string& shape, const std::string& place) {
      for (const auto& [from, to] : {std::pair("SHAPE", shape), std::pair("PLACE", place)}) {
        const std::string mark = from;
        for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
          text.replace(at, mark.size(), to);
      }
      return text;
    };
    const std::string inputs = "input %x: f32[SHAPE]PLACE\ninput %t: f32[SHAPE]PLACE\n";
    const Graph file = parsed(with(inputs + error, "3,4", "") +
                              "#2 %l: f32[] = core.mean(%e) {keepdim = false}\ninputs [%x, %t]\noutputs [%l]\n");
    Graph made = parsed("batch batch\n" + with(inputs + error, "batch,4", " samples 0") +
                        "#2 %l: f32[] partial = core.sum(%e) {keepdim = false}\ninputs [%x, %t]\noutputs []\n");
    ir::LossTerm term{made.find("l")};
    if (divides) term.divisor = testing::count_elements(made, made.find("t"));
    made.add_loss(term);
    const FileLoss loss{file, 3, {{file.find("l"), 1.0}}};
    const auto limited = compare_loss(made, loss, {}, {.free_bytes = 50, .flops = 1e9});
    EXPECT_TRUE(limited.ok() && limited->too_large);
    const auto compared = compare_losses(made, loss, {}, kNone);
    return compared.ok() ? compared->not_compared : compared.diagnostic().message;
  };
  EXPECT_EQ(judged(true), "");
  EXPECT_THAT(judged(false),
              AllOf(HasSubstr("numeric check: the loss of 3 samples is"), HasSubstr("in the file's own")));
}

// --- in the compiler

PreparedModel prepared(const std::string& statements, const std::string& loss) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/model.rir";
  std::ofstream(path) << "rannc.graph 1\ngraph \"small\"\n" << statements;
  return prepare_model(path, {.loss = loss}).value();
}

TEST(SampleIndependence, TheCompilerSaysWhatWasNotTried) {
  const auto open = [](const std::string& constant, const std::string& loss) {
    std::string text;
    const std::string statements = "input %x: f32[3,1]\nparameter %w: f32[1,1]" + constant +
                                   "\n#0 %y: f32[3,1] = core.mul(%x, %w)\ninputs [%x]\noutputs [%y]\n";
    const PreparedModel model = prepared(statements, loss);
    for (const Note& note : model.open) text += note.message + "\n";
    return text;
  };
  for (const char* const loss : {"", "mse(output=y,labels=t)"}) {
    EXPECT_EQ(open(" = hex \"0000803f\"", loss), "");
    EXPECT_EQ(open("", loss),
              "batched and per-sample execution were not compared numerically: the weights of %w are absent\n")
        << "once, with a loss too";
  }
}

TEST(SampleIndependence, OfPublishedExportsAgree) {
  const auto models = test::shared_models();
  if (!models) GTEST_SKIP() << "no ../shared/data/models and no RANNC_SHARED_DIR";
  for (const char* const name : {"mlp_dynamo_b8", "gpt2_legacy_ambiguous_b4", "lstm_legacy_b8"}) {
    const auto model = prepare_model((*models / name / "model.onnx").string(), {});
    ASSERT_TRUE(model.ok()) << model.diagnostic().str();
    EXPECT_EQ(model->graph.batch_symbol(), "batch") << name;
    for (const Note& note : model->open) EXPECT_THAT(note.message, ::testing::Not(HasSubstr("numbers"))) << name;
  }
}

}  // namespace
}  // namespace rannc::tools
