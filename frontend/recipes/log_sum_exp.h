/// Builds logarithms of sums of exponentials.
#pragma once

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// m + log(sum(exp(x - m))) with the maximum m over the axes, which are kept, so that exp does not overflow. If all of
/// x are -infinity, the result is -infinity without gradient.
ValueId log_sum_exp(TaskWriter& writer, ValueId x, const ir::Shape& axes);

}  // namespace rannc::frontend
