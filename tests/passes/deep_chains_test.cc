// Passes need no more stack for deep models than for others.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

#include "ir/verify.h"
#include "passes/loss/open_loss.h"
#include "passes/pipeline.h"
#include "passes/training/differentiate.h"
#include "tests/support/short_graph.h"

namespace rannc::passes {
namespace {

constexpr int kTasks = 200'000;
constexpr size_t kStackBytes = 512 << 10;  // one call for each task of a chain would take at least forty times as much

/// Runs a function in a thread with a small stack.
void with_small_stack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&body)), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

/// `before`, a chain of tasks from `c0` to `end`, and `after`.
ir::Graph chain(const std::string& before, const std::string& task, const std::string& after) {
  std::string text = before;
  for (int i = 0; i < kTasks; ++i)
    text += fmt::format("{} = {}(c{})\n", i + 1 == kTasks ? "end" : fmt::format("c{}", i + 1), task, i);
  return test::short_graph(text + after, "f32");
}

Result<Outcome> opened(ir::Graph& graph) {
  PassContext context;
  return OpenLoss({{.kind = LossSpec::Kind::kInGraph, .output = "loss"}}).run(graph, context);
}

// All passes, and the backward pass.
TEST(DeepChains, OfActivations) {
  ir::Graph graph = chain("input x [batch,4] samples 0\nparameter w [4,4]\nc0 = linear(x, w)\n", "relu",
                          "loss = mean(end)\noutputs loss\n");
  with_small_stack([&] {
    PipelineOptions options;
    options.losses = parse_losses("in_graph(output=loss)").value();
    PassContext context;
    const auto report = standard_pipeline(options).run(graph, context);
    ASSERT_TRUE(report.ok()) << report.failure->str();
    EXPECT_EQ(graph.losses().size(), 1u);
    EXPECT_TRUE(differentiate(graph).ok());
  });
}

// Every task depends on a number of samples, which becomes an input.
TEST(DeepChains, OfWhatReadsACount) {
  ir::Graph graph = chain(
      "input x [batch,4] samples 0\ninput mask [batch] samples 0\nparameter w [4,4]\n"
      "count = sum(mask)\nbefore = linear(x, w)\nc0 = div(before, count)\n",
      "relu", "loss = mean(end)\noutputs loss\n");
  with_small_stack([&] {
    const auto outcome = opened(graph);
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    EXPECT_EQ(graph.totals().given.size(), 1u);
    EXPECT_GE(graph.task_count(), static_cast<uint32_t>(kTasks));
  });
}

TEST(DeepChains, OfLosses) {
  ir::Graph graph = chain("input x [batch,4] samples 0\nparameter w [4,4]\nbefore = linear(x, w)\nc0 = mean(before)\n",
                          "neg", "loss = neg(end)\noutputs loss\n");
  with_small_stack([&] {
    const auto outcome = opened(graph);
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    ASSERT_EQ(graph.losses().size(), 1u);
    EXPECT_EQ(graph.losses()[0].weight, kTasks % 2 == 0 ? -0.25 : 0.25);
  });
}

TEST(DeepChains, OfCounts) {
  ir::Graph graph =
      chain("input x [batch,4] samples 0\ninput mask [batch] samples 0\nparameter w [4,4]\nc0 = sum(mask)\n", "neg",
            "before = linear(x, w)\nall = sum(before)\nloss = div(all, end)\noutputs loss\n");
  with_small_stack([&] {
    const auto outcome = opened(graph);
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    EXPECT_EQ(graph.losses().size(), 1u);
  });
}

// Metrics are copied apart.
TEST(DeepChains, OfMetrics) {
  ir::Graph graph = chain("input x [batch,4] samples 0\nparameter w [4,4]\nbefore = linear(x, w)\nc0 = mean(before)\n",
                          "exp", "loss = sum(before)\noutputs loss end\n");
  with_small_stack([&] {
    const auto outcome = opened(graph);
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    ASSERT_TRUE(graph.totals().metrics.has_value());
    EXPECT_GE(graph.totals().metrics->graph().task_count(), static_cast<uint32_t>(kTasks));
  });
}

// What follows from a stored value under many names is found by its uses.
TEST(DeepChains, OfNames) {
  ir::Graph graph = chain("input x [batch,5] samples 0\nconstant c0 [5] 1 2 3 4 5\n", "identity",
                          "y = mul(x, end)\nloss = mean(y)\noutputs loss\n");
  with_small_stack([&] { EXPECT_TRUE(opened(graph).ok()); });
}

}  // namespace
}  // namespace rannc::passes
