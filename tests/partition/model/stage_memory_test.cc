// What stages hold and need, against numbers found by hand.
#include "partition/model/stage_memory.h"

#include <gtest/gtest.h>

#include "ir/op/op.h"

namespace rannc::partition {
namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

/// Graphs of float32 over the batch symbol `n`.
class Builder {
 public:
  Builder() { graph.set_batch_symbol("n"); }
  ValueId input(Shape rest) {
    rest.insert(rest.begin(), Dim::symbol("n"));
    const ValueId value = graph.add_value(ir::ValueKind::kInput, "", {DType::kF32, std::move(rest), {.axis = 0}, {}});
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
  StageMemory follow(std::vector<TaskId> stage, std::vector<ValueId> sent, double samples) const {
    const Tape tape = Tape::of(graph, {}).value();
    return StageFollower(graph, tape).follow(stage, sent, samples);
  }

  ir::Graph graph;
  std::vector<TaskId> tasks;
};

const ir::Attributes kOutputFirst = {{"layout", std::string("oi")}};

/// x[4] -> linear -> h[8] -> gelu -> g[8] -> linear -> y[4] against t[4]: 16 and 32 bytes a sample, weights of 128.
struct TwoLayers : Builder {
  ValueId x = input({Dim(4)}), t = input({Dim(4)});
  ValueId w1 = parameter({Dim(8), Dim(4)}), w2 = parameter({Dim(4), Dim(8)});
  ValueId h = task("linear", {x, w1}, kOutputFirst);
  ValueId g = task("gelu", {h}, {{"approximate", std::string("none")}});
  ValueId y = task("linear", {g, w2}, kOutputFirst);
  ValueId loss = task("mse_sum", {y, t});
};

TEST(StageMemory, FollowsTheWholeModel) {
  const TwoLayers model;
  const StageMemory memory = model.follow(model.tasks, {}, 1);
  EXPECT_EQ(memory.inputs, 16 + 16);
  EXPECT_EQ(memory.saved, 32 + 32 + 32 + 16) << "h for gelu, g for the second product, y for the loss";
  EXPECT_EQ(memory.passing, 32 + 32 + 32) << "h and g";
  EXPECT_EQ(memory.forward, 112 + 4) << "and the loss";
  // y's gradient takes the place of y; then g's and that of w2 come before g goes.
  EXPECT_EQ(memory.backward, 16 - 16 + 32 + 128);
  // Both weights' gradients stay; by then g, h and their gradients are gone, and y's.
  EXPECT_EQ(memory.first_backward, 2 * 128 - 32 - 16);
  EXPECT_EQ(memory.pending, (16 + 32) + (32 + 16)) << "operand and gradient of the result of each product";
  const StageMemory triple = model.follow(model.tasks, {}, 3);
  EXPECT_EQ(triple.saved, 3 * 112);
  EXPECT_EQ(triple.backward, 3 * 32 + 128) << "gradients of parameters do not grow with the samples";
  EXPECT_EQ(triple.first_backward, 3 * 32 + 128) << "with more samples the peak is at the second product";
}

// I computes the gradients of a normalization's scale and bias beside that of its operand, so that nothing waits for W.
TEST(StageMemory, NormalizationsHoldNothingForW) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), t = model.input({Dim(4)});
  const ValueId w = model.parameter({Dim(4), Dim(4)}), scale = model.parameter({Dim(4)});
  const ValueId first = model.task("layer_norm", {x, scale});
  const ValueId h = model.task("linear", {first, w}, kOutputFirst);
  EXPECT_EQ(model.follow({model.tasks[1]}, {h}, 1).pending, 16 + 16);
  const ValueId second = model.task("layer_norm", {h, scale});
  model.task("mse_sum", {second, t});
  EXPECT_EQ(model.follow({model.tasks[1], model.tasks[2]}, {second}, 1).pending, 16 + 16);
  EXPECT_GT(model.follow({model.tasks[0]}, {first}, 1).pending, 16 + 16) << "nothing wants the gradient of x";
}

// A draw takes memory from where it is first read, once, and stays for the product's gradient.
TEST(StageMemory, DrawsLiveWhereTheyAreRead) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), t = model.input({Dim(4)});
  const ValueId w1 = model.parameter({Dim(8), Dim(4)}), w2 = model.parameter({Dim(4), Dim(8)});
  const ValueId h = model.task("linear", {x, w1}, kOutputFirst);
  const ValueId drawn =
      model.graph.add_random_input("", model.graph.type(h), {ir::RandomInput::Of::kBernoulli, 0.5, 1});
  const ValueId d = model.task("mul", {h, drawn});
  model.task("mse_sum", {model.task("linear", {d, w2}, kOutputFirst), t});
  const StageMemory memory = model.follow(model.tasks, {}, 1);
  EXPECT_EQ(memory.inputs, 16 + 16) << "a draw is no input";
  EXPECT_EQ(memory.saved, 32 + 32 + 32 + 16) << "samples, the draw, d for the product, y for the loss";
  EXPECT_EQ(memory.passing, 32 + 32 + 32 + 32) << "samples, h, the draw and d";
  EXPECT_EQ(memory.backward, 16 - 16 + 32 + 128) << "as without it";
  const Tape tape = Tape::of(model.graph, {}).value();
  EXPECT_EQ(tape.stash_bytes(model.graph.producer(d), 1), 32 + 32) << "d and the draw";
  EXPECT_EQ(model.follow(model.tasks, {}, 3).saved, 3 * 112);
}

// What a look-up in a table needs for its gradient: the table's size from the step's first on, and rows beside it where
// the table is large.
TEST(StageMemory, LargeTablesGetTheirGradientsAsRows) {
  for (const int64_t rows : {1024, 1023}) {
    SCOPED_TRACE(rows);
    Builder model;
    const ValueId table = model.parameter({Dim(rows), Dim(256)}), t = model.input({Dim(2), Dim(256)});
    const ValueId ids = model.graph.add_value(ir::ValueKind::kInput, "",
                                              {DType::kI64, Shape{Dim::symbol("n"), Dim(2)}, {.axis = 0}, {}});
    model.graph.add_input(ids);
    const ValueId found = model.task("gather", {table, ids}, {{"axis", int64_t{0}}});
    model.task("mse_sum", {model.task("tanh", {found}), t});
    const StageMemory memory = model.follow(model.tasks, {}, 1);
    const int64_t row_bytes = 2 * 256 * 4, table_bytes = rows * 256 * 4;
    EXPECT_EQ(memory.backward, rows == 1024 ? 2 * row_bytes : table_bytes);
    EXPECT_EQ(memory.first_backward, rows == 1024 ? table_bytes + row_bytes : table_bytes);
  }
}

// A product with a parameter that a task of its own transposes: its gradient is not there twice.
TEST(StageMemory, TransposedParametersPassTheirGradientsOn) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), t = model.input({Dim(8)}), w = model.parameter({Dim(8), Dim(4)});
  const ValueId turned = model.task("permute", {w}, {{"dims", Shape{Dim(1), Dim(0)}}});
  model.task("mse_sum", {model.task("matmul", {x, turned}), t});
  const StageMemory memory = model.follow(model.tasks, {}, 1);
  EXPECT_EQ(memory.backward, 128) << "y's gradient has taken the place of y";
  EXPECT_EQ(memory.first_backward, 128 - 32 + 128) << "by then it is gone, and the sum is made beside the gradient";
}

TEST(StageMemory, ConvolutionsNeedWhatTheirKernelsAllocate) {
  Builder model;
  const ValueId x = model.input({Dim(4), Dim(1), Dim(1)}), t = model.input({Dim(8), Dim(1), Dim(1)});
  const ValueId filters = model.parameter({Dim(8), Dim(4), Dim(1), Dim(1)});
  model.task("mse_sum", {model.task("conv", {x, filters}), t});
  // The result's gradient has taken the place of the result. LibTorch's own kernel reads the image as it lies.
  EXPECT_EQ(model.follow(model.tasks, {}, 1).backward, 128) << "the filters' gradient alone";
  // oneDNN's copies of both operands, or of operand and result, and its filters, all of 16 channels.
  constexpr double kBlocked = 16 * 16 * 4;
  const StageMemory memory = model.follow(model.tasks, {}, 16);
  EXPECT_EQ(memory.backward, 3 * kBlocked) << "by then the filters' gradient is not there";
  EXPECT_EQ(memory.forward, 16 * (4 + 8) * 4 + 3 * kBlocked) << "beside the samples and labels";
}

TEST(StageMemory, FollowsAStageThatSends) {
  const TwoLayers model;
  const StageMemory memory = model.follow({model.tasks[0], model.tasks[1]}, {model.g}, 1);
  EXPECT_EQ(memory.inputs, 16);
  EXPECT_EQ(memory.saved, 16 + 32 + 32) << "what is sent stays, though no task here reads it again";
  EXPECT_EQ(memory.backward, 128) << "h's gradient comes and h goes, then the gradient of w1";
}

TEST(StageMemory, FollowsAStageThatReceives) {
  const TwoLayers model;
  const StageMemory memory = model.follow({model.tasks[2], model.tasks[3]}, {}, 1);
  EXPECT_EQ(memory.inputs, 32 + 16) << "the received value stays with recompute too";
  EXPECT_EQ(memory.saved, 48 + 16);
  EXPECT_EQ(memory.forward, 16 + 16 + 4) << "received values were there before";
  EXPECT_EQ(memory.backward, 16 - 16 + 32 + 128);
}

TEST(StageMemory, AViewSharesTheMemoryOfItsBase) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), w = model.parameter({Dim(4), Dim(4)});
  const ValueId a = model.task("tanh", {model.task("linear", {x, w}, kOutputFirst)});
  const ValueId wide = model.task("unsqueeze", {a}, {{"axes", Shape{Dim(1)}}});
  const ValueId b = model.task("tanh", {wide});
  // Both tanh keep their results; the first product's result is read once and goes.
  const StageMemory memory = model.follow(model.tasks, {}, 1);
  EXPECT_EQ(memory.saved, 16 + 16 + 16);
  const Tape tape = Tape::of(model.graph, {}).value();
  EXPECT_EQ(tape.base(wide), a);
  EXPECT_TRUE(tape.is_kept(a));
  EXPECT_EQ(tape.base(b), b);
}

TEST(StageMemory, AValueThatTwoTasksKeepCountsOnce) {
  Builder model;
  const ValueId x = model.input({Dim(4)}), w = model.parameter({Dim(4), Dim(4)});
  const ValueId a = model.task("linear", {x, w}, kOutputFirst);
  const ValueId left = model.task("linear", {a, w}, kOutputFirst), right = model.task("linear", {a, w}, kOutputFirst);
  model.task("add", {left, right});
  const StageMemory memory = model.follow(model.tasks, {}, 1);
  EXPECT_EQ(memory.saved, 16 + 16) << "x, and a for both products; sums keep nothing";
  EXPECT_EQ(memory.pending, 16 + 16 + 16 + 16 + 16) << "x, a, and three gradients";
}

}  // namespace
}  // namespace rannc::partition
