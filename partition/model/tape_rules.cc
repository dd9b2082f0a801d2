#include "partition/model/tape_rules.h"

#include <map>

namespace rannc::partition {

Rule rule_of(std::string_view op) {
  static const std::map<std::string_view, Rule> kRules{
      {"core.add", Rule::kSum},
      {"core.sub", Rule::kSum},
      {"core.neg", Rule::kNothing},
      {"core.floor", Rule::kNothing},
      {"core.ceil", Rule::kNothing},
      {"core.sign", Rule::kNothing},
      {"core.concat", Rule::kNothing},
      {"core.sum", Rule::kNothing},
      {"core.mean", Rule::kNothing},
      {"core.tile", Rule::kNothing},
      {"core.pad", Rule::kPad},
      {"core.cumsum", Rule::kNothing},
      {"core.trilu", Rule::kNothing},
      {"core.cast", Rule::kNothing},
      {"core.identity", Rule::kView},
      {"core.unsqueeze", Rule::kView},
      {"core.squeeze", Rule::kView},
      {"core.reshape", Rule::kReshape},
      {"core.permute", Rule::kPermute},
      {"core.expand", Rule::kPartView},
      {"core.split", Rule::kPartView},
      {"core.slice", Rule::kPartView},
      {"core.mul", Rule::kProduct},
      {"core.div", Rule::kQuotient},
      {"core.matmul", Rule::kMatmul},
      {"core.linear", Rule::kLinear},
      {"core.conv", Rule::kConvolution},
      {"core.layer_norm", Rule::kLayerNorm},
      {"core.rms_norm", Rule::kRmsNorm},
      {"core.batch_norm", Rule::kBatchNorm},
      {"core.max_pool", Rule::kMaxPool},
      {"core.avg_pool", Rule::kAvgPool},
      {"core.adaptive_avg_pool", Rule::kOperand},
      {"core.gather", Rule::kGather},
      {"core.gather_nd", Rule::kGatherTuples},
      {"core.gather_elements", Rule::kGatherElements},
      {"core.dropout", Rule::kDropout},
      {"core.cross_entropy_sum", Rule::kCrossEntropy},
      {"core.mse_sum", Rule::kOperands},
      {"core.maximum", Rule::kOperands},
      {"core.minimum", Rule::kOperands},
      {"core.where", Rule::kCondition},
      {"core.relu", Rule::kResult},
      {"core.tanh", Rule::kResult},
      {"core.sigmoid", Rule::kResult},
      {"core.exp", Rule::kResult},
      {"core.sqrt", Rule::kResult},
      {"core.rsqrt", Rule::kResult},
      {"core.reciprocal", Rule::kResult},
      {"core.softmax", Rule::kResult},
      {"core.log_softmax", Rule::kResult},
      {"core.gelu", Rule::kOperand},
      {"core.silu", Rule::kOperand},
      {"core.hardswish", Rule::kOperand},
      {"core.hardsigmoid", Rule::kOperand},
      {"core.softplus", Rule::kOperand},
      {"core.leaky_relu", Rule::kOperand},
      {"core.elu", Rule::kOperand},
      {"core.clamp", Rule::kClamp},
      {"core.abs", Rule::kOperand},
      {"core.erf", Rule::kOperand},
      {"core.log", Rule::kOperand},
      {"core.sin", Rule::kOperand},
      {"core.cos", Rule::kOperand},
      {"core.pow", Rule::kPower},
      {"core.mod", Rule::kRemainder},
      {"core.amax", Rule::kOperandAndResult},
      {"core.amin", Rule::kOperandAndResult},
      {"core.prod", Rule::kProductOverAxes},
  };
  const auto found = kRules.find(op);
  return found == kRules.end() ? Rule::kAll : found->second;
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
