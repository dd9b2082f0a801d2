// What the planner says that LibTorch's tape keeps, against what it keeps of every operator's statement.
#include "partition/model/tape.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include <set>

#include "runtime/engine/allocation_meter.h"
#include "tests/codegen/prepared_case.h"

namespace rannc::ir {
namespace {

using testing::OpCase;
using testing::Prepared;

// Large against numbers that are kept one by one: the tape's scalars.
constexpr int64_t kBatch = 512;
constexpr double kScalars = 64;

/// Which operands a gradient is wanted of.
using Wanted = std::vector<bool>;

bool can_want(const OpCase& c, size_t operand) {
  if (c.operands[operand].absent || !is_float(c.operands[operand].type.dtype)) return false;
  return testing::has_derivative(core(c.op), operand);
}

/// Of all, and of each alone; none of operators of the backward pass, of which no tape is made.
std::vector<Wanted> choices(const OpCase& c) {
  if (core(c.op).family.starts_with("grad_")) return {};
  Wanted all(c.operands.size());
  for (size_t k = 0; k < all.size(); ++k) all[k] = can_want(c, k);
  std::vector<Wanted> made;
  for (size_t k = 0; k < all.size(); ++k) {
    if (!all[k]) continue;
    made.emplace_back(all.size());
    made.back()[k] = true;
  }
  if (made.size() > 1) made.push_back(all);
  return made;
}

/// In bytes, what the planner says.
struct Said {
  double kept = 0;       ///< of operands, results and beside them
  double workspace = 0;  ///< in the backward pass, beside gradients
};

Said predicted(const Prepared& made, const Wanted& wanted) {
  Graph graph;
  graph.set_batch_symbol("batch");
  std::vector<ValueId> operands;
  for (size_t k = 0; k < made.operands.size(); ++k) {
    const ValueKind kind = wanted[k] ? ValueKind::kParameter : ValueKind::kConstant;
    operands.push_back(made.operands[k].absent ? ValueId() : graph.add_value(kind, "", made.operands[k].type));
  }
  const std::vector<std::string> names(made.types.size());
  const TaskId task = graph.add_task(*made.op, operands, made.attributes, names);
  for (size_t k = 0; k < names.size(); ++k) graph.set_type(graph.outputs(task)[k], made.types[k]);
  const partition::Tape tape = partition::Tape::of(graph, {}).value();
  Said said{tape.own(task).at(kBatch), tape.workspace(task).at(kBatch)};
  std::set<uint32_t> counted;
  for (const ValueId value : tape.kept(task)) {
    if (counted.insert(tape.base(value).index()).second) said.kept += tape.bytes(tape.base(value)).at(kBatch);
  }
  return said;
}

std::vector<at::Tensor> leaves_of(const Prepared& made, const Wanted& wanted) {
  std::vector<at::Tensor> leaves = testing::drawn(made, kBatch);
  for (size_t k = 0, at = 0; k < wanted.size(); ++k) {
    if (!made.operands[k].absent) leaves[at++].set_requires_grad(wanted[k]);
  }
  return leaves;
}

// What stays when operands and results have gone, but not the tape. Leaves never go: operands are copies of them.
double kept(const Prepared& made, const Wanted& wanted) {
  const std::vector<at::Tensor> leaves = leaves_of(made, wanted);
  const runtime::AllocationMeter meter;
  std::vector<std::shared_ptr<torch::autograd::Node>> tape;
  {
    std::vector<at::Tensor> operands;
    for (const at::Tensor& leaf : leaves) operands.push_back(leaf.clone());
    for (const at::Tensor& result : testing::execute(made, operands, kBatch)) tape.push_back(result.grad_fn());
  }
  return static_cast<double>(meter.live_bytes());
}

/// What the derivative allocates at most, beside the gradients of the operands.
double workspace(const Prepared& made, const Wanted& wanted) {
  const std::vector<at::Tensor> leaves = leaves_of(made, wanted);
  const at::Tensor result = testing::execute(made, leaves, kBatch)[0];
  const at::Tensor gradient = at::ones_like(result);
  const runtime::AllocationMeter meter;
  result.backward(gradient);
  double bytes = static_cast<double>(meter.peak_bytes());
  for (const at::Tensor& leaf : leaves) bytes -= leaf.requires_grad() ? static_cast<double>(leaf.nbytes()) : 0;
  return bytes;
}

std::string describe_call(const OpCase& c, const Prepared& made, const Wanted& wanted) {
  std::string text = describe(c) + " with gradients of operands";
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (wanted[k]) text += " " + std::to_string(k);
  }
  return text;
}

/// Of the operators of a family; empty: of all. How many keep more than scalars.
int expect_kept_as_predicted(DType precision, std::string_view family) {
  int compared = 0;
  for (const OpCase& given : testing::op_cases()) {
    const bool recurrent = core(given.op).family == "recurrent";
    const OpCase c = recurrent ? testing::with_batch(given, kBatch) : given;  // parts of a workspace begin pages
    if (is_of_backward_pass(c) || (!family.empty() && core(c.op).family != family)) continue;
    const Prepared made = testing::prepare(c, precision);
    for (const Wanted& wanted : choices(c)) {
      const double found = kept(made, wanted);
      EXPECT_NEAR(predicted(made, wanted).kept, found, kScalars) << describe_call(c, made, wanted);
      compared += found > kScalars;
    }
  }
  return compared;
}

TEST(TapeRules, AreWhatLibTorchKeepsOfEveryOperator) { EXPECT_GT(expect_kept_as_predicted(DType::kF32, ""), 100); }
// oneDNN's kernels, which keep more, are for single precision.
TEST(TapeRules, AreWhatLibTorchKeepsOfRecurrentLayersOfDoubles) {
  EXPECT_GT(expect_kept_as_predicted(DType::kF64, "recurrent"), 40);
}

// Where a derivative is written out in elementwise steps, which is where it allocates beside its gradients, of large
// results as a rule; operands that are stretched, windows and reductions take more, for one task at a time.
TEST(TapeRules, KnowWhatElementwiseDerivativesAllocate) {
  const std::set<std::string> written_out = {"abs",    "sqrt", "sin",     "cos",     "rsqrt", "reciprocal",
                                             "cumsum", "erf",  "pow",     "exp",     "log",   "tanh",
                                             "gelu",   "silu", "sigmoid", "softplus"};
  std::set<std::string> compared;
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, DType::kF32);
    const Wanted first = choices(c).empty() ? Wanted() : choices(c).front();
    if (!written_out.contains(c.op) || first.empty() || c.operands.back().type.shape->size() > 2) continue;
    EXPECT_NEAR(predicted(made, first).workspace, workspace(made, first), kScalars) << describe_call(c, made, first);
    compared.insert(c.op);
  }
  EXPECT_EQ(compared, written_out);
}

}  // namespace
}  // namespace rannc::ir
