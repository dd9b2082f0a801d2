// What the planner says that convolution kernels allocate for themselves, against what they allocate.
#include "ir/op/kernel_scratch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "ir/graph/memory_format.h"
#include "ir/op/op.h"
#include "runtime/engine/allocation_meter.h"
#include "tools/common/machine.h"

namespace rannc::ir {
namespace {

// Of operands and result, and bytes: scratchpads of kernels that a rule leaves out or takes for smaller.
constexpr double kLimit = 0.02;
constexpr double kScratchpads = 64 * 1024;

// Bytes by which the cache of a core exceeds what is assumed where processors without AVX are imitated, which have
// less.
double cache_of_later_processors() {
  if (tools::machine_instructions() != InstructionSet::kSse41) return 0;
  return static_cast<double>(std::max<int64_t>(0, sysconf(_SC_LEVEL2_CACHE_SIZE) - kAssumedCoreCache));
}

// Nothing trains through a model's images.
constexpr int64_t kImageChannels = 3;

struct Case {
  int64_t samples, in, out, side, kernel;
  int64_t stride = 1, groups = 1, dilation = 1;
  bool transposed = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << fmt::format("{} samples {} -> {} channels, side {}, kernel {}, stride {}, {} groups, dilation {}{}",
                      c.samples, c.in, c.out, c.side, c.kernel, c.stride, c.groups, c.dilation,
                      c.transposed ? ", transposed" : "");
}

/// How it is computed.
struct How {
  bool channels_last = false, input_gradient = true, weight_gradient = true;
  bool weight_last = false;  ///< the weight was copied into channels last before
};

int64_t pad(const Case& c) { return c.transposed ? (c.kernel - 1) / 2 : c.dilation * (c.kernel / 2); }

at::Tensor run(const Case& c, const at::Tensor& x, const at::Tensor& weight) {
  if (c.transposed) return at::conv_transpose2d(x, weight, {}, c.stride, pad(c), 0, c.groups, c.dilation);
  return at::conv2d(x, weight, {}, c.stride, pad(c), c.dilation, c.groups);
}

struct Measured {
  int64_t forward = 0, backward = 0, operands = 0;
};

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

Measured measured(const Case& c, const How& how) {
  const auto format = how.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const at::Tensor x = at::randn({c.samples, c.in, c.side, c.side}).contiguous(format);
  at::Tensor weight = c.transposed ? at::randn({c.in, c.out / c.groups, c.kernel, c.kernel})
                                   : at::randn({c.out, c.in / c.groups, c.kernel, c.kernel});
  if (how.weight_last) weight = weight.contiguous(format);
  x.set_requires_grad(how.input_gradient);
  weight.set_requires_grad(how.weight_gradient);
  std::vector<at::Tensor> sources;
  for (const at::Tensor& source : {x, weight}) {
    if (source.requires_grad()) sources.push_back(source);
  }
  Measured found;
  for (int warm = 0; warm < 2; ++warm) {
    runtime::AllocationMeter meter;
    const at::Tensor y = run(c, x, weight);
    found.forward = meter.peak_bytes() - bytes_of(y);
    const at::Tensor seed = at::ones_like(y);
    meter.restart();
    const int64_t before = meter.live_bytes();
    torch::autograd::grad({y}, sources, {seed});
    found.backward = meter.peak_bytes() - before;
    for (const at::Tensor& source : sources) found.backward -= bytes_of(source);
    found.operands = bytes_of(x) + bytes_of(weight) + bytes_of(y);
  }
  return found;
}

ValueType type_of(Shape shape) {
  ValueType type;
  type.dtype = DType::kF32;
  type.shape = std::move(shape);
  return type;
}

KernelScratch predicted(const Case& c, const How& how, std::span<const InstructionSet> sets) {
  Graph graph;
  const Dim batch = Dim::symbol("batch");
  graph.set_batch_symbol("batch");
  ValueType images = type_of({batch, c.in, c.side, c.side});
  images.batch = {0, 1, 1};
  const ValueId x = graph.add_value(ValueKind::kInput, "x", images);
  const Shape filter = c.transposed ? Shape{c.in, c.out / c.groups, c.kernel, c.kernel}
                                    : Shape{c.out, c.in / c.groups, c.kernel, c.kernel};
  ValueId weight = graph.add_value(ValueKind::kParameter, "weight", type_of(filter));
  if (how.weight_last) {
    weight = graph.add(core("contiguous"), {weight}, {{std::string(kChannelsLast), true}});
    EXPECT_TRUE(infer_types(graph, graph.producer(weight)).ok());
  }
  Attributes attributes;
  attributes.set("strides", Shape{c.stride, c.stride});
  attributes.set("dilations", Shape{c.dilation, c.dilation});
  attributes.set("pads", Shape(4, Dim(pad(c))));
  attributes.set("groups", Dim(c.groups));
  if (how.channels_last) attributes.set(std::string(kChannelsLast), true);
  const std::vector<std::string> names = {"y"};
  const std::vector<ValueId> operands = {x, weight};
  const TaskId task = graph.add_task(core(c.transposed ? "conv_transpose" : "conv"), operands, attributes, names);
  EXPECT_TRUE(infer_types(graph, task).ok());
  const uint64_t wanted = (how.input_gradient ? 1 : 0) + (how.weight_gradient ? 2 : 0);
  return kernel_scratch(graph, task, wanted, {{"batch", c.samples}}, sets);
}

KernelScratch predicted(const Case& c, const How& how) {
  return predicted(c, how, std::vector{tools::machine_instructions()});
}

class KernelScratchOf : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  static void expect(const How& how) {
    const Case& c = GetParam();
    const Measured found = measured(c, how);
    const KernelScratch said = predicted(c, how);
    const double limit = kLimit * static_cast<double>(found.operands) + kScratchpads;
    const std::string text = fmt::format("channels last {}, weight {}, gradients of x {}, of the weight {}",
                                         how.channels_last, how.weight_last, how.input_gradient, how.weight_gradient);
    const auto forward = static_cast<double>(found.forward);
    EXPECT_GE(static_cast<double>(said.forward), forward - limit - cache_of_later_processors()) << "forward, " << text;
    EXPECT_LE(static_cast<double>(said.forward), forward + limit) << "forward, " << text;
    EXPECT_NEAR(static_cast<double>(said.backward), static_cast<double>(found.backward), limit) << "backward, " << text;
  }
};

TEST_P(KernelScratchOf, IsWhatLibTorchAllocates) {
  expect({.input_gradient = false});
  if (GetParam().in == kImageChannels) return;
  expect({});
  expect({.weight_gradient = false});
}

TEST_P(KernelScratchOf, IsWhatLibTorchAllocatesChannelsLast) {
  if (GetParam().transposed) GTEST_SKIP() << "the operator has no such flag";
  for (const bool weight_last : {false, true}) {
    expect({.channels_last = true, .input_gradient = false, .weight_last = weight_last});
    if (GetParam().in == kImageChannels) continue;
    expect({.channels_last = true, .weight_last = weight_last});
  }
}

// Products of few channels over few places, to the byte.
TEST(KernelScratchOfStrides, IsWhatLibTorchAllocates) {
  if (tools::machine_instructions() < InstructionSet::kAvx2) GTEST_SKIP() << "oneDNN unfolds images here";
  at::set_num_threads(1);
  for (const Case& c : {Case{2, 24, 24, 5, 3, 2}, Case{2, 48, 48, 3, 3, 2}, Case{2, 48, 48, 6, 3, 2},
                        Case{2, 96, 96, 3, 1, 2}, Case{2, 48, 96, 5, 1, 2}, Case{2, 40, 40, 8, 1, 2}}) {
    const How how{.weight_gradient = false};
    EXPECT_EQ(predicted(c, how).backward, measured(c, how).backward) << testing::PrintToString(c);
  }
}

// Devices of several instruction sets need the most of theirs, and the sets differ.
TEST(KernelScratchOfSets, IsThatOfTheSetThatNeedsMost) {
  const Case c{8, 512, 512, 2, 3};
  int64_t most = 0, least = INT64_MAX;
  for (const InstructionSet set : kInstructionSets) {
    const int64_t found = predicted(c, {}, std::vector{set}).backward;
    most = std::max(most, found);
    least = std::min(least, found);
  }
  EXPECT_GT(most, least);
  EXPECT_EQ(predicted(c, {}, kInstructionSets).backward, most);
}

// LibTorch's rule for its own kernels; the stem of a network; blocks that fit, and those that are padded.
INSTANTIATE_TEST_SUITE_P(Plain, KernelScratchOf,
                         ::testing::Values(Case{1, 16, 24, 32, 3}, Case{1, 64, 64, 32, 3}, Case{8, 3, 64, 64, 7, 2},
                                           Case{8, 3, 32, 64, 3}, Case{8, 64, 64, 32, 3}, Case{8, 17, 33, 48, 3},
                                           Case{8, 8, 24, 48, 3}, Case{8, 64, 20, 32, 5}, Case{8, 50, 75, 32, 3, 2},
                                           Case{8, 256, 256, 8, 3}, Case{8, 512, 512, 2, 3}, Case{8, 64, 128, 32, 3, 2},
                                           Case{8, 64, 64, 32, 3, 1, 1, 2}, Case{16, 512, 512, 4, 3, 2},
                                           Case{16, 512, 512, 2, 3}));
INSTANTIATE_TEST_SUITE_P(Pointwise, KernelScratchOf,
                         ::testing::Values(Case{8, 64, 128, 32, 1}, Case{32, 64, 128, 16, 1}, Case{32, 40, 24, 32, 1},
                                           Case{8, 64, 128, 32, 1, 2}));
INSTANTIATE_TEST_SUITE_P(Groups, KernelScratchOf,
                         ::testing::Values(Case{8, 96, 96, 32, 3, 1, 96}, Case{8, 96, 96, 32, 3, 2, 96},
                                           Case{8, 100, 100, 32, 3, 1, 100}, Case{8, 72, 72, 32, 5, 1, 72},
                                           Case{8, 640, 640, 2, 3, 1, 640}, Case{8, 640, 640, 3, 3, 1, 640},
                                           Case{8, 640, 640, 3, 3, 2, 640}, Case{8, 128, 128, 32, 3, 1, 4},
                                           Case{8, 128, 128, 32, 3, 1, 32}, Case{8, 30, 60, 32, 3, 1, 3}));
// Filters with more rows than the image, dilated and wide ones, and windows that begin far in the pad.
INSTANTIATE_TEST_SUITE_P(Unusual, KernelScratchOf,
                         ::testing::Values(Case{8, 128, 96, 3, 5}, Case{8, 64, 64, 1, 3},
                                           Case{4, 64, 64, 16, 3, 1, 1, 3}, Case{4, 32, 64, 16, 5, 2, 1, 2},
                                           Case{8, 64, 64, 9, 1, 2}, Case{8, 96, 96, 2, 7, 1, 96},
                                           Case{8, 96, 96, 16, 3, 1, 96, 2}, Case{8, 64, 128, 16, 3, 2, 4},
                                           Case{8, 64, 64, 16, 3, 1, 8}, Case{8, 16, 128, 16, 1, 2, 8}));
INSTANTIATE_TEST_SUITE_P(Transposed, KernelScratchOf,
                         ::testing::Values(Case{8, 128, 64, 16, 2, 2, 1, 1, true},
                                           Case{8, 40, 24, 16, 2, 2, 1, 1, true}, Case{8, 64, 32, 16, 3, 1, 1, 1, true},
                                           Case{1, 64, 32, 8, 2, 2, 1, 1, true}));

}  // namespace
}  // namespace rannc::ir
