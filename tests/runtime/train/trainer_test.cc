// What a training binary asks of the trainer: clipped steps, accumulated ones, evaluations of any size.
#include "runtime/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "codegen/bundle_writer.h"
#include "ir/base/replacement.h"
#include "ir/text/text.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/gradient_norms.h"
#include "runtime/transport/transport_local.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::PlanSpec;
using Tensors = std::map<std::string, at::Tensor>;
using MakeGraph = ir::Graph (*)(ir::DType);

constexpr double kTolerance = 1e-12;  // sums of doubles in another order
constexpr double kRate = 0.1;

class Trainers : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path memory = "/dev/shm";  // spares the disk what checkpoints flush
    folder_ =
        (fs::exists(memory) ? memory : fs::temp_directory_path()) / ("rannc-trainer-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Trainer> open(MakeGraph graph, const PlanSpec& spec, const TrainerOptions& options = {}) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(testing::build_plan(graph(ir::DType::kF64), spec), {}, path).value();
    return Trainer::open(path, options).value();
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_;
  int bundles_ = 0;
};

/// Samples of x and target; `rest` is the shape of one.
Batch batch_of(int64_t samples, std::vector<int64_t> rest, uint64_t seed = 5) {
  at::manual_seed(seed);
  rest.insert(rest.begin(), samples);
  return {{"x", to_value(at::randn(rest, at::kDouble))}, {"target", to_value(at::randn(rest, at::kDouble))}};
}

Batch slice(const Batch& batch, int64_t first, int64_t last) {
  Batch part;
  for (const auto& [name, value] : batch) part.emplace(name, value->samples({0, 1, 1}, {first, last}));
  return part;
}

double relative_error(const Value& found, const at::Tensor& expected) {
  const at::Tensor& tensor = to_tensor(found);
  EXPECT_EQ(tensor.sizes(), expected.sizes());
  return ((tensor - expected).norm() / expected.norm()).item<double>();
}

at::Tensor only_output(const Result<StepResult>& result) {
  EXPECT_TRUE(result.ok()) << result.diagnostic().str();
  EXPECT_EQ(result->outputs.size(), 1U);
  return to_tensor(result->outputs.begin()->second);
}

TrainerOptions sgd(double learning_rate, double clip_norm = 0) {
  TrainerOptions options;
  options.optimizer.learning_rate = learning_rate;
  options.clip_norm = clip_norm;
  return options;
}

TEST_F(Trainers, ClippedStepsCommitRunningStatistics) {
  const Batch batch = batch_of(8, {3, 4});
  const PlanSpec spec = {.cuts = {2}, .micro_batches = {4, 4}};
  const auto plain = open(testing::norm_model, spec, sgd(0.1)),
             clipped = open(testing::norm_model, spec, sgd(0.1, 1e9));
  const at::Tensor before = only_output(clipped->evaluate(batch));
  plain->step(batch).value();
  EXPECT_GT(clipped->step(batch).value().gradient_norm, 0);
  const at::Tensor after = only_output(clipped->evaluate(batch));
  EXPECT_TRUE(after.equal(only_output(plain->evaluate(batch)))) << "a norm that is never reached changes nothing";
  EXPECT_FALSE(after.equal(before));
}

/// What devices did about the update of one step.
class Updates final : public Observer {
 public:
  void finished(const ActionRecord& record) override {
    const std::lock_guard lock(mutex_);
    if (ir::is_update(record.action.kind)) actions.push_back(record);
  }
  void clipped(DeviceId, int64_t, int64_t end_ns) override {
    const std::lock_guard lock(mutex_);
    norms.push_back(end_ns);
  }
  std::vector<ActionRecord> actions;
  std::vector<int64_t> norms;  ///< their ends

 private:
  std::mutex mutex_;
};

// The S of the row, at which a clipped step cannot update yet, is not the one that observers receive.
TEST_F(Trainers, ClippedStepsReportTheirUpdatesAsActions) {
  const PlanSpec spec = {.cuts = {2}, .replicas = {2, 1}, .micro_batches = {4, 4}};
  for (const double clip_norm : {0.0, 1e9}) {
    Updates updates;
    TrainerOptions options = sgd(0.1, clip_norm);
    options.observer = &updates;
    open(testing::norm_model, spec, options)->step(batch_of(8, {3, 4})).value();
    EXPECT_EQ(updates.norms.size(), clip_norm > 0 ? 3U : 0U);
    ASSERT_EQ(updates.actions.size(), 3U) << "one per device";
    const auto norm = std::max_element(updates.norms.begin(), updates.norms.end());
    for (const ActionRecord& action : updates.actions) {
      EXPECT_LE(action.start_ns, action.end_ns);
      if (clip_norm == 0) continue;
      EXPECT_GE(action.start_ns, *norm) << "updates follow the norm";
    }
  }
}

/// Norm of the gradient of one mini-batch.
double norm_of(Trainer& trainer, const Batch& batch) {
  trainer.accumulate(batch).value();
  double squares = 0;
  for (const auto& [name, gradient] : trainer.gradients().value()) {
    squares += to_tensor(gradient).square().sum().item<double>();
  }
  trainer.reschedule(trainer.plan().clone()).value();  // forgets it
  return std::sqrt(squares);
}

/// Three mini-batches of four accumulated give three times the gradient of one of twelve, where a loss is a mean. So a
/// step clipped to `clip` is the whole's with a rate that `clip` makes smaller.
void expect_one_step(Trainer& parts, Trainer& whole, const Batch& batch, double clip = 0) {
  const double norm = 3 * norm_of(whole, batch);
  if (clip > 0) {
    EXPECT_GT(norm, clip) << "a norm that is clipped";
  }
  whole.set_learning_rate(3 * kRate * (clip > 0 ? clip_scale(norm, clip) : 1));
  parts.accumulate(slice(batch, 0, 4)).value();
  parts.accumulate(slice(batch, 4, 8)).value();
  const StepResult last = parts.step(slice(batch, 8, 12)).value();
  whole.step(batch).value();
  EXPECT_NEAR(last.gradient_norm, clip > 0 ? norm : 0, kTolerance * norm);
  const auto found = parts.gradients().value(), expected = whole.gradients().value();
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    EXPECT_LT(relative_error(found.at(name), to_tensor(gradient) * 3), kTolerance) << name;
  }
  const at::Tensor output = only_output(whole.evaluate(batch));
  EXPECT_LT(relative_error(parts.evaluate(slice(batch, 0, 4)).value().outputs.begin()->second, output.narrow(0, 0, 4)),
            kTolerance)
      << "parameters and statistics after the step";
  EXPECT_EQ(parts.steps_done(), 1U);
}

/// The same in one call. The mean of the losses, which are means over equally many samples, is that of one mini-batch.
void expect_one_step_of_several(Trainer& parts, Trainer& whole, const Batch& batch, Accumulated how) {
  const Batch batches[] = {slice(batch, 0, 4), slice(batch, 4, 8), slice(batch, 8, 12)};
  const StepResult found = parts.step(batches, how).value(), expected = whole.step(batch).value();
  EXPECT_NEAR(found.loss / expected.loss, 1, kTolerance);
  EXPECT_EQ(found.samples, 12U);
  EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, kTolerance * expected.gradient_norm);
  const auto gradients = parts.gradients().value();
  for (const auto& [name, gradient] : whole.gradients().value())
    EXPECT_LT(relative_error(gradients.at(name), to_tensor(gradient)), kTolerance) << name;
  const at::Tensor output = only_output(whole.evaluate(batch));
  EXPECT_LT(relative_error(parts.evaluate(batches[2]).value().outputs.begin()->second, output.narrow(0, 8, 4)),
            kTolerance)
      << "parameters and statistics after the step";
  EXPECT_EQ(parts.steps_done(), 1U);
}

std::vector<PlanSpec> cuts_of_one_mini_batch() {
  return {{.micro_batches = {4}},
          {.cuts = {3}, .micro_batches = {2, 2}},                   // the cut parts a tied parameter's readers
          {.cuts = {3}, .replicas = {2, 1}, .micro_batches = {4}},  // replicas
          {.cuts = {3}, .replicas = {1, 2}, .micro_batches = {2, 2}, .recompute = true}};
}

/// One layer whose 16 MiB take longer to be written than a step of one sample takes to compute.
ir::Graph wide_layer(ir::DType) {
  ir::Graph graph = ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f64[batch,1448] samples 0
input %target: f64[batch,1448] samples 0
parameter %w: f64[1448,1448]
#0 %y: f64[batch,1448] samples 0 = core.linear(%x, %w)
#1 %l: f64[] partial = core.mse_sum(%y, %target)
inputs [%x, %target]
outputs [%y]
loss %l weight 0x1p+0
)",
                                    "layer.rir")
                        .value();
  graph.set_data(graph.find("w"), ir::TensorData::in_memory(std::vector<std::byte>(8 * 1448 * 1448)));
  return graph;
}

/// All threads of this process share a processor, so that none ends before the others begin.
class OneProcessor {
 public:
  OneProcessor() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

std::map<std::string, std::vector<std::byte>> bytes_of(const std::string& checkpoint) {
  std::map<std::string, std::vector<std::byte>> found;
  for (const auto& [key, stored] : checkpoint_tensors(checkpoint).value()) found[key] = stored.read().value();
  return found;
}

TEST_F(Trainers, StepsChangeNothingInACheckpointThatIsBeingWritten) {
  const OneProcessor shared;
  const Batch batch = batch_of(1, {1448});
  for (const double clip_norm : {0.0, 1.0}) {
    TrainerOptions options;
    options.clip_norm = clip_norm;
    const auto trainer = open(wide_layer, {}, options);
    std::map<std::string, std::vector<std::byte>> before;
    for (int round = 0; round < 3; ++round) {
      trainer->step(batch).value();
      trainer->save(path("waiting")).value();
      trainer->start_save(path("meanwhile")).value();
      trainer->step(batch).value();
      trainer->finish_save().value();
      const auto expected = bytes_of(path("waiting"));
      EXPECT_TRUE(bytes_of(path("meanwhile")) == expected) << round << " " << clip_norm;
      EXPECT_FALSE(expected == before) << "steps change it";
      before = expected;
    }
  }
}

TEST_F(Trainers, ACheckpointIsFinishedByTheStepsOrDiscarded) {
  const Batch batch = batch_of(8, {3, 4});
  auto trainer = open(testing::norm_model, {.micro_batches = {4, 4}}, sgd(kRate));
  trainer->start_save(path("step-0"), "data").value();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!fs::exists(path("step-0")) && std::chrono::steady_clock::now() < limit) trainer->step(batch).value();
  EXPECT_EQ(read_checkpoint_state(path("step-0")).value().step, 0U);
  EXPECT_EQ(trainer->load(path("step-0")).value(), "data");
  trainer->save(path("same")).value();
  EXPECT_EQ(read_file(path("same/device0.safetensors")).value(), read_file(path("step-0/device0.safetensors")).value())
      << "buffers are those of the time of the call";

  std::ofstream(path("file")) << "no folder";
  trainer->start_save(path("file/step-0")).value();
  const bool stepped = trainer->step(batch).ok();
  EXPECT_FALSE(stepped && trainer->finish_save().ok()) << "one of them reports that there is no folder";
  EXPECT_TRUE(trainer->finish_save().ok()) << "it is reported once";

  trainer->start_save(path("left")).value();
  trainer.reset();
  EXPECT_FALSE(fs::exists(path("left")));
  EXPECT_FALSE(fs::exists(partial_checkpoint(path("left"))));
}

TEST_F(Trainers, AccumulatedMiniBatchesAreOneStep) {
  const Batch batch = batch_of(12, {6});
  for (const PlanSpec& spec : cuts_of_one_mini_batch()) {
    SCOPED_TRACE(::testing::Message() << spec.cuts.size() + 1 << " stages, " << spec.replicas.size());
    for (const double clip : {0.0, 0.05}) {
      const auto parts = open(testing::skip_and_tie, spec, sgd(kRate, clip));
      const auto whole = open(testing::skip_and_tie, {.micro_batches = {12}}, sgd(kRate));
      expect_one_step(*parts, *whole, batch, clip);
    }
  }
}

TEST_F(Trainers, AccumulationDrawsAsOneMiniBatchWould) {
  const Batch batch = batch_of(12, {6});
  const auto parts = open(testing::dropout_model, {.cuts = {2}, .micro_batches = {2, 2}}, sgd(kRate));
  const auto whole = open(testing::dropout_model, {.micro_batches = {12}}, sgd(kRate));
  expect_one_step(*parts, *whole, batch);
}

TEST_F(Trainers, AccumulatedStatisticsAreCommittedOnce) {
  const Batch batch = batch_of(12, {3, 4});
  for (const double clip : {0.0, 0.05}) {
    const auto parts = open(testing::norm_model, {.cuts = {2}, .micro_batches = {4}}, sgd(kRate, clip));
    const auto whole = open(testing::norm_model, {.micro_batches = {4, 4, 4}}, sgd(kRate));
    expect_one_step(*parts, *whole, batch, clip);
  }
}

TEST_F(Trainers, StepsOfSeveralMiniBatchesAreThoseOfOne) {
  for (const Accumulated how : {Accumulated::kOneBatch, Accumulated::kMean}) {
    for (const double clip : {0.0, 0.05}) {
      for (const PlanSpec& spec : cuts_of_one_mini_batch()) {
        const auto parts = open(testing::skip_and_tie, spec, sgd(kRate, clip));
        const auto whole = open(testing::skip_and_tie, {.micro_batches = {12}}, sgd(kRate, clip));
        expect_one_step_of_several(*parts, *whole, batch_of(12, {6}), how);
      }
      const auto parts = open(testing::norm_model, {.cuts = {2}, .micro_batches = {4}}, sgd(kRate, clip));
      const auto whole = open(testing::norm_model, {.micro_batches = {4, 4, 4}}, sgd(kRate, clip));
      expect_one_step_of_several(*parts, *whole, batch_of(12, {3, 4}), how);
    }
    const auto parts = open(testing::dropout_model, {.cuts = {2}, .micro_batches = {2, 2}}, sgd(kRate));
    const auto whole = open(testing::dropout_model, {.micro_batches = {12}}, sgd(kRate));
    expect_one_step_of_several(*parts, *whole, batch_of(12, {6}), how);
  }
}

TEST_F(Trainers, AWrongMiniBatchOfSeveralChangesNothing) {
  const auto trainer = open(testing::skip_and_tie, {.cuts = {3}, .micro_batches = {2, 2}}, sgd(kRate));
  const Batch batch = batch_of(12, {6});
  Batch wrong = slice(batch, 4, 8);
  wrong.erase(wrong.begin());
  const Batch batches[] = {slice(batch, 0, 4), wrong};
  EXPECT_FALSE(trainer->step(batches, Accumulated::kOneBatch).ok());
  EXPECT_FALSE(trainer->step(std::span<const Batch>(), Accumulated::kOneBatch).ok());
  const auto fresh = open(testing::skip_and_tie, {.cuts = {3}, .micro_batches = {2, 2}}, sgd(kRate));
  EXPECT_EQ(trainer->step(batches[0]).value().loss, fresh->step(batches[0]).value().loss);
}

TEST_F(Trainers, AStepForgetsWhatWasAccumulatedBefore) {
  const Batch batch = batch_of(4, {6});
  const auto trainer = open(testing::skip_and_tie, {.micro_batches = {4}}, sgd(1e-30));
  trainer->step(batch).value();
  const auto once = trainer->gradients().value();
  trainer->accumulate(batch).value();
  trainer->step(batch).value();
  // The second product is added to the sum by the kernel that computes it, which rounds in another order.
  for (const auto& [name, gradient] : trainer->gradients().value()) {
    EXPECT_TRUE(at::allclose(to_tensor(gradient), to_tensor(once.at(name)) * 2, 1e-14, 1e-14)) << name;
  }
  trainer->step(batch).value();
  for (const auto& [name, gradient] : trainer->gradients().value()) {
    EXPECT_TRUE(to_tensor(gradient).equal(to_tensor(once.at(name)))) << name;
  }
}

TEST_F(Trainers, AnotherScheduleForgetsWhatWasAccumulated) {
  const Batch batch = batch_of(4, {6});
  const auto trainer = open(testing::skip_and_tie, {.micro_batches = {4}});
  trainer->accumulate(batch).value();
  const auto once = trainer->gradients().value();
  trainer->reschedule(trainer->plan().clone()).value();
  trainer->accumulate(batch).value();
  for (const auto& [name, gradient] : trainer->gradients().value()) {
    EXPECT_TRUE(to_tensor(gradient).equal(to_tensor(once.at(name)))) << name;
  }
}

TEST_F(Trainers, EvaluationsBetweenChangeNoSums) {
  const Batch batch = batch_of(12, {6});
  for (const PlanSpec& spec : cuts_of_one_mini_batch()) {
    const auto parts = open(testing::skip_and_tie, spec, sgd(0.1));
    const auto whole = open(testing::skip_and_tie, {.micro_batches = {12}}, sgd(0.3));
    parts->accumulate(slice(batch, 0, 4)).value();
    parts->evaluate(slice(batch, 0, 3)).value();
    parts->accumulate(slice(batch, 4, 8)).value();
    parts->evaluate(slice(batch, 4, 8)).value();
    parts->step(slice(batch, 8, 12)).value();
    whole->step(batch).value();
    for (const auto& [name, gradient] : whole->gradients().value()) {
      EXPECT_LT(relative_error(parts->gradients().value().at(name), to_tensor(gradient) * 3), kTolerance) << name;
    }
  }
}

TEST_F(Trainers, EvaluateFewerSamplesThanTheMiniBatch) {
  const Batch batch = batch_of(8, {6});
  const auto one = open(testing::skip_and_tie, {.micro_batches = {8}});
  const StepResult whole = one->evaluate(batch).value();
  for (const bool training : {true, false}) {
    for (PlanSpec spec : std::vector<PlanSpec>{{.micro_batches = {3, 3, 2}},
                                               {.cuts = {3}, .micro_batches = {2, 2, 2, 2}},
                                               {.cuts = {3}, .replicas = {2, 1}, .micro_batches = {4, 4}},
                                               {.cuts = {2, 5}, .replicas = {1, 3, 2}, .micro_batches = {8}}}) {
      spec.training = training;
      const auto trainer = open(testing::skip_and_tie, spec);
      for (const int64_t samples : {8, 7, 5, 2, 1, 8}) {
        SCOPED_TRACE(::testing::Message() << samples << " samples, " << spec.cuts.size() + 1 << " stages");
        const StepResult found = trainer->evaluate(slice(batch, 0, samples)).value();
        EXPECT_LT(relative_error(found.outputs.begin()->second,
                                 to_tensor(whole.outputs.begin()->second).narrow(0, 0, samples)),
                  kTolerance);
        ASSERT_EQ(found.sums.numerators.size(), 1U);
        EXPECT_EQ(to_tensor(found.sums.counts.at(0)).item<int64_t>(), 6 * samples);
        EXPECT_NEAR(found.loss, found.sums.numerators[0] / static_cast<double>(6 * samples), kTolerance);
      }
    }
  }
}

TEST_F(Trainers, LossesOfPartsAddUp) {
  const Batch batch = batch_of(8, {6});
  const auto trainer = open(testing::skip_and_tie, {.cuts = {3}, .micro_batches = {4, 4}});
  const BatchSums whole = trainer->evaluate(batch).value().sums;
  const BatchSums first = trainer->evaluate(slice(batch, 0, 5)).value().sums,
                  last = trainer->evaluate(slice(batch, 5, 8)).value().sums;
  const auto count = [](const BatchSums& sums) { return to_tensor(sums.counts.at(0)).item<int64_t>(); };
  EXPECT_NEAR(first.numerators[0] + last.numerators[0], whole.numerators[0], kTolerance * whole.numerators[0]);
  EXPECT_EQ(count(first) + count(last), count(whole));
}

TEST_F(Trainers, EvaluateWithoutLabels) {
  Batch batch = batch_of(8, {6});
  const auto trainer = open(testing::skip_and_tie, {.cuts = {3}, .micro_batches = {4, 4}});
  const StepResult labelled = trainer->evaluate(batch).value();
  batch.erase("target");
  const StepResult found = trainer->evaluate(batch).value();
  EXPECT_TRUE(only_output(found).equal(only_output(labelled)));
  EXPECT_TRUE(found.sums.numerators.empty());
  EXPECT_EQ(found.loss, 0);
  EXPECT_THAT(trainer->step(batch).diagnostic().str(), HasSubstr("input 'target' is missing"));
  batch["y"] = batch["x"];
  EXPECT_THAT(trainer->evaluate(batch).diagnostic().str(),
              HasSubstr("the model has no input 'y'; its inputs are 'x', 'target'"));
  batch.erase("y");
  batch.erase("x");
  EXPECT_THAT(trainer->evaluate(batch).diagnostic().str(), HasSubstr("input 'x' is missing"));
}

TEST(LossTerm, AddsNothingWhereNothingDivides) {
  const ir::LossTerm term{{}, 3};
  EXPECT_EQ(term.loss(0, {1, 0}), 0);
  EXPECT_EQ(term.loss(1, {5, 0}), 0);
  EXPECT_EQ(term.loss(1, {5, 2}), 7.5);
}

// A mini-batch may have ignored labels alone: one process of LibTorch divides 0 by 0 and loses its weights to NaN.
TEST_F(Trainers, IgnoredLabelsAloneAddNothing) {
  const auto trainer = open(testing::token_model, {.cuts = {5}, .micro_batches = {2, 2}});
  const Batch batch = {{"tokens", to_value(at::ones({4, 5}, at::kLong))},
                       {"labels", to_value(at::full({4, 5}, -100, at::kLong))}};
  for (const bool trains : {false, true, true}) {
    const StepResult found = (trains ? trainer->step(batch) : trainer->evaluate(batch)).value();
    ASSERT_EQ(found.sums.numerators.size(), 1U);
    EXPECT_EQ(found.sums.numerators[0], 0);
    EXPECT_EQ(to_tensor(found.sums.counts.at(0)).item<double>(), 0);
    EXPECT_EQ(found.loss, 0);
  }
  for (const auto& [name, gradient] : trainer->gradients().value()) {
    EXPECT_EQ(to_tensor(gradient).abs().max().item<double>(), 0) << name;
  }
}

// Two workers, each in a thread.
TEST_F(Trainers, AnErrorOfOneCallerEndsAllWorkers) {
  const std::string bundle = path("bundle.rannc");
  codegen::write_bundle(
      testing::build_plan(testing::skip_and_tie(ir::DType::kF64), {.cuts = {3}, .micro_batches = {8}}), {}, bundle)
      .value();
  auto ends = make_local_transports(2, std::chrono::seconds(60));
  const Batch batch = batch_of(8, {6});
  std::barrier stepped(2);
  const auto steps_of = [&](uint32_t rank) {
    const auto trainer = Trainer::open_worker(bundle, {}, std::move(ends[rank])).value();
    trainer->step(batch).value();
    stepped.arrive_and_wait();  // the step of the other worker does not end by the error
    if (rank == 0) trainer->close(error("worker 0: losses.txt: no space"));
    return trainer->step(batch).diagnostic().message;
  };
  std::string other;
  std::thread second([&] { other = steps_of(1); });
  const std::string own = steps_of(0);
  second.join();
  EXPECT_EQ(own, "worker 0: losses.txt: no space");
  EXPECT_EQ(other, own);
}

TEST_F(Trainers, EvaluationsThatDoNotFitAreErrors) {
  const auto trainer = open(testing::skip_and_tie, {.micro_batches = {4, 4}});
  EXPECT_THAT(trainer->evaluate(batch_of(9, {6})).diagnostic().str(), HasSubstr("has 9 samples"));
  EXPECT_THAT(trainer->evaluate(batch_of(8, {5})).diagnostic().str(), HasSubstr("f64[8,5]"));
  Batch uneven = batch_of(8, {6});
  uneven["target"] = slice(uneven, 0, 7).at("target");
  EXPECT_THAT(trainer->evaluate(uneven).diagnostic().str(), HasSubstr("samples"));
  EXPECT_TRUE(trainer->evaluate(batch_of(8, {6})).ok()) << "what did not fit left nothing behind";
}

}  // namespace
}  // namespace rannc::runtime
