/// Resampling as LibTorch's kernels do it: samples lead, then channels, then 1 to 3 spatial axes. Private to ir/ops.
#pragma once

#include "ir/ops/rules.h"

namespace rannc::ir::ops {

/// Kernel of upsampling that the attributes `mode` and `align_corners` name, over so many axes, or of its derivative
/// (`rest` is `_backward`); an error where LibTorch has none.
Result<std::string> upsampling_kernel(const OpAttributes& attributes, size_t rank, std::string_view rest = "");
/// Appends what every such kernel takes last: whether corners are aligned, where it can be asked, and the scales.
void add_scales(std::vector<aten::Argument>& arguments, const OpAttributes& attributes, size_t rank);
/// Elements of the operand that each of the result is made of.
int64_t upsampling_taps(const OpAttributes& attributes, size_t rank);
/// The attributes of the operator and of its derivative; `sizes` are of the spatial axes of what it makes.
std::vector<AttributeInfo> upsampling_attributes();

/// [samples, channels, …] of grid_sample; an error where x of that shape and its grid do not fit each other.
Result<Shape> grid_sampled(const OpCall& call, const Shape& x, const Shape& grid);
/// `aten::grid_sampler_2d` and what it takes last.
std::string grid_sampler(size_t rank, std::string_view rest = "");
void add_sampling(std::vector<aten::Argument>& arguments, const OpAttributes& attributes);
std::vector<AttributeInfo> sampling_attributes();

}  // namespace rannc::ir::ops
