// Every operator of the language on the test device: the same bits as on a CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/aten/aten_call.h"
#include "tests/codegen/prepared_case.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::ir::testing {
namespace {

using rannc::testing::test_device;

using Tensors = std::vector<at::Tensor>;

Tensors run_on(c10::Device device, const Prepared& made, const Tensors& inputs, int64_t batch) {
  Tensors there;
  for (const at::Tensor& input : inputs) there.push_back(input.to(device));
  const auto operands = in_places(made, there);
  const Bindings sizes = {{"batch", batch}};
  const auto results = runtime::run_lowering(made.lowering, {.operands = operands, .sizes = sizes, .device = device});
  EXPECT_TRUE(results.ok()) << results.diagnostic().str();
  return results.ok() ? *results : Tensors();
}

at::Tensor dense(const at::Tensor& tensor) { return tensor.is_sparse() ? tensor.to_dense() : tensor; }

TEST(TestDevice, RunsEveryOperatorAsACpu) {
  rannc::testing::reset_test_device();
  at::manual_seed(4);
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(describe(c));
    const Prepared made = prepare(c, DType::kF32);
    const Tensors inputs = drawn(made, 2);
    at::manual_seed(5);
    const Tensors expected = run_on(c10::kCPU, made, inputs, 2);
    at::manual_seed(5);
    Tensors found;
    try {
      found = run_on(test_device(), made, inputs, 2);
    } catch (const c10::Error& error) {
      ADD_FAILURE() << error.what_without_backtrace();
      continue;
    }
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].device(), test_device()) << i;
      if (is_workspace(c, i, made.types[i])) continue;  // its gaps are not initialized
      const at::Tensor one = dense(found[i].cpu()), other = dense(expected[i]);
      EXPECT_EQ(one.scalar_type(), other.scalar_type());
      EXPECT_TRUE(at::equal(one, other) || other.isnan().any().item<bool>()) << i;
    }
  }
  EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
}

}  // namespace
}  // namespace rannc::ir::testing
