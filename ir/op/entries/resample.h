/// Resampling of [samples, channels, 1 to 3 spatial axes] by LibTorch's kernels. Private to ir/op.
#pragma once

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// Upsampling kernel for the attributes `mode` and `align_corners` over `rank` axes, or its derivative (`rest` is
/// `_backward`). Fails if LibTorch has none.
Result<std::string> upsampling_kernel(const OpAttributes& attributes, size_t rank, std::string_view rest = "");
/// Appends the last arguments of every such kernel: `align_corners`, if the kernel has it, and the scales.
void add_scales(std::vector<aten::Argument>& arguments, const OpAttributes& attributes, size_t rank);
/// Number of operand elements that determine each result element.
int64_t upsampling_taps(const OpAttributes& attributes, size_t rank);
/// Attributes of the operator and of its derivative. `sizes` are those of the spatial axes of its result.
std::vector<AttributeInfo> upsampling_attributes();

/// Result shape [samples, channels, …] of grid_sample. Fails if x of that shape and its grid do not match.
Result<Shape> grid_sampled(const OpCall& call, const Shape& x, const Shape& grid);
/// The kernel `aten::grid_sampler_2d` or its 3-d form, and its last arguments.
std::string grid_sampler(size_t rank, std::string_view rest = "");
void add_sampling(std::vector<aten::Argument>& arguments, const OpAttributes& attributes);
std::vector<AttributeInfo> sampling_attributes();

}  // namespace rannc::ir::ops
