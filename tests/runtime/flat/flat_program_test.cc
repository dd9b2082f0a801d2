// Calls of the flat programs of a stage's functions.
#include "runtime/flat/flat_program.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/op/op.h"
#include "ir/plan/functions.h"
#include "ir/program/lower_program.h"
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
  ir::ProgramLowering lowering(stage.joint.graph, {.origins = stage.joint.origins});
  return FlatProgram::resolve(
             lowering.lower({"", function.tasks, function.arguments, std::move(results), std::move(adds)}).value(), {},
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

/// Runs a linear layer on a view of a value of that shape. Checks that one product computes the bits of the contiguous
/// view.
void run_linear(const std::vector<int64_t>& stored, const char* view, const ir::Attributes& attributes,
                const std::function<at::Tensor(const at::Tensor&)>& same) {
  ir::Graph graph;
  const auto value = [&](const char* name, const std::vector<int64_t>& shape) {
    return graph.add_value(ir::ValueKind::kInput, name,
                           {.dtype = ir::DType::kF32, .shape = ir::Shape(shape.begin(), shape.end())});
  };
  const ValueId given = value("given", stored), weight = value("weight", {4, 8}), bias = value("bias", {4});
  const ValueId x = graph.add(ir::core(view), {given}, attributes);
  const ValueId y = graph.add(ir::core("linear"), {x, weight, bias}, {});
  for (const ValueId made : {x, y}) ir::infer_types(graph, graph.producer(made)).value();
  const std::vector<TaskId> tasks = {graph.producer(x), graph.producer(y)};
  SizeTable table;
  ir::ProgramLowering lowering(graph, {});
  FlatProgram program =
      FlatProgram::resolve(lowering.lower({"", tasks, {given, weight, bias}, {y}}).value(), {}, table).value();
  table.bind({}).value();
  const at::Tensor a = at::randn(stored), w = at::randn({4, 8}), b = at::randn({4});
  const Kernels recorded;
  const at::Tensor found = program.run({a, w, b}, {.fixed = {}}).value()[0];
  EXPECT_EQ(Kernels::count("aten::bmm"), 0U);
  EXPECT_EQ(Kernels::count("aten::addmm"), 1U);
  EXPECT_TRUE(at::equal(found, at::linear(same(a).contiguous(), w, b)));
}

TEST(FlatProgram, RowsOfAStackAreOneMatrix) {
  const auto permuted = [](const std::vector<int64_t>& stored, const std::vector<int64_t>& dims) {
    run_linear(stored, "permute", {{"dims", ir::Shape(dims.begin(), dims.end())}},
               [&](const at::Tensor& x) { return x.permute(dims); });
  };
  permuted({5, 3, 8}, {0, 1, 2});
  permuted({3, 5, 8}, {1, 0, 2});
  permuted({8, 5, 3}, {1, 2, 0});
}

TEST(FlatProgram, RowsOfAPartAreMultipliedAsAReceivedPart) {
  const auto one = [](int64_t value) { return ir::Shape{ir::Dim(value)}; };
  run_linear({5, 3, 16}, "slice", {{"axes", one(2)}, {"starts", one(4)}, {"ends", one(12)}, {"steps", one(1)}},
             [](const at::Tensor& x) { return x.narrow(2, 4, 8); });
}

/// A product of matrices of a type, which only a sum reads.
class AddedProduct : public ::testing::Test {
 protected:
  ir::Program lowered(ir::DType dtype, ir::DeviceType device) {
    const ValueId a = graph_.add_value(ir::ValueKind::kInput, "a", {.dtype = dtype, .shape = ir::Shape{8, 16}});
    const ValueId b = graph_.add_value(ir::ValueKind::kInput, "b", {.dtype = dtype, .shape = ir::Shape{16, 4}});
    const ValueId y = graph_.add(ir::core("matmul"), {a, b});
    ir::infer_types(graph_, graph_.producer(y)).value();
    const std::vector<TaskId> tasks = {graph_.producer(y)};
    lowering_.emplace(graph_, ir::LoweringOptions{.device = device});
    return lowering_->lower({"B", tasks, {a, b}, {}, {{y, 0}}}).value();
  }
  static bool adds_product(const ir::Program& program) {
    return program.instructions[0].kind == ir::Instruction::Kind::kAddProduct;
  }

  ir::Graph graph_;
  std::optional<ir::ProgramLowering> lowering_;
};

TEST_F(AddedProduct, OfSixteenBitsIsAddedByTheKernelOfAGpu) {
  for (const ir::DType dtype : {ir::DType::kF64, ir::DType::kF32, ir::DType::kBF16, ir::DType::kF16}) {
    for (const ir::DeviceType device : {ir::DeviceType::kCpu, ir::DeviceType::kCuda}) {
      graph_ = ir::Graph();
      const bool wide = ir::sum_dtype(dtype) == dtype;
      EXPECT_EQ(adds_product(lowered(dtype, device)), wide || device == ir::DeviceType::kCuda) << ir::str(dtype);
    }
  }
}

// The program of a GPU on a processor, which has no such kernel: the product is rounded, then added in float32.
TEST_F(AddedProduct, OfSixteenBitsIsRoundedOnAProcessor) {
  SizeTable sizes;
  FlatProgram program =
      FlatProgram::resolve(lowered(ir::DType::kBF16, ir::DeviceType::kCuda), {.device = at::kCPU}, sizes).value();
  sizes.bind({}).value();
  at::manual_seed(3);
  at::Tensor sum, expected;
  std::vector<at::Tensor*> places = {&sum};
  for (int call = 0; call < 3; ++call) {
    const at::Tensor a = at::randn({8, 16}).to(at::kBFloat16), b = at::randn({16, 4}).to(at::kBFloat16);
    program.run({a, b}, {.fixed = {}, .sums = places}).value();
    const at::Tensor product = at::mm(a, b).to(at::kFloat);
    expected = expected.defined() ? expected + product : product;
  }
  EXPECT_EQ(sum.scalar_type(), at::kFloat);
  EXPECT_TRUE(sum.equal(expected));
}

// LibTorch has the kernel, for GPUs alone. Its results are checked where there is one.
TEST_F(AddedProduct, HasAKernelOfLibTorch) {
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::addmm", "dtype_out"});
  ASSERT_TRUE(op.has_value());
  EXPECT_FALSE(op->hasKernelForDispatchKey(c10::DispatchKey::CPU));
}

}  // namespace
}  // namespace rannc::runtime
