// Losses and accuracies of samples that are evaluated between steps.
#include "runtime/train/validation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "codegen/bundle_writer.h"
#include "ir/text/text.h"
#include "runtime/internal/torch_value.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using testing::PlanSpec;

constexpr double kTolerance = 1e-12;  // sums of doubles in another order
constexpr int64_t kSamples = 13;

class TensorSamples final : public Samples {
 public:
  explicit TensorSamples(std::map<std::string, at::Tensor> tensors) : tensors_(std::move(tensors)) {}
  uint64_t samples() const override { return static_cast<uint64_t>(tensors_.begin()->second.size(0)); }
  Result<Batch> read(std::span<const uint64_t> numbers, const std::set<std::string>&) const override {
    const std::vector<int64_t> rows(numbers.begin(), numbers.end());
    Batch batch;
    for (const auto& [name, tensor] : tensors_) batch.emplace(name, to_value(tensor.index_select(0, at::tensor(rows))));
    return batch;
  }
  std::string describe() const override { return "tensors"; }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

std::map<std::string, at::Tensor> token_tensors(int64_t samples = kSamples) {
  at::manual_seed(3);
  at::Tensor labels = at::randint(0, 11, {samples, 5}, at::kLong);
  labels.select(1, 2).fill_(-100);
  return {{"tokens", at::randint(0, 11, {samples, 5}, at::kLong)}, {"labels", labels}};
}

std::map<std::string, at::Tensor> float_tensors(std::vector<int64_t> shape) {
  at::manual_seed(4);
  return {{"x", at::randn(shape, at::kDouble)}, {"target", at::randn(shape, at::kDouble)}};
}

Batch batch_of(const std::map<std::string, at::Tensor>& tensors) {
  Batch batch;
  for (const auto& [name, tensor] : tensors) batch.emplace(name, to_value(tensor));
  return batch;
}

class Validations : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-validation-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Trainer> open(ir::Graph (*graph)(ir::DType), const PlanSpec& spec) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(testing::build_plan(graph(ir::DType::kF64), spec), {}, path).value();
    TrainerOptions options;
    options.optimizer.learning_rate = 0.1;
    return Trainer::open(path, options).value();
  }

 private:
  fs::path folder_;
  int bundles_ = 0;
};

TEST_F(Validations, LossAndAccuracyAreThoseOfAllSamplesAtOnce) {
  const auto tensors = token_tensors();
  const StepResult whole =
      open(testing::token_model, {.micro_batches = {kSamples}})->evaluate(batch_of(tensors)).value();
  const at::Tensor predicted = to_tensor(whole.outputs.begin()->second).argmax(2), &labels = tensors.at("labels");
  const double correct = predicted.eq(labels).sum().item<double>();
  ASSERT_GT(correct, 0);
  for (const PlanSpec& spec : std::vector<PlanSpec>{{.micro_batches = {kSamples}},
                                                    {.micro_batches = {2, 2}},
                                                    {.cuts = {5}, .micro_batches = {2, 2, 1}},
                                                    {.cuts = {5}, .replicas = {1, 2}, .micro_batches = {2, 2}}}) {
    const auto trainer = open(testing::token_model, spec);
    const ValidationResult found = validate(*trainer, TensorSamples(tensors)).value();
    EXPECT_EQ(found.samples, static_cast<uint64_t>(kSamples));
    EXPECT_NEAR(found.loss, whole.loss, kTolerance);
    EXPECT_EQ(found.accuracy, correct / (4.0 * kSamples)) << "ignored labels do not count";
  }
}

TEST_F(Validations, StepsHaveTheSameBits) {
  const struct {
    ir::Graph (*graph)(ir::DType);
    std::vector<int64_t> shape;
  } kModels[] = {{testing::dropout_model, {4, 6}}, {testing::norm_model, {4, 3, 4}}};
  for (const auto& model : kModels) {
    for (const PlanSpec& spec : {PlanSpec{.cuts = {2}, .micro_batches = {2, 2}}, PlanSpec{.micro_batches = {2, 2}}}) {
      const auto plain = open(model.graph, spec), validated = open(model.graph, spec);
      auto held_out = model.shape;
      held_out[0] = 7;  // one mini-batch and a smaller one
      const Batch batch = batch_of(float_tensors(model.shape));
      for (int step = 0; step < 3; ++step) {
        EXPECT_EQ(validated->step(batch).value().loss, plain->step(batch).value().loss) << step;
        EXPECT_FALSE(validate(*validated, TensorSamples(float_tensors(held_out))).value().accuracy);
      }
      EXPECT_EQ(validated->steps_done(), 3U);
    }
  }
}

TEST_F(Validations, MetricsAreMeansOfAllSamples) {
  const auto tensors = float_tensors({kSamples, 3, 4});
  const auto one = open(testing::norm_model, {.micro_batches = {kSamples}});
  const auto outputs = one->evaluate(batch_of(tensors)).value().outputs;
  const std::string name = outputs.begin()->first;
  const double mean = to_tensor(outputs.begin()->second).mean().item<double>();
  EXPECT_GT(std::abs(mean), 1e-3);
  for (const PlanSpec& spec : std::vector<PlanSpec>{{.micro_batches = {kSamples}},
                                                    {.cuts = {2}, .micro_batches = {2, 2, 1}},
                                                    {.cuts = {2}, .replicas = {1, 2}, .micro_batches = {3, 2}}}) {
    const auto trainer = open(testing::norm_model, spec);
    const ValidationResult found = validate(*trainer, TensorSamples(tensors), {name}).value();
    ASSERT_EQ(found.metrics.size(), 1U);
    EXPECT_NEAR(found.metrics.at(name), mean, kTolerance);
    EXPECT_TRUE(validate(*trainer, TensorSamples(tensors)).value().metrics.empty());
  }
}

TEST_F(Validations, OutputsThatCannotBeMetricsAreErrors) {
  const auto trainer = open(testing::token_model, {.micro_batches = {4}});
  const TensorSamples samples(token_tensors());
  const std::string logits = find_classification(trainer->plan().graph)->output;
  EXPECT_EQ(validate(*trainer, samples, {"none"}).diagnostic().message,
            "metric none: the model has no such output; it has " + logits);
  EXPECT_EQ(validate(*trainer, samples, {logits}).diagnostic().message,
            "metric " + logits + ": the accuracy is computed from this output");
}

TEST_F(Validations, WithoutLabelsThatCountThereIsNoLoss) {
  auto tensors = token_tensors();
  tensors.at("labels").fill_(-100);
  const auto trainer = open(testing::token_model, {.micro_batches = {4}});
  const auto found = validate(*trainer, TensorSamples(tensors));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().message, "validation: none of 13 samples has a label that counts");
}

TEST_F(Validations, AnEvaluationKeepsWhatItsReductionReturns) {
  const auto trainer = open(testing::token_model, {.cuts = {5}, .micro_batches = {2, 2}});
  const Batch batch = batch_of(token_tensors(4));
  const auto drop = [](const std::string&, const Value&) { return Value(); };
  const auto most = [](const std::string&, const Value& part) { return to_value(to_tensor(part).amax(2, true)); };
  const StepResult whole = trainer->evaluate(batch).value(), none = trainer->evaluate(batch, drop).value();
  EXPECT_TRUE(none.outputs.empty());
  EXPECT_EQ(none.loss, whole.loss);
  const auto reduced = trainer->evaluate(batch, most).value().outputs;
  EXPECT_TRUE(to_tensor(reduced.begin()->second).equal(to_tensor(whole.outputs.begin()->second).amax(2, true)));
}

std::optional<Classification> classification_of(std::string_view tasks, std::string_view outputs) {
  const std::string text = R"(rannc.graph 1
batch n
input %x: f32[n,3] samples 0
input %y: i64[n] samples 0
)" + std::string(tasks) + "inputs [%x, %y]\noutputs [" +
                           std::string(outputs) + "]\n";
  return find_classification(ir::parse_graph(text, "t.rir").value());
}

TEST(Classifications, NeedLogitsAmongTheOutputs) {
  constexpr std::string_view kDirect =
      "#0 %a: f32[n,3] samples 0 = core.tanh(%x)\n"
      "#1 %l: f32[] partial = core.cross_entropy_sum(%a, %y) {ignore_index = 7}\n";
  const auto found = classification_of(kDirect, "%a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->output, "a");
  EXPECT_EQ(found->labels, "y");
  EXPECT_EQ(found->axis, 1);
  EXPECT_EQ(found->ignore_index, 7);
  EXPECT_EQ(found->label_axis, (SampleAxis{0, 1, 1}));
  EXPECT_FALSE(classification_of(kDirect, "%x"));
  EXPECT_FALSE(classification_of("#0 %a: f32[n,3] samples 0 = core.tanh(%x)\n", "%a"));
  const std::string twice =
      std::string(kDirect) + "#2 %m: f32[] partial = core.cross_entropy_sum(%x, %y) {ignore_index = 7}\n";
  EXPECT_FALSE(classification_of(twice, "%a"));
}

TEST(Classifications, SeeThroughChangesOfType) {
  constexpr std::string_view kCast =
      "#0 %a: f16[n,3] samples 0 = core.cast(%x) {dtype = f16}\n"
      "#1 %b: f32[n,3] samples 0 = core.cast(%a) {dtype = f32}\n"
      "#2 %l: f32[] partial = core.cross_entropy_sum(%b, %y)\n";
  const auto found = classification_of(kCast, "%a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->output, "a");
}

}  // namespace
}  // namespace rannc::runtime
