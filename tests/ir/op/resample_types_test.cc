// Type rules of what resamples or spreads elements over windows: refusals name what does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ir/op/op_cases.h"

namespace rannc::ir {
namespace {

using testing::dims;
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
  return types.ok() ? "" : types.diagnostic().message;
}

Attributes sized(std::string_view sizes, const char* mode = "nearest") {
  return {{"sizes", dims(sizes)}, {"mode", std::string(mode)}};
}

TEST(ResampleTypes, OfUpsamplingNameWhatDoesNotFit) {
  EXPECT_THAT(refusal({"upsample", {f("batch,2,4")}, sized("3,3")}), HasSubstr("sizes [3,3] do not fit operand 0"));
  EXPECT_THAT(refusal({"upsample", {f("batch,2,4")}, sized("3", "cubic")}), HasSubstr("mode \"cubic\" over 1 axes"));
  EXPECT_THAT(refusal({"upsample", {f("batch,2,4,4,4,4")}, sized("3,3,3,3")}), HasSubstr("over 4 axes"));
  EXPECT_THAT(refusal({"upsample", {i("batch,2,4", 0, 9)}, sized("3")}), HasSubstr("it must be a float"));
  EXPECT_THAT(refusal({"upsample", {f("2,batch,4")}, sized("3")}), HasSubstr("needs them on axis 0"));
  Attributes corners = sized("3", "nearest_exact"), deep = sized("3"), none = sized("3");
  corners.set("align_corners", true);
  deep.set("scale_h", 2.0);
  none.set("scale_w", 0.0);
  EXPECT_THAT(refusal({"upsample", {f("batch,2,4")}, corners}), HasSubstr("\"nearest_exact\" with align_corners"));
  EXPECT_THAT(refusal({"upsample", {f("batch,2,4")}, deep}), HasSubstr("scale_h with 1 axes"));
  EXPECT_THAT(refusal({"upsample", {f("batch,2,4")}, none}), HasSubstr("scale_w must be positive"));
}

TEST(ResampleTypes, OfGridsNameWhatDoesNotFit) {
  EXPECT_THAT(refusal({"grid_sample", {f("batch,2,4"), f("batch,3,1")}}), HasSubstr("are not [samples, channels"));
  EXPECT_THAT(refusal({"grid_sample", {f("batch,2,4,4"), f("batch,3,3,3")}}), HasSubstr("are not [samples, channels"));
  EXPECT_THAT(refusal({"grid_sample", {f("batch,2,4,4"), f("2,3,3,2")}}), HasSubstr("differ in their samples"));
  EXPECT_THAT(refusal({"grid_sample", {f("2,batch,4,4"), f("2,3,3,2")}}), HasSubstr("needs them on axis 0"));
  EXPECT_THAT(refusal({"grid_sample", {f("2,3,4,4"), f("2,batch,3,2")}}),
              HasSubstr("have their samples in different places"));
  EXPECT_THAT(refusal({"grid_sample_grad_grid", {f("batch,2,3,4"), f("batch,2,4,4"), f("batch,3,3,2")}}),
              HasSubstr("a gradient of shape [batch,2,3,4] where the result has [batch,2,3,3]"));
}

TEST(ResampleTypes, OfWindowsNameWhatDoesNotFit) {
  const auto transposed = [](const Operand& x, const Operand& weight, const Attributes& attributes = {}) {
    return refusal({"conv_transpose", {x, weight, none()}, attributes});
  };
  EXPECT_THAT(transposed(f("batch,2,4"), f("2,3")), HasSubstr("weight [2,3] is not [in, out, spatial…]"));
  EXPECT_THAT(transposed(f("batch,2,4"), f("3,3,2")), HasSubstr("does not fit weight [3,3,2]"));
  EXPECT_THAT(transposed(f("batch,3,4"), f("3,3,2"), {{"groups", Dim(2)}}), HasSubstr("do not divide into 2 groups"));
  EXPECT_THAT(transposed(f("batch,2,1"), f("2,3,2"), {{"pads", dims("1,1")}}), HasSubstr("nothing is left of axis 2"));
  EXPECT_THAT(transposed(f("batch,2,4"), f("2,3,2"), {{"output_padding", dims("1")}}),
              HasSubstr("must lie below its stride or dilation, of 1"));
  EXPECT_THAT(refusal({"conv_transpose", {f("batch,2,4"), f("2,3,2"), f("2")}}), HasSubstr("bias [2] does not fit 3"));
  EXPECT_THAT(refusal({"max_unpool", {f("batch,2,4"), i("batch,2,3", 0, 4)}, {{"sizes", dims("9")}}}),
              HasSubstr("places [batch,2,3] and sizes [9] do not fit"));
  EXPECT_THAT(refusal({"max_unpool", {f("batch,2,4"), f("batch,2,4")}, {{"sizes", dims("9")}}}),
              HasSubstr("indices must be integers"));
}

}  // namespace
}  // namespace rannc::ir
