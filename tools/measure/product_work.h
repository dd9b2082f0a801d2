/// What LibTorch's products have to compute.
#pragma once

#include <ATen/record_function.h>

namespace rannc::tools {

/// Whether an operator's own time is that of products: matrices, convolutions, attention, recurrent layers.
bool is_product(std::string_view name);

/// Floating-point operations of a call that has its inputs, a multiply-add counts two; 0 for what is no product. Of a
/// convolution those of the operator that chooses a kernel, not of the kernel.
double product_flops(const at::RecordFunction& call);

}  // namespace rannc::tools
