/// Norms of gradients, by which they are clipped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/plan/optimizer_shares.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Returns the sum of squares of the accumulated gradient in each of `slices`. Rows of a few thousand elements are
/// summed in the gradient's type, the row sums in double precision. If float32 cannot represent such a sum, all
/// arithmetic is in double precision. Waits once for the device, and once more per gradient that float32 cannot sum.
std::vector<double> squared_norms(Program& program, std::span<const ir::ParameterSlice> slices);
/// The same of whole parameters.
std::vector<double> squared_norms(Program& program, std::span<const uint32_t> parameters);

/// Returns the factor that scales gradients of global norm `norm` down to `limit`, as torch.nn.utils.clip_grad_norm_.
double clip_scale(double norm, double limit);

}  // namespace rannc::runtime
