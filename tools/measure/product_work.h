/// Counts the floating-point operations of LibTorch's products.
#pragma once

#include <ATen/record_function.h>

namespace rannc::tools {

/// Whether an operator computes products: matrix products, convolutions, attention or recurrent layers.
bool is_product(std::string_view name);

/// Floating-point operations of a call, which must have recorded its inputs. A multiply-add counts as two. Returns 0
/// for other operators. A convolution is counted at the operator that chooses the kernel, not at the kernel.
double product_flops(const at::RecordFunction& call);

}  // namespace rannc::tools
