// What a tape is said to keep of each operator, against what LibTorch's keeps: of operators that keep a tape of their
// own, and of all others as tasks of a body.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include <set>

#include "ir/graph/byte_count.h"
#include "ir/graph/views.h"
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

/// Bytes that the tape of one task keeps, of operands, results and beside them.
double predicted(const Prepared& made, const Wanted& wanted) {
  Graph graph;
  graph.set_batch_symbol("batch");
  std::vector<ValueId> operands;
  uint64_t mask = 0;
  for (size_t k = 0; k < made.operands.size(); ++k) {
    mask |= k < 64 ? uint64_t{wanted[k]} << k : 0;
    operands.push_back(made.operands[k].absent ? ValueId()
                                               : graph.add_value(ValueKind::kInput, "", made.operands[k].type));
  }
  const TaskId task = graph.add_task(*made.op, operands, made.attributes, std::vector<std::string>(made.types.size()));
  for (size_t k = 0; k < made.types.size(); ++k) graph.set_type(graph.outputs(task)[k], made.types[k]);
  const TapeUse use = tape_use(graph, task, mask);
  const Bindings sizes = {{"batch", kBatch}};
  const Views views(graph);
  std::set<ValueId> kept;
  for (const Kept& each : use.keeps) {
    if (each.where_wanted != Kept::kAlways && (mask >> each.where_wanted & 1) == 0) continue;
    const auto from = each.of == Kept::Of::kOperand ? graph.inputs(task) : graph.outputs(task);
    if (each.index < from.size() && from[each.index].valid()) kept.insert(views.base(from[each.index]));
  }
  auto bytes = static_cast<double>(use.own_bytes.evaluate(sizes).value());
  for (const ValueId value : kept) bytes += static_cast<double>(byte_count(graph.type(value)).evaluate(sizes).value());
  return bytes;
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
      EXPECT_NEAR(predicted(made, wanted), found, kScalars) << describe_call(c, made, wanted);
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

}  // namespace
}  // namespace rannc::ir
