/// Translates products, convolutions, pooling and resampling.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/recipes/einsum.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

std::vector<ValueId> with_optional(ValueId x, ValueId weight, ValueId bias) {
  std::vector<ValueId> operands = {x, weight};
  if (bias.valid()) operands.push_back(bias);
  return operands;
}

void linear(Call& call) {
  const ValueId weight = call.tensor("weight");
  const Shape* const shape = call.shape(weight);
  if (shape && shape->size() == 1) {  // one output, whose axis is dropped
    const ValueId made = call.emit("matmul", {call.tensor("input"), weight});
    return call.has("bias") ? call.result("add", {made, call.tensor("bias")}) : call.give(made);
  }
  call.result("linear", with_optional(call.tensor("input"), call.tensor("weight"), call.optional_tensor("bias")));
}

/// Products of matrices and of batches of matrices.
void product(Call& call) {
  call.result("matmul", {call.tensor("self"), call.tensor(call.has("mat2")     ? "mat2"
                                                          : call.has("vec")    ? "vec"
                                                          : call.has("tensor") ? "tensor"
                                                                               : "other")});
}

/// beta * self + alpha * (a @ b). Both factors are usually 1.
struct Factors {
  double beta, alpha;
};
Factors factors(Call& call) {
  return {call.has("beta") ? call.number("beta") : 1, call.has("alpha") ? call.number("alpha") : 1};
}

template <const char* a, const char* b>
void scaled_sum(Call& call) {
  const ValueId bias = call.tensor("self"), x = call.tensor(a), y = call.tensor(b);
  const auto [beta, alpha] = factors(call);
  if (!call.good()) return;
  ValueId made = call.emit("matmul", {x, y});
  if (alpha != 1) made = call.emit("mul", {made, call.scalar(alpha, call.dtype(x))});
  if (beta == 0) return call.give(made);
  const ValueId shift = beta == 1 ? bias : call.emit("mul", {bias, call.scalar(beta, call.dtype(bias))});
  call.result("add", {shift, made});
}

/// ATen rounds the sum alone, as the operator `linear` does.
template <const char* a, const char* b>
void added_product(Call& call) {
  const ValueId bias = call.tensor("self"), x = call.tensor(a), y = call.tensor(b);
  const auto [beta, alpha] = factors(call);
  if (!call.good()) return;
  const bool vector = call.type(bias).shape && call.type(bias).shape->size() == 1 && call.type(y).shape &&
                      call.type(y).shape->size() == 2;
  if (beta == 1 && alpha == 1 && vector) return call.result("linear", {x, y, bias}, {{"layout", std::string("io")}});
  rounded_once(call, scaled_sum<a, b>);
}
constexpr char kMat1[] = "mat1", kMat2[] = "mat2", kBatch1[] = "batch1", kBatch2[] = "batch2", kMat[] = "mat",
               kVec[] = "vec";

void dot(Call& call) {
  const ValueId terms = call.emit("mul", promoted(call, {"self", call.has("tensor") ? "tensor" : "other"}));
  if (call.good()) call.result("sum", {terms}, {{"axes", Shape{0}}, {"keepdim", false}});
}

void einsum_of_tensors(Call& call) {
  const std::vector<ValueId> operands = call.tensors("tensors");
  const std::string equation = call.text("equation");
  const auto last = call.good() ? einsum(call, equation, operands) : std::nullopt;
  if (last) call.result(last->op, {last->operand}, last->attributes);
}

// --- windows

std::vector<int64_t> for_each_axis(Call& call, std::string_view name, size_t axes, int64_t otherwise) {
  std::vector<int64_t> found = call.has(name) ? call.integers(name) : std::vector<int64_t>{};
  if (found.empty()) found.assign(axes, otherwise);
  if (found.size() == 1) found.resize(axes, found[0]);
  if (found.size() != axes)
    call.fail(fmt::format("{}: {} has {} numbers for {} axes", call.schema(), name, found.size(), axes));
  return found;
}

/// Returns the same pads at begin and end.
std::vector<int64_t> on_both_sides(std::vector<int64_t> pads) {
  const size_t axes = pads.size();
  for (size_t i = 0; i < axes; ++i) pads.push_back(pads[i]);
  return pads;
}

/// A value with a sample axis, which was added if the operand has none.
struct Batched {
  ValueId x;
  bool added = false;
};
Batched batched(Call& call, ValueId x, size_t axes) {
  const bool lacks = static_cast<size_t>(call.rank(x)) == axes + 1;
  return {lacks ? call.emit("unsqueeze", {x}, {{"axes", Shape{0}}}) : x, lacks};
}
void give(Call& call, std::string_view op, const std::vector<ValueId>& operands, ir::Attributes attributes,
          bool added) {
  if (!added) return call.result(op, operands, std::move(attributes));
  const ValueId made = call.emit(op, operands, std::move(attributes));
  call.result("squeeze", {made}, {{"axes", Shape{0}}});
}

/// Returns pads that keep the extents of x. An odd pad is at the end.
std::vector<int64_t> same_pads(const std::vector<int64_t>& kernel, const std::vector<int64_t>& dilations) {
  std::vector<int64_t> pads(2 * kernel.size());
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t total = (kernel[i] - 1) * dilations[i];
    pads[i] = total / 2;
    pads[i + kernel.size()] = total - total / 2;
  }
  return pads;
}

void conv(Call& call) {
  const bool direct = call.has("input");
  const ValueId given = call.tensor(direct ? "input" : "self"), weight = call.tensor("weight");
  const Shape* const shape = call.shape(weight);
  if (!shape || shape->size() < 3) return call.fail("a convolution needs a weight of at least 3 axes");
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < shape->size(); ++i) {
    if (!(*shape)[i].is_constant()) return call.fail("a convolution needs a weight of known sizes");
    kernel.push_back((*shape)[i].constant());
  }
  const size_t axes = kernel.size();
  const bool transposed =
      call.op().find("transpose") != std::string::npos || (call.has("transposed") && call.flag("transposed"));
  const std::vector<int64_t> strides = for_each_axis(call, "stride", axes, 1),
                             dilations = for_each_axis(call, "dilation", axes, 1);
  std::vector<int64_t> pads;
  if (const auto* mode = call.item("padding").get<std::string>()) {
    pads = *mode == "same" ? same_pads(kernel, dilations) : std::vector<int64_t>(2 * axes, 0);
  } else {
    pads = on_both_sides(for_each_axis(call, "padding", axes, 0));
  }
  if (!call.good()) return;
  const Batched x = batched(call, given, axes);
  ir::Attributes attributes = {{"strides", list(strides)},
                               {"pads", list(pads)},
                               {"dilations", list(dilations)},
                               {"groups", Dim(call.has("groups") ? call.integer("groups") : 1)}};
  if (transposed) attributes.set("output_padding", list(for_each_axis(call, "output_padding", axes, 0)));
  give(call, transposed ? "conv_transpose" : "conv", with_optional(x.x, weight, call.optional_tensor("bias")),
       std::move(attributes), x.added);
}

size_t pooled_axes(const Call& call) {
  const size_t digit = call.op().find_first_of("123");
  return static_cast<size_t>(call.op()[digit] - '0');
}

ir::Attributes window(Call& call, size_t axes) {
  const std::vector<int64_t> kernel = for_each_axis(call, "kernel_size", axes, 1);
  std::vector<int64_t> strides = kernel;
  if (call.has("stride") && !call.integers("stride").empty()) strides = for_each_axis(call, "stride", axes, 1);
  return {{"kernel", list(kernel)},
          {"strides", list(strides)},
          {"pads", list(on_both_sides(for_each_axis(call, "padding", axes, 0)))},
          {"ceil", call.has("ceil_mode") && call.flag("ceil_mode")}};
}

void max_pool(Call& call) {
  const size_t axes = pooled_axes(call);
  ir::Attributes attributes = window(call, axes);
  attributes.set("dilations", list(for_each_axis(call, "dilation", axes, 1)));
  const Batched x = batched(call, call.tensor("self"), axes);
  if (!call.good()) return;
  if (call.op().find("indices") == std::string::npos)
    return give(call, "max_pool", {x.x}, std::move(attributes), x.added);
  if (x.added) return call.fail("max_pool with indices of an operand without a batch axis is not supported");
  const auto made = call.emit_all("max_pool", {x.x}, std::move(attributes), 2);
  for (const ValueId each : made) call.give(each);
}

void avg_pool(Call& call) {
  const size_t axes = pooled_axes(call);
  if (call.has("divisor_override")) return call.fail("avg_pool with divisor_override is not supported");
  ir::Attributes attributes = window(call, axes);
  attributes.set("count_include_pad", !call.has("count_include_pad") || call.flag("count_include_pad"));
  const Batched x = batched(call, call.tensor("self"), axes);
  if (call.good()) give(call, "avg_pool", {x.x}, std::move(attributes), x.added);
}

void adaptive_avg_pool(Call& call) {
  const size_t axes = pooled_axes(call);
  const ValueId given = call.tensor("self");
  const Shape* const shape = call.shape(given);
  const Sequence* const sizes = call.item("output_size").sequence();
  if (!shape) return;
  const Batched x = batched(call, given, axes);
  Shape size;
  for (size_t i = 0; i < axes; ++i) {
    const Item each = sizes ? sizes->elements[std::min(i, sizes->elements.size() - 1)] : call.item("output_size");
    const auto number = each.is_none() ? std::optional((*call.shape(x.x))[i + 2]) : call.size_of(each);
    if (!number) return call.fail("adaptive_avg_pool needs known output sizes");
    size.push_back(*number);
  }
  if (call.good()) give(call, "adaptive_avg_pool", {x.x}, {{"size", size}}, x.added);
}

/// Output size 1 is a maximum. Output sizes that divide a known size are a pool of disjoint windows.
void adaptive_max_pool(Call& call) {
  const size_t axes = pooled_axes(call);
  const ValueId given = call.tensor("self");
  const Batched x = batched(call, given, axes);
  if (!call.good()) return;
  const std::vector<int64_t> size = for_each_axis(call, "output_size", axes, 1);
  const Shape from = *call.shape(x.x);
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < axes; ++i) {
    if (!from[i + 2].is_constant() || size[i] < 1 || from[i + 2].constant() % size[i] != 0)
      return call.fail("adaptive_max_pool needs output sizes that divide the sizes of the operand");
    kernel.push_back(from[i + 2].constant() / size[i]);
  }
  const auto made = call.emit_all("max_pool", {x.x}, {{"kernel", list(kernel)}, {"strides", list(kernel)}}, 2);
  if (!call.good()) return;
  call.give(made[0]);
  call.give(made[1]);
}

void upsample(Call& call) {
  const ValueId x = call.tensor(call.item(size_t{0}), "input");  // some overloads call it `self`
  const Shape* const from = call.shape(x);
  if (!from) return;
  const size_t axes = from->size() - 2;
  const std::string& op = call.op();
  const std::string mode = op.find("bicubic") != std::string::npos   ? "cubic"
                           : op.find("exact") != std::string::npos   ? "nearest_exact"
                           : op.find("nearest") != std::string::npos ? "nearest"
                                                                     : "linear";
  if (axes < 1 || axes > 3) return call.fail(fmt::format("{} of {} axes", call.schema(), from->size()));
  ir::Attributes attributes = {{"mode", mode}};
  Shape sizes;
  constexpr const char* kNames[] = {"scale_d", "scale_h", "scale_w"};
  // Positions follow from the exact scale, not from the rounded sizes.
  constexpr const char* kScales[] = {"scales_d", "scales_h", "scales_w"};
  for (size_t i = 0; i < axes; ++i) {
    const std::string_view given = axes == 1 ? "scales" : kScales[3 - axes + i];
    if (call.has(given)) attributes.set(kNames[3 - axes + i], call.number(given));
  }
  if (call.has("output_size")) {
    sizes = call.sizes("output_size");
  } else if (const Sequence* const scales = call.item("scale_factors").sequence();
             scales && scales->elements.size() == axes) {
    for (size_t i = 0; i < axes; ++i) {
      const auto scale = Call::number_of(scales->elements[i]);
      const Dim& size = (*from)[i + 2];
      const auto by_scale = scale && !size.is_constant() ? scaled(size, *scale) : std::nullopt;
      const auto symbolic = by_scale ? rounded_down(*by_scale) : std::nullopt;
      if (!scale || (!size.is_constant() && !symbolic)) return call.fail("upsample by a scale needs known sizes");
      sizes.push_back(symbolic ? *symbolic : Dim(whole(std::floor(static_cast<double>(size.constant()) * *scale))));
      attributes.set(kNames[3 - axes + i], *scale);
    }
  }
  if (sizes.size() != axes)
    return call.fail(fmt::format("{} has {} sizes for {} axes", call.schema(), sizes.size(), axes));
  attributes.set("sizes", sizes);
  if (call.has("align_corners")) attributes.set("align_corners", call.flag("align_corners"));
  if (call.type(x).batch.axis != 1 || !call.type(x).batch.has_batch())
    return call.result("upsample", {x}, std::move(attributes));
  // The first two axes are treated alike. Samples must be on axis 0.
  Shape turned{1, 0};
  for (size_t i = 0; i < axes; ++i) turned.push_back(static_cast<int64_t>(i) + 2);
  const ValueId apart = call.emit("upsample", {call.emit("permute", {x}, {{"dims", turned}})}, std::move(attributes));
  call.result("permute", {apart}, {{"dims", turned}});
}

void grid_sampler(Call& call) {
  constexpr const char* kModes[] = {"linear", "nearest", "cubic"};
  constexpr const char* kPadding[] = {"zeros", "border", "reflection"};
  const int64_t mode = call.integer("interpolation_mode"), padding = call.integer("padding_mode");
  if (!call.good() || mode < 0 || mode > 2 || padding < 0 || padding > 2)
    return call.fail("grid_sampler has an unknown mode");
  call.result("grid_sample", {call.tensor("input"), call.tensor("grid")},
              {{"mode", std::string(kModes[mode])},
               {"padding", std::string(kPadding[padding])},
               {"align_corners", call.flag("align_corners")}});
}

}  // namespace

std::span<const Translator> dense_translators() {
  static constexpr Translator kTable[] = {
      {"linear", linear},
      {"matmul", product},
      {"mm", product},
      {"bmm", product},
      {"mv", product},
      {"dot", dot},
      {"addmm", added_product<kMat1, kMat2>},
      {"baddbmm", added_product<kBatch1, kBatch2>},
      {"addmv", added_product<kMat, kVec>},
      {"einsum", einsum_of_tensors},
      {"conv1d", conv},
      {"conv2d", conv},
      {"conv3d", conv},
      {"_convolution", conv},
      {"convolution", conv},
      {"conv_transpose1d", conv},
      {"conv_transpose2d", conv},
      {"conv_transpose3d", conv},
      {"max_pool1d", max_pool},
      {"max_pool2d", max_pool},
      {"max_pool3d", max_pool},
      {"max_pool2d_with_indices", max_pool},
      {"avg_pool1d", avg_pool},
      {"avg_pool2d", avg_pool},
      {"avg_pool3d", avg_pool},
      {"adaptive_avg_pool1d", adaptive_avg_pool},
      {"adaptive_avg_pool2d", adaptive_avg_pool},
      {"adaptive_avg_pool3d", adaptive_avg_pool},
      {"adaptive_max_pool1d", adaptive_max_pool},
      {"adaptive_max_pool2d", adaptive_max_pool},
      {"upsample_nearest1d", upsample},
      {"upsample_nearest2d", upsample},
      {"upsample_nearest3d", upsample},
      {"_upsample_nearest_exact2d", upsample},
      {"upsample_linear1d", upsample},
      {"upsample_bilinear2d", upsample},
      {"upsample_trilinear3d", upsample},
      {"upsample_bicubic2d", upsample},
      {"grid_sampler", grid_sampler},
      {"grid_sampler_2d", grid_sampler},
      {"grid_sampler_3d", grid_sampler},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
