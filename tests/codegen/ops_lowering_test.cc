// Every core operator's calls, run: shapes and dtypes are what the type rule says, samples
// stay apart as the batch layout says, values equal ATen.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/jit.h>

#include <set>

#include "ir/graph/constant.h"
#include "ir/op/fold.h"
#include "tests/codegen/prepared_case.h"

namespace rannc::ir {
namespace {

using testing::draw;
using testing::drawn;
using testing::execute;
using testing::op_cases;
using testing::OpCase;
using testing::Operand;
using testing::prepare;
using testing::Prepared;
using testing::scalar_type;
using testing::sizes_of;

// The part of `value` that belongs to sample `sample` of `batch`.
at::Tensor sample_of(const at::Tensor& value, const ValueType& type, int64_t sample, int64_t batch) {
  if (!type.batch.has_batch()) return value;
  auto sizes = value.sizes().vec();
  const int64_t axis = type.batch.axis;
  const int64_t outer = type.batch.outer.evaluate({}).value(), inner = type.batch.inner.evaluate({}).value();
  auto split = sizes;
  split[axis] = outer;
  split.insert(split.begin() + axis + 1, {batch, inner});
  sizes[axis] = outer * inner;
  return value.reshape(split).narrow(axis + 1, sample, 1).reshape(sizes);
}

TEST(OpsLowering, NumbersOfElementTypesAreLibTorchs) {
  const std::pair<DType, c10::ScalarType> types[] = {
      {DType::kF16, c10::kHalf},   {DType::kBF16, c10::kBFloat16}, {DType::kF32, c10::kFloat},
      {DType::kF64, c10::kDouble}, {DType::kI8, c10::kChar},       {DType::kI16, c10::kShort},
      {DType::kI32, c10::kInt},    {DType::kI64, c10::kLong},      {DType::kU8, c10::kByte},
      {DType::kU16, c10::kUInt16}, {DType::kU32, c10::kUInt32},    {DType::kU64, c10::kUInt64},
      {DType::kBool, c10::kBool}};
  for (const auto& [dtype, expected] : types) {
    EXPECT_EQ(torch_number(dtype), static_cast<int>(expected)) << str(dtype);
    EXPECT_EQ(dtype_of_torch(static_cast<int>(expected)), dtype);
    EXPECT_EQ(c10::elementSize(expected), byte_size(dtype)) << str(dtype);
  }
  EXPECT_EQ(dtype_of_torch(static_cast<int>(c10::kComplexFloat)), std::nullopt);
}

TEST(OpsLowering, CoversEveryOperator) {
  std::set<std::string> covered;
  for (const OpCase& c : op_cases()) covered.insert("core." + c.op);
  for (const OpInfo& op : core_ops()) {
    EXPECT_TRUE(covered.count(op.name)) << op.name << " has no case in op_cases.cc";
    EXPECT_NE(op.infer, nullptr) << op.name;
    EXPECT_TRUE(op.can_be_lowered()) << op.name;
  }
}

class EveryCase : public ::testing::TestWithParam<DType> {};

TEST_P(EveryCase, HasTheInferredTypes) {
  at::manual_seed(1);
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(describe(c));
    const Prepared made = prepare(c, GetParam());
    for (const int64_t batch : {2, 3}) {
      std::vector<at::Tensor> outputs;
      ASSERT_NO_THROW(outputs = execute(made, drawn(made, batch), batch));
      ASSERT_EQ(outputs.size(), made.types.size());
      for (size_t k = 0; k < outputs.size(); ++k) {
        EXPECT_EQ(outputs[k].sizes().vec(), sizes_of(*made.types[k].shape, batch));
        EXPECT_EQ(outputs[k].scalar_type(), scalar_type(made.types[k].dtype));
        if (!made.types[k].contents) continue;
        const auto contents = at::tensor(sizes_of(*made.types[k].contents, batch));
        EXPECT_TRUE(at::equal(outputs[k].to(at::kLong).reshape({-1}), contents)) << outputs[k];
      }
    }
  }
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::allclose(a.to(at::kDouble), b.to(at::kDouble), 1e-5, 1e-6, true);
}

bool counts_samples(const ValueType& type) {
  return type.batch.mix == Mix::kCounted ||
         (type.contents &&
          std::any_of(type.contents->begin(), type.contents->end(), [](const Dim& dim) { return dim.uses("batch"); }));
}

// Run on the parts of a batch and put together it is what it is on the whole: samples beside each other where they have
// an axis, added where it is a partial sum, the same in each part where it has none.
TEST_P(EveryCase, PartsMakeTheWholeAsItsLayoutSays) {
  at::manual_seed(2);
  constexpr int64_t kBatch = 3;
  int beside = 0, added = 0, same = 0;
  for (const OpCase& c : op_cases()) {
    const Prepared made = prepare(c, GetParam());
    if (!c.parts_make_whole) continue;
    SCOPED_TRACE(describe(c));
    const std::vector<at::Tensor> inputs = drawn(made, kBatch);
    const std::vector<at::Tensor> whole = execute(made, inputs, kBatch);
    std::vector<at::Tensor> sums(whole.size());
    for (int64_t sample = 0; sample < kBatch; ++sample) {
      std::vector<at::Tensor> parts;
      for (const Operand& operand : made.operands) {
        if (operand.absent) continue;
        const at::Tensor& input = inputs[parts.size()];
        parts.push_back(operand.type.contents ? draw(operand, 1) : sample_of(input, operand.type, sample, kBatch));
      }
      const std::vector<at::Tensor> alone = execute(made, parts, 1);
      for (size_t k = 0; k < whole.size(); ++k) {
        const ValueType& type = made.types[k];
        if (type.batch.is_partial()) {
          sums[k] = sums[k].defined() ? sums[k] + alone[k] : alone[k];
        } else if (type.batch.has_batch()) {
          EXPECT_TRUE(close(alone[k], sample_of(whole[k], type, sample, kBatch))) << "result " << k;
          ++beside;
        } else if (type.batch.mix == Mix::kNone && !counts_samples(type)) {
          EXPECT_TRUE(close(alone[k], whole[k])) << "result " << k;
          ++same;
        }
      }
    }
    for (size_t k = 0; k < whole.size(); ++k) {
      if (!sums[k].defined()) continue;
      EXPECT_TRUE(close(sums[k], whole[k])) << "result " << k;
      ++added;
    }
  }
  EXPECT_GT(beside, 300);
  EXPECT_GE(added, 20);
  EXPECT_GT(same, 100);
}

INSTANTIATE_TEST_SUITE_P(Precision, EveryCase, ::testing::Values(DType::kF64, DType::kF32),
                         [](const auto& info) { return std::string(str(info.param)); });

// --- values against ATen, for what is more than a call of the same name

at::Tensor run_one(const OpCase& c, const std::vector<at::Tensor>& inputs, int64_t batch) {
  return execute(prepare(c, DType::kF64), inputs, batch)[0];
}

void expect_equal(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected.to(at::kDouble), 1e-13, 1e-13, true))
      << found << "\nexpected\n"
      << expected;
}

at::Tensor x(std::vector<int64_t> sizes) { return at::randn(sizes, at::kDouble); }

TEST(OpsLoweringValues, IntegerDivision) {
  const auto a = at::tensor({-7, 7, -6, 5}, at::kLong).reshape({1, 4});
  const auto d = at::tensor({2, -2, 4, 3}, at::kLong);
  const OpCase c{"div", {testing::i("batch,4", 0, 1), testing::i("4", 0, 1)}, {{"rounding", std::string("trunc")}}};
  expect_equal(run_one(c, {a, d}, 1), at::tensor({-3, -3, -1, 1}, at::kLong).reshape({1, 4}));
  const OpCase m{"mod", {testing::i("batch,4", 0, 1), testing::i("4", 0, 1)}};
  expect_equal(run_one(m, {a, d}, 1), at::tensor({1, -1, 2, 2}, at::kLong).reshape({1, 4}));
}

TEST(OpsLoweringValues, SoftplusIsExactWhereAtensThresholdIsNot) {
  const auto a = at::tensor({-30.0, 0.0, 21.0, 60.0}, at::kDouble).reshape({1, 4});
  expect_equal(run_one({"softplus", {testing::f("batch,4")}}, {a}, 1), at::logaddexp(a, at::zeros_like(a)));
}

TEST(OpsLoweringValues, HardSwishUsesASixth) {
  const auto a = x({2, 50}) * 3;
  expect_equal(run_one({"hardswish", {testing::f("batch,50")}}, {a}, 2), a * at::clamp(a * (1.0 / 6) + 0.5, 0, 1));
}

TEST(OpsLoweringValues, GatherCountsNegativeIndicesFromTheEnd) {
  const auto a = x({5, 3});
  const OpCase c{"gather", {testing::f("5,3"), testing::i("batch,2", 0, 1)}, {{"axis", Dim(0)}}};
  const auto index = at::tensor({0, -1, 4, -5}, at::kLong).reshape({2, 2});
  const auto rows = at::tensor({0, 4, 4, 0}, at::kLong);
  expect_equal(run_one(c, {a, index}, 2), a.index_select(0, rows).reshape({2, 2, 3}));
}

TEST(OpsLoweringValues, GatherNdPicksTuples) {
  const auto a = x({3, 4, 5});
  const auto index = at::tensor({0, 1, 2, -1, -3, 0}, at::kLong).reshape({1, 3, 2});
  const OpCase c{"gather_nd", {testing::f("3,4,5"), testing::i("batch,3,2", 0, 1)}};
  expect_equal(run_one(c, {a, index}, 1), at::stack({a[0][1], a[2][3], a[0][0]}).unsqueeze(0));
  const OpCase paired{"gather_nd", {testing::f("batch,4,5"), testing::i("batch,1,1", 0, 1)}, {{"batch_dims", Dim(1)}}};
  const auto rows = at::tensor({1, 0, -1}, at::kLong).reshape({3, 1, 1});
  expect_equal(run_one(paired, {a, rows}, 3), at::stack({a[0][1], a[1][0], a[2][3]}).unsqueeze(1));
}

TEST(OpsLoweringValues, SliceBackwardsAndFarBounds) {
  const auto a = x({2, 7});
  const OpCase c{"slice",
                 {testing::f("batch,7")},
                 {{"axes", testing::dims("1")},
                  {"starts", testing::dims("-2")},
                  {"ends", testing::dims("-9223372036854775807")},
                  {"steps", testing::dims("-2")}}};
  expect_equal(run_one(c, {a}, 2), a.index_select(1, at::tensor({5, 3, 1}, at::kLong)));
  const OpCase open{
      "slice",
      {testing::f("batch,7")},
      {{"axes", testing::dims("1")}, {"starts", testing::dims("-3")}, {"ends", testing::dims("9223372036854775807")}}};
  expect_equal(run_one(open, {a}, 2), a.narrow(1, 4, 3));
}

TEST(OpsLoweringValues, UnequalPadsOfConvolutionAndPooling) {
  const auto a = x({2, 2, 9}), w = x({3, 2, 3});
  const OpCase c{"conv", {testing::f("batch,2,9"), testing::f("3,2,3")}, {{"pads", testing::dims("2,1")}}};
  expect_equal(run_one(c, {a, w}, 2), at::conv1d(at::constant_pad_nd(a, {2, 1}, 0), w));
  const OpCase p{
      "max_pool", {testing::f("batch,2,9")}, {{"kernel", testing::dims("3")}, {"pads", testing::dims("0,2")}}};
  const auto padded = at::constant_pad_nd(a, {0, 2}, -std::numeric_limits<double>::infinity());
  expect_equal(run_one(p, {a}, 2), at::max_pool1d(padded, 3, 1));
}

TEST(OpsLoweringValues, CumulativeSums) {
  const auto a = x({2, 4});
  const OpCase c{"cumsum", {testing::f("batch,4")}, {{"axis", Dim(1)}, {"exclusive", true}, {"reverse", true}}};
  expect_equal(run_one(c, {a}, 2), a.sum(1, true) - a.cumsum(1));
}

TEST(OpsLoweringValues, HiddenRowsOfSoftmaxAreNaNOrZeroAsAsked) {
  const double never = -std::numeric_limits<double>::infinity();
  const auto a = at::tensor({1.0, never, never, never}, at::kDouble).view({2, 2});
  const OpCase plain{"softmax", {testing::f("batch,2")}, {{"axis", Dim(1)}}};
  OpCase safe = plain;
  safe.attributes.set("hidden_rows", std::string("zero"));
  EXPECT_TRUE(run_one(plain, {a}, 2)[1].isnan().all().item<bool>());
  const auto leaf = a.clone().requires_grad_();
  const auto y = run_one(safe, {leaf}, 2);
  expect_equal(y.detach(), at::tensor({1.0, 0.0, 0.0, 0.0}, at::kDouble).view({2, 2}));
  y.backward(x({2, 2}));
  expect_equal(leaf.grad(), at::zeros({2, 2}, at::kDouble));
}

TEST(OpsLoweringValues, LossesAreSums) {
  const auto logits = x({4, 5, 3});
  const auto labels = at::randint(0, 5, {4, 3}, at::kLong);
  labels[0][0] = -100;
  const OpCase c{"cross_entropy_sum", {testing::f("batch,5,3"), testing::i("batch,3", 0, 5)}, {{"axis", Dim(1)}}};
  const auto log = at::log_softmax(logits, 1);
  const auto picked = -log.gather(1, at::clamp(labels, 0).unsqueeze(1)).squeeze(1);
  expect_equal(run_one(c, {logits, labels}, 4), at::where(labels.ne(-100), picked, at::zeros_like(picked)).sum());
  const auto a = x({4, 5}), t = x({4, 5});
  expect_equal(run_one({"mse_sum", {testing::f("batch,5"), testing::f("batch,5")}}, {a, t}, 4), (a - t).pow(2).sum());
}

TEST(OpsLoweringValues, BatchStatisticsAreTheBatchsOwn) {
  const auto a = x({6, 3, 4});
  const auto ones = at::ones({3}, at::kDouble), zeros = at::zeros({3}, at::kDouble);
  const OpCase c{"batch_norm",
                 {testing::f("batch,3,4"), testing::f("3"), testing::f("3"), testing::f("3"), testing::f("3")},
                 {{"training", true}, {"epsilon", 1e-5}},
                 3};
  const auto outputs = execute(prepare(c, DType::kF64), {a, ones, zeros, zeros, ones}, 6);
  expect_equal(outputs[1], a.mean(std::vector<int64_t>{0, 2}));
  expect_equal(outputs[2], a.var(std::vector<int64_t>{0, 2}, true));
  expect_equal(outputs[0], (a - outputs[1].view({1, 3, 1})) /
                               (a.var(std::vector<int64_t>{0, 2}, false).view({1, 3, 1}) + 1e-5).sqrt());
}

// --- the folding rules against the same statements

StoredTensor stored(const at::Tensor& value, const ValueType& type) {
  const auto wide = value.to(at::kLong).contiguous();
  const std::span<const int64_t> numbers(wide.const_data_ptr<int64_t>(), static_cast<size_t>(wide.numel()));
  return {type, encode_integers(type.dtype, numbers)};
}

TEST(FoldingRules, EqualTheCalls) {
  at::manual_seed(3);
  constexpr int64_t kBatch = 2;
  std::set<std::string> covered;
  for (OpCase c : op_cases()) {
    c = testing::with_batch(c, kBatch);
    for (Operand& operand : c.operands) {
      if (operand.absent || !is_float(operand.type.dtype)) continue;
      operand.type.dtype = DType::kI64;
      operand.low = -4;
      operand.high = 5;
    }
    std::vector<const ValueType*> inputs;
    for (const Operand& operand : c.operands) inputs.push_back(operand.absent ? nullptr : &operand.type);
    const OpInfo& op = core(c.op);
    const auto types = ir::types_of({op, inputs, c.attributes, "", c.outputs});
    if (!types || is_float((*types)[0].dtype)) continue;
    const Prepared made = prepare(c, DType::kF64);
    const std::vector<at::Tensor> values = drawn(made, kBatch);
    std::vector<StoredTensor> tensors;
    std::vector<const StoredTensor*> operands;
    for (const Operand& operand : c.operands) {
      if (!operand.absent) tensors.push_back(stored(values[tensors.size()], operand.type));
    }
    for (size_t k = 0, at = 0; k < c.operands.size(); ++k) {
      operands.push_back(c.operands[k].absent ? nullptr : &tensors[at++]);
    }
    const auto found = fold_integers(op, operands, c.attributes, *types);
    if (!found) continue;
    SCOPED_TRACE(describe(c));
    const std::vector<at::Tensor> expected = execute(made, values, kBatch);
    ASSERT_EQ(found->size(), expected.size());
    for (size_t k = 0; k < expected.size(); ++k) {
      const auto numbers = at::tensor(decode_integers((*found)[k].type, (*found)[k].data, 1 << 20).value(), at::kLong);
      const at::Tensor flat = expected[k].to(at::kLong).reshape({-1}).contiguous();
      EXPECT_TRUE(at::equal(numbers, flat)) << numbers << flat;
    }
    covered.insert(c.op);
  }
  for (const OpInfo& op : core_ops()) {
    if (op.fold == nullptr) continue;
    EXPECT_TRUE(covered.count(op.name.substr(std::string("core.").size()))) << op.name;
  }
}

}  // namespace
}  // namespace rannc::ir
