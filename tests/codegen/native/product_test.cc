// Products of small matrices against sums in a wider type, and between instruction sets.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/codegen/native/variants.h"

namespace rannc::native_kernels {
namespace {

using native::ProductRun;

/// One product with its memory.
template <class T>
struct Case {
  int64_t rows, columns, depth;
  bool transposed_a, transposed_b, biased, adds;
  std::vector<T> a, b, bias, sum;

  void fill(std::mt19937_64& random) {
    std::normal_distribution<double> number;
    a.resize(static_cast<size_t>(rows * depth));
    b.resize(static_cast<size_t>(depth * columns));
    bias.resize(static_cast<size_t>(columns));
    sum.resize(static_cast<size_t>(rows * columns));
    for (std::vector<T>* each : {&a, &b, &bias, &sum}) {
      for (T& x : *each) x = static_cast<T>(number(random));
    }
  }

  T a_at(int64_t i, int64_t p) const { return a[static_cast<size_t>(transposed_a ? p * rows + i : i * depth + p)]; }
  T b_at(int64_t p, int64_t j) const { return b[static_cast<size_t>(transposed_b ? j * depth + p : p * columns + j)]; }

  /// Rows from `first` on.
  std::vector<T> run(const Kernels& kernels, int64_t first = 0) const {
    std::vector<T> to(sum.begin() + static_cast<ptrdiff_t>(first * columns), sum.end());
    std::vector<double> scratch(static_cast<size_t>(depth * (columns + 16)));
    ProductRun of{};
    of.a_row = transposed_a ? 1 : depth;
    of.a_column = transposed_a ? rows : 1;
    of.a = a.data() + first * of.a_row;
    of.b = b.data();
    of.b_row = transposed_b ? 1 : columns;
    of.b_column = transposed_b ? depth : 1;
    of.bias = biased ? bias.data() : nullptr;
    of.to = to.data();
    of.rows = rows - first;
    of.columns = columns;
    of.depth = depth;
    of.adds = adds;
    of.scratch = reinterpret_cast<char*>(scratch.data());
    (sizeof(T) == 4 ? kernels.products->of_float : kernels.products->of_double)(of);
    return to;
  }

  std::string str() const {
    return std::to_string(rows) + "x" + std::to_string(depth) + "x" + std::to_string(columns) +
           (transposed_a ? " a^T" : "") + (transposed_b ? " b^T" : "") + (biased ? " bias" : "") +
           (adds ? " adds" : "");
  }
};

template <class T>
class Products : public ::testing::Test {
 protected:
  /// Calls `check` with products of all layouts.
  template <class Check>
  static void each(Check&& check) {
    std::mt19937_64 random(11);
    for (const int64_t rows : {1, 3, 4, 8, 18}) {
      for (const int64_t columns : {1, 7, 8, 16, 24, 33}) {
        for (const int64_t depth : {0, 1, 16, 50}) {
          const auto flags = static_cast<unsigned>(random());
          Case<T> given{
              rows, columns, depth, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0, {},
              {},   {},      {}};
          given.fill(random);
          check(given);
        }
      }
    }
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Products, Types);

TYPED_TEST(Products, AreSumsOfTheirTerms) {
  this->each([](const Case<TypeParam>& given) {
    const std::vector<TypeParam> found = given.run(*baseline_kernels());
    for (int64_t i = 0; i < given.rows; ++i) {
      for (int64_t j = 0; j < given.columns; ++j) {
        const auto at = static_cast<size_t>(i * given.columns + j);
        long double expected =
            (given.biased ? given.bias[static_cast<size_t>(j)] : 0) + (given.adds ? given.sum[at] : 0);
        long double size = std::abs(expected);
        for (int64_t p = 0; p < given.depth; ++p) {
          const long double term = static_cast<long double>(given.a_at(i, p)) * given.b_at(p, j);
          expected += term;
          size += std::abs(term);
        }
        // Each of the sums and products rounds once.
        const long double limit =
            static_cast<long double>(given.depth + 3) * std::numeric_limits<TypeParam>::epsilon() * (size + 4);
        ASSERT_LE(std::abs(found[at] - expected), limit) << given.str() << " at " << i << ", " << j;
      }
    }
  });
}

TYPED_TEST(Products, HaveTheSameBitsOnAllInstructionSets) {
  for (const Kernels* kernels : usable_variants()) {
    this->each([&](const Case<TypeParam>& given) {
      ASSERT_EQ(given.run(*kernels), given.run(*baseline_kernels())) << kernels->variant << " " << given.str();
    });
  }
}

TYPED_TEST(Products, ComputeEachRowByItself) {
  for (const Kernels* kernels : usable_variants()) {
    this->each([&](const Case<TypeParam>& given) {
      const std::vector<TypeParam> all = given.run(*kernels);
      const std::vector<TypeParam> rest(all.begin() + static_cast<ptrdiff_t>(given.columns), all.end());
      ASSERT_EQ(given.run(*kernels, 1), rest) << kernels->variant << " " << given.str();
    });
  }
}

}  // namespace
}  // namespace rannc::native_kernels
