// Which gradient tasks are merged into one call of their kernel.
#include "ir/op/merged_calls.h"

#include <gtest/gtest.h>

#include "ir/op/op.h"

namespace rannc::ir {
namespace {

using Ids = std::vector<ValueId>;
using Tasks = std::vector<TaskId>;

/// Tasks over values of eight samples.
class MergedCalls : public ::testing::Test {
 protected:
  MergedCalls() { graph_.set_batch_symbol("batch"); }

  ValueId value(std::string_view name, Shape shape, bool samples = true) {
    ValueType type;
    type.dtype = DType::kF32;
    type.shape = std::move(shape);
    if (samples) type.batch = {0, 1, 1};
    return graph_.add_value(samples ? ValueKind::kInput : ValueKind::kParameter, name, type);
  }

  /// Adds a gradient task of `origin_`.
  TaskId add(std::string_view op, const Ids& operands, const Attributes& attributes) {
    const std::vector<std::string> names = {"v" + std::to_string(graph_.task_count())};
    const TaskId task = graph_.add_task(core(op), operands, attributes, names);
    const auto types = infer_types(graph_, task);
    EXPECT_TRUE(types.ok()) << types.diagnostic().str();
    tasks_.push_back(task);
    origins_.push_back({origin_, Phase::kInput});
    return task;
  }

  ValueId result(TaskId task) const { return graph_.outputs(task)[0]; }

  std::vector<Tasks> merged(const Tasks& apart = {}) const {
    std::vector<Tasks> found;
    for (const MergedCall& call : merged_calls(graph_, origins_, tasks_, apart)) found.push_back(call.tasks);
    return found;
  }

  /// Lowers the first call.
  aten::Lowering lowered(DeviceType device = DeviceType::kCpu) const {
    return lowering(graph_, merged_calls(graph_, origins_, tasks_)[0], device).value();
  }

  void unrelated(int count) {
    for (int i = 0; i < count; ++i) add("relu", {gy_}, {});
  }

  /// The gradients of a convolution: of its images, weight and bias.
  Tasks convolution(int between = 0, const Shape& pads = {1, 1, 1, 1}) {
    const Attributes window = {{"pads", pads}};
    Attributes of_x = window, of_weight = window;
    of_x.set("sizes", Shape{6, 6});
    of_weight.set("kernel", Shape{3, 3});
    Tasks tasks = {add("conv_grad_input", {gy_, weight_}, of_x)};
    unrelated(between);
    tasks.push_back(add("conv_grad_weight", {gy_, x_}, of_weight));
    unrelated(between);
    tasks.push_back(add("sum", {gy_}, {{"axes", Shape{0, 2, 3}}}));
    return tasks;
  }

  Graph graph_;
  Tasks tasks_;
  std::vector<Joint::Origin> origins_;
  TaskId origin_ = TaskId(0);  ///< of tasks to come
  const Dim batch_ = Dim::symbol("batch");
  const ValueId gy_ = value("gy", {batch_, 8, 6, 6}), x_ = value("x", {batch_, 4, 6, 6}),
                weight_ = value("weight", {8, 4, 3, 3}, false);
};

TEST_F(MergedCalls, OneCallComputesAllGradientsOfAConvolution) {
  const Tasks tasks = convolution();
  EXPECT_EQ(merged(), (std::vector<Tasks>{tasks}));
  const aten::Lowering lowering = lowered();
  ASSERT_EQ(lowering.calls.size(), 1U) << "placeholders are left out";
  EXPECT_EQ(lowering.calls[0].schema, "aten::convolution_backward");
  EXPECT_EQ(lowering.calls[0].arguments.back(), aten::Argument(std::vector<bool>{true, true, true}));
  EXPECT_EQ(lowering.results, (std::vector<aten::Value>{aten::Made{0, 0}, aten::Made{0, 1}, aten::Made{0, 2}}));
}

// Whatever stands between them, in tasks and in calls.
TEST_F(MergedCalls, TasksFarApartAreMerged) {
  const Tasks tasks = convolution(40);
  const std::vector<Tasks> found = merged();
  EXPECT_EQ(found[0], tasks);
  EXPECT_EQ(found.size(), 81U);
}

// The images are padded by a call of their own, which then precedes the kernel.
TEST_F(MergedCalls, PadsThatDifferArePartOfTheCall) {
  convolution(0, {2, 2, 0, 0});
  EXPECT_EQ(merged().size(), 1U);
  EXPECT_EQ(lowered().calls[0].schema, "aten::constant_pad_nd");
}

TEST_F(MergedCalls, SumsOverOtherAxesStayApart) {
  Tasks tasks = convolution();
  tasks_.pop_back();
  const TaskId sum = add("sum", {gy_}, {{"axes", Shape{0, 1, 2}}});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{tasks[0], tasks[1]}, {sum}}));
}

// The kernel of a transposed convolution has the operand in the place of the result's gradient.
TEST_F(MergedCalls, SumsOfOtherValuesStayApart) {
  Tasks tasks = convolution();
  tasks_.pop_back();
  const TaskId sum = add("sum", {x_}, {{"axes", Shape{0, 2, 3}}});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{tasks[0], tasks[1]}, {sum}}));
}

TEST_F(MergedCalls, TasksThatReadLaterResultsStayApart) {
  const TaskId first = add("conv_grad_input", {gy_, weight_}, {{"pads", Shape{1, 1, 1, 1}}, {"sizes", Shape{6, 6}}});
  const TaskId between = add("relu", {x_}, {});
  const TaskId last =
      add("conv_grad_weight", {gy_, result(between)}, {{"pads", Shape{1, 1, 1, 1}}, {"kernel", Shape{3, 3}}});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{first}, {between}, {last}}));
}

TEST_F(MergedCalls, TasksOfTheCallerStayApart) {
  const Tasks tasks = convolution();
  EXPECT_EQ(merged({tasks[0]}), (std::vector<Tasks>{{tasks[0]}, {tasks[1], tasks[2]}}));
  EXPECT_EQ(merged({tasks[2]}), (std::vector<Tasks>{{tasks[0], tasks[1]}, {tasks[2]}})) << "a sum too";
}

// Both call operators whose lowering has several calls and no kernel in common.
TEST_F(MergedCalls, GradientsWithoutACommonKernelStayApart) {
  const ValueId gy = value("rows", {batch_, 8}), x = value("x_rows", {batch_, 8}), rstd = value("rstd", {batch_, 1});
  const TaskId input = add("rms_norm_grad_input", {gy, x, rstd}, {}),
               scale = add("rms_norm_grad_scale", {gy, x, rstd}, {});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{input}, {scale}}));
}

TEST_F(MergedCalls, GradientsOfOtherKernelsStayApart) {
  const ValueId gy = value("gy2", {batch_, 4, 6, 6}), mean = value("mean", {4}, false),
                rstd = value("rstd", {4}, false), scale = value("scale", {4}, false);
  const TaskId weight = add("conv_grad_weight", {gy, x_}, {{"pads", Shape{1, 1, 1, 1}}, {"kernel", Shape{3, 3}}}),
               input = add("batch_norm_grad_input", {gy, x_, scale, mean, rstd}, {});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{weight}, {input}}));
}

// The operands of a group normalization are made contiguous first: once for both.
TEST_F(MergedCalls, CallsBeforeAKernelAreMadeOnce) {
  const ValueId gy = value("gy2", {batch_, 4, 6, 6}), mean = value("mean", {batch_, 2}),
                rstd = value("rstd", {batch_, 2}), scale = value("scale", {4}, false);
  const Attributes groups = {{"groups", Dim(2)}};
  const TaskId input = add("group_norm_grad_input", {gy, x_, mean, rstd, scale}, groups);
  const TaskId of_scale = add("group_norm_grad_scale", {gy, x_, mean, rstd}, groups);
  const TaskId of_bias = add("sum", {gy}, {{"axes", Shape{0, 2, 3}}});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{input, of_scale, of_bias}}));
  EXPECT_EQ(lowered().calls.size(), 6U) << "five copies and the kernel";
}

// CUDA's kernel of a batch normalization's gradients fails without a scale.
TEST_F(MergedCalls, ABatchNormalizationsKernelForGpusHasAScale) {
  const ValueId gy = value("gy2", {batch_, 4, 6, 6}), mean = value("mean", {4}, false),
                rstd = value("rstd", {4}, false), scale = value("scale", {4}, false);
  const auto scale_of_kernel = [&](const Tasks& tasks) {
    EXPECT_EQ(merged(), (std::vector<Tasks>{tasks}));
    const aten::Lowering lowering = lowered(DeviceType::kCuda);
    EXPECT_EQ(lowering.calls.back().schema, "aten::native_batch_norm_backward");
    return std::get<aten::Value>(lowering.calls.back().arguments[2].value);
  };
  Tasks tasks = {add("batch_norm_grad_scale", {gy, x_, mean, rstd}, {}), add("sum", {gy}, {{"axes", Shape{0, 2, 3}}})};
  EXPECT_EQ(scale_of_kernel(tasks), aten::Value(aten::Made{0, 0})) << "memory of its size";
  tasks.push_back(add("batch_norm_grad_input", {gy, x_, scale, mean, rstd}, {}));
  EXPECT_EQ(std::get<aten::Operand>(scale_of_kernel(tasks)).index, 7U) << "of the gradient of x";
}

// Both branches of a sum get its gradient. The images of the first one need none.
TEST_F(MergedCalls, GradientsOfOtherTasksStayApart) {
  const Attributes window = {{"pads", Shape{1, 1, 1, 1}}};
  Attributes of_weight = window;
  of_weight.set("kernel", Shape{3, 3});
  const TaskId other = add("conv_grad_weight", {gy_, x_}, of_weight);
  origin_ = TaskId(1);
  const Tasks tasks = convolution();
  EXPECT_EQ(merged(), (std::vector<Tasks>{{other}, tasks}));
}

TEST_F(MergedCalls, GradientsOfOneOriginWithOtherOperandsStayApart) {
  const ValueId gy = value("gy2", {batch_, 4, 6, 6}), mean = value("mean", {4}, false),
                rstd = value("rstd", {4}, false), scale = value("scale", {4}, false);
  const TaskId input = add("batch_norm_grad_input", {gy, x_, scale, mean, rstd}, {}),
               of_scale = add("batch_norm_grad_scale", {gy, x_, rstd, mean}, {});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{input}, {of_scale}}));
}

TEST_F(MergedCalls, GradientsOfOneOriginWithOtherAttributesStayApart) {
  const TaskId input = add("conv_grad_input", {gy_, weight_}, {{"pads", Shape{1, 1, 1, 1}}, {"sizes", Shape{6, 6}}}),
               of_weight = add("conv_grad_weight", {gy_, x_}, {{"pads", Shape{2, 2, 0, 0}}, {"kernel", Shape{3, 3}}});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{input}, {of_weight}}));
}

TEST_F(MergedCalls, EqualGradientsStayApart) {
  const Attributes of_weight = {{"pads", Shape{1, 1, 1, 1}}, {"kernel", Shape{3, 3}}};
  const TaskId one = add("conv_grad_weight", {gy_, x_}, of_weight),
               other = add("conv_grad_weight", {gy_, x_}, of_weight);
  EXPECT_EQ(merged(), (std::vector<Tasks>{{one}, {other}}));
}

TEST_F(MergedCalls, TheBiasStaysApartWithoutTheWeight) {
  const TaskId input = add("conv_grad_input", {gy_, weight_}, {{"pads", Shape{1, 1, 1, 1}}, {"sizes", Shape{6, 6}}}),
               bias = add("sum", {gy_}, {{"axes", Shape{0, 2, 3}}});
  EXPECT_EQ(merged(), (std::vector<Tasks>{{input}, {bias}}));
}

TEST_F(MergedCalls, NothingIsMergedWithoutOrigins) {
  convolution();
  origins_.clear();
  EXPECT_EQ(merged().size(), 3U);
}

}  // namespace
}  // namespace rannc::ir
