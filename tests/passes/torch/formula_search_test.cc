// How a tensor was computed from another is found by names of operators and by numbers.
#include "passes/parameters/internal/formula_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tools/compiler/torch_evaluator.h"

namespace rannc::passes {
namespace {

constexpr size_t kRows = 4, kColumns = 6;
using Numbers = std::vector<double>;

ir::StoredTensor tensor(const ir::Shape& shape, const Numbers& numbers) {
  ir::StoredTensor stored;
  stored.type.dtype = ir::DType::kF32;
  stored.type.shape = shape;
  stored.data = ir::encode_numbers(ir::DType::kF32, numbers);
  return stored;
}

ir::StoredTensor matrix(const Numbers& numbers) {
  return tensor({ir::Dim(int64_t{kRows}), ir::Dim(int64_t{kColumns})}, numbers);
}

Numbers weight() {
  std::mt19937 random(7);
  Numbers numbers(kRows * kColumns);
  // As float32 has them.
  for (double& number : numbers) number = static_cast<float>(std::normal_distribution<double>()(random));
  return numbers;
}

Numbers by_rows(const Numbers& numbers, const std::function<Numbers(const Numbers&)>& of) {
  Numbers all;
  for (size_t row = 0; row < kRows; ++row) {
    const auto begin = numbers.begin() + static_cast<ptrdiff_t>(row * kColumns);
    for (const double number : of(Numbers(begin, begin + kColumns))) all.push_back(number);
  }
  return all;
}

Numbers each(Numbers numbers, const std::function<double(double)>& of) {
  for (double& number : numbers) number = of(number);
  return numbers;
}

double mean(const Numbers& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum / static_cast<double>(numbers.size());
}

std::optional<Formula> find(const ir::StoredTensor& target, std::vector<std::string> made,
                            const Numbers& from = weight()) {
  const tools::TorchEvaluator evaluator;
  return find_formula({{matrix(from)}, target, std::move(made)}, &evaluator);
}

/// What a formula of one leaf gives.
Numbers numbers_of(const Formula& formula, const ir::StoredTensor& leaf) {
  const tools::TorchEvaluator evaluator;
  std::vector<ir::StoredTensor> values{leaf};
  for (const Formula::Step& step : formula.steps) {
    std::vector<const ir::StoredTensor*> operands;
    for (const size_t operand : step.operands) operands.push_back(&values[operand]);
    values.push_back(step.op == nullptr ? step.constant
                                        : evaluator.evaluate(*step.op, operands, step.attributes).value().front());
  }
  return *ir::decode_numbers(values[formula.result].type, values[formula.result].data, 1000);
}

void expect_found(const ir::StoredTensor& target, std::vector<std::string> made, std::string_view last) {
  const auto found = find(target, std::move(made));
  ASSERT_TRUE(found.has_value());
  const auto numbers = ir::decode_numbers(target.type, target.data, 1000);
  EXPECT_LT(distance(numbers_of(*found, matrix(weight())), *numbers), 1e-5);
  ASSERT_EQ(found->result, found->steps.size());
  ASSERT_NE(found->steps.back().op, nullptr);
  EXPECT_EQ(found->steps.back().op->name, "core." + std::string(last));
}

TEST(FormulaSearch, ElementByElement) {
  expect_found(matrix(each(weight(), [](double x) { return std::abs(x); })), {"abs_1"}, "abs");
  expect_found(matrix(each(weight(), [](double x) { return std::exp(-x); })), {"neg", "exp_3"}, "exp");
  expect_found(matrix(each(weight(), [](double x) { return 0.3 * x - 0.1; })), {"mul", "sub_1"}, "add");
}

TEST(FormulaSearch, RowsThatAreNormalised) {
  const Numbers normalised = by_rows(weight(), [](const Numbers& row) {
    const double norm = std::sqrt(mean(each(row, [](double x) { return x * x; })) * kColumns);
    return each(row, [norm](double x) { return x / norm; });
  });
  expect_found(matrix(normalised), {"linalg_vector_norm", "clamp_min", "expand", "div_1"}, "div");
  const Numbers standardised = by_rows(weight(), [](const Numbers& row) {
    const double middle = mean(row);
    const double variance = mean(each(row, [middle](double x) { return (x - middle) * (x - middle); }));
    return each(row, [=](double x) { return (x - middle) / std::sqrt(variance + 1e-5); });
  });
  expect_found(matrix(standardised), {"mean", "var", "broadcast_in_dim", "add", "sqrt", "sub", "div"}, "div");
}

TEST(FormulaSearch, PartsAndTurnedOnes) {
  const Numbers all = weight();
  const ir::Shape two{ir::Dim(2), ir::Dim(int64_t{kColumns})};
  const auto row = [&](size_t i) { return all.begin() + static_cast<ptrdiff_t>(i * kColumns); };
  expect_found(tensor(two, Numbers(row(1), row(3))), {"slice_1"}, "slice");
  Numbers rows(row(3), row(4));
  rows.insert(rows.end(), row(0), row(1));
  expect_found(tensor(two, rows), {"index"}, "reshape");
  Numbers turned;
  for (size_t column = 0; column < kColumns; ++column) {
    for (size_t i = 0; i < kRows; ++i) turned.push_back(all[i * kColumns + column]);
  }
  expect_found(tensor({ir::Dim(int64_t{kColumns}), ir::Dim(int64_t{kRows})}, turned), {"permute"}, "permute");
}

TEST(FormulaSearch, WhatNoNumberTellsApartIsNotFound) {
  const Numbers ones(kRows * kColumns, 1), share(kRows * kColumns, 1.0 / kColumns);
  EXPECT_FALSE(find(matrix(share), {"softmax"}, ones).has_value()) << "along which axis?";
  EXPECT_FALSE(find(matrix(each(weight(), [](double x) { return x * x * x + 1; })), {"abs_1"}).has_value());
  EXPECT_FALSE(find(matrix(weight()), {"erfinv"}).has_value()) << "an operator that is not known";
}

TEST(FormulaSearch, NothingWithoutAnEvaluator) {
  const ir::StoredTensor target = matrix(each(weight(), [](double x) { return std::abs(x); }));
  EXPECT_FALSE(find_formula({{matrix(weight())}, target, {"abs_1"}}, nullptr).has_value());
}

}  // namespace
}  // namespace rannc::passes
