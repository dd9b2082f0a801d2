// What is measured of tasks and of runs of tasks. No test here knows how long anything takes.
#include "runtime/measure/measure_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "ir/plan/plan.h"
#include "passes/training/cut_functions.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/support/short_graph.h"

namespace rannc::runtime {
namespace {

constexpr int64_t kSamples = 8;
const CutFunctions kCut = [](const ir::StageGraph& stage) { return passes::cut_functions(stage); };

struct Measured {
  explicit Measured(ir::Graph made) : graph(std::move(made)), facts(graph) {}

  Result<TaskTimes> run(uint32_t first, uint32_t last) const {
    std::vector<TaskId> tasks;
    for (uint32_t task = first; task <= last; ++task) tasks.push_back(TaskId(task));
    return measure_tasks(graph, tasks, facts, {{graph.batch_symbol(), kSamples}}, {kCut, 1});
  }
  TaskTimes task(uint32_t index) const { return run(index, index).value(); }
  double output_bytes(uint32_t task) const {
    const ir::ValueType& type = graph.type(graph.outputs(TaskId(task))[0]);
    return static_cast<double>(ir::byte_size(type.dtype) *
                               *ir::element_count(*type.shape).evaluate({{graph.batch_symbol(), kSamples}}));
  }

  ir::Graph graph;
  GraphFacts facts;
};

TEST(MeasureTasks, PartsInputFromWeightGradients) {
  const Measured model(testing::skip_and_tie(ir::DType::kF32));
  const TaskTimes first = model.task(0);  // a linear layer on the model's input
  EXPECT_GT(first.forward_ns, 0);
  EXPECT_EQ(first.input_gradient_ns, 0);
  EXPECT_EQ(first.weight_gradient_ns, first.backward_ns);
  EXPECT_GT(first.backward_ns, 0);
  const TaskTimes relu = model.task(1);
  EXPECT_EQ(relu.weight_gradient_ns, 0);
  EXPECT_EQ(relu.input_gradient_ns, relu.backward_ns);
  EXPECT_GT(relu.backward_ns, 0);
  const TaskTimes inner = model.task(2);
  EXPECT_GT(inner.input_gradient_ns, 0);
  EXPECT_GT(inner.weight_gradient_ns, 0);
  EXPECT_GT(inner.backward_ns, 0);
}

TEST(MeasureTasks, CountsWhatIsKept) {
  const Measured model(testing::skip_and_tie(ir::DType::kF32));
  // relu keeps its result and lets go of what it was made of; gelu keeps what it reads, and its result is awaited.
  EXPECT_EQ(model.run(0, 1)->held_bytes, model.output_bytes(1));
  EXPECT_EQ(model.run(4, 5)->held_bytes, model.output_bytes(4) + model.output_bytes(5));
  EXPECT_GE(model.run(0, 8)->temporary_bytes, model.output_bytes(5));
}

TEST(MeasureTasks, RunsWholeModels) {
  for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kF64}) {
    for (const auto& make :
         {testing::skip_and_tie, testing::token_model, testing::dropout_model, testing::norm_model}) {
      const Measured model(make(dtype));
      const auto tasks = static_cast<uint32_t>(model.graph.task_count());
      for (uint32_t task = 0; task < tasks; ++task) {
        const auto times = model.run(task, task);
        ASSERT_TRUE(times.ok()) << times.diagnostic().str();
        EXPECT_GT(times->forward_ns, 0);
      }
      const auto whole = model.run(0, tasks - 1);
      ASSERT_TRUE(whole.ok()) << whole.diagnostic().str();
      EXPECT_GT(whole->backward_ns, 0);
      EXPECT_GT(whole->held_bytes, 0);
    }
  }
}

/// Tasks: mul(v2) linear tanh mul(w2) linear.
ir::Graph squared_weights() {
  return test::short_graph(
      "input x [batch,64] samples 0\nparameter v [64,64]\nparameter w [64,64]\nv2 = mul(v, v)\na = linear(x, v2)\n"
      "b = tanh(a)\nw2 = mul(w, w)\nc = linear(b, w2)\noutputs c\n",
      "f32");
}

TEST(MeasureTasks, PartsWorkOncePerStepFromMicroBatches) {
  const Measured model(squared_weights());
  const TaskTimes square = model.task(0);
  EXPECT_GT(square.begin_ns, 0);
  EXPECT_GT(square.backward_ns, 0) << "the gradient of the result arrives from outside";
  const TaskTimes reader = model.task(1);  // the weight is a parameter, the input has no gradient
  EXPECT_EQ(reader.begin_ns, 0);
  EXPECT_EQ(reader.gradients_ns, 0);
  EXPECT_EQ(reader.input_gradient_ns, 0);
  EXPECT_GT(reader.weight_gradient_ns, 0);
  const TaskTimes inner = model.task(4);
  EXPECT_GT(inner.input_gradient_ns, 0);
  EXPECT_GT(inner.weight_gradient_ns, 0);
  const TaskTimes whole = model.run(0, 4).value();
  EXPECT_GT(whole.begin_ns, 0);
  EXPECT_GT(whole.forward_ns, 0);
  EXPECT_GT(whole.backward_ns, 0);
  EXPECT_GT(whole.gradients_ns, 0);
}

TEST(MeasureTasks, RebuildsWhatTheBackwardPassReads) {
  const Measured model(squared_weights());
  const TaskTimes whole = model.run(0, 4).value();
  EXPECT_GT(whole.rebuild_ns, 0);
  EXPECT_THAT(whole.rebuilt, ::testing::ElementsAre(TaskId(1), TaskId(2))) << "nobody reads the last product";
  EXPECT_EQ(model.task(2).rebuild_ns, 0) << "as long as F";
}

TEST(MeasureTasks, NamesTheSizeItDoesNotKnow) {
  const Measured model(testing::skip_and_tie(ir::DType::kF32));
  const TaskId first(0);
  const auto times = measure_tasks(model.graph, {&first, 1}, model.facts, {}, {kCut, 1});
  ASSERT_FALSE(times.ok());
  EXPECT_THAT(times.diagnostic().message, ::testing::HasSubstr(model.graph.batch_symbol()));
}

}  // namespace
}  // namespace rannc::runtime
