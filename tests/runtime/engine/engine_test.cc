// Gradients, losses and outputs of pipelines against a tape over the whole model written by hand in ATen.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ir/graph/constant.h"
#include "ir/schedule/lower_schedule.h"
#include "ir/text/text.h"
#include "partition/schedule/make_schedule.h"
#include "tests/runtime/support/local_run.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::testing {
namespace {

using Batch = std::map<std::string, at::Tensor>;

/// A toy model with a batch, the loss denominator, and the forward pass in ATen: name -> parameter leaf.
struct Toy {
  ir::Graph (*graph)(ir::DType);
  Batch (*batch)(int64_t samples, at::ScalarType type);
  double (*denominator)(const Batch& batch);
  /// Output, and the sum that is the loss numerator.
  std::pair<at::Tensor, at::Tensor> (*forward)(std::map<std::string, at::Tensor>& leaves, const Batch& batch);
  std::vector<uint32_t> cut2, cut3, cut4;  ///< cuts into two, three and four stages
  /// A parameter with more than two readings, whose gradient is summed stage by stage; empty: there is none.
  const char* regrouped = "";
};

Batch skip_batch(int64_t samples, at::ScalarType type) {
  at::manual_seed(7);
  return {{"x", at::randn({samples, 6}, type)}, {"target", at::randn({samples, 6}, type)}};
}
double elements(const Batch& batch) { return static_cast<double>(batch.at("target").numel()); }
std::pair<at::Tensor, at::Tensor> skip_forward(std::map<std::string, at::Tensor>& p, const Batch& batch) {
  const at::Tensor a = at::relu(at::linear(batch.at("x"), p["w0"], p["b0"]));
  const at::Tensor b = at::tanh(at::linear(a, p["w1"], p["b1"]));
  const at::Tensor c = at::gelu(at::linear(b, p["w1"], p["b2"]));
  const at::Tensor y = at::linear(c + a, p["w2"], p["b3"]);
  return {y, at::mse_loss(y, batch.at("target"), at::Reduction::Sum)};
}

Batch token_batch(int64_t samples, at::ScalarType) {
  at::manual_seed(11);
  at::Tensor labels = at::randint(0, 11, {samples, 5}, at::kLong);
  labels.select(1, 2).fill_(-100);
  labels[0][0] = -100;
  return {{"tokens", at::randint(0, 11, {samples, 5}, at::kLong)}, {"labels", labels}};
}
double counted(const Batch& batch) { return batch.at("labels").ne(-100).sum().item<double>(); }
std::pair<at::Tensor, at::Tensor> token_forward(std::map<std::string, at::Tensor>& p, const Batch& batch) {
  const at::Tensor embedded = at::embedding(p["table"], batch.at("tokens"));
  const at::Tensor normal = at::layer_norm(embedded, {8}, p["scale"], p["bias"], 1e-5);
  const at::Tensor h = at::sigmoid(at::matmul(normal, p["w0"]));
  const at::Tensor mixed = embedded * 0.5 + at::matmul(h, p["w1"]);
  const at::Tensor total = mixed + at::embedding(p["extra"], normal.argmax(2)) + embedded;
  const at::Tensor logits = at::matmul(total, p["table"].t());
  return {logits,
          at::cross_entropy_loss(logits.reshape({-1, 11}), batch.at("labels").reshape({-1}), {}, at::Reduction::Sum)};
}

// Tokens come twice within micro-batches and in several of them.
std::pair<at::Tensor, at::Tensor> table_forward(std::map<std::string, at::Tensor>& p, const Batch& batch) {
  const at::Tensor embedded = at::embedding(p["table"], batch.at("tokens"));
  const at::Tensor y = at::tanh(at::linear(embedded, p["w0"], p["b0"]));
  return {y, at::mse_loss(y, batch.at("target"), at::Reduction::Sum)};
}
Batch table_batch(int64_t samples, at::ScalarType type) {
  at::manual_seed(13);
  return {{"tokens", at::randint(-3, 11, {samples, 5}, at::kLong).abs()}, {"target", at::randn({samples, 5, 4}, type)}};
}

std::pair<at::Tensor, at::Tensor> thrice_forward(std::map<std::string, at::Tensor>& p, const Batch& batch) {
  const at::Tensor a = at::tanh(at::linear(batch.at("x"), p["w"], p["b0"]));
  const at::Tensor b = at::sigmoid(at::linear(a, p["w"], p["b1"]));
  const at::Tensor y = at::linear(at::linear(b, p["w"], p["b2"]), p["last"]);
  return {y, at::mse_loss(y, batch.at("target"), at::Reduction::Sum)};
}

const Toy kTable = {large_table, table_batch, elements, table_forward, {1}, {1, 2}, {1, 2, 3}};
const Toy kSkip = {skip_and_tie, skip_batch, elements, skip_forward, {3}, {2, 5}, {1, 3, 6}};
const Toy kToken = {token_model, token_batch, counted, token_forward, {5}, {3, 8}, {1, 5, 10}};

// Cuts part one reading from two, two from one, and each from the others.
const Toy kThrice = {tied_thrice, skip_batch, elements, thrice_forward, {2}, {2, 4}, {1, 4, 5}, "w"};

at::ScalarType scalar(ir::DType dtype) { return dtype == ir::DType::kF64 ? at::kDouble : at::kFloat; }

at::Tensor weight(const ir::Graph& graph, ValueId value) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *graph.type(value).shape) sizes.push_back(dim.constant());
  const auto bytes = graph.value(value).data.bytes();
  at::Tensor tensor = at::empty(sizes, scalar(graph.type(value).dtype));
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

/// The whole model on the whole mini-batch under one tape.
Numbers reference(const Toy& toy, ir::DType dtype, const Batch& batch) {
  const ir::Graph graph = toy.graph(dtype);
  std::map<std::string, at::Tensor> leaves;
  for (ValueId value : graph.values()) {
    if (graph.value(value).kind != ir::ValueKind::kParameter) continue;
    leaves[std::string(graph.value(value).name)] = weight(graph, value).requires_grad_();
  }
  const auto [output, sum] = toy.forward(leaves, batch);
  const at::Tensor loss = sum / toy.denominator(batch);
  std::vector<at::Tensor> sources;
  for (const auto& [name, leaf] : leaves) sources.push_back(leaf);
  const auto gradients = torch::autograd::grad({loss}, sources);
  Numbers numbers{.loss = loss.item<double>()};
  numbers.outputs[std::string(graph.value(graph.outputs()[0]).name)] = output.detach();
  size_t i = 0;
  for (const auto& [name, leaf] : leaves) numbers.gradients[name] = gradients[i++];
  return numbers;
}

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  const double scale = std::max(expected.abs().max().item<double>(), 1e-30);
  return (found - expected).abs().max().item<double>() / scale;
}

void expect_close(const Numbers& found, const Numbers& expected, double tolerance) {
  EXPECT_NEAR(found.loss, expected.loss, tolerance * std::abs(expected.loss));
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    ASSERT_TRUE(found.gradients.contains(name)) << name;
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
    EXPECT_LT(relative_error(found.gradients.at(name), gradient), tolerance) << "gradient of " << name;
  }
  for (const auto& [name, output] : expected.outputs) {
    ASSERT_TRUE(found.outputs.contains(name)) << name;
    EXPECT_LT(relative_error(found.outputs.at(name), output), tolerance) << "output " << name;
  }
}

/// The gradient of `regrouped` may differ by the order of its sum.
void expect_same_bits(const Numbers& found, const Numbers& expected, const std::string& regrouped = "") {
  EXPECT_EQ(found.loss, expected.loss);
  for (const auto& [name, gradient] : expected.gradients) {
    if (name == regrouped) {
      EXPECT_LT(relative_error(found.gradients.at(name), gradient), 4 * 0x1p-23) << "gradient of " << name;
      continue;
    }
    EXPECT_TRUE(found.gradients.at(name).equal(gradient)) << "gradient of " << name;
  }
  for (const auto& [name, output] : expected.outputs) EXPECT_TRUE(found.outputs.at(name).equal(output)) << name;
}

Numbers run(const Toy& toy, ir::DType dtype, const PlanSpec& spec) {
  int64_t samples = 0;
  for (uint32_t size : spec.micro_batches) samples += size;
  const Batch batch = toy.batch(samples, scalar(dtype));
  return run_locally(build_plan(toy.graph(dtype), spec), batch, {toy.denominator(batch)});
}

struct Case {
  const char* name;
  const Toy* toy;
};
class Engine : public ::testing::TestWithParam<Case> {
 protected:
  const Toy& toy() const { return *GetParam().toy; }
  std::vector<std::vector<uint32_t>> all_cuts() const { return {{}, toy().cut2, toy().cut3, toy().cut4}; }
};
INSTANTIATE_TEST_SUITE_P(Toys, Engine,
                         ::testing::Values(Case{"skip", &kSkip}, Case{"token", &kToken}, Case{"table", &kTable},
                                           Case{"thrice", &kThrice}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Engine, EqualsOneTapeInDoublePrecision) {
  const Numbers expected = reference(toy(), ir::DType::kF64, toy().batch(8, at::kDouble));
  for (const auto& cuts : all_cuts()) {
    for (const auto& sizes : std::vector<std::vector<uint32_t>>{{8}, {4, 4}, {3, 3, 2}, {2, 2, 2, 1, 1}}) {
      for (const bool early : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << cuts.size() + 1 << " stages, " << sizes.size() << " micro-batches, early backward " << early);
        expect_close(run(toy(), ir::DType::kF64, {.cuts = cuts, .micro_batches = sizes, .early_backward = early}),
                     expected, 1e-12);
      }
    }
  }
}

TEST_P(Engine, EqualsOneTapeInSinglePrecision) {
  const Numbers expected = reference(toy(), ir::DType::kF32, toy().batch(8, at::kFloat));
  for (const auto& cuts : all_cuts()) {
    expect_close(run(toy(), ir::DType::kF32, {.cuts = cuts, .micro_batches = {3, 3, 2}}), expected, 1e-5);
  }
}

// Where a parameter has three readings, only the order of its own sum depends on the cut.
TEST_P(Engine, CutsDoNotChangeABit) {
  bool regrouped = false;
  for (const bool early : {false, true}) {
    const PlanSpec uncut = {.micro_batches = {3, 3, 2}, .early_backward = early};
    const Numbers expected = run(toy(), ir::DType::kF32, uncut);
    for (const auto& cuts : all_cuts()) {
      PlanSpec cut = uncut;
      cut.cuts = cuts;
      SCOPED_TRACE(::testing::Message() << cuts.size() + 1 << " stages, early backward " << early);
      const Numbers found = run(toy(), ir::DType::kF32, cut);
      expect_same_bits(found, expected, toy().regrouped);
      const auto sum = expected.gradients.find(toy().regrouped);
      regrouped |= sum != expected.gradients.end() && !found.gradients.at(sum->first).equal(sum->second);
    }
  }
  EXPECT_EQ(regrouped, toy().regrouped[0] != '\0') << "so runtime/numerics.md";
}

// A stage whose inputs are all that its backward pass reads holds as much.
TEST_P(Engine, RecomputeDoesNotChangeABitAndHoldsLess) {
  bool less = false;
  for (const auto& cuts : all_cuts()) {
    PlanSpec spec = {.cuts = cuts, .micro_batches = {4, 4, 4}, .early_backward = false};
    const Numbers kept = run(toy(), ir::DType::kF32, spec);
    spec.recompute = true;
    const Numbers recomputed = run(toy(), ir::DType::kF32, spec);
    expect_same_bits(recomputed, kept);
    EXPECT_LE(recomputed.peak_bytes, kept.peak_bytes);
    less = less || recomputed.peak_bytes < kept.peak_bytes;
  }
  EXPECT_TRUE(less);
}

TEST_P(Engine, RowsWithSplitBackwardGiveTheSameBits) {
  PlanSpec spec = {.cuts = toy().cut2, .micro_batches = {3, 3, 2}};
  const Numbers whole = run(toy(), ir::DType::kF32, spec);
  spec.split_backward = true;
  expect_same_bits(run(toy(), ir::DType::kF32, spec), whole);
}

/// Four stages on two devices, in the rows of a named schedule.
ir::Plan two_stages_a_device(const Toy& toy, const std::string& schedule, const std::vector<uint32_t>& device_of) {
  ir::Plan plan = build_plan(toy.graph(ir::DType::kF64), {.cuts = toy.cut4, .micro_batches = {2, 2, 2, 2}});
  plan.devices.resize(2);
  plan.predictions.resize(2);
  for (size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].devices = {DeviceId(device_of[s])};
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  plan.schedule = ir::lower_schedule(shape, partition::make_schedule(shape, {.name = schedule}).value()).value();
  return plan;
}

TEST_P(Engine, TwoStagesADeviceEqualOneTape) {
  const Batch batch = toy().batch(8, at::kDouble);
  const Numbers expected = reference(toy(), ir::DType::kF64, batch);
  const std::vector<uint32_t> vee = {0, 1, 1, 0}, loop = {0, 1, 0, 1};
  for (const auto& [schedule, devices] : std::map<std::string, std::vector<uint32_t>>{
           {"zb-v", vee}, {"v-half", vee}, {"v-min", vee}, {"interleaved", loop}}) {
    SCOPED_TRACE(schedule);
    const ir::Plan plan = two_stages_a_device(toy(), schedule, devices);
    expect_close(run_locally(plan, batch, {toy().denominator(batch)}), expected, 1e-12);
  }
}

TEST_P(Engine, ReplicasOfUnequalNumberEqualOneTape) {
  const Numbers expected = reference(toy(), ir::DType::kF64, toy().batch(8, at::kDouble));
  for (const auto& replicas : std::vector<std::vector<uint32_t>>{{1, 2}, {2, 1}, {2, 3}, {3, 2}, {4, 4}}) {
    SCOPED_TRACE(::testing::PrintToString(replicas));
    const PlanSpec spec = {.cuts = toy().cut2, .replicas = replicas, .micro_batches = {3, 3, 2}};
    expect_close(run(toy(), ir::DType::kF64, spec), expected, 1e-12);
  }
}

TEST_P(Engine, EvaluationKeepsNothingAndReturnsTheSameOutputs) {
  const Batch batch = toy().batch(8, at::kDouble);
  const ir::Plan plan = build_plan(toy().graph(ir::DType::kF64), {.cuts = toy().cut3, .micro_batches = {4, 4}});
  const std::vector<double> denominators = {toy().denominator(batch)};
  const Numbers trained = run_locally(plan, batch, denominators);
  const Numbers evaluated = run_locally(plan, batch, denominators, {.training = false});
  EXPECT_EQ(evaluated.loss, trained.loss);
  EXPECT_TRUE(evaluated.outputs.begin()->second.equal(trained.outputs.begin()->second));
  EXPECT_TRUE(evaluated.gradients.empty());
  EXPECT_LT(evaluated.peak_bytes, trained.peak_bytes);
}

// A mask that is an output, or is summed, has its samples also where it drops nothing.
TEST(EvaluatedDropout, HasItsShape) {
  ir::Graph graph = ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,3] samples 0
parameter %w: f32[3] = hex "0000803f0000803f0000803f"
random %d: f32[batch,3] samples 0 = bernoulli drop 0x1p-1 key 7
random %e: f32[batch,3] samples 0 = bernoulli drop 0x1p-1 key 8
#0 %y: f32[batch,3] samples 0 = core.mul(%x, %w)
#1 %z: f32[batch,3] samples 0 = core.mul(%y, %d)
#2 %s: f32[batch,3] samples 0 = core.add(%z, %e)
#3 %r: f32[batch] samples 0 = core.sum(%e) {axes = [1], keepdim = false}
#4 %l: f32[] partial = core.sum(%s)
inputs [%x]
outputs [%r]
loss %l weight 0x1p+0
)",
                                    "masks.rir")
                        .value();
  const ir::Plan plan = build_plan(std::move(graph), {.micro_batches = {2, 2}});
  const Numbers found = run_locally(plan, {{"x", at::zeros({4, 3})}}, {1.0}, {.training = false});
  EXPECT_TRUE(found.outputs.at("r").equal(at::full({4}, 3.0F)));
  EXPECT_EQ(found.loss, 12);
}

TEST_P(Engine, AStepForgetsTheStepBefore) {
  const Batch batch = toy().batch(8, at::kDouble);
  const ir::Plan plan = build_plan(toy().graph(ir::DType::kF64), {.cuts = toy().cut2, .micro_batches = {4, 4}});
  const std::vector<double> denominators = {toy().denominator(batch)};
  expect_same_bits(run_locally(plan, batch, denominators, {.steps = 3}), run_locally(plan, batch, denominators));
}

class Draws : public ::testing::TestWithParam<ir::Graph (*)(ir::DType)> {};
INSTANTIATE_TEST_SUITE_P(All, Draws, ::testing::Values(dropout_model, noise_model));

TEST_P(Draws, AreTheSameInEveryPlan) {
  const Batch batch = skip_batch(8, at::kDouble);
  const auto run_plan = [&](const PlanSpec& spec, const RunOptions& options) {
    return run_locally(build_plan(GetParam()(ir::DType::kF64), spec), batch, {elements(batch)}, options);
  };
  const RunOptions options = {.step = 3, .seed = 5};
  const Numbers expected = run_plan({.micro_batches = {8}}, options);
  for (const PlanSpec& spec :
       std::vector<PlanSpec>{{.cuts = {2}, .micro_batches = {8}},
                             {.cuts = {1, 3}, .micro_batches = {3, 3, 2}},
                             {.cuts = {3}, .micro_batches = {4, 4}, .early_backward = false, .recompute = true},
                             {.cuts = {2}, .replicas = {3, 2}, .micro_batches = {5, 3}}}) {
    expect_close(run_plan(spec, options), expected, 1e-12);
  }
  EXPECT_NE(run_plan({.micro_batches = {8}}, {.step = 4, .seed = 5}).loss, expected.loss);
  EXPECT_NE(run_plan({.micro_batches = {8}}, {.step = 3, .seed = 6}).loss, expected.loss);
}

TEST(Dropout, DropsNothingInEvaluation) {
  const Batch batch = skip_batch(8, at::kDouble);
  const ir::Graph graph = dropout_model(ir::DType::kF64);
  const at::Tensor hidden = at::tanh(at::linear(batch.at("x"), weight(graph, graph.find("w0"))));
  const at::Tensor expected = at::linear(hidden, weight(graph, graph.find("w1")));
  const Numbers found = run_locally(build_plan(dropout_model(ir::DType::kF64), {.cuts = {2}, .micro_batches = {4, 4}}),
                                    batch, {elements(batch)}, {.training = false});
  EXPECT_LT(relative_error(found.outputs.begin()->second, expected), 1e-14);
}

std::pair<at::Tensor, at::Tensor> sums_forward(std::map<std::string, at::Tensor>& p, const Batch& batch) {
  const at::Tensor a = at::tanh(at::linear(batch.at("x"), p["w0"]));
  const at::Tensor sum = (a * a).sum(0), y = at::linear(a, p["w1"]);
  return {y, at::mse_loss(y, batch.at("target"), at::Reduction::Sum) + (sum * p["v"] + sum).sum() * 0.5};
}

const Toy kSums = {sums_model, skip_batch, elements, sums_forward, {4}, {4, 7}, {2, 5, 9}};

// Each part counts once, wherever the cut lies and however replicas' samples overlap: p, q, r and their sums cross it.
TEST(PartialSums, CrossCutsOfAnyReplicas) {
  const Numbers expected = reference(kSums, ir::DType::kF64, skip_batch(13, at::kDouble));
  const std::vector<std::vector<uint32_t>> replicas = {{1, 1}, {2, 2}, {1, 3}, {3, 1}, {2, 3}, {3, 2}, {5, 2}};
  for (uint32_t cut = 2; cut < 11; ++cut) {
    for (const auto& each : replicas) {
      for (const auto& sizes : {std::vector<uint32_t>{13}, {5, 4, 4}, {8, 3, 1, 1}}) {
        SCOPED_TRACE(fmt::format("cut {} replicas {}x{} of {} micro-batches", cut, each[0], each[1], sizes.size()));
        expect_close(run(kSums, ir::DType::kF64, {.cuts = {cut}, .replicas = each, .micro_batches = sizes}), expected,
                     1e-12);
      }
    }
  }
  for (const PlanSpec& spec : std::vector<PlanSpec>{
           {.cuts = {4, 7}, .replicas = {2, 1, 3}, .micro_batches = {6, 7}, .recompute = true},
           {.cuts = {2, 5, 9}, .replicas = {3, 2, 1, 2}, .micro_batches = {7, 4, 2}, .split_backward = true}}) {
    expect_close(run(kSums, ir::DType::kF64, spec), expected, 1e-12);
  }
}

Batch norm_batch(int64_t samples) {
  at::manual_seed(3);
  return {{"x", at::randn({samples, 3, 4}, at::kDouble) * 2 + 1}, {"target", at::randn({samples, 3, 4}, at::kDouble)}};
}

// The root's slope is infinite at 0, where a gradient of zeros would become NaN.
TEST(Detached, ByTheNextStageIsDetachedWhole) {
  const auto numbers = [](const std::vector<uint32_t>& cuts) {
    ir::Graph graph = ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f64[batch,4] samples 0
parameter %w: f64[4]
parameter %v: f64[4]
#0 %b: f64[batch,4] samples 0 = core.mul(%x, %w)
#1 %a: f64[batch,4] samples 0 = core.mul(%b, %w)
#2 %r: f64[batch,4] samples 0 = core.sqrt(%a)
#3 %d: f64[batch,4] samples 0 = core.stop_gradient(%r)
#4 %m: f64[batch,4] samples 0 = core.mul(%d, %v)
#5 %q: f64[batch,4] samples 0 = core.add(%a, %m)
#6 %loss: f64[] partial = core.sum(%q)
inputs [%x]
loss %loss weight 0x1p+0
)",
                                      "t.rir")
                          .value();
    for (const char* const name : {"w", "v"})
      graph.set_data(graph.find(name), ir::encode_numbers(ir::DType::kF64, std::vector<double>{1, 2, 3, 4}));
    const Batch batch = {{"x", at::tensor({0., 1., 2., 3., 4., 0., 5., 6.}, at::kDouble).view({2, 4})}};
    return run_locally(build_plan(std::move(graph), {.cuts = cuts, .micro_batches = {1, 1}}), batch, {2});
  };
  const Numbers whole = numbers({});
  EXPECT_TRUE(whole.gradients.at("w").isfinite().all().item<bool>()) << whole.gradients.at("w");
  for (const uint32_t cut : {3, 4}) expect_same_bits(numbers({cut}), whole);
  expect_same_bits(numbers({3, 4}), whole);
}

TEST(BatchNorm, RunningStatisticsAreThoseOfTheMiniBatch) {
  const Batch batch = norm_batch(8);
  const at::Tensor channels = batch.at("x").transpose(0, 1).reshape({3, -1});
  const at::Tensor mean = at::tensor({0.5, 0.0, -1.0}, at::kDouble) * 0.7 + channels.mean(1) * 0.3;
  const at::Tensor variance = at::tensor({1.0, 2.0, 3.0}, at::kDouble) * 0.7 + channels.var(1, /*unbiased=*/true) * 0.3;
  for (const PlanSpec& spec : std::vector<PlanSpec>{
           {.micro_batches = {8}},
           {.micro_batches = {3, 3, 2}},
           {.cuts = {1}, .micro_batches = {2, 2, 2, 1, 1}, .early_backward = false, .recompute = true},
           {.cuts = {2}, .replicas = {3, 1}, .micro_batches = {5, 3}}}) {
    const Numbers found =
        run_locally(build_plan(norm_model(ir::DType::kF64), spec), batch, {elements(batch)}, {.commit = true});
    EXPECT_LT(relative_error(found.buffers.at("mean0"), mean), 1e-14) << spec.micro_batches.size();
    EXPECT_LT(relative_error(found.buffers.at("variance0"), variance), 1e-14) << spec.micro_batches.size();
  }
}

TEST(BatchNorm, EveryLayersStatisticsEqualOneProcessOverTheSameMicroBatches) {
  const Batch batch = norm_batch(8);
  const PlanSpec uncut = {.micro_batches = {3, 3, 2}};
  const Numbers expected =
      run_locally(build_plan(norm_model(ir::DType::kF64), uncut), batch, {elements(batch)}, {.commit = true});
  EXPECT_FALSE(expected.buffers.at("mean1").equal(at::tensor({0.5, 0.0, -1.0}, at::kDouble)));
  PlanSpec cut = uncut;
  cut.cuts = {1, 2};
  for (const bool recompute : {false, true}) {
    cut.recompute = recompute;
    const Numbers found =
        run_locally(build_plan(norm_model(ir::DType::kF64), cut), batch, {elements(batch)}, {.commit = true});
    expect_same_bits(found, expected);
    for (const auto& [name, buffer] : expected.buffers) EXPECT_TRUE(found.buffers.at(name).equal(buffer)) << name;
  }
}

TEST(BatchNorm, EvaluationReadsTheBuffersAndChangesNone) {
  const Batch batch = norm_batch(8);
  const Numbers found = run_locally(build_plan(norm_model(ir::DType::kF64), {.cuts = {2}, .micro_batches = {4, 4}}),
                                    batch, {elements(batch)}, {.training = false});
  const ir::Graph graph = norm_model(ir::DType::kF64);
  const auto layer = [&](const at::Tensor& x, const std::string& n) {
    const auto w = [&](const char* name) { return weight(graph, graph.find(name + n)); };
    return at::batch_norm(x, w("scale"), w("bias"), w("mean"), w("variance"), false, 0.3, 1e-5, false);
  };
  EXPECT_LT(relative_error(found.outputs.begin()->second, layer(at::tanh(layer(batch.at("x"), "0")), "1")), 1e-14);
}

}  // namespace
}  // namespace rannc::testing
