// The backward pass as tasks: which ones there are, in which phase, of what type.
#include "passes/training/differentiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"

namespace rannc::passes {
namespace {

using ir::Graph;
using ir::Joint;
using ir::Phase;
using ::testing::HasSubstr;

constexpr char kModel[] = R"(rannc.graph 1
batch batch
input %x: f32[batch,20] samples 0
input %y: f32[batch,10] samples 0
parameter %w1: f32[20,30]
parameter %w2: f32[30,10]
parameter %unused: f32[10]
#0 %h: f32[batch,30] samples 0 = core.matmul(%x, %w1)
#1 %a: f32[batch,30] samples 0 = core.relu(%h)
#2 %z: f32[batch,10] samples 0 = core.matmul(%a, %w2)
#3 %side: f32[batch,10] samples 0 = core.mul(%z, %unused)
#4 %l: f32[] partial = core.mse_sum(%z, %y)
inputs [%x, %y]
outputs [%side]
loss %l weight 0x1p+0
)";

constexpr char kRecurrent[] = R"(rannc.graph 1
batch batch
input %x: f32[3,batch,4] samples 1
parameter %w: f32[1,6,4]
parameter %r: f32[1,6,2]
#0 %y: f32[3,batch,2] samples 1, %h: f32[1,batch,2] samples 1 = core.gru(%x, %w, %r)
#1 %l: f32[] partial = core.sum(%y)
inputs [%x]
loss %l weight 0x1p+0
)";

Graph parsed(const std::string& text) {
  auto graph = ir::parse_graph(text, "t.rir");
  EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  return std::move(graph).value();
}

Joint joint_of(const Graph& graph) {
  auto joint = differentiate(graph);
  EXPECT_TRUE(joint.ok()) << joint.diagnostic().str();
  const auto found = ir::verify(*joint, graph);
  EXPECT_TRUE(found.empty()) << found[0].str();
  return std::move(joint).value();
}

std::string parts_of(const Joint& joint) {
  std::string text;
  for (const Joint::ParameterGradient& part : joint.gradients) {
    text += std::string(joint.graph.value(part.parameter).name) + "#" + std::to_string(part.reader.index()) + " ";
  }
  return text;
}

TEST(Differentiate, WhatNeedsNoGradientIsNotComputed) {
  const Joint joint = joint_of(parsed(kModel));
  EXPECT_EQ(parts_of(joint), "w1#0 w2#2 ");  // nothing for a parameter under no loss
  for (const Joint::ParameterGradient& part : joint.gradients) {
    EXPECT_EQ(joint.graph.type(part.gradient).batch.mix, ir::Mix::kPartial);
  }
  for (uint32_t i = joint.forward_count(); i < joint.origins.size(); ++i) EXPECT_NE(joint.origins[i].task, TaskId(3));
}

TEST(Differentiate, PhasesAreWhatIsNeededForWhat) {
  const Joint joint = joint_of(parsed(kModel));
  for (const Joint::ParameterGradient& part : joint.gradients) {
    EXPECT_EQ(joint.origins[joint.graph.producer(part.gradient).index()].phase, Phase::kWeight);
  }
  size_t inputs = 0;
  for (const Joint::Origin& origin : joint.origins) inputs += origin.phase == Phase::kInput;
  EXPECT_GE(inputs, 3U);  // of the loss, of the second product, of relu
}

/// Two normalizations around a product. Nothing wants the gradient of the first one's operand.
constexpr char kNormalised[] = R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %scale0: f32[4]
parameter %bias0: f32[4]
parameter %w: f32[4,4]
parameter %scale1: f32[4]
parameter %bias1: f32[4]
#0 %a: f32[batch,4] samples 0 = core.layer_norm(%x, %scale0, %bias0)
#1 %h: f32[batch,4] samples 0 = core.matmul(%a, %w)
#2 %b: f32[batch,4] samples 0 = core.layer_norm(%h, %scale1, %bias1)
#3 %l: f32[] partial = core.sum(%b)
inputs [%x]
loss %l weight 0x1p+0
)";

/// Parameters whose gradients are of phase I.
std::string parts_of_input_phase(const Joint& joint) {
  std::string text;
  for (const Joint::ParameterGradient& part : joint.gradients) {
    const TaskId maker = joint.graph.producer(part.gradient);
    if (joint.origins[maker.index()].phase == Phase::kInput)
      text += std::string(joint.graph.value(part.parameter).name) + " ";
  }
  return text;
}

TEST(Differentiate, ScalesAndBiasesBelongToIBesideTheGradientOfTheirOperand) {
  EXPECT_EQ(parts_of_input_phase(joint_of(parsed(kNormalised))), "scale1 bias1 ");
}

// The product's weight is transposed once per step. Nothing in I reads its gradient, so W can be postponed.
TEST(Differentiate, GradientsOfWhatAStepComputesOnceBelongToW) {
  const Joint joint = joint_of(parsed(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %v: f32[4,4]
parameter %w: f32[4,4]
#0 %h: f32[batch,4] samples 0 = core.matmul(%x, %v)
#1 %t: f32[4,4] = core.permute(%w) {dims = [1, 0]}
#2 %s: f32[4,4] = core.mul(%t, %t)
#3 %y: f32[batch,4] samples 0 = core.matmul(%h, %s)
#4 %l: f32[] partial = core.sum(%y)
inputs [%x]
loss %l weight 0x1p+0
)"));
  EXPECT_EQ(parts_of_input_phase(joint), "");
  size_t products = 0;
  for (const TaskId task : joint.graph.tasks()) {
    const ir::Joint::Origin& origin = joint.origins[task.index()];
    if (origin.phase == Phase::kForward || joint.graph.op(task).name != "core.matmul") continue;
    const bool of_activation = joint.graph.type(joint.graph.outputs(task)[0]).batch.has_batch();
    EXPECT_EQ(origin.phase, of_activation ? Phase::kInput : Phase::kWeight);
    ++products;
  }
  EXPECT_EQ(products, 3U) << "gradients of h, s and v";
}

// Both have the same gradient, which is final with the parts that the convolutions make.
TEST(Differentiate, GradientsOfCopiedWeightsNeedNoEndOfTheStep) {
  const Joint joint = joint_of(parsed(R"(rannc.graph 1
batch batch
input %x: f32[batch,4,6,6] samples 0
parameter %w: f32[4,4,3,3]
parameter %v: f32[4,4,3,3]
#0 %last: f32[4,4,3,3] = core.contiguous(%w) {channels_last = true}
#1 %t: f32[4,4,3,3] = core.neg(%v)
#2 %u: f32[4,4,3,3] = core.contiguous(%t) {channels_last = true}
#3 %a: f32[batch,4,4,4] samples 0 = core.conv(%x, %last)
#4 %b: f32[batch,4,2,2] samples 0 = core.conv(%a, %last)
#5 %c: f32[batch,4,1,1] samples 0 = core.conv(%b, %u) {pads = [1,1,0,0]}
#6 %l: f32[] partial = core.sum(%c)
inputs [%x]
loss %l weight 0x1p+0
)"));
  ASSERT_EQ(joint.gradients.size(), 2U);
  for (const Joint::ParameterGradient& part : joint.gradients) {
    const std::string name(joint.graph.value(part.parameter).name);
    const TaskId maker = joint.graph.producer(part.gradient);
    EXPECT_EQ(part.reader, name == "w" ? TaskId(0) : TaskId(1));
    EXPECT_EQ(joint.origins[maker.index()].phase, Phase::kWeight);
    const bool late = ir::execution_frequency(joint.graph)[maker.index()] != ir::Frequency::kMicroBatch;
    EXPECT_EQ(late, name == "v") << "but for what computes it";
  }
  for (const TaskId task : joint.graph.tasks()) {
    if (joint.origins[task.index()].phase == Phase::kForward) continue;
    EXPECT_NE(joint.graph.op(task).name, "core.contiguous");
  }
}

TEST(Differentiate, ScalesWithoutASharedKernelBelongToW) {
  const auto with = [](const std::string& norm) {
    return parts_of_input_phase(joint_of(parsed(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
parameter %scale: f32[4]
parameter %bias: f32[4]
buffer %mean: f32[4]
buffer %variance: f32[4]
#0 %h: f32[batch,4] samples 0 = core.matmul(%x, %w)
#1 %b: f32[batch,4] samples 0 = )" + norm + R"(
#2 %l: f32[] partial = core.sum(%b)
inputs [%x]
loss %l weight 0x1p+0
)")));
  };
  EXPECT_EQ(with("core.batch_norm(%h, %scale, %bias, %mean, %variance)"), "");
  EXPECT_EQ(with("core.rms_norm(%h, %scale)"), "");
}

TEST(Differentiate, TheTextIsReadBack) {
  const Joint joint = joint_of(parsed(kModel));
  const std::string text = ir::print(joint);
  const auto read = ir::parse_joint(text, "t.rir");
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  EXPECT_TRUE(ir::equal(*read, joint));
  EXPECT_EQ(ir::print(*read), text);
}

TEST(Differentiate, SumsTakeTheOrderOfOneTape) {
  const Graph graph = parsed(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
#0 %h: f32[batch,4] samples 0 = core.matmul(%x, %w)
#1 %a: f32[batch,4] samples 0 = core.neg(%h)
#2 %b: f32[batch,4] samples 0 = core.identity(%h)
#3 %c: f32[batch,4] samples 0 = core.add(%a, %b)
#4 %l: f32[] partial = core.sum(%c)
inputs [%x]
loss %l weight 0x1p+0
)");
  const Joint joint = joint_of(graph);
  std::vector<TaskId> sums;
  for (uint32_t i = joint.forward_count(); i < joint.graph.task_count(); ++i) {
    if (joint.origins[i].task == TaskId(0) && joint.graph.op(TaskId(i)).name == "core.add") sums.emplace_back(i);
  }
  ASSERT_EQ(sums.size(), 1U);
  const auto parts = joint.graph.inputs(sums[0]);
  const auto of = [&](ValueId value) { return joint.origins[joint.graph.producer(value).index()].task; };
  EXPECT_GE(of(parts[0]).index(), of(parts[1]).index());  // the last reader first
}

TEST(Differentiate, WhatIsMadeOnceAStepIsMadeWholeFirst) {
  const Graph graph = parsed(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[5,4]
#0 %t: f32[4,5] = core.permute(%w) {dims = [1,0]}
#1 %h: f32[batch,5] samples 0 = core.matmul(%x, %t)
#2 %l: f32[] partial = core.sum(%h)
inputs [%x]
loss %l weight 0x1p+0
)");
  const Joint joint = joint_of(graph);
  EXPECT_EQ(parts_of(joint), "w#0 ");
  const ValueId gradient = joint.gradients[0].gradient;
  EXPECT_EQ(joint.graph.type(gradient).batch.mix, ir::Mix::kNone);
  EXPECT_EQ(ir::execution_frequency(joint.graph)[joint.graph.producer(gradient).index()], ir::Frequency::kStep);
}

TEST(Differentiate, AnOperatorOfTheUsersIsOneTask) {
  const Graph graph = parsed(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
#0 %h: f32[batch,4] samples 0 = mine.mix(%x, %w) {call.operands = "x w", call.schema = "mine::mix", call.types = "f32[n,a] samples 0, f32[a,b] -> f32[n,b] samples 0", strength = 0x1p-1}
#1 %l: f32[] partial = core.sum(%h)
inputs [%x]
loss %l weight 0x1p+0
)");
  const Joint joint = joint_of(graph);
  EXPECT_EQ(parts_of(joint), "w#0 ");
  const TaskId maker = joint.graph.producer(joint.gradients[0].gradient);
  EXPECT_EQ(joint.graph.op(maker).name, "vjp.mine.mix");
  EXPECT_EQ(joint.graph.op(TaskId(0)).name, "taped.mine.mix");
  EXPECT_EQ(joint.graph.attributes(TaskId(0)).number("strength"), 0.5);
  const auto inputs = joint.graph.inputs(maker);
  EXPECT_EQ(inputs.size(), 4U) << "the gradient of its result, the tape, and its operands, which the tape may keep";
  EXPECT_EQ(inputs[1], joint.graph.outputs(TaskId(0))[1]);
  EXPECT_TRUE(joint.graph.type(joint.gradients[0].gradient).batch.is_partial());
}

// Bytes of its own, and the values whose memory it shares: x for the weight, the weights for x.
TEST(Differentiate, ATapeHasTheBytesThatItsOperatorDeclares) {
  const Graph graph = parsed(kRecurrent);
  const Joint joint = joint_of(graph);
  const auto vjp = ir::vjp_of(joint.graph, joint.graph.producer(joint.gradients[0].gradient));
  ASSERT_TRUE(vjp && vjp->tape.valid());
  EXPECT_TRUE(ir::is_tape(joint.graph, vjp->tape));
  const ir::TapeUse use = ir::tape_use(graph, TaskId(0), 0b110);
  EXPECT_EQ(joint.graph.type(vjp->tape).shape, ir::Shape{use.own_bytes});
  EXPECT_EQ(use.own_bytes.evaluate({{"batch", 1}}), std::optional<int64_t>(4 * 2 * (3 * 6 + 2 + 1)));
  std::string shared;
  for (const ValueId value : vjp->operands) shared += std::string(joint.graph.value(value).name) + " ";
  EXPECT_EQ(shared, "x w r ");
  const auto again = ir::parse_joint(ir::print(joint), "joint.rir");
  ASSERT_TRUE(again.ok()) << again.diagnostic().str();
  EXPECT_TRUE(ir::equal(*again, joint));
}

TEST(Differentiate, NoLossIsAnError) {
  const auto joint = differentiate(parsed("rannc.graph 1\n"));
  ASSERT_FALSE(joint.ok());
  EXPECT_THAT(joint.diagnostic().message, HasSubstr("no loss"));
}

// --- rules of joint graphs, broken on purpose

template <class Break>
void expect_broken(std::string_view rule, Break&& spoil) {
  const Graph graph = parsed(kModel);
  Joint joint = joint_of(graph);
  spoil(joint);
  const auto found = ir::verify(joint, graph);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, rule) << found[0].str();
}

TEST(VerifyJoint, J1_AnotherAttribute) {
  const Graph graph = parsed(kModel);
  const Joint joint =
      joint_of(parsed(std::string(kModel).replace(std::string(kModel).find("core.relu"), 9, "core.tanh")));
  const auto found = ir::verify(joint, graph);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "J1");
}
TEST(VerifyJoint, J1_ATapeThatAnotherTaskReads) {
  const Graph graph = parsed(kRecurrent);
  const std::string text = ir::print(joint_of(graph));
  const auto rule = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    if (at == std::string::npos) return "no " + from + " in\n" + text;
    const auto joint = ir::parse_joint(changed.replace(at, from.size(), to), "joint.rir");
    if (!joint.ok()) return joint.diagnostic().str();
    const auto found = ir::verify(*joint, graph);
    return found.empty() ? "" : found[0].rule;
  };
  EXPECT_EQ(rule("tape.wanted = [1,2]", "tape.wanted = [1,2]"), "");
  EXPECT_EQ(rule("tape.wanted = [1,2]", "tape.wanted = [1,7]"), "J1");
  EXPECT_EQ(rule("tape.shared = [0,1,2]", "tape.shared = [0,1,5]"), "J1");
  EXPECT_EQ(rule("vjp.core.gru(", "other.core.gru("), "J1");
}
TEST(VerifyJoint, J2_OfNoForwardTask) {
  expect_broken("J2", [](Joint& joint) { joint.origins.back().task = TaskId(1000); });
}
TEST(VerifyJoint, J3_NoSeed) {
  expect_broken("J3", [](Joint& joint) { joint.seeds[0] = {}; });
  expect_broken("J3", [](Joint& joint) { joint.seeds[0] = joint.graph.find("x"); });
}
TEST(VerifyJoint, J4_APartOfAnotherParameter) {
  expect_broken("J4", [](Joint& joint) { joint.gradients[0].parameter = joint.gradients[1].parameter; });
  expect_broken("J4", [](Joint& joint) { joint.gradients.push_back(joint.gradients[0]); });
  expect_broken("J4", [](Joint& joint) { joint.gradients[0].gradient = joint.gradients[1].gradient; });
}
TEST(VerifyJoint, J5_InputGradientsReadWhatWMakes) {
  expect_broken("J5", [](Joint& joint) {
    for (Joint::Origin& origin : joint.origins) {
      if (origin.phase != Phase::kInput) continue;
      origin.phase = Phase::kWeight;
      break;
    }
  });
}

}  // namespace
}  // namespace rannc::passes
