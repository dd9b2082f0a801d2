// Every gradient rule: its tasks give what LibTorch's tape gives for the operator's lowering, with the types they say.
#include "ir/gradient/gradient.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "ir/op/merged_calls.h"
#include "runtime/aten/aten_call.h"
#include "runtime/aten/graph_run.h"
#include "tests/codegen/joint_case.h"

namespace rannc::ir {
namespace {

using testing::Asked;
using testing::Joint;
using testing::OpCase;
using testing::Prepared;

/// Of the elements, relative to the largest: a few hundred roundings.
double tolerance_of(DType precision) { return precision == DType::kF64 ? 1e-10 : 1e-4; }

/// Same numbers, and of the type that the graph says.
void expect_gradient(const Joint& joint, ValueId value, const at::Tensor& found, const at::Tensor& expected,
                     int64_t batch, const Prepared& made, size_t operand) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_EQ(testing::sizes_of(*joint.graph.type(value).shape, batch), found.sizes().vec());
  EXPECT_EQ(found.scalar_type(), expected.scalar_type());
  const double scale = expected.numel() == 0 ? 1 : std::max(expected.abs().max().item<double>(), 1.0);
  const double tolerance = tolerance_of(made.operands[operand].type.dtype) * scale;
  EXPECT_TRUE(at::allclose(found, expected, 0, tolerance, /*equal_nan=*/true)) << "operand " << operand << "\n"
                                                                               << found << "\nagainst\n"
                                                                               << expected;
  const BatchLayout& place = joint.graph.type(value).batch;
  const BatchLayout& of = made.operands[operand].type.batch;
  EXPECT_TRUE(place.axis == of.axis && place.outer == of.outer && place.inner == of.inner)
      << "the gradient has its samples where its value has them";
  const bool sampled = std::any_of(made.operands.begin(), made.operands.end(),
                                   [](const testing::Operand& o) { return !o.absent && o.type.batch.has_batch(); });
  EXPECT_TRUE(!sampled || of.has_batch() || place.is_partial()) << "a sum over samples";
}

/// The same numbers in every second place, the last axis the slowest.
at::Tensor scattered(const at::Tensor& dense) {
  if (dense.dim() == 0) return dense;
  const at::Tensor turned = dense.movedim(-1, 0).contiguous();
  return at::stack({turned, turned}, -1).select(-1, 0).movedim(0, -1);
}

void compare(const OpCase& c, const Prepared& made, Asked requested, int64_t batch) {
  const Joint joint = join(c, made, requested);
  ASSERT_TRUE(joint.has_rule) << made.op->name << " has no gradient rule for this call";
  runtime::GraphValues values(joint.graph.value_count());
  std::vector<at::Tensor> leaves, results, seeds;
  std::vector<size_t> numbers;
  std::vector<at::Tensor> drawn = testing::drawn(made, batch);
  for (size_t k = 0, at = 0; k < made.operands.size(); ++k) {
    if (made.operands[k].absent) continue;
    at::Tensor tensor = drawn[at++];
    values[joint.graph.inputs(joint.task)[k].index()] = requested.scattered ? scattered(tensor) : tensor;
    if (!joint.given[k].valid()) continue;
    drawn[at - 1] = tensor.detach().clone().set_requires_grad(true);
    leaves.push_back(drawn[at - 1]);
    numbers.push_back(k);
  }
  if (leaves.empty()) return;
  const std::vector<at::Tensor> forward = testing::execute(made, drawn, batch);
  for (size_t i = 0; i < forward.size(); ++i) {
    if (i >= joint.seeds.size() || !joint.seeds[i].valid()) continue;
    const at::Tensor seed = at::randn_like(forward[i]);
    values[joint.seeds[i].index()] = requested.scattered ? scattered(seed) : seed;
    if (!forward[i].requires_grad()) continue;
    results.push_back(forward[i]);
    seeds.push_back(seed);
  }
  const auto expected = results.empty()
                            ? torch::autograd::variable_list(leaves.size())
                            : torch::autograd::grad(results, leaves, seeds, false, false, /*allow_unused=*/true);
  const auto ran = runtime::run_graph(joint.graph, {.sizes = {{"batch", batch}}}, values);
  ASSERT_TRUE(ran.ok()) << ran.diagnostic().str();
  for (size_t i = 0; i < leaves.size(); ++i) {
    const ValueId value = joint.given[numbers[i]];
    ASSERT_TRUE(value.valid()) << "no gradient was given for operand " << numbers[i];
    const at::Tensor wanted = expected[i].defined() ? expected[i] : at::zeros_like(leaves[i]);
    expect_gradient(joint, value, *values[value.index()], wanted, batch, made, numbers[i]);
  }
}

void compare_all(DType precision) {
  at::manual_seed(7);
  size_t compared = 0;
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, precision);
    if (!has_gradient(c, made)) continue;
    SCOPED_TRACE(describe(c));
    ++compared;
    for (const uint64_t mask : {~uint64_t{0}, uint64_t{1}, ~uint64_t{1}}) compare(c, made, {.wanted = mask}, 3);
    compare(c, made, {}, 1);
    compare(c, made, {.scattered = true}, 3);
    if (!has_several_results(c)) continue;
    for (uint32_t part = 0; part < c.outputs; ++part) {
      for (const uint64_t read : {uint64_t{1} << part, ~(uint64_t{1} << part)}) compare(c, made, {.read = read}, 3);
    }
  }
  EXPECT_GT(compared, 60U);
}

TEST(Gradients, AreThoseOfTheTape) { compare_all(DType::kF64); }
TEST(Gradients, AreThoseOfTheTapeInSinglePrecision) { compare_all(DType::kF32); }

// One task that runs the tape of the operator alone stands in for a rule.
TEST(Gradients, WithoutARuleAreOneTask) {
  at::manual_seed(9);
  size_t compared = 0;
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, DType::kF64);
    if (!has_gradient(c, made)) continue;
    SCOPED_TRACE(describe(c));
    compare(c, made, {.by_vjp = true}, 3);
    const Joint joint = join(c, made, {.by_vjp = true});
    EXPECT_LE(joint.graph.task_count(), 2U);
    ++compared;
  }
  EXPECT_GT(compared, 60U);
}

/// Runs the tasks of each merged call at once: the gradients are those of the tasks alone. Adds the calls of kernels
/// with the gradients that are wanted of them.
void run_merged(const OpCase& c, const Prepared& made, uint64_t wanted, std::set<std::string>& kernels) {
  const Joint joint = join(c, made, {.wanted = wanted});
  runtime::GraphValues values(joint.graph.value_count());
  const std::vector<std::optional<at::Tensor>> operands = testing::in_places(made, testing::drawn(made, 3));
  for (size_t k = 0; k < operands.size(); ++k) {
    if (operands[k]) values[joint.graph.inputs(joint.task)[k].index()] = *operands[k];
  }
  for (const ValueId seed : joint.seeds) {
    if (!seed.valid()) continue;
    const ValueType& type = joint.graph.type(seed);
    values[seed.index()] = at::randn(testing::sizes_of(*type.shape, 3), testing::scalar_type(type.dtype));
  }
  ASSERT_TRUE(runtime::run_graph(joint.graph, {.sizes = {{"batch", 3}}}, values).ok());
  std::vector<TaskId> tasks;
  for (const TaskId task : joint.graph.tasks()) tasks.push_back(task);
  std::vector<ir::Joint::Origin> origins(tasks.size(), ir::Joint::Origin{joint.task, Phase::kWeight});
  origins[joint.task.index()].phase = Phase::kForward;
  for (const MergedCall& call : merged_calls(joint.graph, origins, tasks)) {
    if (call.tasks.size() < 2) continue;
    std::vector<std::optional<at::Tensor>> given;
    std::vector<at::Tensor> expected;
    for (const TaskId task : call.tasks) {
      for (const ValueId input : joint.graph.inputs(task))
        given.push_back(input.valid() ? values[input.index()] : std::nullopt);
      expected.push_back(*values[joint.graph.outputs(task)[0].index()]);
    }
    for (const DeviceType device : {DeviceType::kCuda, DeviceType::kCpu}) {
      const aten::Lowering lowered = lowering(joint.graph, call, device).value();
      for (const aten::Call& each : lowered.calls) EXPECT_TRUE(runtime::check_call(each).ok()) << each.schema;
      const auto found = runtime::run_lowering(lowered, {.operands = given, .sizes = {{"batch", 3}}}).value();
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        const double tolerance = tolerance_of(made.operands[0].type.dtype) * expected[i].abs().max().item<double>();
        EXPECT_TRUE(at::allclose(found[i], expected[i], 0, tolerance)) << i << " of " << expected.size();
      }
    }
    std::string kernel = made.op->name;
    for (const TaskId task : call.tasks) kernel += " " + joint.graph.op(task).name;
    kernels.insert(kernel);
  }
}

TEST(Gradients, OfOneKernelAreThoseOfItsTasks) {
  at::manual_seed(11);
  std::set<std::string> kernels;
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, DType::kF64);
    if (!has_gradient(c, made)) continue;
    SCOPED_TRACE(describe(c));
    for (const uint64_t wanted : {3, 5, 6, 7}) run_merged(c, made, wanted, kernels);
  }
  EXPECT_EQ(kernels.size(), 12U) << "three of each kernel: of the bias, it needs that of the weight or scale beside it";
}

// A gradient in another format than its value costs a copy in each task that reads both.
TEST(Gradients, OfValuesThatAreChannelsLastAreChannelsLast) {
  const auto last = at::MemoryFormat::ChannelsLast;
  size_t compared = 0;
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, DType::kF32);
    const OpAttributes attributes(*made.op, made.attributes);
    if (!has_gradient(c, made) || !attributes.declares("channels_last") || !attributes.flag("channels_last")) continue;
    if (made.op == &core("contiguous")) continue;  // its operand has the other format
    SCOPED_TRACE(describe(c));
    const Joint joint = join(c, made, {.wanted = 1, .read = 1});
    runtime::GraphValues values(joint.graph.value_count());
    std::vector<at::Tensor> drawn = testing::drawn(made, 3);
    drawn[0] = drawn[0].contiguous(last);
    for (size_t k = 0; k < drawn.size(); ++k) values[joint.graph.inputs(joint.task)[k].index()] = drawn[k];
    const at::Tensor forward = testing::execute(made, drawn, 3)[0];
    ASSERT_TRUE(forward.is_contiguous(last));
    values[joint.seeds[0].index()] = at::randn_like(forward);
    const auto ran = runtime::run_graph(joint.graph, {.sizes = {{"batch", 3}}}, values);
    ASSERT_TRUE(ran.ok()) << ran.diagnostic().str();
    EXPECT_TRUE(values[joint.given[0].index()]->is_contiguous(last));
    ++compared;
  }
  EXPECT_GE(compared, 6U);
}

TEST(Gradients, OfConvolutionsByProductsAreProducts) {
  size_t seen = 0;
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, DType::kF32);
    if (made.op != &core("conv") || OpAttributes(*made.op, made.attributes).text("algorithm") != "linear") continue;
    const Joint joint = join(c, made);
    for (const TaskId task : joint.graph.tasks()) {
      EXPECT_FALSE(joint.graph.op(task).name.starts_with("core.conv_")) << joint.graph.op(task).name;
      seen += joint.graph.op(task).name == "core.matmul" ? 1 : 0;
    }
  }
  EXPECT_GE(seen, 4U);
}

// What becomes of weights before they meet samples: their gradients are sums over samples all the way back.
TEST(Gradients, OfPartialSumsArePartialSums) {
  size_t judged = 0;
  for (const OpCase& given : testing::op_cases()) {
    const OpCase c = testing::with_batch(given, 3);
    const Prepared made = testing::prepare(c, DType::kF64);
    if (!has_gradient(c, made)) continue;
    SCOPED_TRACE(describe(c));
    const Joint joint = join(c, made, {.mix = Mix::kPartial});
    for (const ValueId value : joint.given) {
      if (!value.valid()) continue;
      EXPECT_EQ(str(joint.graph.type(value).batch.mix), "partial");
      ++judged;
    }
  }
  EXPECT_GT(judged, 200U);
}

// A table cut to a length: its size is taken for that of the other operand, not for one that is stretched.
TEST(Gradients, OfSizesTakenForEqualAreNotSummed) {
  Graph graph;
  const auto input = [&](const char* name, const char* size) {
    return graph.add_value(ValueKind::kInput, name, {DType::kF64, Shape{Dim::parse(size).value()}, {}, {}});
  };
  const std::vector<ValueId> operands = {input("x", "s"), input("table", "min(40, s)")};
  const TaskId task = graph.producer(graph.add(core("add"), {operands[0], operands[1]}));
  ASSERT_TRUE(infer_types(graph, task).ok());
  const std::vector<ValueId> seeds = {input("g", "s")};
  const std::vector<bool> wanted = {false, true};
  GradientCall call(graph, task, seeds, wanted);
  ASSERT_TRUE(core("add").gradient(call));
  runtime::GraphValues values(graph.value_count());
  for (const ValueId value : {operands[0], operands[1], seeds[0]}) values[value.index()] = at::randn({9}, at::kDouble);
  ASSERT_TRUE(runtime::run_graph(graph, {.sizes = {{"s", 9}}}, values).ok());
  EXPECT_TRUE(at::equal(*values[call.given(1).index()], *values[seeds[0].index()]));
}

}  // namespace
}  // namespace rannc::ir
