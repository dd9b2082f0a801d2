// Memory of programs beside the arguments that the caller keeps.
#include "ir/program/program_memory.h"

#include <gtest/gtest.h>

#include "ir/op/op.h"
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
}

}  // namespace
}  // namespace rannc::ir
