// Sums of gradients by leaf and by parameter, over the micro-batches of steps.
#include "runtime/engine/internal/parameter_sums.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

/// Two parameters, of which two tasks read the first.
class ParameterSumsTest : public ::testing::Test {
 protected:
  ParameterSumsTest() : sums_(leaves_, parameters_) { sums_.begin_step({}); }

  /// One micro-batch, whose gradient of each leaf is its factor everywhere.
  void backward(std::vector<double> factors) {
    for (size_t i = 0; i < factors.size(); ++i) {
      const at::Tensor gradient = at::full_like(to_tensor(parameters_[leaves_[i].parameter]), factors[i]);
      at::Tensor& sum = sums_.sums()[i];
      sum = sum.defined() ? sum + gradient : gradient;
    }
  }
  at::Tensor total(uint32_t parameter) { return to_tensor(sums_.totals({&parameter, 1})[0]); }

  std::vector<Leaf> leaves_ = {{0, TaskId(0)}, {0, TaskId(1)}, {1, TaskId(2)}};
  Values parameters_ = {to_value(at::ones({3}, at::kDouble)), to_value(at::ones({2}, at::kDouble))};
  ParameterSums sums_;
};

TEST_F(ParameterSumsTest, LeavesOfAParameterAndMicroBatchesAreSummed) {
  backward({1, 10, 100});
  backward({2, 20, 200});
  EXPECT_TRUE(at::equal(total(0), at::full({3}, 33.0, at::kDouble)));
  EXPECT_TRUE(at::equal(total(1), at::full({2}, 300.0, at::kDouble)));
  sums_.begin_step({});
  EXPECT_TRUE(at::equal(total(0), at::zeros({3}, at::kDouble))) << "without a backward pass";
}

TEST_F(ParameterSumsTest, CarriedSumsGoOn) {
  backward({1, 10, 100});
  EXPECT_TRUE(at::equal(total(0), at::full({3}, 11.0, at::kDouble)));  // read; parameter 1 is not
  sums_.begin_step({true, true});
  backward({1, 10, 100});
  EXPECT_TRUE(at::equal(total(0), at::full({3}, 22.0, at::kDouble)));
  EXPECT_TRUE(at::equal(total(1), at::full({2}, 200.0, at::kDouble)));
}

TEST_F(ParameterSumsTest, TotalsOfAllReplicasReplaceThose) {
  backward({1, 10, 100});
  const uint32_t first = 0;
  sums_.set_totals({&first, 1}, {to_value(at::full({3}, 5.0, at::kDouble))});
  EXPECT_TRUE(at::equal(total(0), at::full({3}, 5.0, at::kDouble)));
  sums_.begin_step({true, false});
  backward({1, 10, 100});
  EXPECT_TRUE(at::equal(total(0), at::full({3}, 16.0, at::kDouble)));
  EXPECT_TRUE(at::equal(total(1), at::full({2}, 100.0, at::kDouble))) << "not carried";
}

}  // namespace
}  // namespace rannc::runtime
