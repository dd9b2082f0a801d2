/// Operators of the test device that are not those of the CPU.
#pragma once

#include <torch/library.h>

#include <set>
#include <string>

namespace rannc::testing {

/// Adds the kernels that allocate, view and copy to `library`; returns their operators: `aten::empty.memory_format`.
std::set<std::string> add_device_kernels(torch::Library& library);

/// Adds fused attention to `library`, and makes `aten::scaled_dot_product_attention` choose as on a CPU.
void add_attention(torch::Library& library);
/// Adds recurrent layers to `library`. They are made of differentiable operators.
void add_recurrent(torch::Library& library);
/// Adds the kernels that make and open sparse tensors to `library`; returns their operators.
std::set<std::string> add_sparse_kernels(torch::Library& library);

}  // namespace rannc::testing
