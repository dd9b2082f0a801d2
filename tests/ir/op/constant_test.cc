#include "ir/graph/constant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rannc::ir {
namespace {

ValueType vector_of(DType dtype, int64_t n) {
  ValueType type;
  type.dtype = dtype;
  type.shape = Shape{Dim(n)};
  return type;
}

TEST(Constant, IntegersRoundTripInEveryType) {
  for (const DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16, DType::kU32}) {
    const std::vector<int64_t> values = {0, 1, 100, is_integer(dtype) && str(dtype)[0] == 'i' ? -3 : 7};
    const auto data = encode_integers(dtype, values);
    EXPECT_EQ(data.size(), 4 * byte_size(dtype));
    EXPECT_EQ(decode_integers(vector_of(dtype, 4), data, 64).value(), values) << str(dtype);
  }
  const std::vector<int64_t> flags = {0, 1, 5};
  EXPECT_EQ(decode_integers(vector_of(DType::kBool, 3), encode_integers(DType::kBool, flags), 64).value(),
            (std::vector<int64_t>{0, 1, 1}));
}

TEST(Constant, FloatsRoundToNearestEven) {
  const std::vector<double> values = {1.0,
                                      -0.333251953125,
                                      65504,
                                      6.103515625e-05,
                                      5.9604644775390625e-08,
                                      0.0,
                                      std::numeric_limits<double>::infinity()};
  EXPECT_EQ(decode_numbers(vector_of(DType::kF16, 7), encode_numbers(DType::kF16, values), 64).value(), values);
  const std::vector<double> between = {1 + std::ldexp(1, -11), 1 + 3 * std::ldexp(1, -11), 65520, std::ldexp(1, -26)};
  const std::vector<double> rounded = {1, 1 + std::ldexp(1, -9), std::numeric_limits<double>::infinity(), 0};
  EXPECT_EQ(decode_numbers(vector_of(DType::kF16, 4), encode_numbers(DType::kF16, between), 64).value(), rounded);
  const std::vector<double> b16 = {1 + std::ldexp(1, -8), 1 + 3 * std::ldexp(1, -8), 3.0e38};
  const auto decoded = decode_numbers(vector_of(DType::kBF16, 3), encode_numbers(DType::kBF16, b16), 64).value();
  EXPECT_EQ(decoded[0], 1);
  EXPECT_EQ(decoded[1], 1 + std::ldexp(1, -6));
  EXPECT_NEAR(decoded[2] / 3.0e38, 1, 1.0 / 256);
  const std::vector<double> single = {0.1f, -2.5};
  EXPECT_EQ(decode_numbers(vector_of(DType::kF32, 2), encode_numbers(DType::kF32, single), 64).value(), single);
}

TEST(Constant, RefusesWhatDoesNotFit) {
  const std::vector<int64_t> values = {1, 2};
  const auto data = encode_integers(DType::kI64, values);
  EXPECT_FALSE(decode_integers(vector_of(DType::kI64, 3), data, 64).ok());
  EXPECT_FALSE(decode_integers(vector_of(DType::kI64, 2), data, 1).ok());
  EXPECT_FALSE(decode_integers(vector_of(DType::kF64, 2), data, 64).ok());
  EXPECT_FALSE(decode_integers(vector_of(DType::kI64, 2), TensorData(), 64).ok());
  ValueType symbolic = vector_of(DType::kI64, 2);
  symbolic.shape = Shape{Dim::symbol("batch")};
  EXPECT_FALSE(decode_integers(symbolic, data, 64).ok());
}

TEST(Constant, ContentsOfSmallIntegersOnly) {
  const std::vector<int64_t> values = {4, -1};
  const auto data = encode_integers(DType::kI64, values);
  EXPECT_EQ(constant_contents(vector_of(DType::kI64, 2), data), (Contents{4, -1}));
  ValueType matrix = vector_of(DType::kI64, 2);
  matrix.shape = Shape{1, 2};
  EXPECT_FALSE(constant_contents(matrix, data));
  EXPECT_FALSE(constant_contents(vector_of(DType::kF64, 2), data));
  const std::vector<int64_t> many(65, 0);
  EXPECT_FALSE(constant_contents(vector_of(DType::kI64, 65), encode_integers(DType::kI64, many)));
}

TEST(Constant, AddedValuesCarryTypeAndContents) {
  Graph graph;
  const std::vector<int64_t> ints = {3, 1};
  const ValueId a = add_constant(graph, "a", DType::kI64, {2}, std::span<const int64_t>(ints));
  EXPECT_EQ(graph.type(a).contents, (Contents{3, 1}));
  EXPECT_EQ(graph.value(a).kind, ValueKind::kConstant);
  const std::vector<double> floats = {0.5};
  const ValueId b = add_constant(graph, "b", DType::kF32, {}, std::span<const double>(floats));
  EXPECT_EQ(graph.type(b).shape, Shape{});
  EXPECT_EQ(graph.value(b).data.size(), 4u);
}

}  // namespace
}  // namespace rannc::ir
