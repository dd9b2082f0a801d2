// Operators computed on stored bytes.
#include "runtime/aten/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace rannc::runtime {
namespace {

using ir::StoredTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StoredTensor floats(const std::vector<float>& values, ir::Shape shape) {
  std::vector<std::byte> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {{.dtype = ir::DType::kF32, .shape = std::move(shape)}, ir::TensorData::in_memory(std::move(bytes))};
}

std::vector<float> numbers(const StoredTensor& tensor) {
  std::vector<float> values(tensor.data.size() / 4);
  std::memcpy(values.data(), tensor.data.bytes().data(), tensor.data.size());
  return values;
}

Result<std::vector<StoredTensor>> run(const char* op, std::vector<const StoredTensor*> operands,
                                      const ir::Attributes& attributes = {}) {
  return evaluate(ir::core(op), operands, attributes);
}

TEST(Evaluate, RunsTheLoweredStatement) {
  const auto a = floats({1, 2, 3, 4}, {2, 2}), b = floats({1, 0, 0, -1}, {2, 2});
  const auto product = run("matmul", {&a, &b}).value();
  ASSERT_EQ(product.size(), 1U);
  EXPECT_THAT(numbers(product[0]), ElementsAre(1, -2, 3, -4));
  EXPECT_EQ(*product[0].type.shape, (ir::Shape{2, 2}));
  EXPECT_FLOAT_EQ(numbers(run("erf", {&a}).value()[0])[1], std::erf(2.0F));
}

TEST(Evaluate, MakesResultsDense) {
  const auto a = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto turned = run("permute", {&a}, {{"dims", ir::Shape{1, 0}}}).value();
  EXPECT_THAT(numbers(turned[0]), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Evaluate, TakesAbsentOperands) {
  const auto x = floats({3, -3}, {1, 2});
  EXPECT_NEAR(
      numbers(run("layer_norm", {&x, nullptr, nullptr}, {{"axis", ir::Dim(1)}, {"epsilon", 0.0}}).value()[0])[0], 1,
      1e-6);
}

TEST(Evaluate, SaysWhatItCannotCompute) {
  const auto a = floats({1, 2}, {2}), b = floats({1, 2, 3}, {3});
  const auto four = floats({1, 2, 3, 4}, {2, 2});
  EXPECT_THAT(run("batch_norm", {&four, &a, &a, &a, &a}, {{"training", true}}).diagnostic().message,
              HasSubstr("core.batch_norm"));
  EXPECT_TRUE(run("batch_norm", {&four, &a, &a, &a, &a}).ok()) << "it always normalises by what it is given";
  EXPECT_FALSE(run("add", {&a, &b}).ok());
  StoredTensor bare = a;
  bare.data = {};
  EXPECT_FALSE(run("neg", {&bare}).ok());
  StoredTensor wrong = a;
  wrong.type.shape = ir::Shape{5};
  EXPECT_THAT(run("neg", {&wrong}).diagnostic().message, HasSubstr("has 8 bytes; its type requires 20"));
  StoredTensor symbolic = a;
  symbolic.type.shape = ir::Shape{ir::Dim::symbol("batch")};
  EXPECT_THAT(run("neg", {&symbolic}).diagnostic().message, HasSubstr("batch"));
}

}  // namespace
}  // namespace rannc::runtime
