// What a training binary asks of the trainer: clipped steps, accumulated ones, evaluations of any size.
#include "runtime/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "codegen/bundle_writer.h"
#include "runtime/internal/torch_value.h"
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
    folder_ = fs::temp_directory_path() / ("rannc-trainer-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Trainer> open(MakeGraph graph, const PlanSpec& spec, const TrainerOptions& options = {}) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(testing::build_plan(graph(ir::DType::kF64), spec), {}, path).value();
    return Trainer::open(path, options).value();
  }

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

std::vector<PlanSpec> cuts_of_one_mini_batch() {
  return {{.micro_batches = {4}},
          {.cuts = {3}, .micro_batches = {2, 2}},                   // the cut parts a tied parameter's readers
          {.cuts = {3}, .replicas = {2, 1}, .micro_batches = {4}},  // replicas
          {.cuts = {3}, .replicas = {1, 2}, .micro_batches = {2, 2}, .recompute = true}};
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
        ASSERT_EQ(found.losses.size(), 1U);
        EXPECT_EQ(found.losses[0].denominator, static_cast<double>(6 * samples));
        EXPECT_NEAR(found.loss, found.losses[0].numerator / found.losses[0].denominator, kTolerance);
      }
    }
  }
}

TEST_F(Trainers, LossesOfPartsAddUp) {
  const Batch batch = batch_of(8, {6});
  const auto trainer = open(testing::skip_and_tie, {.cuts = {3}, .micro_batches = {4, 4}});
  const LossSum whole = trainer->evaluate(batch).value().losses.at(0);
  const LossSum first = trainer->evaluate(slice(batch, 0, 5)).value().losses.at(0),
                last = trainer->evaluate(slice(batch, 5, 8)).value().losses.at(0);
  EXPECT_NEAR(first.numerator + last.numerator, whole.numerator, kTolerance * whole.numerator);
  EXPECT_EQ(first.denominator + last.denominator, whole.denominator);
}

TEST_F(Trainers, EvaluateWithoutLabels) {
  Batch batch = batch_of(8, {6});
  const auto trainer = open(testing::skip_and_tie, {.cuts = {3}, .micro_batches = {4, 4}});
  const StepResult labelled = trainer->evaluate(batch).value();
  batch.erase("target");
  const StepResult found = trainer->evaluate(batch).value();
  EXPECT_TRUE(only_output(found).equal(only_output(labelled)));
  EXPECT_TRUE(found.losses.empty());
  EXPECT_EQ(found.loss, 0);
  EXPECT_THAT(trainer->step(batch).diagnostic().str(), HasSubstr("input 'target' is missing"));
  batch["y"] = batch["x"];
  EXPECT_THAT(trainer->evaluate(batch).diagnostic().str(),
              HasSubstr("the model has no input 'y'; its inputs are 'x', 'target'"));
  batch.erase("y");
  batch.erase("x");
  EXPECT_THAT(trainer->evaluate(batch).diagnostic().str(), HasSubstr("input 'x' is missing"));
}

// Labels of 32 bits against a mark that 32 bits cannot hold.
TEST(LossDenominator, CountsNarrowLabels) {
  ir::Plan plan;
  const ValueId labels =
      plan.graph.add_value(ir::ValueKind::kInput, "y", {.dtype = ir::DType::kI32, .shape = ir::Shape{4}});
  plan.graph.add_input(labels);
  const Batch batch = {{"y", to_value(at::tensor({0, 3, -100, 0}, at::kInt))}};
  ir::LossTerm term{{}, 1, ir::LossTerm::Denominator::kNotIgnored, labels, -100};
  EXPECT_EQ(loss_denominator(plan, term, batch, 4).value(), 3);
  term.ignore_index = INT64_MIN;
  EXPECT_EQ(loss_denominator(plan, term, batch, 4).value(), 4);
}

TEST(LossDenominator, SumsWeightsOfClasses) {
  ir::Plan plan;
  const ValueId labels =
      plan.graph.add_value(ir::ValueKind::kInput, "y", {.dtype = ir::DType::kI64, .shape = ir::Shape{2, 2}});
  plan.graph.add_input(labels);
  ir::LossTerm term{{}, 1, ir::LossTerm::Denominator::kClassWeights, labels, -100, {0.5, 0.25, 8}};
  const auto count = [&](std::initializer_list<int64_t> classes) {
    return loss_denominator(plan, term, {{"y", to_value(at::tensor(classes, at::kLong).reshape({2, 2}))}}, 2);
  };
  EXPECT_EQ(count({0, 1, -100, 0}).value(), 1.25);
  EXPECT_EQ(count({-100, -100, -100, -100}).value(), 0);
  EXPECT_EQ(count({2, 2, 2, -100}).value(), 24);
  term.ignore_index = 2;
  EXPECT_EQ(count({2, 2, 1, 2}).value(), 0.25);
  EXPECT_THAT(count({0, 3, 1, 2}).diagnostic().str(),
              HasSubstr("'y' contain class 3, but there are weights for 3 classes"));
  EXPECT_THAT(count({0, -1, 1, 2}).diagnostic().str(), HasSubstr("class -1"));
}

TEST(LossDenominator, SumsElements) {
  ir::Plan plan;
  const ValueId mask =
      plan.graph.add_value(ir::ValueKind::kInput, "mask", {.dtype = ir::DType::kF32, .shape = ir::Shape{3}});
  plan.graph.add_input(mask);
  const ir::LossTerm term{{}, 1, ir::LossTerm::Denominator::kSum, mask};
  const auto sum = [&](const at::Tensor& values) {
    return loss_denominator(plan, term, {{"mask", to_value(values)}}, 3).value();
  };
  EXPECT_EQ(sum(at::tensor({0.5, 1.0, 2.0}, at::kFloat)), 3.5);
  EXPECT_EQ(sum(at::tensor({1, 0, 1}).to(at::kBool)), 2);
}

TEST(LossDenominator, CountsWhatIsLeftOfLabels) {
  ir::Plan plan;
  const ValueId labels =
      plan.graph.add_value(ir::ValueKind::kInput, "y", {.dtype = ir::DType::kI64, .shape = ir::Shape{2, 4}});
  plan.graph.add_input(labels);
  const Batch batch = {{"y", to_value(at::tensor({1, -100, 2, 3, -100, 4, 5, -100}, at::kLong).reshape({2, 4}))}};
  ir::LossTerm term{{}, 1, ir::LossTerm::Denominator::kNotIgnored, labels};
  const auto count = [&](int64_t front, int64_t back) {
    term.trims = {{1, front, back}};
    return loss_denominator(plan, term, batch, 2).value();
  };
  EXPECT_EQ(count(0, 0), 5);
  EXPECT_EQ(count(1, 0), 4);
  EXPECT_EQ(count(1, 1), 3);
  EXPECT_EQ(count(3, 1), 0);
  EXPECT_EQ(count(9, 9), 0);
  term.denominator = ir::LossTerm::Denominator::kElements;
  EXPECT_EQ(count(1, 0), 6);
  term.denominator = ir::LossTerm::Denominator::kSum;
  EXPECT_EQ(count(2, 1), 7);
}

// Of what is counted, not of what each micro-batch counts.
TEST(LossDenominator, IsBoundedAfterItWasCounted) {
  ir::LossTerm term{{}, 1, ir::LossTerm::Denominator::kSum};
  EXPECT_EQ(term.divisor(0.25), 0.25);
  EXPECT_EQ(term.divisor(-3), -3);
  term.least = 1;
  EXPECT_EQ(term.divisor(0.25), 1);
  EXPECT_EQ(term.divisor(7), 7);
  term.added = 0.5;
  EXPECT_EQ(term.divisor(0.25), 1);
  EXPECT_EQ(term.divisor(7), 7.5);
  EXPECT_EQ(term.loss(15, 7), 2);
}

TEST(LossTerm, AddsNothingWhereNothingDivides) {
  ir::LossTerm term{{}, 3, ir::LossTerm::Denominator::kSum};
  EXPECT_EQ(term.loss(0, 0), 0);
  EXPECT_EQ(term.loss(1, 0), 0);
  EXPECT_EQ(term.loss(1, 2), 1.5);
}

// A mini-batch may have ignored labels alone: one process of LibTorch divides 0 by 0 and loses its weights to NaN.
TEST_F(Trainers, IgnoredLabelsAloneAddNothing) {
  const auto trainer = open(testing::token_model, {.cuts = {5}, .micro_batches = {2, 2}});
  const Batch batch = {{"tokens", to_value(at::ones({4, 5}, at::kLong))},
                       {"labels", to_value(at::full({4, 5}, -100, at::kLong))}};
  for (const bool trains : {false, true, true}) {
    const StepResult found = (trains ? trainer->step(batch) : trainer->evaluate(batch)).value();
    ASSERT_EQ(found.losses.size(), 1U);
    EXPECT_EQ(found.losses[0].numerator, 0);
    EXPECT_EQ(found.losses[0].denominator, 0);
    EXPECT_EQ(found.loss, 0);
  }
  for (const auto& [name, gradient] : trainer->gradients().value()) {
    EXPECT_EQ(to_tensor(gradient).abs().max().item<double>(), 0) << name;
  }
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
