// What recurrent operators refuse, and that their work is counted by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ir/op/op_cases.h"

namespace rannc::ir {
namespace {

using testing::f;
using ::testing::HasSubstr;
using testing::i;
using testing::none;
using testing::OpCase;
using testing::Operand;

std::string refusal(const OpCase& c) {
  std::vector<const ValueType*> inputs;
  for (const Operand& operand : c.operands) inputs.push_back(operand.absent ? nullptr : &operand.type);
  const auto types = types_of({core(c.op), inputs, c.attributes, "batch", c.outputs});
  return types.ok() ? "accepted" : types.diagnostic().message;
}

TEST(RecurrentTypes, WhatIsRefused) {
  const Operand x = f("4,batch,3"), w = f("1,8,3"), r = f("1,8,2"), b = f("1,8");
  EXPECT_EQ(refusal({"lstm", {x, w, r, b, b}, {}, 3}), "accepted");
  EXPECT_THAT(refusal({"lstm", {f("batch,4,3"), w, r}, {}, 3}), HasSubstr("lstm over axis 0"));
  EXPECT_THAT(refusal({"lstm", {f("4,5,batch"), f("1,8,batch"), r}, {}, 3}), HasSubstr("operand 1 has samples"));
  EXPECT_THAT(refusal({"lstm", {x, w, r, b}, {}, 3}), HasSubstr("one of two biases is given"));
  EXPECT_THAT(refusal({"lstm", {x, f("1,8,4"), r}, {}, 3}), HasSubstr("operand 1 of shape [1,8,4] does not fit"));
  EXPECT_THAT(refusal({"lstm", {x, w, r, b, f("1,6")}, {}, 3}), HasSubstr("operand 4 of shape [1,6] does not fit"));
  EXPECT_THAT(refusal({"gru", {x, w, r}, {}, 2}), HasSubstr("has 8 rows; 3 gates of 2 need 6"));
  EXPECT_THAT(refusal({"rnn", {x, f("3,2,3"), f("3,2,2")}, {}, 2}), HasSubstr("is of 3 directions; 1 or 2"));
  EXPECT_THAT(refusal({"lstm", {f("4,batch"), w, r}, {}, 3}), HasSubstr("operand 0 is [4,batch]; it needs rank 3"));
  EXPECT_THAT(refusal({"lstm", {x, w, r, none(), none(), f("1,batch,3")}, {}, 3}),
              HasSubstr("state [1,batch,3] does not fit x [4,batch,3]: it needs [1,batch,2]"));
  EXPECT_THAT(refusal({"lstm", {x, w, r, none(), none(), f("1,5,2")}, {}, 3}), HasSubstr("state [1,5,2] does not fit"));
  EXPECT_THAT(refusal({"rnn", {i("4,batch,3", 0, 5), i("1,2,3", 0, 5), i("1,2,2", 0, 5)}, {}, 2}),
              HasSubstr("must be a float type"));
}

TEST(RecurrentTypes, WorkspacesAreThoseOfOneDnn) {
  using testing::single;
  const Operand x = single("4,batch,3"), w = single("1,8,3"), r = single("1,8,2");
  EXPECT_EQ(refusal({"lstm", {x, w, r}, {}, 4}), "accepted");
  EXPECT_THAT(refusal({"lstm", {x, w, r}, {}, 5}), HasSubstr("lstm of f32 x [4,batch,3] has 1 workspaces, not 2"));
  EXPECT_THAT(refusal({"lstm", {f("4,batch,3"), f("1,8,3"), f("1,8,2")}, {}, 4}), HasSubstr("has 0 workspaces, not 1"));
  EXPECT_THAT(refusal({"lstm", {single("0,batch,3"), w, r}, {}, 4}), HasSubstr("has 0 workspaces, not 1"));
}

// One sample and step of one number: seven parts of a workspace, each of one page.
TEST(RecurrentTypes, GradientsTakeTheResultsAndAtLeastOneGradient) {
  using testing::single;
  Operand workspace = i("32768", 0, 1);
  workspace.type.dtype = DType::kU8;
  const Operand x = single("1,batch,1"), w = single("1,4,1"), state = single("1,batch,1");
  OpCase c = {"lstm", {x, w, w}, {}, 4};
  std::vector<const ValueType*> inputs;
  for (const Operand& operand : c.operands) inputs.push_back(&operand.type);
  workspace.type.shape = types_of({core(c.op), inputs, c.attributes, "batch", c.outputs}).value()[3].shape;
  EXPECT_EQ((*workspace.type.shape)[0].evaluate({{"batch", 1}}), 7 * 4096);
  const Operand y = state;
  EXPECT_EQ(refusal({"lstm_grad", {x, w, w, y, state, state, workspace, y}, {}, 6}), "accepted");
  EXPECT_THAT(refusal({"lstm_grad", {x, w, w, y, state, state, workspace}, {}, 6}),
              HasSubstr("no gradient of a result is given"));
  EXPECT_THAT(refusal({"lstm_grad", {x, w, w, y, state, state, workspace, none(), single("1,batch,2")}, {}, 6}),
              HasSubstr("operand 8 is f32[1,batch,2] where f32[1,batch,1] is needed"));
  EXPECT_THAT(refusal({"lstm_grad", {x, w, w, y, state, state, i("4", 0, 1), y}, {}, 6}),
              HasSubstr("operand 6 is i64[4] where u8["));
}

// Two directions of four gates of two rows: 2 * 8 * (2 * (3 + 2) + 10) for each step of each sample.
TEST(RecurrentTypes, WorkIsThatOfTheProductsAndTheGates) {
  const OpCase c = {"lstm", {f("4,batch,3"), f("2,8,3"), f("2,8,2")}, {}, 3};
  std::vector<const ValueType*> inputs;
  for (const Operand& operand : c.operands) inputs.push_back(&operand.type);
  const OpCall call = {core(c.op), inputs, c.attributes, "batch", c.outputs};
  const Work work = core(c.op).work(call, types_of(call).value());
  EXPECT_EQ(work.flops, Dim(4 * 2 * 8 * (2 * (3 + 2) + 10)) * Dim::symbol("batch"));
}

}  // namespace
}  // namespace rannc::ir
