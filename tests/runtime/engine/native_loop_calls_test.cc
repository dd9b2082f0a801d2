// Calls of compiled loops: operands are checked, and copied only where their order in memory requires it.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/native/loop_calls.h"

namespace rannc::testing {
namespace {

TEST(NativeLabels, AreColumnsOrIgnored) {
  const at::Tensor fine = at::tensor({0, 23, -100}, at::kLong);
  EXPECT_TRUE(native::labels(fine, 24, -100).equal(fine));
  for (const int64_t wrong : {24, -1}) {
    EXPECT_THROW(native::labels(at::tensor({int64_t{0}, wrong}, at::kLong), 24, -100), c10::IndexError);
    EXPECT_THROW(native::labels(at::tensor({int64_t{0}, wrong}, at::kInt), 24, -100), c10::IndexError);
  }
}

/// x + y over whole rows. `data` receives where x was read.
const void* data = nullptr;
void sum_of_two(const native::LoopRun& run, int64_t first, int64_t last) {
  data = run.in[0].data;
  const auto* const x = static_cast<const float*>(run.in[0].data);
  const auto* const y = static_cast<const float*>(run.in[1].data);
  for (int64_t i = first * run.columns; i < std::min(last * run.columns, run.elements); ++i)
    static_cast<float*>(run.out[0])[i] = x[i] + y[i];
}

// Copies between memory formats cost more than the loop, and the copies of its readers.
TEST(NativeMemoryOrder, IsKeptWhereOperandsAgree) {
  const at::Tensor rows = at::arange(120, at::kFloat).reshape({2, 3, 4, 5});
  const at::Tensor last = rows.contiguous(at::MemoryFormat::ChannelsLast);
  const auto sum = [](const at::Tensor& x, const at::Tensor& y, bool by_rows = false) {
    at::Tensor made;
    native::loop(sum_of_two, {at::kFloat, 24, 5, by_rows, 0}, {{x}, {y}}, {{made, x.sizes()}});
    EXPECT_TRUE(made.equal(x + y));
    EXPECT_EQ(data == x.const_data_ptr(), made.strides() == x.strides());
    return made;
  };
  EXPECT_EQ(sum(last, last + 1).strides(), last.strides());
  EXPECT_EQ(sum(rows.permute({1, 0, 3, 2}), rows.permute({1, 0, 3, 2}) + 1).strides(),
            rows.permute({1, 0, 3, 2}).strides());
  EXPECT_TRUE(sum(last, rows).is_contiguous());
  EXPECT_TRUE(sum(rows, last).is_contiguous());
  EXPECT_TRUE(sum(last, last, /*by_rows=*/true).is_contiguous());
  const at::Tensor gaps = at::arange(240, at::kFloat).reshape({2, 3, 4, 10}).slice(3, 0, 10, 2);
  EXPECT_TRUE(sum(gaps, gaps).is_contiguous());
  at::Tensor made;  // beside random numbers, which follow the axes
  native::loop([](const native::LoopRun&, int64_t, int64_t) {}, {at::kFloat, 24, 5, false, 0}, {{last}, {at::Tensor()}},
               {{made, last.sizes()}});
  EXPECT_TRUE(made.is_contiguous());
}

}  // namespace
}  // namespace rannc::testing
