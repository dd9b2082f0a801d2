// Gradient rules against differences of the operators they are of, so that LibTorch's tape is not the only judge.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "ir/gradient/gradient.h"
#include "runtime/aten/aten_call.h"
#include "runtime/aten/graph_run.h"
#include "tests/codegen/joint_case.h"

namespace rannc::ir {
namespace {

using testing::Joint;
using testing::OpCase;
using testing::Prepared;

constexpr int64_t kBatch = 2;

// Of doubles, by five places kStep apart. What is cut off is at most kStep^4 / 30 times the fifth derivative, which at
// the numbers drawn is below 1e9 (that of the deviation of two numbers that are close): 3e-9. Rounding is 1e-16 times
// the sum over kStep: 1e-12 of it. A rule that is wrong is wrong in the first digits.
constexpr double kStep = 1e-4;
constexpr double kTolerance = 1e-7;  // relative to the sum, and to the largest element

/// Quarters between which numbers are drawn.
struct Range {
  std::vector<int64_t> quarters;
};

Range between(int64_t low, int64_t high) {
  Range range;
  for (int64_t quarter = low; quarter < high; ++quarter) {
    if (quarter != 0 && quarter != -1) range.quarters.push_back(quarter);
  }
  return range;
}

/// Where the operator is smooth: both signs as a rule. Quotients that are rounded stay between the same integers.
Range range_of(const OpCase& c, size_t operand) {
  const std::set<std::string> positive = {"log", "log1p", "log2", "log10", "sqrt", "rsqrt", "pow"};
  if (c.op == "asin" || c.op == "acos" || c.op == "atanh") return between(-3, 3);
  if (c.op == "acosh") return between(5, 15);
  if (positive.contains(c.op) || core(c.op).operand(operand).role == Role::kStatistics) return between(1, 8);
  if (c.op != "mod" && c.op != "fmod" && !c.attributes.has("rounding")) return between(-15, 15);
  return operand == 0 ? between(-4, 4) : between(4, 8);
}

/// Numbers in the middle of quarters, no two of a call equal: farther from quarters, and from each other, than two
/// steps.
class RandomInput {
 public:
  explicit RandomInput(int64_t count) : order_(at::randperm(count, at::kLong)) {}

  at::Tensor operator()(const Range& range, const std::vector<int64_t>& sizes) {
    const at::Tensor made = at::empty(sizes, at::kDouble);
    const auto many = static_cast<int64_t>(range.quarters.size());
    const double rows = static_cast<double>(order_.numel() / many + 1);
    for (int64_t i = 0; i < made.numel(); ++i) {
      const int64_t place = order_[used_++].item<int64_t>();
      const double inside = (static_cast<double>(place / many) + 0.5) / rows;
      made.view(-1)[i] = 0.25 * (static_cast<double>(range.quarters[place % many]) + 0.1 + 0.8 * inside);
    }
    return made;
  }

 private:
  at::Tensor order_;
  int64_t used_ = 0;
};

/// By operand, absent ones too.
using Operands = std::vector<std::optional<at::Tensor>>;

Operands operands_of(const OpCase& c, const Prepared& made) {
  int64_t count = 0;
  for (const testing::Operand& operand : made.operands) {
    if (!operand.absent) count += c10::multiply_integers(testing::sizes_of(*operand.type.shape, kBatch));
  }
  RandomInput draw(count);
  Operands operands;
  for (size_t k = 0; k < made.operands.size(); ++k) {
    const testing::Operand& operand = made.operands[k];
    operands.emplace_back();
    if (operand.absent) continue;
    const bool drawn = is_float(operand.type.dtype);
    operands.back() =
        drawn ? draw(range_of(c, k), testing::sizes_of(*operand.type.shape, kBatch)) : testing::draw(operand, kBatch);
  }
  return operands;
}

/// The elements of the results that have seeds, times these, added up.
double sum_of(const Prepared& made, const Operands& operands, const std::vector<at::Tensor>& seeds) {
  const Bindings sizes = {{"batch", kBatch}};
  const auto results = runtime::run_lowering(made.lowering, {.operands = operands, .sizes = sizes}).value();
  double sum = 0;
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i].defined()) sum += results[i].mul(seeds[i]).sum().item<double>();
  }
  return sum;
}

/// The derivatives of the sum by the elements of operand `k`.
at::Tensor differences(const Prepared& made, const Operands& operands, const std::vector<at::Tensor>& seeds, size_t k) {
  const at::Tensor by = at::empty_like(*operands[k]);
  for (int64_t i = 0; i < by.numel(); ++i) {
    const auto at = [&](int steps) {
      Operands moved = operands;
      moved[k] = operands[k]->clone();
      moved[k]->view(-1)[i] += steps * kStep;
      return sum_of(made, moved, seeds);
    };
    by.view(-1)[i] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
  }
  return by;
}

void compare(const OpCase& c, const Prepared& made) {
  const Joint joint = join(c, made);
  ASSERT_TRUE(joint.has_rule);
  const Operands operands = operands_of(c, made);
  runtime::GraphValues values(joint.graph.value_count());
  for (size_t k = 0; k < operands.size(); ++k) {
    if (operands[k]) values[joint.graph.inputs(joint.task)[k].index()] = operands[k];
  }
  std::vector<at::Tensor> seeds;
  ASSERT_TRUE(joint.seeds[0].valid());
  for (size_t i = 0; i < made.types.size(); ++i) {
    seeds.emplace_back();
    if (!joint.seeds[i].valid()) continue;  // an auxiliary result
    seeds.back() = at::randn(testing::sizes_of(*made.types[i].shape, kBatch), at::kDouble);
    values[joint.seeds[i].index()] = seeds.back();
  }
  const auto ran = runtime::run_graph(joint.graph, {.sizes = {{"batch", kBatch}}}, values);
  ASSERT_TRUE(ran.ok()) << ran.diagnostic().str();
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!joint.given[k].valid()) continue;
    const at::Tensor& found = *values[joint.given[k].index()];
    const at::Tensor expected = differences(made, operands, seeds, k);
    const double largest = expected.numel() == 0 ? 0 : expected.abs().max().item<double>();
    const double scale = std::max({1.0, largest, std::abs(sum_of(made, operands, seeds))});
    EXPECT_TRUE(at::allclose(found, expected, 0, kTolerance * scale)) << "operand " << k << "\n"
                                                                      << found << "\nagainst\n"
                                                                      << expected;
  }
}

/// Whether a gradient is asked to be another than the derivative: that of the clipped operand rather than that of the
/// steps that it is rounded to, or less.
bool is_another(const OpCase& c) {
  return c.op == "fake_quantize" || c.op == "stop_gradient" || c.attributes.has("padding_index");
}

TEST(GradientDifferences, AreTheGradients) {
  std::set<std::string> compared;
  for (const OpCase& c : testing::op_cases()) {
    const Prepared made = testing::prepare(c, DType::kF64);
    const bool narrow = std::any_of(made.operands.begin(), made.operands.end(),
                                    [](const testing::Operand& o) { return o.type.dtype == DType::kF32 && !o.absent; });
    if (narrow || !has_gradient(c, made)) continue;
    compared.insert(c.op);
    const std::string text = describe(c);
    SCOPED_TRACE(text);
    // Of its own, so that no other case moves its operands onto a bend.
    at::manual_seed(std::accumulate(text.begin(), text.end(), uint64_t{11}, [](uint64_t seed, char each) {
      return seed * 31 + static_cast<unsigned char>(each);
    }));
    if (!is_another(c)) compare(c, made);
  }
  for (const OpInfo& op : core_ops()) {
    EXPECT_EQ(compared.contains(op.name.substr(5)), op.gradient != nullptr) << op.name;
  }
}

}  // namespace
}  // namespace rannc::ir
