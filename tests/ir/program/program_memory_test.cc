// Memory of programs beside the arguments that the caller keeps.
#include "ir/program/program_memory.h"

#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "ir/program/allocator_blocks.h"
#include "ir/program/lower_program.h"

namespace rannc::ir {
namespace {

TEST(ProgramMemory, HoldsArgumentsThatTheCallerKeeps) {
  Joint joint;
  Graph& graph = joint.graph;
  const auto input = [&](const char* name, Shape shape) {
    return graph.add_value(ValueKind::kInput, name, {.dtype = DType::kF32, .shape = std::move(shape)});
  };
  const ValueId gy = input("gy", {8, 16}), x = input("x", {8, 16}), rstd = input("rstd", {8, 1});
  const ValueId scale = graph.add(core("rms_norm_grad_scale"), {gy, x, rstd});  // copies x
  infer_types(graph, graph.producer(scale)).value();
  joint.origins.push_back({TaskId(0)});
  ProgramLowering lowering(graph, {.calls = false});
  const std::vector<TaskId> tasks = {TaskId(0)};
  const Program program = lowering.lower({"R", tasks, {gy, x, rstd}, {scale}}).value();
  const std::vector<InstructionSet> instructions = {kDefaultInstructions};
  const Bindings sizes;
  ProgramMemory memory({joint, lowering.views(), instructions}, sizes);
  EXPECT_EQ(memory.peak(program, {.keeps_arguments = true}) - memory.peak(program, {}), memory.bytes(x));
  ProgramMemory on_gpu({joint, lowering.views(), instructions, {}, {}, DeviceType::kCuda}, sizes);
  EXPECT_EQ(memory.bytes(rstd), 32);
  EXPECT_EQ(on_gpu.bytes(rstd), 512);
  EXPECT_EQ(on_gpu.sum_bytes(rstd), 512);
  EXPECT_EQ(on_gpu.bytes(x), memory.bytes(x));
}

TEST(AllocatorBlocks, AreTheSizesOfGpusAlone) {
  constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;
  const std::pair<int64_t, int64_t> blocks[] = {
      {0, 0},
      {1, 512},
      {513, 1024},
      {kMiB, kMiB},                        // of a small segment
      {4 * kMiB, 4 * kMiB},                // five fill a large one
      {9 * kMiB, 9 * kMiB},                // two leave 2 MiB, a block of its own
      {9 * kMiB + 768 * kKiB, 10 * kMiB},  // two leave half a MiB, which nothing else can have
      {6 * kMiB + 512 * kKiB, 6 * kMiB + 512 * kKiB + 512 * kKiB / 3},  // three leave half a MiB
      {12 * kMiB, 12 * kMiB},
      {12 * kMiB + 512 * kKiB, 12 * kMiB + 512 * kKiB},  // 1.5 MiB of its segment are a block of their own
      {13 * kMiB, 14 * kMiB},                            // 1 MiB is not
      {13 * kMiB - 1, 13 * kMiB + kMiB},
  };
  for (const auto& [bytes, block] : blocks) {
    EXPECT_EQ(block_bytes(bytes, DeviceType::kCpu), bytes);
    EXPECT_EQ(block_bytes(bytes, DeviceType::kCuda), block) << bytes;
  }
  EXPECT_EQ(pool_end_bytes(DeviceType::kCpu), 0);
  EXPECT_EQ(pool_end_bytes(DeviceType::kCuda), 44 * kMiB);
}

}  // namespace
}  // namespace rannc::ir
