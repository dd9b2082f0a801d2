// Training within a thread whose state of LibTorch and of the processor somebody else has changed.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/functorch/DynamicLayer.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <unistd.h>

#include <cfenv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "codegen/bundle_writer.h"
#include "ir/graph/constant.h"
#include "ir/text/text.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;

/// Stands for a dispatch mode of Python, which sees every call of an operator.
void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  throw std::runtime_error("the caller's mode sees " + op.schema().name());
}
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

/// Makes a change and undoes it.
class Changed {
 public:
  Changed(const std::function<void()>& change, std::function<void()> undo) : undo_(std::move(undo)) { change(); }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;
  ~Changed() { undo_(); }

 private:
  std::function<void()> undo_;
};

template <class Guard, class... Arguments>
std::shared_ptr<void> guard(Arguments... arguments) {
  return std::make_shared<Guard>(arguments...);
}

struct CallerState {
  const char* name;
  std::function<std::shared_ptr<void>()> enter;
  bool batches_too = true;  ///< whether the caller makes its batches in this state, too
};

std::vector<CallerState> caller_states() {
  const auto autocast = [](bool on) {
    return [on] {
      at::autocast::set_autocast_enabled(at::kCPU, on);
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    };
  };
  const auto default_type = [](at::ScalarType type) {
    return [type] { c10::set_default_dtype(c10::scalarTypeToTypeMeta(type)); };
  };
  const auto flush = [](bool on) { return [on] { at::Context::setFlushDenormal(on); }; };
  const auto rounding = [](int mode) { return [mode] { std::fesetround(mode); }; };
  const auto transform = [] {
    at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Grad, std::nullopt, std::nullopt, true);
  };
  const auto no_transform = [] { at::functorch::popDynamicLayerAndDeleteMetadata(); };
  return {
      {"grad mode off", [] { return guard<c10::AutoGradMode>(false); }},
      {"inference mode", [] { return guard<c10::InferenceMode>(); }},
      {"autocast", [=] { return guard<Changed>(autocast(true), autocast(false)); }},
      {"default type float64", [=] { return guard<Changed>(default_type(at::kDouble), default_type(at::kFloat)); }},
      {"default type bfloat16", [=] { return guard<Changed>(default_type(at::kBFloat16), default_type(at::kFloat)); }},
      {"flushed denormals", [=] { return guard<Changed>(flush(true), flush(false)); }, false},
      {"rounding up", [=] { return guard<Changed>(rounding(FE_UPWARD), rounding(FE_TONEAREST)); }, false},
      {"a transform of functorch", [=] { return guard<Changed>(transform, no_transform); }, false},
      {"a dispatch mode",
       [] { return guard<c10::impl::IncludeDispatchKeyGuard>(c10::DispatchKey::TESTING_ONLY_GenericMode); }, false},
  };
}

/// Recurrent layers, whose gradients run a tape, read the samples.
ir::Graph recurrent_model(ir::DType dtype) {
  std::string text = R"(rannc.graph 1
batch batch
input %x: f32[3,batch,4] samples 1
input %target: f32[3,batch,4] samples 1
parameter %w1: f32[1,12,4]
parameter %r1: f32[1,12,4]
parameter %w2: f32[1,4,4]
parameter %r2: f32[1,4,4]
#0 %y: f32[3,batch,4] samples 1, %h: f32[1,batch,4] samples 1 = core.gru(%x, %w1, %r1)
#1 %z: f32[3,batch,4] samples 1, %g: f32[1,batch,4] samples 1 = core.rnn(%y, %w2, %r2, _, _, %h)
#2 %l: f32[] partial = core.mse_sum(%z, %target)
inputs [%x, %target]
outputs [%z]
loss %l weight 0x1p+0
)";
  RANNC_CHECK(dtype == ir::DType::kF32) << "the type of the text";
  ir::Graph graph = ir::parse_graph(text, "recurrent.rir").value();
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    std::vector<double> numbers(static_cast<size_t>(*ir::static_count(graph.type(value))));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i + 1)) / 2;
    graph.set_data(value, ir::encode_numbers(dtype, numbers));
  }
  return graph;
}

struct Model {
  const char* name;
  ir::Graph (*graph)(ir::DType);
  std::vector<int64_t> shape;  ///< of x and target; empty: tokens and labels
  rannc::testing::PlanSpec spec;
};

const Model kModels[] = {
    {"skips and a tied parameter",
     rannc::testing::skip_and_tie,
     {8, 6},
     {.cuts = {4}, .replicas = {2, 1}, .micro_batches = {4, 4}}},
    {"tokens", rannc::testing::token_model, {}, {.cuts = {5}, .replicas = {2, 1}, .micro_batches = {4, 4}}},
    {"noise", rannc::testing::noise_model, {8, 6}, {.cuts = {2}, .replicas = {1, 2}, .micro_batches = {4, 4}}},
    {"recurrent layers", recurrent_model, {3, 8, 4}, {.cuts = {1}, .micro_batches = {8}}},
    {"running statistics", rannc::testing::norm_model, {8, 3, 4}, {.cuts = {2}, .micro_batches = {4, 4}}},
    {"losses that read counts", rannc::testing::counted_losses, {8, 6}, {.cuts = {3}, .micro_batches = {4, 4}}},
};

class CallerStates : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-caller-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string bundle(const Model& model) {
    const std::string made = path(std::to_string(bundles_++));
    codegen::write_bundle(rannc::testing::build_plan(model.graph(ir::DType::kF32), model.spec), {}, made).value();
    return made;
  }

  /// Among them are numbers near the smallest float, so that their gradients are denormal.
  static Batch batch_of(const Model& model, uint64_t seed) {
    auto random = at::detail::createCPUGenerator(seed);
    if (model.shape.empty()) {
      return {{"tokens", to_value(at::randint(7, {8, 5}, random, at::TensorOptions().dtype(at::kLong)))},
              {"labels", to_value(at::randint(7, {8, 5}, random, at::TensorOptions().dtype(at::kLong)))}};
    }
    const auto made = [&] { return at::randn(model.shape, random, at::TensorOptions().dtype(at::kFloat)); };
    at::Tensor x = made();
    x.select(1, 0).mul_(1e-39);
    return {{"x", to_value(x)}, {"target", to_value(made())}};
  }

  /// All numbers of a short training, as text.
  std::string train(const std::string& bundle, const Model& model, const CallerState* state) {
    std::vector<Batch> batches;
    std::shared_ptr<void> held;
    if (state != nullptr && state->batches_too) held = state->enter();
    for (uint64_t seed = 1; seed <= 4; ++seed) batches.push_back(batch_of(model, seed));
    if (state != nullptr && !state->batches_too) held = state->enter();
    TrainerOptions options;
    options.optimizer = {{.kind = OptimizerKind::kAdamW, .learning_rate = 0.01}};
    options.clip_norm = 0.5;
    std::ostringstream found;
    found << std::hexfloat;
    const auto report = [&](const Result<StepResult>& made) {
      if (!made.ok()) throw std::runtime_error(made.diagnostic().str());
      found << made->loss << " " << made->gradient_norm << "\n";
      for (const auto& [name, value] : made->metrics) report_values(found, name, value);
      for (const auto& [name, value] : made->outputs) report_values(found, name, value);
    };
    const auto trainer = Trainer::open(bundle, options).value();
    report(trainer->step(batches[0]));
    report(trainer->accumulate(batches[1]));
    report(trainer->step(std::span(batches).subspan(2, 2), Accumulated::kMean));
    for (const auto& [name, value] : trainer->gradients().value()) report_values(found, name, value);
    const std::string checkpoint = path("checkpoint");
    trainer->save(checkpoint).value();
    report(trainer->step(batches[0]));
    trainer->load(checkpoint).value();
    report(trainer->step(batches[0]));
    report(trainer->evaluate(batches[3]));
    fs::remove_all(checkpoint);
    return found.str();
  }

  static void report_values(std::ostream& to, const std::string& name, const Value& value) {
    const at::Tensor& tensor = to_tensor(value);  // read as memory: the caller's state would reach any call
    to << name;
    const auto* const bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
    for (size_t i = 0; i < tensor.nbytes(); ++i) to << ' ' << static_cast<int>(bytes[i]);
    to << '\n';
  }

 private:
  fs::path folder_;
  int bundles_ = 0;
};

TEST_F(CallerStates, ChangeNoNumbers) {
  for (const Model& model : kModels) {
    const std::string path = bundle(model);
    const std::string expected = train(path, model, nullptr);
    for (const CallerState& state : caller_states()) {
      SCOPED_TRACE(std::string(model.name) + ": " + state.name);
      try {
        EXPECT_TRUE(train(path, model, &state) == expected);
      } catch (const std::exception& failure) {
        ADD_FAILURE() << failure.what();
      }
    }
  }
}

/// Losses of two steps over so many samples that LibTorch divides their sums among threads.
std::vector<double> large_losses(const std::string& bundle, const std::function<void()>& before_steps) {
  const auto trainer = Trainer::open(bundle, {}).value();
  before_steps();
  auto random = at::detail::createCPUGenerator(3);
  const auto made = [&] { return to_value(at::randn({20'000, 6}, random, at::TensorOptions().dtype(at::kFloat))); };
  const Batch batch = {{"x", made()}, {"target", made()}};
  std::vector<double> losses;
  for (int i = 0; i < 2; ++i) losses.push_back(trainer->step(batch).value().loss);
  return losses;
}

TEST_F(CallerStates, ThreadsAreThoseOfTheOpening) {
  const std::string path =
      bundle({"large", rannc::testing::skip_and_tie, {}, {.cuts = {4}, .micro_batches = {20'000}}});
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  const std::vector<double> expected = large_losses(path, [] {}),
                            found = large_losses(path, [] { at::set_num_threads(1); }),
                            others = large_losses(path, [] { at::set_num_threads(3); });
  at::set_num_threads(before);
  EXPECT_EQ(found, expected);
  EXPECT_NE(others, expected) << "numbers depend on threads";
}

}  // namespace
}  // namespace rannc::runtime
