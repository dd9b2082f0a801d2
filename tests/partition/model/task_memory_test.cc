// What tasks and blocks add to the memory of a stage, against numbers found by hand.
#include "partition/model/task_memory.h"

#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "partition/cost/analytic.h"
#include "partition/model/block_memory.h"
#include "partition/model/loop_prices.h"
#include "passes/training/differentiate.h"

namespace rannc::partition {
namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

const ir::Attributes kOutputFirst = {{"layout", std::string("oi")}};

/// Graphs of float32 over the batch symbol `n`, differentiated from their last value.
class Builder {
 public:
  Builder() { graph.set_batch_symbol("n"); }
  ValueId input(Shape rest, const std::string& name = "") {
    rest.insert(rest.begin(), Dim::symbol("n"));
    const ValueId value = graph.add_value(ir::ValueKind::kInput, name, {DType::kF32, std::move(rest), {.axis = 0}, {}});
    graph.add_input(value);
    return value;
  }
  ValueId parameter(Shape shape) {
    return graph.add_value(ir::ValueKind::kParameter, "", {DType::kF32, std::move(shape), {}, {}});
  }
  ValueId task(const char* op, std::initializer_list<ValueId> inputs, ir::Attributes attributes = {}) {
    const ValueId value = graph.add(ir::core(op), inputs, std::move(attributes));
    tasks.push_back(graph.producer(value));
    ir::infer_types(graph, tasks.back()).value();
    return value;
  }
  void differentiate() { differentiate({graph.outputs(tasks.back()).front()}); }
  void differentiate(std::vector<ValueId> returned) {
    passes::StageBorder border;
    border.returned = std::move(returned);
    joint = passes::differentiate(graph, border).value();
    memory.emplace(TaskMemory::of(graph, joint, {}, preset_cluster("local:1").value()).value());
  }
  double saved(ValueId result) const { return memory->saved(graph.producer(result)).at(1); }
  BlockMemory follow(const std::vector<TaskId>& block, const std::vector<ValueId>& sent = {}, uint64_t most = 1) const {
    return BlockFollower(*memory, 1, most).follow(block, sent, true);
  }

  ir::Graph graph;
  std::vector<TaskId> tasks;
  ir::Joint joint;
  std::optional<TaskMemory> memory;
};

/// x[4] -> linear -> h[8] -> gelu -> g[8] -> linear -> y[4] against t[4]: 16 and 32 bytes a sample, weights of 128.
struct TwoLayers : Builder {
  ValueId x = input({Dim(4)}), t = input({Dim(4)});
  ValueId w1 = parameter({Dim(8), Dim(4)}), w2 = parameter({Dim(4), Dim(8)});
  ValueId h = task("linear", {x, w1}, kOutputFirst);
  ValueId g = task("gelu", {h}, {{"approximate", std::string("none")}});
  ValueId y = task("linear", {g, w2}, kOutputFirst);
  ValueId loss = task("mse_sum", {y, t});
  TwoLayers() { differentiate(); }
};

TEST(TaskMemory, SavesWhatBackwardTasksRead) {
  const TwoLayers model;
  EXPECT_EQ(model.saved(model.h), 32) << "for gelu";
  EXPECT_EQ(model.saved(model.g), 32) << "for the gradient of w2";
  EXPECT_EQ(model.saved(model.y), 16) << "for the loss";
  EXPECT_EQ(model.saved(model.loss), 0);
  EXPECT_TRUE(model.memory->is_saved(model.h));
  EXPECT_FALSE(model.memory->is_saved(model.loss));
}

TEST(TaskMemory, SavesAuxiliaryResults) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), w = model.parameter({Dim(4), Dim(4)}), scale = model.parameter({Dim(4)});
  const ValueId normalized = model.task("layer_norm", {model.task("linear", {x, w}, kOutputFirst), scale});
  model.task("neg", {normalized});
  model.differentiate();
  EXPECT_EQ(model.saved(normalized), 4 + 4) << "mean and deviation; nothing reads the result";
}

// The scale's gradient comes from the kernel of I.
TEST(TaskMemory, NormalizationsHoldNothingForW) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), w = model.parameter({Dim(4), Dim(4)}), scale = model.parameter({Dim(4)});
  model.task("neg", {model.task("layer_norm", {model.task("linear", {x, w}, kOutputFirst), scale})});
  model.differentiate();
  EXPECT_EQ(model.follow({model.tasks[0]}).pending, 16 + 16) << "operand and gradient of the product";
  EXPECT_EQ(model.follow({model.tasks[1]}).pending, 0);
}

// A random input counts once, at its first reader.
TEST(TaskMemory, RandomInputsAreSavedAtTheirFirstReader) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), w = model.parameter({Dim(8), Dim(4)});
  const ValueId h = model.task("linear", {x, w}, kOutputFirst);
  const ValueId random =
      model.graph.add_random_input("", model.graph.type(h), {ir::RandomInput::Of::kBernoulli, 0.5, 1});
  const ValueId first = model.task("mul", {h, random}), second = model.task("mul", {first, random});
  model.differentiate();
  EXPECT_EQ(model.saved(first), 32);
  EXPECT_EQ(model.saved(second), 0);
  EXPECT_EQ(model.saved(h), 0);
}

TEST(TaskMemory, AViewSharesTheMemoryOfItsBase) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), w = model.parameter({Dim(4), Dim(4)});
  const ValueId a = model.task("tanh", {model.task("linear", {x, w}, kOutputFirst)});
  const ValueId wide = model.task("unsqueeze", {a}, {{"axes", Shape{Dim(1)}}});
  model.task("relu", {model.task("mul", {wide, wide})});
  model.differentiate();
  EXPECT_EQ(model.saved(a), 16);
  EXPECT_EQ(model.saved(wide), 0);
  EXPECT_TRUE(model.memory->is_saved(wide));
}

TEST(TaskMemory, ResultsOfOncePerStepTasksAreStored) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), w = model.parameter({Dim(4), Dim(4)});
  const ValueId minus = model.task("neg", {w}), power = model.task("exp", {minus});
  const ValueId y = model.task("linear", {x, power}, kOutputFirst);
  model.task("relu", {y});
  model.differentiate();
  EXPECT_TRUE(model.memory->is_stored(power));
  EXPECT_FALSE(model.memory->is_stored(minus)) << "only P reads it";
  EXPECT_FALSE(model.memory->is_stored(y));
  EXPECT_EQ(model.saved(power), 0);
}

TEST(TaskMemory, NamesTheValueOfUnknownSize) {
  Builder model;
  model.task("relu", {model.input({Dim::symbol("m")}, "images")});
  model.joint = passes::differentiate(model.graph, {}).value();
  const auto memory = TaskMemory::of(model.graph, model.joint, {}, preset_cluster("local:1").value());
  ASSERT_FALSE(memory.ok());
  EXPECT_NE(memory.diagnostic().message.find("'images' is unknown"), std::string::npos) << memory.diagnostic().str();
}

TEST(BlockMemory, FollowsBothPasses) {
  const TwoLayers model;
  const BlockMemory memory = model.follow(model.tasks, {}, 3);
  // y's gradient takes the place of y. The loss's, of 4 bytes, is gone by the time g's comes. Gradients of weights are
  // added to their sums without memory of their own.
  EXPECT_EQ(memory.least_temporary, 32 - 4);
  EXPECT_EQ(memory.temporary, 3 * 32 - 4);
  EXPECT_EQ(memory.pending, 3 * ((16 + 32) + (32 + 16))) << "operand and gradient of the result of each product";
}

TEST(BlockMemory, OfInferenceIncludesSamples) {
  TwoLayers model;
  model.differentiate({});
  EXPECT_EQ(BlockFollower(*model.memory, 1, 1).follow(model.tasks, {}, false).temporary, 16 + 16 + 32 + 32)
      << "h and g";
}

TEST(BlockMemory, HoldsReceivedGradients) {
  const TwoLayers model;
  EXPECT_EQ(model.follow({model.tasks[0], model.tasks[1]}, {model.g}).temporary, 32 + 32) << "of g, then of h";
}

TEST(BlockMemory, HoldsGradientsThatLeave) {
  const TwoLayers model;
  EXPECT_EQ(model.follow({model.tasks[2], model.tasks[3]}).temporary, 32 - 4) << "of g, after that of the loss";
}

// Three readers return one gradient.
TEST(BlockMemory, AddsUpGradientsThatLeave) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), w = model.parameter({Dim(4), Dim(4)});
  const ValueId a = model.task("linear", {x, w}, kOutputFirst);
  const ValueId left = model.task("linear", {a, w}, kOutputFirst), right = model.task("linear", {a, w}, kOutputFirst);
  const ValueId third = model.task("linear", {a, w}, kOutputFirst);
  model.task("add", {model.task("add", {left, right}), third});
  model.differentiate();
  const std::vector<TaskId> block(model.tasks.begin() + 1, model.tasks.begin() + 4);
  EXPECT_EQ(model.follow(block, {left, right, third}).temporary, 3 * 16 + 16 + 16)
      << "received gradients, the sum so far and one more part";
}

TEST(BlockMemory, IncludesWhatKernelsAllocate) {
  Builder model;
  const ValueId x = model.input({Dim(4), Dim(1), Dim(1)});
  const ValueId filters = model.parameter({Dim(8), Dim(4), Dim(1), Dim(1)});
  model.task("relu", {model.task("conv", {x, filters})});
  model.differentiate();
  // oneDNN's copies of operand and result, and of the filters or their gradient, all of 16 channels.
  constexpr double kBlocked = 16 * 16 * 4;
  EXPECT_GE(model.follow({model.tasks[0]}, {}, 16).temporary, 3 * kBlocked);
  EXPECT_LT(model.follow({model.tasks[1]}, {}, 16).temporary, kBlocked);
}

// x -> linear -> h -> gelu -> g, g + h -> z -> linear: a loop reads h and writes z, 64 bytes a sample instead of the
// 160 that its two tasks read and write one by one.
TEST(LoopPrices, AreThoseOfOneTask) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), t = model.input({Dim(4)});
  const ValueId h = model.task("linear", {x, model.parameter({Dim(8), Dim(4)})}, kOutputFirst);
  const ValueId g = model.task("gelu", {h}, {{"approximate", std::string("none")}});
  const ValueId z = model.task("add", {g, h});
  const ValueId y = model.task("linear", {z, model.parameter({Dim(4), Dim(8)})}, kOutputFirst);
  model.task("mse_sum", {y, t});
  model.differentiate();
  Cluster cluster = preset_cluster("local:1").value();
  cluster.kinds[0].launch_ns = 100;
  const ModelCosts alone = price_model(model.graph, cluster, *analytic_costs(), {1, 1000}, {}).value();
  const auto priced = [&](bool loops) {
    ModelCosts costs = alone;
    price_loops(TaskMemory::of(model.graph, model.joint, {}, cluster, loops).value(), cluster, 1000, costs);
    return costs;
  };
  const ModelCosts without = priced(false), with = priced(true);
  const auto temporary = [&](bool loops) {
    const TaskMemory memory = TaskMemory::of(model.graph, model.joint, {}, cluster, loops).value();
    return BlockFollower(memory, 1, 1).follow({model.graph.producer(g), model.graph.producer(z)}, {}, false).temporary;
  };
  EXPECT_LT(temporary(true), temporary(false)) << "g stays in registers";
  EXPECT_EQ(without.entry_of, alone.entry_of);
  for (const size_t size : {0, 1}) {
    for (const TaskId task : model.tasks) {
      const TaskCost &before = alone.of(0, size, task), &after = with.of(0, size, task);
      const bool joins = task == model.graph.producer(g) || task == model.graph.producer(z);
      const double expected = joins ? 100 / 2.0 + (before.forward_ns - 100) * 26 / 64 : before.forward_ns;
      EXPECT_DOUBLE_EQ(after.forward_ns, expected) << model.graph.op(task).name << ", size " << size;
    }
    // The gradient of gelu and its sum with that of the other way are a loop.
    const TaskId gelu = model.graph.producer(g), linear = model.graph.producer(h);
    EXPECT_LT(with.of(0, size, gelu).input_gradient_ns, alone.of(0, size, gelu).input_gradient_ns);
    EXPECT_EQ(with.of(0, size, linear).backward_ns(), alone.of(0, size, linear).backward_ns());
  }
}

}  // namespace
}  // namespace rannc::partition
