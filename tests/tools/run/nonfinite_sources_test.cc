// Which task is named as the source of NaN and infinite numbers, and which are left alone.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "codegen/bundle_writer.h"
#include "ir/text/text.h"
#include "runtime/engine/tensor.h"
#include "tests/runtime/support/plan_builder.h"
#include "tools/common/scratch.h"
#include "tools/run/find_nonfinite.h"

namespace rannc::tools {
namespace {

using runtime::Batch;
using runtime::Trainer;
using runtime::TrainerOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// x, m, target f32[batch, 4]; a = x * w; then `tasks`, the last of which makes %y.
std::string model(const std::string& tasks, int count) {
  return R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
input %m: f32[batch,4] samples 0
input %target: f32[batch,4] samples 0
parameter %w: f32[4,4]
constant %lowest: f32[] = hex "000080ff"  // -inf
constant %zero: f32[] = hex "00000000"
#0 %a: f32[batch,4] samples 0 = core.linear(%x, %w) {layout = "io"}
)" + tasks +
         "#" + std::to_string(count) + R"( %l: f32[] partial = core.mse_sum(%y, %target)
inputs [%x, %m, %target]
outputs [%y]
loss %l weight 0x1p+0
)";
}

/// 0 / 0 where m is 0.
const std::string kQuotient = model(R"(#1 %b: f32[batch,4] samples 0 = core.mul(%a, %m)
#2 %c: f32[batch,4] samples 0 = core.div(%b, %m)
#3 %y: f32[batch,4] samples 0 = core.tanh(%c)
)",
                                    4);

/// exp(log(m * m)): finite where m is 0, but its gradient is 0 / 0.
const std::string kLogarithm = model(R"(#1 %b: f32[batch,4] samples 0 = core.mul(%a, %m)
#2 %c: f32[batch,4] samples 0 = core.mul(%b, %b)
#3 %d: f32[batch,4] samples 0 = core.log(%c)
#4 %y: f32[batch,4] samples 0 = core.exp(%d)
)",
                                     5);

/// Attention weights of the places where m is positive, twice: by a literal, and by the logarithm of m.
const std::string kMask = model(R"(#1 %k: bool[batch,4] samples 0 = core.gt(%m, %zero)
#2 %b: f32[batch,4] samples 0 = core.where(%k, %a, %lowest)
#3 %c: f32[batch,4] samples 0 = core.softmax(%b) {axis = 1}
#4 %d: f32[batch,4] samples 0 = core.log(%m)
#5 %e: f32[batch,4] samples 0 = core.add(%c, %d)
#6 %y: f32[batch,4] samples 0 = core.softmax(%e) {axis = 1}
)",
                                7);

/// Attention weights of five places, one of which a literal hides, times a matrix with the largest numbers.
std::string padded() {
  std::string numbers;
  for (int i = 0; i < 20; ++i) numbers += i % 3 == 0 ? "ffff7f7f" : "00000000";
  return model("constant %v: f32[5,4] = hex \"" + numbers + R"("
#1 %b: f32[batch,5] samples 0 = core.pad(%a) {pads = [0,0,0,1], value = -0xinf}
#2 %c: f32[batch,5] samples 0 = core.softmax(%b) {axis = 1}
#3 %y: f32[batch,4] samples 0 = core.matmul(%c, %v)
)",
               4);
}

const std::string kLinear = model("#1 %y: f32[batch,4] samples 0 = core.mul(%a, %m)\n", 2);

at::Tensor ones() { return at::ones({4, 4}); }
at::Tensor with(float number, int64_t row, int64_t column) {
  return ones().index_put_({at::tensor(row), at::tensor(column)}, at::tensor(number));
}

struct Case {
  at::Tensor x = ones(), m = ones(), target = ones() * 0.5;
  double weight = 0.25;
  double learning_rate = 0.01;
};

class NonfiniteSources : public ::testing::Test {
 protected:
  /// The error of one step of two stages and two micro-batches, cut before task `cut`; empty: none was found.
  std::string source(const std::string& text, const Case& numbers, uint32_t cut = 2) {
    ir::Graph graph = ir::parse_graph(text, "model.rir").value();
    const at::Tensor weight = at::eye(4) * numbers.weight;
    const auto* first = static_cast<const std::byte*>(weight.const_data_ptr());
    graph.set_data(graph.find("w"), ir::TensorData::in_memory({first, first + weight.nbytes()}));
    bundle_ = scratch_.path() + "/" + std::to_string(bundles_++);
    codegen::write_bundle(rannc::testing::build_plan(std::move(graph), {.cuts = {cut}, .micro_batches = {2, 2}}), {},
                          bundle_)
        .value();
    const runtime::Bundle opened = runtime::open_bundle(bundle_).value();
    NonfiniteFinder finder(opened.plan, 1);
    TrainerOptions options;
    options.optimizer = {{.kind = runtime::OptimizerKind::kSgd, .learning_rate = numbers.learning_rate}};
    options.nonfinite = &finder;
    const auto trainer = Trainer::open(bundle_, options).value();
    const Batch batch = {{"x", runtime::to_value(numbers.x)},
                         {"m", runtime::to_value(numbers.m)},
                         {"target", runtime::to_value(numbers.target)}};
    finder.begin_step();
    const runtime::StepResult result = trainer->step(batch).value();
    const Result<void> checked = finder.check(*trainer, batch, result);
    return checked.ok() ? std::string() : checked.diagnostic().str();
  }

  Scratch scratch_;
  std::string bundle_;
  int bundles_ = 0;
};

TEST_F(NonfiniteSources, DivisionByZero) {
  EXPECT_EQ(source(kQuotient, {.m = with(0, 3, 1)}),
            "error: --find-nonfinite: in step 0, the loss is NaN; first NaN: task #2 core.div, stage 1, "
            "forward pass, "
            "micro-batch 1: 1 NaN and 0 infinite of 8 elements, shape [2, 4], from finite inputs");
}

TEST_F(NonfiniteSources, LogarithmOfZero) {
  const std::string found = source(kLogarithm, {.m = with(0, 0, 2)});
  EXPECT_THAT(found, HasSubstr("gradient/w is not finite"));
  EXPECT_THAT(found,
              HasSubstr("first infinite number: task #3 core.log, stage 1, forward pass, micro-batch 0: 0 NaN and 1 "
                        "infinite of 8 elements, shape [2, 4], from finite inputs; first NaN: task #3 core.log"));
  EXPECT_THAT(found, HasSubstr("backward pass, micro-batch 0: 1 NaN and 0 infinite"));
}

TEST_F(NonfiniteSources, MasksAreLeftAlone) {
  EXPECT_EQ(source(kMask, {.m = with(0, 1, 1)}), "");
  EXPECT_EQ(source(kQuotient, {}), "");
}

TEST_F(NonfiniteSources, AMaskThatHidesEverything) {
  at::Tensor m = ones();
  m[1].zero_();
  EXPECT_THAT(source(kMask, {.m = m}),
              AllOf(HasSubstr("first NaN: task #3 core.softmax"), Not(HasSubstr("core.where"))));
}

TEST_F(NonfiniteSources, Samples) {
  EXPECT_THAT(source(kMask, {.x = with(kNan, 1, 0)}),
              HasSubstr("the samples are not finite: `x` has 1 NaN and 0 infinite of 16 elements"));
}

TEST_F(NonfiniteSources, AProductThatIsAddedToAGradient) {
  const std::string found = source(kLinear, {.x = ones() * 1e30, .target = ones() * 1e10, .weight = 1e-30});
  EXPECT_THAT(found,
              AllOf(HasSubstr("gradient/w is not finite"), HasSubstr("first infinite number: task #0 core.linear"),
                    HasSubstr("stage 0, backward pass, micro-batch 0"), HasSubstr("shape [4, 4], from finite inputs")));
}

TEST_F(NonfiniteSources, TheOptimizer) {
  EXPECT_THAT(source(kLinear, {.x = ones() * 100, .learning_rate = 1e38}),
              AllOf(HasSubstr("parameter/w is not finite"), HasSubstr("the optimizer made it from finite gradients")));
}

TEST_F(NonfiniteSources, ALiteralIsNotMade) {
  EXPECT_THAT(source(padded(), {}), HasSubstr("the loss is infinite; first infinite number: task #4 core.mse_sum"));
}

TEST_F(NonfiniteSources, StoredWeights) {
  EXPECT_THAT(source(kLinear, {.weight = kInfinite}),
              AllOf(HasSubstr("the loss is"), HasSubstr("no task made it; the first that reads"),
                    HasSubstr("task #0 core.linear")));
}

TEST_F(NonfiniteSources, AreOfEngineExplicit) {
  source(kLinear, {});
  const runtime::Bundle opened = runtime::open_bundle(bundle_).value();
  NonfiniteFinder finder(opened.plan, 1);
  TrainerOptions options;
  options.nonfinite = &finder;
  options.engine = "native";
  const auto refused = Trainer::open(bundle_, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("engine native does not show the results of tasks"));
}

}  // namespace
}  // namespace rannc::tools
