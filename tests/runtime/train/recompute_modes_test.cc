// Recompute modes, counted on real forward passes.
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string_view>

#include "codegen/bundle_writer.h"
#include "partition/model/finish_plan.h"
#include "runtime/engine/engine.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using Which = ir::RecomputedMicroBatches;
using Gradients = std::map<std::string, Value>;

constexpr std::optional<Which> kModes[] = {std::nullopt, Which::kUnlessBackwardFollows, Which::kAll,
                                           Which::kAllButLast};

std::atomic<int> tanh_calls = 0;

/// Counts the calls of tanh in all threads. The models have one tanh, and no gradient calls it.
class CountedCalls {
 public:
  CountedCalls() {
    tanh_calls = 0;
    at::RecordFunctionCallback callback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
      const std::string_view name = call.name();
      if (name == "aten::tanh" || name == "aten::tanh_") ++tanh_calls;
      return nullptr;
    });
    handle_ = at::addGlobalCallback(callback.scopes({at::RecordScope::FUNCTION}));
  }
  ~CountedCalls() { at::removeCallback(handle_); }
  int forward_passes() const { return tanh_calls; }

 private:
  at::CallbackHandle handle_;
};

/// Stages s, s + devices, s + 2 devices … on device s.
ir::Plan laid_out(ir::Graph graph, const testing::PlanSpec& spec, size_t devices, const std::string& schedule) {
  ir::Plan plan = testing::build_plan(std::move(graph), spec);
  plan.devices.resize(devices);
  plan.predictions.resize(devices);
  for (size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].devices = {DeviceId::from(s % devices)};
  return partition::reschedule(plan, {1, schedule, {}}).value();
}

class RecomputeModes : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-modes-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Trainer> open(const ir::Plan& plan) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(plan, {}, path).value();
    return Trainer::open(path, {}).value();
  }

  fs::path folder_;
  int bundles_ = 0;
};

Batch batch_of(int64_t samples) {
  at::manual_seed(7);
  return {{"x", to_value(at::randn({samples, 6}, at::kDouble))},
          {"target", to_value(at::randn({samples, 6}, at::kDouble))}};
}

struct Counted {
  int forward_passes = 0;
  Gradients gradients;
};

Counted run(Trainer& trainer, const Batch& batch, const partition::Reschedule& change) {
  trainer.reschedule(partition::reschedule(trainer.plan(), change).value()).value();
  const CountedCalls calls;
  trainer.accumulate(batch).value();
  Counted found{calls.forward_passes(), {}};
  for (const auto& [name, gradient] : trainer.gradients().value())
    found.gradients.emplace(name, to_value(to_tensor(gradient).clone()));
  return found;
}

void expect_equal(const Gradients& found, const Gradients& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, gradient] : expected)
    EXPECT_TRUE(to_tensor(found.at(name)).equal(to_tensor(gradient))) << name;
}

TEST_F(RecomputeModes, RepeatForwardPassesOfTheirMicroBatches) {
  for (const auto& [samples, count] : {std::pair(5, 4), std::pair(9, 8)}) {
    for (const std::vector<uint32_t>& cuts : {std::vector<uint32_t>{}, {3}}) {
      const auto trainer = open(testing::build_plan(testing::skip_and_tie(ir::DType::kF64),
                                                    {.cuts = cuts, .micro_batches = {static_cast<uint32_t>(samples)}}));
      for (const char* schedule : {"gpipe", "1f1b"}) {
        // The last stage has the tanh. Under 1F1B, all of its backward passes follow at once.
        const int not_at_once = schedule[0] == 'g' ? count - 1 : 0;
        const int repeated[] = {0, not_at_once, count, count - 1};
        for (size_t mode = 0; mode < std::size(kModes); ++mode) {
          const Counted found =
              run(*trainer, batch_of(samples), {static_cast<uint32_t>(count), schedule, kModes[mode]});
          EXPECT_EQ(found.forward_passes, count + repeated[mode]) << schedule << " mode " << mode;
        }
      }
    }
  }
}

TEST_F(RecomputeModes, GiveTheSameGradients) {
  struct Layout {
    std::vector<uint32_t> cuts;
    size_t devices;
    std::vector<const char*> schedules;
  };
  const Layout layouts[] = {{{2}, 2, {"gpipe", "1f1b", "zb-h1"}}, {{1, 2, 4}, 2, {"interleaved"}}};
  for (const auto make : {testing::skip_and_tie, testing::dropout_model}) {
    for (const Layout& layout : layouts) {
      const auto trainer = open(laid_out(make(ir::DType::kF64), {.cuts = layout.cuts, .micro_batches = {9}},
                                         layout.devices, layout.schedules.front()));
      for (const char* schedule : layout.schedules) {
        SCOPED_TRACE(schedule);
        const Gradients expected = run(*trainer, batch_of(9), {4, schedule, std::nullopt}).gradients;
        for (const auto& mode : kModes)
          expect_equal(run(*trainer, batch_of(9), {4, schedule, mode}).gradients, expected);
      }
    }
  }
}

TEST_F(RecomputeModes, ARescheduledPlanNeedsItsFunctions) {
  const auto trainer = open(testing::build_plan(testing::skip_and_tie(ir::DType::kF64), {.micro_batches = {8}}));
  ir::Plan plan = partition::reschedule(trainer->plan(), {4, "gpipe", Which::kAll}).value();
  plan.functions = trainer->plan().functions;
  EXPECT_EQ(trainer->reschedule(std::move(plan)).diagnostic().message,
            "stage @s0 recomputes, but its functions have no R");
  plan = trainer->plan().clone();
  plan.functions.clear();
  EXPECT_EQ(trainer->reschedule(std::move(plan)).diagnostic().message,
            "the new plan has functions of 0 stages, the bundle's of 1");
}

}  // namespace
}  // namespace rannc::runtime
