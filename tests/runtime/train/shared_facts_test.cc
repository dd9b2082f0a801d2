// Processes of a run that differ in what results depend on do not train.
#include "runtime/train/internal/shared_facts.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "codegen/bundle_writer.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transport_local.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/runtime/transport/joined_ends.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kWorkers = 3;
using Failures = std::array<std::string, kWorkers>;

class SharedFactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-facts-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
    bundle_ = bundle("bundle", {.cuts = {4}, .replicas = {1, 2}, .micro_batches = {4, 3}});
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string bundle(const std::string& name, const rannc::testing::PlanSpec& spec) const {
    const std::string path = (folder_ / name).string();
    codegen::write_bundle(rannc::testing::build_plan(rannc::testing::skip_and_tie(ir::DType::kF64), spec), {}, path)
        .value();
    return path;
  }

  /// Opens all workers. The last one has other options or another bundle.
  Failures open(const TrainerOptions& last, const std::string& last_bundle) const {
    auto ends = make_local_transports(kWorkers, std::chrono::seconds(60));
    Failures failures;
    rannc::testing::on_each(kWorkers, [&](uint32_t rank) {
      const bool is_last = rank + 1 == kWorkers;
      const auto trainer = Trainer::open_worker(is_last ? last_bundle : bundle_, is_last ? last : TrainerOptions(),
                                                std::move(ends[rank]));
      if (!trainer.ok()) failures[rank] = trainer.diagnostic().str();
    });
    return failures;
  }
  Failures open(const TrainerOptions& last) const { return open(last, bundle_); }

  fs::path folder_;
  std::string bundle_;
};

TEST_F(SharedFactsTest, EqualProcessesTrain) {
  TrainerOptions options;
  options.timeout = std::chrono::seconds(50);  // what a process only does, not what it computes
  EXPECT_THAT(open(options), Each(IsEmpty()));
}

TEST_F(SharedFactsTest, OptionsThatChangeResultsMustBeEqual) {
  struct Case {
    const char* name;
    std::function<void(TrainerOptions&)> change;
  };
  const std::vector<Case> cases = {
      {"optimizer sgd, worker 2 has adam", [](auto& o) { o.optimizer.kind = OptimizerKind::kAdam; }},
      {"learning rate 0.01, worker 2 has 0.02", [](auto& o) { o.optimizer.learning_rate = 0.02; }},
      {"momentum 0, worker 2 has 0.9", [](auto& o) { o.optimizer.momentum = 0.9; }},
      {"weight decay 0, worker 2 has 0.1", [](auto& o) { o.optimizer.weight_decay = 0.1; }},
      {"betas and epsilon", [](auto& o) { o.optimizer.beta2 = 0.99; }},
      {"warm-up steps", [](auto& o) { o.optimizer.warmup_steps = 7; }},
      {"decay steps", [](auto& o) { o.optimizer.decay_steps = 7; }},
      {"decay steps", [](auto& o) { o.optimizer.decay_from = 7; }},
      {"decay steps", [](auto& o) { o.optimizer.decay = Decay::kLinear; }},
      {"momentum", [](auto& o) { o.optimizer.nesterov = true; }},
      {"betas and epsilon", [](auto& o) { o.optimizer.amsgrad = true; }},
      {"muon rate", [](auto& o) { o.optimizer.match_rms_adamw = false; }},
      {"groups [], worker 2 has [*: rate=2x]",
       [](auto& o) { o.optimizer.grouping.groups = {ir::parse_group("*: rate=2x").value()}; }},
      {"groups [], worker 2 has [no decay]", [](auto& o) { o.optimizer.grouping.no_decay = true; }},
      {"average of weight 0, worker 2 has 0.5", [](auto& o) { o.optimizer.grouping.average = 0.5; }},
      {"clip norm 0, worker 2 has 1", [](auto& o) { o.clip_norm = 1; }},
      {"seed 0, worker 2 has 5", [](auto& o) { o.seed = 5; }},
      {"loss scale", [](auto& o) { o.loss_scale = 2; }},
  };
  for (const Case& each : cases) {
    TrainerOptions options;
    each.change(options);
    EXPECT_THAT(open(options), Each(AllOf(HasSubstr("worker 0 has "), HasSubstr(each.name)))) << each.name;
  }
}

// Rules that only one process changes during the run end it: their digest rides on the sum of the losses.
TEST_F(SharedFactsTest, RulesThatDifferDuringARunEndIt) {
  const auto change = [](const std::function<Result<void>(Trainer&)>& of_last) {
    return [of_last](Trainer& trainer, bool is_last) { return is_last ? of_last(trainer) : Result<void>(); };
  };
  const auto rate = change([](Trainer& trainer) -> Result<void> {
    trainer.set_learning_rate(0.5);
    return {};
  });
  const auto groups =
      change([](Trainer& trainer) { return trainer.set_groups({ir::parse_group("*: rate=2x").value()}); });
  const auto same = [](Trainer& trainer, bool) -> Result<void> {
    trainer.set_learning_rate(0.5);
    return trainer.set_groups({ir::parse_group("*: rate=2x").value()});
  };
  for (const auto& [changes, differs] :
       {std::pair<std::function<Result<void>(Trainer&, bool)>, bool>{rate, true}, {groups, true}, {same, false}}) {
    auto ends = make_local_transports(kWorkers, std::chrono::seconds(60));
    Failures failures;
    rannc::testing::on_each(kWorkers, [&](uint32_t rank) {
      const auto trainer = Trainer::open_worker(bundle_, TrainerOptions(), std::move(ends[rank])).value();
      at::manual_seed(3);
      Batch batch{{"x", to_value(at::randn({7, 6}, at::kDouble))}};
      batch.emplace("target", to_value(at::randn({7, 6}, at::kDouble)));
      trainer->step(batch).value();
      changes(*trainer, rank + 1 == kWorkers).value();
      if (const auto stepped = trainer->step(batch); !stepped.ok()) failures[rank] = stepped.diagnostic().str();
    });
    if (differs) {
      EXPECT_THAT(failures, Each(HasSubstr("step 1: the processes of the run have different groups, learning rates")));
    } else {
      EXPECT_THAT(failures, Each(IsEmpty()));
    }
  }
}

// Worker 1 and 2 are replicas of the second stage, which would go on from different weights.
TEST_F(SharedFactsTest, BundlesMustBeEqual) {
  const std::string copy = (folder_ / "copy").string();
  fs::copy(bundle_, copy, fs::copy_options::recursive);
  EXPECT_THAT(open({}, copy), Each(IsEmpty()));
  const std::string other = bundle("other", {.cuts = {4}, .replicas = {1, 2}, .micro_batches = {3, 4}});
  EXPECT_THAT(open({}, other), Each(HasSubstr("the bundle's plan.rir of digest")));
}

// Threads of one process can differ in the number of threads only; `workers_test.py` starts processes.
TEST_F(SharedFactsTest, NumbersOfThreadsMustBeEqual) {
  auto ends = make_local_transports(kWorkers, std::chrono::seconds(60));
  Failures failures;
  rannc::testing::on_each(kWorkers, [&](uint32_t rank) {
    at::get_num_threads();                   // the first call in a thread takes over the number of the process
    at::set_num_threads(rank == 1 ? 3 : 2);  // of this thread
    const auto trainer = Trainer::open_worker(bundle_, {}, std::move(ends[rank]));
    if (!trainer.ok()) failures[rank] = trainer.diagnostic().str();
  });
  EXPECT_THAT(failures, Each(HasSubstr("worker 0 has LibTorch's threads per operator 2, worker 1 has 3")));
}

struct Setting {
  const char* name;
  ir::DeviceType hardware;
  std::function<void(at::Context&)> change, undo;
};

std::vector<Setting> settings() {
  using at::Float32Backend, at::Float32Op, at::Float32Precision;
  const auto precise = [](Float32Backend backend, Float32Op op, Float32Precision precision) {
    return [=](at::Context& context) { context.setFloat32Precision(backend, op, precision); };
  };
  const auto flag = [](void (at::Context::*set)(bool), bool to) {
    return [=](at::Context& context) { (context.*set)(to); };
  };
  constexpr auto kCpu = ir::DeviceType::kCpu, kCuda = ir::DeviceType::kCuda;
  return {
      {"deterministic algorithms", kCpu, [](auto& of) { of.setDeterministicAlgorithms(true, false); },
       [](auto& of) { of.setDeterministicAlgorithms(false, false); }},
      {"float32 precision of oneDNN", kCpu, precise(Float32Backend::MKLDNN, Float32Op::MATMUL, Float32Precision::BF16),
       precise(Float32Backend::MKLDNN, Float32Op::MATMUL, Float32Precision::IEEE)},
      {"oneDNN", kCpu, flag(&at::Context::setUserEnabledMkldnn, false), flag(&at::Context::setUserEnabledMkldnn, true)},
      {"deterministic oneDNN", kCpu, flag(&at::Context::setDeterministicMkldnn, true),
       flag(&at::Context::setDeterministicMkldnn, false)},
      {"NNPACK", kCpu, flag(&at::Context::setUserEnabledNNPACK, false), flag(&at::Context::setUserEnabledNNPACK, true)},
      {"float32 precision of GPUs", kCuda, precise(Float32Backend::CUDA, Float32Op::MATMUL, Float32Precision::TF32),
       precise(Float32Backend::CUDA, Float32Op::MATMUL, Float32Precision::IEEE)},
      {"float32 precision of GPUs", kCuda, precise(Float32Backend::CUDA, Float32Op::CONV, Float32Precision::IEEE),
       precise(Float32Backend::CUDA, Float32Op::CONV, Float32Precision::TF32)},
      {"cuDNN", kCuda, flag(&at::Context::setUserEnabledCuDNN, false), flag(&at::Context::setUserEnabledCuDNN, true)},
      {"deterministic cuDNN", kCuda, flag(&at::Context::setDeterministicCuDNN, true),
       flag(&at::Context::setDeterministicCuDNN, false)},
      {"benchmarks of cuDNN", kCuda, flag(&at::Context::setBenchmarkCuDNN, true),
       flag(&at::Context::setBenchmarkCuDNN, false)},
      {"16-bit sums of cuBLAS", kCuda, [](auto& of) { of.setAllowBF16ReductionCuBLAS(false); },
       [](auto& of) { of.setAllowBF16ReductionCuBLAS(true); }},
  };
}

TEST(ProcessFacts, NameWhatDiffers) {
  for (const Setting& setting : settings()) {
    at::Context& context = at::globalContext();
    FactComparison comparison;
    const SharedFacts before = process_facts(setting.hardware);
    EXPECT_TRUE(comparison.add(0, to_text(before)).ok());
    setting.change(context);
    const auto changed = comparison.add(3, to_text(process_facts(setting.hardware)));
    setting.undo(context);
    ASSERT_FALSE(changed.ok()) << setting.name;
    EXPECT_THAT(changed.diagnostic().str(),
                AllOf(HasSubstr(std::string("worker 0 has LibTorch's ") + setting.name), HasSubstr("worker 3 has ")));
    EXPECT_EQ(process_facts(setting.hardware), before) << setting.name;
  }
}

TEST_F(SharedFactsTest, AnErrorOfOneProcessIsAnErrorOfAll) {
  EXPECT_THAT(open({}, (folder_ / "none").string()), Each(HasSubstr("none")));
}

TEST_F(SharedFactsTest, OfTheCallerAreCompared) {
  auto ends = make_local_transports(kWorkers, std::chrono::seconds(60));
  Failures failures;
  rannc::testing::on_each(kWorkers, [&](uint32_t rank) {
    const auto trainer = Trainer::open_worker(bundle_, {}, std::move(ends[rank])).value();
    SharedFacts facts = {{"steps", "7"}};
    if (rank > 0) facts["samples"] = std::to_string(rank);  // the first worker does not know
    const Result<void> checked = trainer->check_shared(facts);
    if (!checked.ok()) failures[rank] = checked.diagnostic().str();
  });
  EXPECT_THAT(failures, Each(HasSubstr("worker 1 has samples 1, worker 2 has 2")));
}

}  // namespace
}  // namespace rannc::runtime
