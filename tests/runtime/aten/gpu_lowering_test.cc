// Lowerings for GPUs, as far as a processor can run their calls.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ir/op/op_memory.h"
#include "ir/program/lower_program.h"
#include "ir/text/text.h"
#include "runtime/aten/aten_call.h"
#include "runtime/engine/allocation_meter.h"
#include "runtime/flat/flat_program.h"
#include "tests/codegen/prepared_case.h"

namespace rannc::ir {
namespace {

using testing::OpCase;
using testing::Prepared;
using Tensors = std::vector<at::Tensor>;

constexpr int64_t kBatch = 3;

Result<aten::Lowering> lowered_for_gpus(const Prepared& made) {
  std::vector<const ValueType*> inputs, outputs;
  for (const testing::Operand& operand : made.operands) inputs.push_back(operand.absent ? nullptr : &operand.type);
  for (const ValueType& type : made.types) outputs.push_back(&type);
  return lowering({*made.op, inputs, outputs, made.attributes, DeviceType::kCuda});
}

std::vector<std::string> schemas_of(const aten::Lowering& lowering) {
  std::vector<std::string> found;
  for (const aten::Call& call : lowering.calls) found.push_back(call.schema);
  return found;
}

/// Kernels whose result's size, or whose number, the host reads. A recording of a GPU cannot hold them.
bool waits_for_the_host(const std::string& schema) {
  static const std::set<std::string> kNames = {
      "aten::coalesce",           "aten::nonzero", "aten::masked_select",       "aten::_unique2", "aten::unique_dim",
      "aten::unique_consecutive", "aten::item",    "aten::_local_scalar_dense", "aten::argwhere", "aten::bincount",
      "aten::repeat_interleave"};
  return kNames.contains(schema.substr(0, schema.find('.')));
}

/// Kernels that no processor has.
bool needs_gpu(const std::string& schema) { return schema.find("efficient_attention") != std::string::npos; }

/// `tensors`: one for each operand that is there.
Tensors run(const Prepared& made, const aten::Lowering& lowering, const Tensors& tensors) {
  const auto operands = testing::in_places(made, tensors);
  Tensors results = runtime::run_lowering(lowering, {.operands = operands, .sizes = {{"batch", kBatch}}}).value();
  for (at::Tensor& result : results) result = result.is_sparse() ? result.to_dense() : result;
  return results;
}

/// The call of attention that a call of its gradient belongs to.
OpCase forward_of(const OpCase& gradient) {
  std::vector<testing::Operand> operands(gradient.operands.begin() + 1, gradient.operands.begin() + 4);
  if (gradient.operands.size() > 6) operands.push_back(gradient.operands[6]);
  return {.op = "attention", .operands = std::move(operands), .attributes = gradient.attributes, .outputs = 2};
}

/// Operands that fit each other: a gradient of attention reads the results of its forward pass.
Tensors drawn(const OpCase& c, const Prepared& made) {
  at::manual_seed(4);
  Tensors tensors = testing::drawn(made, kBatch);
  if (c.op != "attention_grad") return tensors;
  const Prepared forward = testing::prepare(forward_of(c), DType::kF64);
  Tensors given(tensors.begin() + 1, tensors.begin() + 4);
  if (tensors.size() > 6) given.push_back(tensors[6]);
  const Tensors results = run(forward, forward.lowering, given);
  tensors[4] = results[0];
  tensors[5] = results[1];
  return tensors;
}

TEST(GpuLowerings, NeverWaitForTheHost) {
  size_t lowered = 0;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (const OpCase& c : testing::op_cases()) {
      const Prepared made = testing::prepare(c, dtype);
      const Result<aten::Lowering> found = lowered_for_gpus(made);
      if (!found.ok()) continue;  // kernels of a CPU
      ++lowered;
      for (const aten::Call& call : found->calls) {
        EXPECT_TRUE(runtime::check_call(call).ok()) << describe(c);
        EXPECT_FALSE(waits_for_the_host(call.schema)) << describe(c) << call.schema;
      }
    }
  }
  EXPECT_GT(lowered, 900U);
}

TEST(GpuLowerings, HaveTheNumbersOfTheProcessor) {
  std::set<std::string> compared;
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    for (const OpCase& c : testing::op_cases()) {
      const Prepared made = testing::prepare(c, dtype);
      const Result<aten::Lowering> found = lowered_for_gpus(made);
      if (!found.ok() || schemas_of(*found) == schemas_of(made.lowering)) continue;
      const std::vector<std::string> schemas = schemas_of(*found);
      if (std::any_of(schemas.begin(), schemas.end(), needs_gpu) || (c.op == "attention_grad" && dtype != DType::kF64))
        continue;
      SCOPED_TRACE(describe(c));
      const Tensors given = drawn(c, made);
      const Tensors results = run(made, *found, given), expected = run(made, made.lowering, given);
      ASSERT_EQ(results.size(), expected.size());
      const double tolerance = dtype == DType::kF64 ? 1e-12 : 1e-2;
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(results[i].sizes(), expected[i].sizes()) << i;
        // Rows that see nothing: the processor's kernel says 0 for the logarithm of their sum.
        const at::Tensor one = results[i].to(at::kDouble), other = expected[i].to(at::kDouble);
        EXPECT_TRUE(at::allclose(one, other, tolerance, tolerance)) << i << "\n" << one << "\n" << other;
      }
      compared.insert(c.op);
    }
  }
  EXPECT_EQ(compared,
            (std::set<std::string>{"attention", "attention_grad", "batch_norm_grad_scale", "gather_grad_rows"}));
}

TEST(GpuLowerings, GiveTheKernelOfABatchNormalizationsGradientAScale) {
  size_t judged = 0;
  for (const OpCase& c : testing::op_cases()) {
    if (!c.op.starts_with("batch_norm_grad")) continue;
    const Prepared made = testing::prepare(c, DType::kF32);
    const aten::Lowering found = lowered_for_gpus(made).value();
    EXPECT_TRUE(std::holds_alternative<aten::Value>(found.calls.back().arguments[2].value)) << describe(c);
    ++judged;
  }
  EXPECT_EQ(judged, 2U);
}

/// Attention of parts of a projection, and of keys whose places are consecutive in memory.
Graph attention_of_parts() {
  return parse_graph(R"(rannc.graph 1
batch b
input %x: bf16[b,96,72] samples 0
input %y: bf16[b,3,8,96] samples 0
#0 %q: bf16[b,96,24] samples 0, %k: bf16[b,96,24] samples 0, %v: bf16[b,96,24] samples 0 = core.split(%x) {axis = 2, sizes = [24,24,24]}
#1 %qr: bf16[b,96,3,8] samples 0 = core.reshape(%q) {shape = [b,96,3,8]}
#2 %kr: bf16[b,96,3,8] samples 0 = core.reshape(%k) {shape = [b,96,3,8]}
#3 %vr: bf16[b,96,3,8] samples 0 = core.reshape(%v) {shape = [b,96,3,8]}
#4 %qh: bf16[b,3,96,8] samples 0 = core.permute(%qr) {dims = [0,2,1,3]}
#5 %kh: bf16[b,3,96,8] samples 0 = core.permute(%kr) {dims = [0,2,1,3]}
#6 %vh: bf16[b,3,96,8] samples 0 = core.permute(%vr) {dims = [0,2,1,3]}
#7 %a: bf16[b,96,3,8] samples 0, %sums: f32[b,3,96] samples 0 = core.attention(%qh, %kh, %vh) {scale = 0x1p-1, order = [0,2,1,3]}
#8 %kt: bf16[b,3,96,8] samples 0 = core.permute(%y) {dims = [0,1,3,2]}
#9 %c: bf16[b,96,3,8] samples 0, %more: f32[b,3,96] samples 0 = core.attention(%qh, %kt, %vh) {scale = 0x1p-1, order = [0,2,1,3]}
inputs [%x, %y]
outputs [%a, %sums, %c, %more]
)",
                     "t.rir")
      .value();
}

/// Calls of `aten::contiguous` of a task.
int64_t copies_of(const Graph& graph, uint32_t task, DeviceType device) {
  ProgramLowering lowering(graph, {.device = device});
  std::vector<TaskId> tasks;
  for (const TaskId each : graph.tasks()) tasks.push_back(each);
  const std::vector<ValueId> arguments(graph.inputs().begin(), graph.inputs().end()),
      results(graph.outputs().begin(), graph.outputs().end());
  const Program program = lowering.lower({"", tasks, arguments, results}).value();
  int64_t copies = 0;
  for (const Instruction& of : program.instructions) {
    if (of.task() != TaskId(task)) continue;
    for (const aten::Call& call : of.lowering->calls) copies += call.schema == "aten::contiguous";
  }
  return copies;
}

// LibTorch's kernel for GPUs takes strides: only rows of features have to be in one piece.
TEST(GpuLowerings, CopyNoRowsForAttention) {
  const Graph graph = attention_of_parts();
  const Views views(graph);
  for (const auto& [task, strided] : {std::pair{7U, 3}, std::pair{9U, 2}}) {
    for (const DeviceType device : {DeviceType::kCpu, DeviceType::kCuda}) {
      const MemoryCall call(graph, TaskId(task), views, device);
      const int64_t expected = device == DeviceType::kCuda ? 3 - strided : 3;
      EXPECT_EQ(copies_of(graph, task, device), expected) << task;
      EXPECT_EQ(core("attention").copied(call).size(), static_cast<size_t>(expected)) << task;
    }
  }
}

/// Attention of queries and keys at 96 places, and its gradient, in f64: LibTorch's kernel for GPUs does not know it.
class AttentionByProducts : public ::testing::Test {
 protected:
  static constexpr int64_t kSamples = 2, kHeads = 3, kPlaces = 96, kFeatures = 8;

  ValueId input(const char* name, const Shape& shape) {
    return graph_.add_value(ValueKind::kInput, name, {.dtype = DType::kF64, .shape = shape});
  }
  TaskId task(const char* op, const std::vector<ValueId>& inputs, size_t outputs) {
    const TaskId task = graph_.add_task(core(op), inputs, {{"scale", 0.3}, {"order", Shape{0, 2, 1, 3}}},
                                        std::vector<std::string>(outputs));
    infer_types(graph_, task).value();
    return task;
  }

  /// Bytes of one run beside operands, and what the planner says.
  std::array<double, 2> measured_and_planned(TaskId task) {
    Tensors operands;
    std::vector<ValueId> arguments(graph_.inputs(task).begin(), graph_.inputs(task).end());
    for (const ValueId argument : arguments) {
      operands.push_back(at::rand(testing::sizes_of(*graph_.type(argument).shape, 1), at::kDouble));
    }
    const std::vector<ValueId> results(graph_.outputs(task).begin(), graph_.outputs(task).end());
    runtime::SizeTable sizes;
    const std::vector<TaskId> tasks = {task};
    ProgramLowering lowering(graph_, {.device = DeviceType::kCuda});
    runtime::FlatProgram program =
        runtime::FlatProgram::resolve(lowering.lower({"", tasks, arguments, results}).value(), {.device = at::kCUDA},
                                      sizes)
            .value();
    sizes.bind({}).value();
    const runtime::AllocationMeter meter;
    program.run(operands, {.fixed = {}}).value();
    Dim planned = graph_.op(task).temporary(MemoryCall(graph_, task, Views(graph_), DeviceType::kCuda));
    return {static_cast<double>(meter.peak_bytes()), static_cast<double>(planned.constant())};
  }

  Graph graph_;
};

TEST_F(AttentionByProducts, NeedsThePlannedMemory) {
  const Shape by_heads{kSamples, kHeads, kPlaces, kFeatures}, in_order{kSamples, kPlaces, kHeads, kFeatures};
  const ValueId q = input("q", by_heads), k = input("k", by_heads), v = input("v", by_heads);
  const ValueId gy = input("gy", in_order), y = input("y", in_order);
  const ValueId sums = input("sums", {kSamples, kHeads, kPlaces});
  for (const TaskId each : {task("attention", {q, k, v}, 2), task("attention_grad", {gy, q, k, v, y, sums}, 3)}) {
    const auto [measured, planned] = measured_and_planned(each);
    EXPECT_GT(planned, 2.0 * kSamples * kHeads * kPlaces * kPlaces * 8);
    EXPECT_NEAR(measured / planned, 1, 0.03)
        << graph_.op(each).name << ": " << measured << " bytes, planned " << planned;
  }
}

}  // namespace
}  // namespace rannc::ir
