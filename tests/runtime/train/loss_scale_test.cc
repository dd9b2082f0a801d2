#include "runtime/train/loss_scale.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace rannc::runtime {
namespace {

TEST(LossScale, HalvesWithoutFiniteGradientsDownToOne) {
  LossScale scale{.scale = 4, .finite_steps = 7};
  scale.count(false);
  EXPECT_EQ(scale, (LossScale{.scale = 2, .finite_steps = 0}));
  EXPECT_FALSE(scale.is_least());
  scale.count(false);
  EXPECT_EQ(scale.scale, 1);
  EXPECT_TRUE(scale.is_least());
  scale.count(false);
  EXPECT_EQ(scale.scale, 1);
}

TEST(LossScale, DoublesAfterTwoThousandFiniteSteps) {
  LossScale scale{.scale = 4};
  for (uint64_t i = 1; i < LossScale::kGrowthInterval; ++i) scale.count(true);
  EXPECT_EQ(scale, (LossScale{.scale = 4, .finite_steps = 1999}));
  scale.count(true);
  EXPECT_EQ(scale, (LossScale{.scale = 8, .finite_steps = 0}));
  scale = {.scale = LossScale::kMost, .finite_steps = 1999};
  scale.count(true);
  EXPECT_EQ(scale.scale, LossScale::kMost);
}

bool needs(const std::string& parameter, const std::string& product) {
  std::string text = "rannc.graph 1\nbatch batch\ninput %x: " + product +
                     "[batch,4] samples 0\nparameter %w: " + parameter + "[4,4]\n";
  text += "#0 %c: " + product + "[4,4] = core.cast(%w) {dtype = !" + product + "}\n";
  text += "#1 %y: " + product + "[batch,4] samples 0 = core.matmul(%x, %c)\ninputs [%x]\noutputs [%y]\n";
  return needs_loss_scale(ir::parse_graph(text, "t.rir").value());
}

TEST(LossScale, IsOfFloat32ParametersAndFloat16Products) {
  EXPECT_TRUE(needs("f32", "f16"));
  EXPECT_FALSE(needs("f32", "bf16")) << "bfloat16 has the range of float32";
  EXPECT_FALSE(needs("f16", "f16")) << "the whole model is float16";
  EXPECT_FALSE(needs("f32", "f32"));
}

}  // namespace
}  // namespace rannc::runtime
