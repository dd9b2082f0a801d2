/// What is known of operators' derivatives, by name.
#pragma once

#include <cstdint>
#include <string_view>

namespace rannc::partition {

/// What the derivative reads of the forward pass.
enum class TapeRule : uint8_t {
  kNothing,
  kSum,  ///< its gradient is its operands'
  kView,
  kPartView,  ///< of a part: the gradient is as large as the whole again
  kReshape,
  kPermute,
  kOperand,
  kOperands,
  kResult,
  kOperandAndResult,
  kProduct,   ///< each factor where the other one wants a gradient
  kQuotient,  ///< the divisor; the dividend and the divisor where the divisor wants a gradient
  kLinear,
  kMatmul,
  kConvolution,
  kPower,
  kRemainder,
  kClamp,
  kPad,
  kProductOverAxes,
  kLayerNorm,
  kRmsNorm,
  kBatchNorm,
  kMaxPool,
  kAvgPool,
  kGather,
  kGatherTuples,
  kGatherElements,
  kDropout,
  kCrossEntropy,
  kCondition,
  kAll  ///< float operands and results: of an operator without a rule
};

TapeRule rule_of(std::string_view op);

/// How many copies of its result ATen's derivative makes for a while, beside the gradients.
double passing_copies(std::string_view op);

}  // namespace rannc::partition
