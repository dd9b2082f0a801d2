// Upsampling, and sampling at positions of a grid.
#include "ir/op/entries/resample.h"

#include <algorithm>

#include "ir/op/gradients/gradients_dense.h"

namespace rannc::ir::ops {

// --- upsample

namespace {

constexpr std::string_view kScales[] = {"scale_d", "scale_h", "scale_w"};

// Name of the kernel over `rank` axes; empty if there is none.
std::string_view kernel_name(std::string_view mode, size_t rank) {
  constexpr std::string_view kNearest[] = {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"},
                             kExact[] = {"_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
                                         "_upsample_nearest_exact3d"},
                             kLinear[] = {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"};
  if (rank < 1 || rank > 3) return {};
  if (mode == "nearest") return kNearest[rank - 1];
  if (mode == "nearest_exact") return kExact[rank - 1];
  if (mode == "linear") return kLinear[rank - 1];
  if (rank != 2) return {};
  if (mode == "cubic") return "upsample_bicubic2d";
  return mode == "linear_antialias" ? "_upsample_bilinear2d_aa" : "_upsample_bicubic2d_aa";
}

bool is_nearest(const OpAttributes& attributes) { return attributes.text("mode").starts_with("nearest"); }

}  // namespace

Result<std::string> upsampling_kernel(const OpAttributes& attributes, size_t rank, std::string_view rest) {
  const std::string mode = attributes.text("mode");
  const std::string_view name = kernel_name(mode, rank);
  if (name.empty()) return error("mode \"" + mode + "\" over " + std::to_string(rank) + " axes");
  if (is_nearest(attributes) && attributes.flag("align_corners")) {
    return error("mode \"" + mode + "\" with align_corners");
  }
  return "aten::" + std::string(name) + std::string(rest);
}

void add_scales(std::vector<aten::Argument>& arguments, const OpAttributes& attributes, size_t rank) {
  if (!is_nearest(attributes)) arguments.emplace_back(attributes.flag("align_corners"));
  for (size_t i = 3 - rank; i < 3; ++i) {
    if (attributes.has(kScales[i])) {
      arguments.emplace_back(attributes.number(kScales[i]));
    } else {
      arguments.emplace_back(aten::None{});
    }
  }
}

int64_t upsampling_taps(const OpAttributes& attributes, size_t rank) {
  const std::string mode = attributes.text("mode");
  const int64_t along = mode.starts_with("nearest") ? 1 : mode.starts_with("linear") ? 2 : 4;
  int64_t taps = 1;
  for (size_t i = 0; i < rank; ++i) taps *= along;
  return taps;
}

std::vector<AttributeInfo> upsampling_attributes() {
  using Kind = AttributeKind;
  return {{.name = "sizes", .kind = Kind::kSizes, .required = true},
          {"mode",
           Kind::kText,
           "nearest",
           false,
           {"nearest", "nearest_exact", "linear", "cubic", "linear_antialias", "cubic_antialias"}},
          {"align_corners", Kind::kFlag, false},
          {kScales[0], Kind::kNumber},
          {kScales[1], Kind::kNumber},
          {kScales[2], Kind::kNumber}};
}

namespace {

Result<void> require_float(const OpCall& call) {
  if (is_float(call.in(0).dtype)) return {};
  return error("operand 0 is " + std::string(str(call.in(0).dtype)) + "; it must be a float");
}

Result<Types> infer_upsample(const OpCall& call) {
  RANNC_ASSIGN(Shape to, shape_of(call, 0));
  RANNC_TRY(samples_lead(call, 0));
  RANNC_TRY(require_float(call));
  const Shape& sizes = *call.attributes.list("sizes");
  if (to.size() != sizes.size() + 2) return error("sizes " + str(sizes) + " do not fit operand 0 of shape " + str(to));
  RANNC_TRY(upsampling_kernel(call.attributes, sizes.size()));
  for (size_t i = 0; i < 3; ++i) {
    const bool of_an_axis = i + sizes.size() >= 3;
    if (!call.attributes.has(kScales[i])) continue;
    if (!of_an_axis) return error(std::string(kScales[i]) + " with " + std::to_string(sizes.size()) + " axes");
    if (!(call.attributes.number(kScales[i]) > 0)) return error(std::string(kScales[i]) + " must be positive");
  }
  RANNC_TRY(require_sizes(call, sizes));
  std::copy(sizes.begin(), sizes.end(), to.begin() + 2);
  return Types{make_type(call.in(0).dtype, std::move(to), call.in(0).batch)};
}

Work upsample_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape) return {};
  const int64_t taps = upsampling_taps(call.attributes, outputs[0].shape->size() - 2);
  return work(taps == 1 ? Dim(0) : element_count(*outputs[0].shape) * Dim(2 * taps), call, outputs);
}

Result<aten::Lowering> lower_upsample(const LowerCall& call) {
  const Shape& sizes = *call.attributes.list("sizes");
  RANNC_ASSIGN(std::string kernel, upsampling_kernel(call.attributes, sizes.size()));
  std::vector<aten::Argument> arguments = {aten::Operand{0}, sizes};
  add_scales(arguments, call.attributes, sizes.size());
  return one_call(std::move(kernel), std::move(arguments));
}

// --- grid_sample

bool same_samples(const BatchLayout& a, const BatchLayout& b) {
  return a.axis == b.axis && a.outer == b.outer && a.inner == b.inner;
}

}  // namespace

Result<Shape> grid_sampled(const OpCall& call, const Shape& x, const Shape& grid) {
  const size_t rank = x.size() < 2 ? 0 : x.size() - 2;
  const std::string both = "x " + str(x) + " and grid " + str(grid);
  if (rank < 2 || rank > 3 || grid.size() != x.size() ||
      !taken_for_equal(call, grid.back(), Dim(static_cast<int64_t>(rank)))) {
    return error(both + " are not [samples, channels, 2 or 3 axes] and [samples, as many axes, their number]");
  }
  if (!taken_for_equal(call, x[0], grid[0])) return error(both + " differ in their samples");
  if (rank != 2 && call.attributes.text("mode") == "cubic") return error("mode \"cubic\" over 3 axes");
  Shape to = {x[0], x[1]};
  to.insert(to.end(), grid.begin() + 1, grid.end() - 1);
  return to;
}

std::string grid_sampler(size_t rank, std::string_view rest) {
  return "aten::grid_sampler_" + std::to_string(rank) + "d" + std::string(rest);
}

void add_sampling(std::vector<aten::Argument>& arguments, const OpAttributes& attributes) {
  const std::string mode = attributes.text("mode"), padding = attributes.text("padding");
  arguments.emplace_back(mode == "linear" ? 0 : mode == "nearest" ? 1 : 2);
  arguments.emplace_back(padding == "zeros" ? 0 : padding == "border" ? 1 : 2);
  arguments.emplace_back(attributes.flag("align_corners"));
}

std::vector<AttributeInfo> sampling_attributes() {
  using Kind = AttributeKind;
  return {{"mode", Kind::kText, "linear", false, {"linear", "nearest", "cubic"}},
          {"padding", Kind::kText, "zeros", false, {"zeros", "border", "reflection"}},
          {"align_corners", Kind::kFlag, false}};
}

namespace {

Result<Types> infer_grid_sample(const OpCall& call) {
  RANNC_ASSIGN(const Shape x, shape_of(call, 0));
  RANNC_ASSIGN(const Shape grid, shape_of(call, 1));
  RANNC_TRY(require_float(call));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  RANNC_ASSIGN(Shape to, grid_sampled(call, x, grid));
  RANNC_TRY(samples_lead(call, 0));
  if (!same_samples(call.in(0).batch, call.in(1).batch)) {
    return error("x " + str(x) + " and grid " + str(grid) + " have their samples in different places");
  }
  return Types{make_type(dtype, std::move(to), call.in(0).batch)};
}

Work grid_sample_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape) return {};
  const int64_t taps = upsampling_taps(call.attributes, outputs[0].shape->size() - 2);
  return work(element_count(*outputs[0].shape) * Dim(2 * taps), call, outputs);
}

Result<aten::Lowering> lower_grid_sample(const LowerCall& call) {
  std::vector<aten::Argument> arguments = {aten::Operand{0}, aten::Operand{1}};
  add_sampling(arguments, call.attributes);
  return one_call(grid_sampler(shape_of(*call.inputs[0]).size() - 2), std::move(arguments));
}

}  // namespace

std::vector<OpInfo> resample_ops() {
  return {
      {.name = "core.upsample",
       .summary =
           "x over its spatial axes at `sizes`, larger or smaller; a scale that is absent is the ratio of the sizes",
       .onnx = {"Resize", "Upsample"},
       .aten = {"aten::upsample_nearest2d", "aten::_upsample_nearest_exact2d", "aten::upsample_bilinear2d",
                "aten::upsample_bicubic2d", "aten::_upsample_bilinear2d_aa"},
       .operands = {{"x"}},
       .attributes = upsampling_attributes(),
       .autocast = Autocast::kFloat32,
       .infer = infer_upsample,
       .linear = always<Linear::kFirst>,
       .work = upsample_work,
       .lower = lower_upsample,
       .gradient = gradient::upsample},
      {.name = "core.grid_sample",
       .summary = "x at the places of a grid, whose coordinates run from -1 to 1 and begin with the last axis",
       .onnx = {"GridSample"},
       .aten = {"aten::grid_sampler_2d", "aten::grid_sampler_3d"},
       .operands = {{"x"}, {"grid"}},
       .attributes = sampling_attributes(),
       .infer = infer_grid_sample,
       .linear = always<Linear::kFirst>,
       .work = grid_sample_work,
       .lower = lower_grid_sample,
       .gradient = gradient::grid_sample,
       .tape = TapeInfo{.keeps = {kept_operand(0), kept_operand(1)}}},
  };
}

}  // namespace rannc::ir::ops
