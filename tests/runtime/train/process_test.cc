// Settings of the whole process.
#include "runtime/train/process.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rannc::runtime {
namespace {

TEST(ProductPrecision, IsThatOfProductsAndConvolutions) {
  const auto rounds = [] {
    return std::pair(at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN());
  };
  set_product_precision(ProductPrecision::kHigh);
  EXPECT_EQ(rounds(), std::pair(true, true));
  set_product_precision(ProductPrecision::kHighest);
  EXPECT_EQ(rounds(), std::pair(false, false));
}

TEST(DeterministicKernels, RefuseOperatorsWithoutOne) {
  const at::Tensor places = at::zeros({2}, at::kLong), values = at::ones({2});
  at::Tensor numbers = at::zeros({3});
  numbers.put_(places, values);  // which value remains is not specified
  use_deterministic_kernels();
  try {
    numbers.put_(places, values);
    ADD_FAILURE();
  } catch (const c10::Error& refused) {
    EXPECT_THAT(refused.what(), ::testing::HasSubstr("put_"));
  }
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
}

TEST(TimedConvolutions, AreThoseOfCudnnUnlessBitsHaveToBeEqual) {
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
  time_convolutions();
  EXPECT_TRUE(at::globalContext().benchmarkCuDNN());
  use_deterministic_kernels();
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
}

}  // namespace
}  // namespace rannc::runtime
