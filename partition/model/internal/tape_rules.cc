#include "partition/model/internal/tape_rules.h"

#include <map>

namespace rannc::partition {

TapeRule rule_of(std::string_view op) {
  static const std::map<std::string_view, TapeRule> kRules{
      {"core.add", TapeRule::kSum},
      {"core.sub", TapeRule::kSum},
      {"core.neg", TapeRule::kNothing},
      {"core.floor", TapeRule::kNothing},
      {"core.ceil", TapeRule::kNothing},
      {"core.sign", TapeRule::kNothing},
      {"core.concat", TapeRule::kNothing},
      {"core.sum", TapeRule::kNothing},
      {"core.mean", TapeRule::kNothing},
      {"core.tile", TapeRule::kNothing},
      {"core.pad", TapeRule::kPad},
      {"core.cumsum", TapeRule::kNothing},
      {"core.trilu", TapeRule::kNothing},
      {"core.cast", TapeRule::kNothing},
      {"core.identity", TapeRule::kView},
      {"core.unsqueeze", TapeRule::kView},
      {"core.squeeze", TapeRule::kView},
      {"core.reshape", TapeRule::kReshape},
      {"core.permute", TapeRule::kPermute},
      {"core.expand", TapeRule::kPartView},
      {"core.split", TapeRule::kPartView},
      {"core.slice", TapeRule::kPartView},
      {"core.mul", TapeRule::kProduct},
      {"core.div", TapeRule::kQuotient},
      {"core.matmul", TapeRule::kMatmul},
      {"core.linear", TapeRule::kLinear},
      {"core.conv", TapeRule::kConvolution},
      {"core.layer_norm", TapeRule::kLayerNorm},
      {"core.rms_norm", TapeRule::kRmsNorm},
      {"core.batch_norm", TapeRule::kBatchNorm},
      {"core.max_pool", TapeRule::kMaxPool},
      {"core.avg_pool", TapeRule::kAvgPool},
      {"core.adaptive_avg_pool", TapeRule::kOperand},
      {"core.gather", TapeRule::kGather},
      {"core.gather_nd", TapeRule::kGatherTuples},
      {"core.gather_elements", TapeRule::kGatherElements},
      {"core.dropout", TapeRule::kDropout},
      {"core.cross_entropy_sum", TapeRule::kCrossEntropy},
      {"core.mse_sum", TapeRule::kOperands},
      {"core.maximum", TapeRule::kOperands},
      {"core.minimum", TapeRule::kOperands},
      {"core.where", TapeRule::kCondition},
      {"core.relu", TapeRule::kResult},
      {"core.tanh", TapeRule::kResult},
      {"core.sigmoid", TapeRule::kResult},
      {"core.exp", TapeRule::kResult},
      {"core.sqrt", TapeRule::kResult},
      {"core.rsqrt", TapeRule::kResult},
      {"core.reciprocal", TapeRule::kResult},
      {"core.softmax", TapeRule::kResult},
      {"core.log_softmax", TapeRule::kResult},
      {"core.gelu", TapeRule::kOperand},
      {"core.silu", TapeRule::kOperand},
      {"core.hardswish", TapeRule::kOperand},
      {"core.hardsigmoid", TapeRule::kOperand},
      {"core.softplus", TapeRule::kOperand},
      {"core.leaky_relu", TapeRule::kOperand},
      {"core.elu", TapeRule::kOperand},
      {"core.clamp", TapeRule::kClamp},
      {"core.abs", TapeRule::kOperand},
      {"core.erf", TapeRule::kOperand},
      {"core.log", TapeRule::kOperand},
      {"core.sin", TapeRule::kOperand},
      {"core.cos", TapeRule::kOperand},
      {"core.pow", TapeRule::kPower},
      {"core.mod", TapeRule::kRemainder},
      {"core.amax", TapeRule::kOperandAndResult},
      {"core.amin", TapeRule::kOperandAndResult},
      {"core.prod", TapeRule::kProductOverAxes},
  };
  const auto found = kRules.find(op);
  return found == kRules.end() ? TapeRule::kAll : found->second;
}

double passing_copies(std::string_view op) {
  static const std::map<std::string_view, double> kCopies{
      {"core.abs", 1}, {"core.sqrt", 1}, {"core.sin", 1}, {"core.cos", 2}, {"core.rsqrt", 2},
      {"core.reciprocal", 2}, {"core.cumsum", 2}, {"core.pow", 3}, {"core.erf", 4}, {"core.rms_norm", 4},
  };
  const auto found = kCopies.find(op);
  return found == kCopies.end() ? 0 : found->second;
}

}  // namespace rannc::partition
