// The compiler in a process that belongs to somebody else.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <filesystem>
#include <thread>

#include "rannc/compiler.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/process_state.h"

namespace rannc::compiler {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

const std::string kModel = RANNC_SOURCE_DIR "/tests/data/small_mlp/model.onnx";

/// Reads, plans with measured times, writes and trains.
void compile_and_train(const fs::path& bundle) {
  const Model model = read(kModel, {.loss = "cross_entropy(output=logits,labels=y)", .mini_batch = 16}).value();
  const Plan plan = compiler::plan(model, {.stages = 2, .costs = Costs::kMeasured}).value();
  EXPECT_TRUE(plan.facts().measured);
  write(plan, bundle, {.replace = true}).value();
  const auto trainer = runtime::Trainer::open(bundle, {}).value();
  auto random = at::detail::createCPUGenerator(3);
  runtime::Batch batch;
  for (const ValueId input : trainer->plan().graph.inputs()) {
    std::vector<int64_t> shape;
    for (const ir::Dim& dim : *trainer->plan().graph.type(input).shape)
      shape.push_back(dim.is_constant() ? dim.constant() : 16);
    const bool is_float = ir::is_float(trainer->plan().graph.type(input).dtype);
    batch.emplace(trainer->plan().graph.value(input).name,
                  runtime::to_value(is_float ? at::randn(shape, random, at::TensorOptions().dtype(at::kFloat))
                                             : at::zeros(shape, at::TensorOptions().dtype(at::kLong))));
  }
  for (int i = 0; i < 2; ++i) trainer->step(batch).value();
}

const fs::path kBundle = fs::path(::testing::TempDir()) / "embedded_compiler_test.rannc";

/// Stands for a dispatch mode of Python, which sees every call of an operator.
void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  throw std::runtime_error("the caller's mode sees " + op.schema().name());
}
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

TEST(EmbeddedCompiler, ComputesOutsideTheModesOfItsCaller) {
  const c10::impl::IncludeDispatchKeyGuard mode(c10::DispatchKey::TESTING_ONLY_GenericMode);
  const c10::InferenceMode inference;
  const Model model = read(kModel, {.loss = "cross_entropy(output=logits,labels=y)", .mini_batch = 16}).value();
  const Plan plan = compiler::plan(model, {.stages = 2, .costs = Costs::kMeasured, .refine = true}).value();
  write(plan, kBundle, {.replace = true}).value();
  fs::remove_all(kBundle);
}

TEST(EmbeddedCompiler, LeavesTheProcessAsItWas) {
  const int threads = at::get_num_threads();
  for (const int of_caller : {2, 3}) {
    at::set_num_threads(of_caller);
    std::thread([] { at::set_num_threads(4); }).join();  // of new threads
    compile_and_train(kBundle);                          // LibTorch starts threads of its own
    const auto before = rannc::testing::process_state();
    compile_and_train(kBundle);
    EXPECT_THAT(rannc::testing::changes_since(before), IsEmpty());
    EXPECT_EQ(at::get_num_threads(), of_caller);
  }
  at::set_num_threads(threads);
  fs::remove_all(kBundle);
}

}  // namespace
}  // namespace rannc::compiler
