/// Parts that translators of losses share.
#pragma once

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

enum class Reduction { kNone, kMean, kSum };

/// Returns the argument `reduction`, which is the mean by default.
Reduction reduction(Call& call);
/// Gives losses as the call reduces them: as they are, or their mean or sum over all axes.
void reduced(Call& call, ValueId each);

/// Returns the p-th root of the sum of p-th powers over the axes of `how`, which are attributes of core.sum. For
/// infinite p, the largest or smallest absolute value. The gradient is zero where all elements are zero. An error if p
/// is 0.
ValueId p_norm(Call& call, ValueId x, double p, const ir::Attributes& how);

}  // namespace rannc::frontend::torchscript
