// Attention and LSTM in joint graphs: gradients by their kernels, without autograd, are those of LibTorch's tape.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/op/op.h"
#include "ir/verify.h"
#include "passes/training/differentiate.h"
#include "tests/codegen/joint_run.h"
#include "tests/codegen/prepared_case.h"
#include "tests/codegen/tape_gradients.h"

namespace rannc::test {
namespace {

using ir::DType;
using ir::Graph;
using ir::Joint;
using ir::ValueKind;
using ir::testing::b;
using ir::testing::dims;
using ir::testing::f;
using ir::testing::none;
using ir::testing::OpCase;

/// Relative to the largest element of a gradient: a few roundings. The kernels are the tape's own.
double tolerance_of(DType precision) {
  if (ir::byte_size(precision) == 2) return precision == DType::kBF16 ? 2e-2 : 2e-3;
  return precision == DType::kF64 ? 1e-10 : 1e-5;
}

constexpr int64_t kBatch = 3;

/// Operands without samples are parameters; those with samples are inputs times parameters that are alike for all of
/// them. Each result of `read` is under a loss of its own.
struct Model {
  Graph graph;
  runtime::GraphValues leaves;
};

class Builder {
 public:
  explicit Builder(const ir::testing::Prepared& made) : made_(made) { model_.graph.set_batch_symbol("batch"); }

  Model build(const std::vector<bool>& constant, uint64_t read) && {
    std::vector<ValueId> operands;
    for (size_t k = 0; k < made_.operands.size(); ++k)
      operands.push_back(operand(k, k < constant.size() && constant[k]));
    const std::vector<std::string> names(made_.types.size());
    const TaskId task = model_.graph.add_task(*made_.op, operands, made_.attributes, names);
    infer(task);
    for (size_t i = 0; i < names.size(); ++i) {
      if ((read >> i & 1) != 0) add_loss(model_.graph.outputs(task)[i], i);
    }
    return std::move(model_);
  }

 private:
  void infer(TaskId task) {
    const auto typed = ir::infer_types(model_.graph, task);
    EXPECT_TRUE(typed.ok()) << typed.diagnostic().str();
  }

  ValueId leaf(ValueKind kind, const std::string& name, const ir::testing::Operand& operand) {
    const ValueId made = model_.graph.add_value(kind, name, operand.type);
    if (kind == ValueKind::kInput) model_.graph.add_input(made);
    model_.leaves.emplace_back(ir::testing::draw(operand, kBatch));
    return made;
  }

  ValueId apply(std::string_view op, std::initializer_list<ValueId> operands, const std::string& name) {
    const ValueId made = model_.graph.add(ir::core(op), operands, {}, name);
    model_.leaves.emplace_back();
    infer(model_.graph.producer(made));
    return made;
  }

  ValueId operand(size_t k, bool constant) {
    const ir::testing::Operand& operand = made_.operands[k];
    const std::string number = std::to_string(k);
    if (operand.absent) return {};
    const bool sampled = operand.type.batch.has_batch(), trained = ir::is_float(operand.type.dtype) && !constant;
    if (!sampled) return leaf(trained ? ValueKind::kParameter : ValueKind::kBuffer, "p" + number, operand);
    const ValueId x = leaf(ValueKind::kInput, "x" + number, operand);
    if (!trained) return x;
    ir::testing::Operand factors = operand;
    (*factors.type.shape)[static_cast<size_t>(operand.type.batch.axis)] = 1;
    factors.type.batch = {};
    return apply("mul", {x, leaf(ValueKind::kParameter, "p" + number, factors)}, "o" + number);
  }

  void add_loss(ValueId result, size_t i) {
    ir::testing::Operand target;
    target.type = model_.graph.type(result);
    model_.leaves.resize(model_.graph.value_count());
    const ValueId labels = leaf(ValueKind::kInput, "t" + std::to_string(i), target);
    model_.graph.add_loss({.numerator = apply("mse_sum", {result, labels}, "l" + std::to_string(i))});
  }

  const ir::testing::Prepared& made_;
  Model model_;
};

/// Runs micro-batches of `each` samples. Parameters require gradients, as those of a module do.
JointRun::Step by_tasks(const Model& model, const Joint& joint, int64_t each) {
  const Graph& graph = model.graph;
  runtime::GraphValues leaves(joint.graph.value_count());
  std::vector<JointRun::MicroBatch> parts;
  for (int64_t begin = 0; begin < kBatch; begin += each)
    parts.push_back({runtime::GraphValues(joint.graph.value_count()), {{"batch", each}}});
  for (const ValueId value : graph.values()) {
    if (graph.producer(value).valid()) continue;
    const size_t copy = joint.graph.find(graph.value(value).name).index();
    const at::Tensor& tensor = *model.leaves[value.index()];
    const ir::BatchLayout& batch = graph.type(value).batch;
    if (graph.kind(value) != ValueKind::kInput)
      leaves[copy] = tensor.clone().set_requires_grad(graph.kind(value) == ValueKind::kParameter);
    for (size_t i = 0; i < parts.size() && graph.kind(value) == ValueKind::kInput; ++i)
      parts[i].inputs[copy] = tensor.narrow(batch.axis, static_cast<int64_t>(i) * each, each).clone();
  }
  auto run = JointRun::load(joint, std::move(leaves));
  EXPECT_TRUE(run.ok()) << run.diagnostic().str();
  auto step = run->step(parts, std::vector<double>(graph.losses().size(), 1.0));
  EXPECT_TRUE(step.ok()) << step.diagnostic().str();
  return *std::move(step);
}

void expect_tape(const Model& model, const Joint& joint, DType precision, int64_t each) {
  const std::vector<double> seeds(model.graph.losses().size(), 1.0);
  const auto expected = gradients_by_tape(model.graph, {{"batch", kBatch}}, model.leaves, seeds).value().gradients;
  size_t parameters = 0;
  for (const ValueId value : model.graph.values()) parameters += model.graph.kind(value) == ValueKind::kParameter;
  ASSERT_EQ(expected.size(), parameters) << "every parameter has a gradient";
  const JointRun::Step step = by_tasks(model, joint, each);
  EXPECT_EQ(joint.gradients.size(), expected.size());
  for (size_t i = 0; i < joint.gradients.size(); ++i) {
    const std::string name(joint.graph.value(joint.gradients[i].parameter).name);
    const at::Tensor& gradient = expected.at(name);
    const at::Tensor found = step.gradients[i].to(gradient.scalar_type());
    EXPECT_FALSE(step.gradients[i].requires_grad()) << name;
    const double scale = std::max(gradient.abs().max().item<double>(), 1e-2);
    EXPECT_TRUE(at::allclose(found, gradient, 0, tolerance_of(precision) * scale))
        << name << " differs by " << (found - gradient).abs().max().item<double>() / scale;
  }
  const auto derived = kept_bytes(joint, {{"batch", each}});
  ASSERT_TRUE(derived.ok()) << derived.diagnostic().str();
  EXPECT_EQ(step.kept_bytes, *derived);
}

struct Case {
  OpCase call;
  std::string op;                   ///< an operator of the gradient
  std::vector<bool> constant = {};  ///< operands that want no gradient
  uint64_t read = ~uint64_t{0};     ///< results under a loss
};

void check(const Case& c, DType precision) {
  SCOPED_TRACE(describe(c.call));
  const ir::testing::Prepared made = prepare(c.call, precision);
  const Model model = Builder(made).build(c.constant, c.read);
  const auto joint = passes::differentiate(model.graph);
  ASSERT_TRUE(joint.ok()) << joint.diagnostic().str();
  const auto wrong = ir::verify(*joint, model.graph);
  ASSERT_TRUE(wrong.empty()) << wrong[0].str();
  std::set<std::string> ops;
  for (const TaskId task : joint->graph.tasks()) ops.insert(joint->graph.op(task).name);
  EXPECT_TRUE(ops.contains(c.op)) << "no " << c.op << " in\n" << print(*joint);
  for (const int64_t each : {kBatch, int64_t{1}}) expect_tape(model, *joint, precision, each);
}

ir::Attributes attention(double scale, std::string_view order) { return {{"scale", scale}, {"order", dims(order)}}; }

/// A mask that hides all positions.
ir::testing::Operand all_hidden(std::string_view shape) {
  ir::testing::Operand mask = b(shape);
  mask.high = 1;
  return mask;
}

std::vector<Case> attention_cases(DType precision) {
  const std::string fused = "core.attention_grad", tape = "vjp.core.attention";
  const std::string of_mask = ir::byte_size(precision) == 2 ? tape : "core.exp";
  const auto order = attention(0.5, "0,2,1,3");
  const auto q = f("batch,2,5,4"), k = f("batch,2,7,4"), wide = f("batch,2,7,6");
  const std::vector<bool> fixed_mask = {false, false, false, true};
  return {
      {{"attention", {q, k, k}, order}, fused},
      {{"attention", {q, k, k}, attention(0.5, "3,0,1,2")}, fused},
      {{"attention", {q, k, k}, order}, fused, {true, true, false}},
      {{"attention", {q, k, k, b("5,7")}, order}, fused},
      {{"attention", {q, k, k, b("batch,1,1,7")}, order}, fused},
      {{"attention", {q, k, k, all_hidden("batch,1,5,7")}, order}, fused},
      {{"attention", {q, k, k, f("batch,2,5,1")}, order}, fused, fixed_mask},
      {{"attention", {q, k, k, f("1,2,5,7")}, order}, of_mask},
      {{"attention", {q, k, k, f("5,7")}, order}, of_mask, {true, false, true, false}},
      {{"attention", {q, k, wide}, order}, tape},
      {{"attention", {f("batch,3,70,33"), f("batch,3,70,33"), f("batch,3,70,33")}, order}, fused},
      {{"attention", {f("2,batch,1,1"), f("2,batch,1,1"), f("2,batch,1,1")}, order}, fused},
  };
}

std::vector<Case> lstm_cases(DType precision) {
  const std::string op = precision == DType::kF32 ? "core.lstm_grad" : "vjp.core.lstm";
  const auto x = f("4,batch,3"), w = f("1,8,3"), r = f("1,8,2"), bias = f("1,8"), state = f("1,batch,2");
  const auto w2 = f("2,8,3"), r2 = f("2,8,2"), bias2 = f("2,8"), state2 = f("2,batch,2");
  std::vector<Case> cases = {
      {{"lstm", {x, w, r}, {}, 3}, op},
      {{"lstm", {x, w, r, bias, bias, none(), state}, {}, 3}, op},
      {{"lstm", {x, w, r, bias, bias, state, state}, {}, 3}, op, {true, false, true, true, true}},
      {{"lstm", {x, w2, r2}, {}, 3}, op},
      {{"lstm", {f("1,batch,17"), f("2,256,17"), f("2,256,64"), f("2,256"), f("2,256")}, {}, 3}, op},
  };
  for (uint64_t read = 1; read < 8; ++read) {
    cases.push_back({{"lstm", {x, w, r, bias, bias, state, state}, {}, 3}, op, {}, read});
    cases.push_back({{"lstm", {x, w2, r2, bias2, bias2, state2, state2}, {}, 3}, op, {}, read});
  }
  return cases;
}

class AttentionGradients : public ::testing::TestWithParam<DType> {};

TEST_P(AttentionGradients, AreThoseOfTheTape) {
  at::manual_seed(5);
  for (const Case& c : attention_cases(GetParam())) check(c, GetParam());
}

const auto kName = [](const auto& info) { return std::string(str(info.param)); };
INSTANTIATE_TEST_SUITE_P(Precision, AttentionGradients,
                         ::testing::Values(DType::kF16, DType::kBF16, DType::kF32, DType::kF64), kName);

// LibTorch chooses the kernel of 16-bit floats by the processor.
class LstmGradients : public ::testing::TestWithParam<DType> {};

TEST_P(LstmGradients, AreThoseOfTheTape) {
  at::manual_seed(6);
  for (const Case& c : lstm_cases(GetParam())) check(c, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Precision, LstmGradients, ::testing::Values(DType::kF32, DType::kF64), kName);

/// The same numbers with the last axis the slowest in memory.
at::Tensor turned(const at::Tensor& dense) { return dense.movedim(-1, 0).contiguous().movedim(0, -1); }

// Each operand dense or turned, as whoever keeps values may store them.
TEST(AttentionGradient, ReadsAnyLayout) {
  at::manual_seed(7);
  const auto q = f("batch,2,5,4"), log_sums = f("batch,2,5");
  for (const auto& [order, result] : {std::pair("0,2,1,3", "batch,5,2,4"), std::pair("3,0,1,2", "4,batch,2,5")}) {
    const ir::testing::Prepared made = ir::testing::prepare(
        {"attention_grad", {f(result), q, q, q, f(result), log_sums}, attention(0.5, order), 3}, DType::kF64);
    const std::vector<at::Tensor> dense = drawn(made, kBatch);
    const auto expected = execute(made, dense, kBatch);
    for (size_t k = 0; k < dense.size(); ++k) {
      std::vector<at::Tensor> operands = dense;
      operands[k] = turned(dense[k]);
      const auto found = execute(made, operands, kBatch);
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-10, 1e-10)) << order << ": " << i << " by operand " << k;
    }
  }
}

}  // namespace
}  // namespace rannc::test
