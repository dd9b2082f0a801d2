// Calls of the flat programs of a stage's functions.
#include "runtime/aten/flat_program.h"

#include <gtest/gtest.h>

#include "ir/plan/functions.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

using ir::FunctionKind;

/// Number of calls of one function of a stage.
size_t calls(const ir::StageFunctions& stage, FunctionKind kind) {
  const ir::FunctionTable table = ir::function_table(stage);
  const ir::StageFunction& function = table[kind];
  std::vector<ValueId> results = function.results;
  results.insert(results.end(), function.kept.begin(), function.kept.end());
  std::vector<std::pair<ValueId, uint32_t>> adds;
  for (const ValueId value : function.added) adds.emplace_back(value, static_cast<uint32_t>(adds.size()));
  SizeTable sizes;
  return FlatProgram::build({.graph = stage.joint.graph,
                             .tasks = function.tasks,
                             .arguments = function.arguments,
                             .results = std::move(results),
                             .adds = std::move(adds)},
                            sizes)
      .value()
      .calls();
}

TEST(FlatProgram, TheKernelOfANormalizationIsCalledOnceWhereverIAndWRunApart) {
  const ir::Plan plan = testing::build_plan(testing::norm_model(ir::DType::kF32), {.cuts = {2}});
  for (const auto& stage : plan.functions) {
    EXPECT_EQ(calls(*stage, FunctionKind::kInput) + calls(*stage, FunctionKind::kWeight),
              calls(*stage, FunctionKind::kBackward));
  }
}

TEST(FlatProgram, OneKernelComputesScaleAndBiasInW) {
  const ir::Plan plan = testing::build_plan(testing::norm_model(ir::DType::kF32), {.cuts = {2}});
  EXPECT_EQ(calls(*plan.functions[0], FunctionKind::kWeight), 3U);  // the kernel, and two additions
}

}  // namespace
}  // namespace rannc::runtime
