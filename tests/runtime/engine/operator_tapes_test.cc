// Operators without a gradient rule run once per micro-batch: their gradients run the tape that they have kept.
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <atomic>

#include "ir/graph/byte_count.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/training/differentiate.h"
#include "runtime/aten/graph_run.h"
#include "runtime/aten/torch_types.h"
#include "runtime/engine/allocation_meter.h"
#include "tests/runtime/support/local_run.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/taped_run.h"

namespace rannc::testing {
namespace {

constexpr double kTolerance = 1e-10;  // of doubles, relative to the largest element of a tensor

std::atomic<int> forwards{0};

/// x * x * scale. Counts its calls. Autograd alone has a kernel.
struct Counted : torch::autograd::Function<Counted> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& scale) {
    ++forwards;
    context->save_for_backward({x, scale});
    return x * x * scale;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * saved[0] * saved[1] * 2, (gradients[0] * saved[0] * saved[0]).sum_to_size(saved[1].sizes())};
  }
};

at::Tensor counted(const at::Tensor& x, const at::Tensor& scale) { return Counted::apply(x, scale); }

const std::string kCounted =
    R"(rannc_taped.counted(%p, %s) {call.operands = "x scale", call.schema = "rannc_taped::counted", call.types = )"
    R"("f64[n,t,d] samples 0, f64[d] -> f64[n,t,d] samples 0"})";

/// A foreign operator between two linear layers, then recurrent layers, of whose results some are not read.
const std::string kLayers = R"(rannc.graph 1
batch batch
input %x: f64[batch,3,4] samples 0
input %target: f64[batch,3,2] samples 0
parameter %w0: f64[4,4]
parameter %s: f64[4]
parameter %w1: f64[1,6,4]
parameter %r1: f64[1,6,2]
parameter %b1: f64[1,6]
parameter %c1: f64[1,6]
parameter %w2: f64[1,2,2]
parameter %r2: f64[1,2,2]
#0 %p: f64[batch,3,4] samples 0 = core.linear(%x, %w0)
#1 %q: f64[batch,3,4] samples 0 = )" +
                            kCounted + R"(
#2 %u: f64[3,batch,4] samples 1 = core.permute(%q) {dims = [1,0,2]}
#3 %y: f64[3,batch,2] samples 1, %h: f64[1,batch,2] samples 1 = core.gru(%u, %w1, %r1, %b1, %c1)
#4 %z: f64[3,batch,2] samples 1, %g: f64[1,batch,2] samples 1 = core.rnn(%y, %w2, %r2, _, _, %h)
#5 %o: f64[batch,3,2] samples 0 = core.permute(%z) {dims = [1,0,2]}
#6 %l: f64[] partial = core.mse_sum(%o, %target)
inputs [%x, %target]
outputs [%o]
loss %l weight 0x1p+0
)";

/// A loop whose body branches.
const std::string kControl = R"(rannc.graph 1
batch batch
input %x: f64[batch,4] samples 0
input %target: f64[batch,4] samples 0
parameter %w0: f64[4,4]
parameter %s: f64[4]
parameter %c: f64[]
#0 %p: f64[batch,4] samples 0 = core.linear(%x, %w0)
body @b0
  batch batch
  input %trip: i64[]
  input %going: bool[]
  input %state: f64[batch,4] samples 0
  input %scale: f64[4]
  #0 %m: f64[batch,4] samples 0 = core.mul(%state, %scale)
  #1 %t: f64[batch,4] samples 0 = core.tanh(%m)
  inputs [%trip, %going, %state, %scale]
  outputs [%t]
end @b0
#1 %q: f64[batch,4] samples 0 = core.loop(_, _, %p, %s) {body = @b0, states = 1, trips = 3}
#2 %zero: f64[] = core.full() {dtype = !f64, shape = [], value = 0x0p+0}
#3 %holds: bool[] = core.gt(%c, %zero)
body @b1
  batch batch
  input %a: f64[batch,4] samples 0
  input %as: f64[4]
  #0 %b: f64[batch,4] samples 0 = core.mul(%a, %as)
  inputs [%a, %as]
  outputs [%b]
end @b1
body @b2
  batch batch
  input %a: f64[batch,4] samples 0
  input %as: f64[4]
  #0 %b: f64[batch,4] samples 0 = core.sub(%a, %as)
  inputs [%a, %as]
  outputs [%b]
end @b2
#4 %o: f64[batch,4] samples 0 = core.if(%holds, %q, %s) {else = @b1, then = @b2}
#5 %l: f64[] partial = core.mse_sum(%o, %target)
inputs [%x, %target]
outputs [%o]
loss %l weight 0x1p+0
)";

/// A loop whose body multiplies rows that are no matrix.
const std::string kScattered = R"(rannc.graph 1
batch batch
input %x: f64[batch,3,4] samples 0
input %target: f64[3,batch,4] samples 1
parameter %w: f64[4,4]
#0 %p: f64[batch,3,4] samples 0 = core.tanh(%x)
body @b0
  batch batch
  input %trip: i64[]
  input %going: bool[]
  input %state: f64[3,batch,4] samples 1
  input %rows: f64[batch,3,4] samples 0
  input %weight: f64[4,4]
  #0 %u: f64[3,batch,4] samples 1 = core.permute(%rows) {dims = [1,0,2]}
  #1 %m: f64[3,batch,4] samples 1 = core.linear(%u, %weight)
  #2 %s: f64[3,batch,4] samples 1 = core.add(%m, %state)
  inputs [%trip, %going, %state, %rows, %weight]
  outputs [%s]
end @b0
#1 %u: f64[3,batch,4] samples 1 = core.permute(%p) {dims = [1,0,2]}
#2 %o: f64[3,batch,4] samples 1 = core.loop(_, _, %u, %p, %w) {body = @b0, states = 1, trips = 2}
#3 %l: f64[] partial = core.mse_sum(%o, %target)
inputs [%x, %target]
outputs [%o]
loss %l weight 0x1p+0
)";

/// The foreign operator on parameters alone, once per step.
const std::string kOfParameters = R"(rannc.graph 1
batch batch
input %x: f64[batch,3,4] samples 0
input %target: f64[batch,3,4] samples 0
parameter %w: f64[4]
parameter %s: f64[4]
#0 %p: f64[4] = rannc_taped.counted(%w, %s) {call.operands = "x scale", call.schema = "rannc_taped::counted", call.types = "f64[d], f64[d] -> f64[d]"}
#1 %q: f64[batch,3,4] samples 0 = core.mul(%x, %p)
#2 %o: f64[batch,3,4] samples 0 = core.tanh(%q)
#3 %l: f64[] partial = core.mse_sum(%o, %target)
inputs [%x, %target]
outputs [%o]
loss %l weight 0x1p+0
)";

std::vector<int64_t> sizes_of(const ir::ValueType& type, int64_t batch) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *type.shape) sizes.push_back(*dim.evaluate({{"batch", batch}}));
  return sizes;
}

at::Tensor drawn(const ir::ValueType& type, int64_t batch) {
  return (at::randn(sizes_of(type, batch), at::kDouble) * 0.7).to(runtime::scalar_type(type.dtype));
}

/// A model with weights, and a mini-batch of five samples.
struct Model {
  ir::Graph graph;
  std::map<std::string, at::Tensor> batch;

  explicit Model(const std::string& text, uint64_t seed = 5) : graph(ir::parse_graph(text, "model.rir").value()) {
    for (const Diagnostic& fault : ir::verify(graph)) ADD_FAILURE() << fault.str();
    at::manual_seed(seed);
    for (const ValueId value : graph.values()) {
      if (graph.kind(value) != ir::ValueKind::kParameter) continue;
      const at::Tensor made = drawn(graph.type(value), 1);
      const auto* first = static_cast<const std::byte*>(made.const_data_ptr());
      graph.set_data(value, ir::TensorData::in_memory({first, first + made.nbytes()}));
    }
    for (const ValueId input : graph.inputs())
      batch[std::string(graph.value(input).name)] = drawn(graph.type(input), 5);
  }

  ir::Plan plan(PlanSpec spec) const {
    spec.micro_batches = {2, 2, 1};
    return build_plan(graph.clone(), spec);
  }
  Numbers run(const PlanSpec& spec, bool training = true) const {
    forwards = 0;
    return run_locally(plan(spec), batch, {1.0}, {.training = training, .engine = "explicit"});
  }
  Numbers taped() const { return run_taped(plan({}), batch, {1.0}); }
};

void expect_same_bits(const Numbers& found, const Numbers& expected) {
  EXPECT_EQ(found.loss, expected.loss);
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, tensor] : expected.outputs) EXPECT_TRUE(found.outputs.at(name).equal(tensor)) << name;
  for (const auto& [name, tensor] : expected.gradients) EXPECT_TRUE(found.gradients.at(name).equal(tensor)) << name;
}

void expect_close(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, tensor] : expected.gradients) {
    const double largest = tensor.abs().max().item<double>();
    const double off = (found.gradients.at(name) - tensor).abs().max().item<double>();
    EXPECT_LT(off, kTolerance * std::max(largest, 1e-3)) << name;
  }
}

TEST(OperatorTapes, AForeignOperatorRunsOncePerMicroBatch) {
  const Model model(kLayers);
  for (const bool split : {false, true}) {
    model.run({.split_backward = split});
    EXPECT_EQ(forwards, 3);
    model.run({.cuts = {3}, .split_backward = split});
    EXPECT_EQ(forwards, 3);
  }
  model.run({}, false);
  EXPECT_EQ(forwards, 3);
}

TEST(OperatorTapes, RecomputeRunsItOnceMore) {
  const Model model(kLayers);
  model.run({.early_backward = false, .recompute = true});
  EXPECT_EQ(forwards, 3 + 2);  // the backward pass of the last micro-batch follows at once
}

TEST(OperatorTapes, GiveTheGradientsOfOneTape) {
  for (const std::string& text : {kLayers, kControl, kScattered, kOfParameters}) {
    const Model model(text);
    const Numbers expected = model.taped(), found = model.run({});
    expect_close(found, expected);
    for (const auto& [name, tensor] : found.gradients) {
      const bool differentiable = name != "c";
      EXPECT_EQ(tensor.abs().max().item<double>() > 0, differentiable) << name;
    }
    for (const PlanSpec& spec :
         std::vector<PlanSpec>{{.split_backward = true},
                               {.cuts = {2}, .split_backward = true},
                               {.cuts = {2}, .early_backward = false, .recompute = true},
                               {.early_backward = false, .recompute = true, .split_backward = true}}) {
      SCOPED_TRACE(::testing::Message() << spec.cuts.size() << spec.recompute << spec.split_backward);
      const Numbers plain = model.run({.cuts = spec.cuts, .early_backward = spec.early_backward});
      expect_same_bits(model.run(spec), plain);
      expect_close(plain, expected);
    }
  }
}

// LibTorch would multiply rows that are no matrix in one call with a tape, and in several without: other bits for most
// numbers. Recompute runs without a tape first.
TEST(OperatorTapes, EvaluationGivesTheOutputsOfTraining) {
  for (const std::string& text : {kLayers, kControl, kScattered}) {
    for (uint64_t seed = 5; seed < 13; ++seed) {
      SCOPED_TRACE(seed);
      const Model model(text, seed);
      const Numbers trained = model.run({}), evaluated = model.run({}, false);
      EXPECT_TRUE(evaluated.outputs.at("o").equal(trained.outputs.at("o")));
      EXPECT_LT(evaluated.peak_bytes, trained.peak_bytes);
      expect_same_bits(model.run({.early_backward = false, .recompute = true}), model.run({.early_backward = false}));
    }
  }
}

// Its tape is read at the end of the step, in narrow types after each micro-batch.
TEST(OperatorTapes, OfParametersAreMadeOncePerStep) {
  Model(kOfParameters).run({});
  EXPECT_EQ(forwards, 1);
  std::string narrow = kOfParameters;
  for (size_t at = 0; (at = narrow.find("f64", at)) != std::string::npos;) narrow.replace(at, 3, "bf16");
  const Numbers found = Model(narrow).run({});
  EXPECT_EQ(forwards, 1);
  EXPECT_GT(found.gradients.at("w").abs().max().item<double>(), 0);
}

// The statistics of a GRU's steps are much larger than what is not declared. Its operand is copied, not shared.
TEST(OperatorTapes, HoldTheBytesOfTheirTypes) {
  const Model model(R"(rannc.graph 1
batch batch
input %samples: f32[batch,16,8] samples 0
parameter %w: f32[1,96,8]
parameter %r: f32[1,96,32]
parameter %b: f32[1,96]
parameter %c: f32[1,96]
#0 %x: f32[16,batch,8] samples 1 = core.permute(%samples) {dims = [1,0,2]}
#1 %y: f32[16,batch,32] samples 1, %h: f32[1,batch,32] samples 1 = core.gru(%x, %w, %r, %b, %c)
#2 %l: f32[] partial = core.sum(%y)
inputs [%samples]
loss %l weight 0x1p+0
)");
  const auto joint = passes::differentiate(model.graph);
  ASSERT_TRUE(joint.ok()) << joint.diagnostic().str();
  runtime::GraphValues values(joint->graph.value_count());
  for (const ValueId value : joint->graph.values()) {
    if (!joint->graph.producer(value).valid()) values[value.index()] = drawn(joint->graph.type(value), 5);
  }
  const runtime::AllocationMeter meter;
  for (const TaskId task : {TaskId(0), TaskId(1)}) {
    const auto ran = runtime::run_task(joint->graph, task, {.sizes = {{"batch", 5}}}, values);
    ASSERT_TRUE(ran.ok()) << ran.diagnostic().str();
  }
  const auto made = joint->graph.outputs(TaskId(1));
  size_t declared = 0;
  for (const ValueId value : made) declared += values[value.index()]->nbytes();
  EXPECT_EQ(values[made[2].index()]->numel(),
            ir::byte_count(joint->graph.type(made[2])).evaluate({{"batch", 5}}).value());
  EXPECT_NEAR(static_cast<double>(meter.live_bytes()), static_cast<double>(declared), 0.02 * declared + 1024);
}

ir::Graph parsed(const std::string& text) { return ir::parse_graph(text, "tape.rir").value(); }

TEST(OperatorTapes, AValueThatIsNoTapeIsReported) {
  const ir::Graph graph = parsed(
      "rannc.graph 1\ninput %g: f64[4]\ninput %tape: u8[8]\n"
      "#0 %y: f64[4] = vjp.rannc_taped.counted(%g, %tape) {vjp_results = 1, vjp_tape = true, vjp_wanted = [0]}\n"
      "inputs [%g, %tape]\n");
  runtime::GraphValues values(graph.value_count());
  values[0] = at::ones({4}, at::kDouble);
  values[1] = at::zeros({8}, at::kByte);
  const auto ran = runtime::run_graph(graph, {}, values);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.diagnostic().message, "vjp.rannc_taped.counted: its operand carries no tape of its forward task");
}

}  // namespace
}  // namespace rannc::testing

TORCH_LIBRARY(rannc_taped, library) { library.def("counted(Tensor x, Tensor scale) -> Tensor"); }
TORCH_LIBRARY_IMPL(rannc_taped, Autograd, library) { library.impl("counted", rannc::testing::counted); }
