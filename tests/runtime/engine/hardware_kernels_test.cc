// Plans with kernels that another type of hardware does not have.
#include "runtime/engine/internal/hardware_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "tests/runtime/support/forwarding_device.h"
#include "tests/runtime/support/plan_builder.h"

namespace rannc::runtime {
namespace {

using ::testing::HasSubstr;

/// The processor under the name of a GPU.
class NamedGpu final : public testing::ForwardingDevice {
 public:
  NamedGpu() : ForwardingDevice(cpu().with_own_streams()) {}
  ir::DeviceType type() const override { return ir::DeviceType::kCuda; }
  std::unique_ptr<Device> with_own_streams() const override { return std::make_unique<NamedGpu>(); }
};

/// A convolution of x [batch,3,4,4] with the kernel of that name.
ir::Plan convolution(const std::string& algorithm) {
  ir::Graph graph;
  graph.set_batch_symbol("batch");
  const ir::Shape shape{ir::Dim::symbol("batch"), 3, 4, 4};
  const ValueId x =
      graph.add_value(ir::ValueKind::kInput, "x", {.dtype = ir::DType::kF32, .shape = shape, .batch = {.axis = 0}});
  graph.add_input(x);
  const ValueId weight =
      graph.add_value(ir::ValueKind::kParameter, "weight", {.dtype = ir::DType::kF32, .shape = ir::Shape{2, 3, 3, 3}},
                      ir::TensorData::in_memory(std::vector<std::byte>(2 * 27 * 4)));
  const ValueId y = graph.add(ir::core("conv"), {x, weight}, {{"algorithm", algorithm}});
  ir::infer_types(graph, graph.value(y).producer).value();
  graph.add_output(y);
  return testing::build_plan(std::move(graph), {.training = false});
}

TEST(HardwareKernels, B8KernelOfOneDnnOnAGpu) {
  NamedGpu gpu;
  const ir::Plan plan = convolution("onednn");
  EXPECT_TRUE(check_kernels(plan, StageId(0), cpu()).ok());
  const auto found = check_kernels(plan, StageId(0), gpu);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().rule, "B8");
  EXPECT_THAT(found.diagnostic().message, HasSubstr("`aten::mkldnn_convolution` runs on a CPU only, not on cuda"));
}

TEST(HardwareKernels, LibTorchsOwnChoiceRunsAnywhere) {
  NamedGpu gpu;
  EXPECT_TRUE(check_kernels(convolution("any"), StageId(0), gpu).ok());
}

}  // namespace
}  // namespace rannc::runtime
