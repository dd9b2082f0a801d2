// Calls of the flat programs of a stage's functions.
#include "runtime/aten/flat_program.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "ir/plan/functions.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

using ir::FunctionKind;

/// Number of calls of one function of a stage.
size_t calls(const ir::StageFunctions& stage, FunctionKind kind) {
  const ir::FunctionTable table = ir::function_table(stage);
  const ir::StageFunction& function = table[kind];
  std::vector<ValueId> results = function.results;
  results.insert(results.end(), function.kept.begin(), function.kept.end());
  std::vector<std::pair<ValueId, uint32_t>> adds;
  for (const ValueId value : function.added) adds.emplace_back(value, static_cast<uint32_t>(adds.size()));
  SizeTable sizes;
  return FlatProgram::build({.graph = stage.joint.graph,
                             .tasks = function.tasks,
                             .arguments = function.arguments,
                             .results = std::move(results),
                             .adds = std::move(adds)},
                            sizes)
      .value()
      .calls();
}

TEST(FlatProgram, TheKernelOfANormalizationIsCalledOnceWhereverIAndWRunApart) {
  const ir::Plan plan = testing::build_plan(testing::norm_model(ir::DType::kF32), {.cuts = {2}});
  for (const auto& stage : plan.functions) {
    EXPECT_EQ(calls(*stage, FunctionKind::kInput) + calls(*stage, FunctionKind::kWeight),
              calls(*stage, FunctionKind::kBackward));
  }
}

TEST(FlatProgram, OneKernelComputesScaleAndBiasInW) {
  const ir::Plan plan = testing::build_plan(testing::norm_model(ir::DType::kF32), {.cuts = {2}});
  EXPECT_EQ(calls(*plan.functions[0], FunctionKind::kWeight), 3U);  // the kernel, and two additions
}

thread_local std::vector<std::string> kernels;

/// Collects the operators that LibTorch calls in this thread.
class Kernels {
 public:
  Kernels() {
    kernels.clear();
    at::RecordFunctionCallback callback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
      kernels.emplace_back(call.name());
      return nullptr;
    });
    handle_ = at::addThreadLocalCallback(callback.scopes({at::RecordScope::FUNCTION}));
  }
  ~Kernels() { at::removeCallback(handle_); }
  static size_t count(std::string_view name) { return std::count(kernels.begin(), kernels.end(), name); }

 private:
  at::CallbackHandle handle_;
};

/// Runs a linear layer on [5, 3, 8] whose axes have this order in memory, outermost first. Checks its result.
void run_linear(const std::vector<int64_t>& order) {
  const ir::Shape sizes = {5, 3, 8};
  std::vector<int64_t> stored;
  for (const int64_t axis : order) stored.push_back(sizes[axis].constant());
  ir::Graph graph;
  const auto value = [&](const char* name, const std::vector<int64_t>& shape) {
    return graph.add_value(ir::ValueKind::kInput, name,
                           {.dtype = ir::DType::kF32, .shape = ir::Shape(shape.begin(), shape.end())});
  };
  const ValueId given = value("given", stored), weight = value("weight", {4, 8}), bias = value("bias", {4});
  ir::Shape back(3);
  for (int64_t i = 0; i < 3; ++i) back[order[i]] = i;
  const ValueId x = graph.add(ir::core("permute"), {given}, {{"dims", back}});
  const ValueId y = graph.add(ir::core("linear"), {x, weight, bias}, {});
  for (const ValueId made : {x, y}) ir::infer_types(graph, graph.producer(made)).value();
  const std::vector<TaskId> tasks = {graph.producer(x), graph.producer(y)};
  SizeTable table;
  FlatProgram program =
      FlatProgram::build({.graph = graph, .tasks = tasks, .arguments = {given, weight, bias}, .results = {y}}, table)
          .value();
  table.bind({}).value();
  const at::Tensor a = at::randn(stored), w = at::randn({4, 8}), b = at::randn({4});
  const Kernels recorded;
  const at::Tensor found = program.run({a, w, b}, {.fixed = {}}).value()[0];
  EXPECT_EQ(Kernels::count("aten::bmm"), 0U);
  EXPECT_EQ(Kernels::count("aten::addmm") + Kernels::count("aten::mm"), 1U);
  const std::vector<int64_t> dims = {back[0].constant(), back[1].constant(), back[2].constant()};
  EXPECT_TRUE(at::allclose(found, at::linear(a.permute(dims).contiguous(), w, b)));
}

TEST(FlatProgram, RowsOfAStackAreOneMatrix) {
  run_linear({0, 1, 2});
  run_linear({1, 0, 2});
  run_linear({2, 0, 1});
}

}  // namespace
}  // namespace rannc::runtime
