// ONNX's operators that resample, spread over windows, pool or sample, computed: against LibTorch's own functions where
// it has them, against numbers written down or a plain loop where not.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "runtime/aten/graph_run.h"
#include "runtime/aten/stored_tensor.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::codegen {
namespace {

using Inputs = std::vector<std::pair<std::string, at::Tensor>>;

std::string onnx_type(const at::Tensor& tensor) {
  std::string text = tensor.scalar_type() == at::kLong ? "int64[" : "double[";
  for (int64_t i = 0; i < tensor.dim(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(tensor.size(i));
  return text + "]";
}

/// The outputs of nodes between inputs and `outputs` of unknown shapes, in double precision.
std::vector<at::Tensor> run(const Inputs& inputs, const std::string& nodes, int opset, const std::string& stored = "",
                            const std::string& outputs = "double[o] y") {
  std::string text = "agraph (";
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += (i == 0 ? "" : ", ") + onnx_type(inputs[i].second) + " " + inputs[i].first;
  }
  text += ") => (" + outputs + ") " + (stored.empty() ? "" : "<" + stored + "> ") + "{ " + nodes + " }";
  const auto graph = test::import_graph(text, opset);
  if (!graph.ok()) ADD_FAILURE() << graph.diagnostic().str() << "\n" << text;
  if (!graph.ok()) return {};
  runtime::GraphValues values(graph->value_count());
  for (const auto& [name, tensor] : inputs) values[graph->find(name).index()] = tensor;
  for (const ValueId value : graph->values()) {
    if (!graph->value(value).data.present()) continue;
    values[value.index()] = runtime::to_tensor({graph->type(value), graph->value(value).data}).value();
  }
  const auto ran = runtime::run_graph(*graph, {}, values);
  if (!ran.ok()) ADD_FAILURE() << ran.diagnostic().str();
  if (!ran.ok()) return {};
  std::vector<at::Tensor> found;
  for (const ValueId output : graph->outputs()) found.push_back(*values[output.index()]);
  return found;
}

at::Tensor y_of(const Inputs& inputs, const std::string& nodes, int opset, const std::string& stored = "") {
  const std::vector<at::Tensor> found = run(inputs, nodes, opset, stored);
  return found.empty() ? at::Tensor() : found[0];
}

void expect_close(const at::Tensor& found, const at::Tensor& expected, double tolerance = 1e-12) {
  ASSERT_TRUE(found.defined());
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(found, expected, tolerance, tolerance)) << found << "\nagainst\n" << expected;
}

at::Tensor random(std::vector<int64_t> sizes) { return at::randn(sizes, at::kDouble); }

// Over images without an axis of samples no kernel is taken: constant matrices and gathers are what it computes.
TEST(ResizeNumbers, OfMatricesAreTheKernels) {
  at::manual_seed(3);
  const at::Tensor x = random({2, 5, 6});
  const at::Tensor image = x.unsqueeze(0);
  struct Case {
    std::string attributes;
    std::function<at::Tensor(at::IntArrayRef)> expected;
  };
  const std::string linear = "mode = \"linear\"", cubic = "mode = \"cubic\"";
  const std::string corners = ", coordinate_transformation_mode = \"align_corners\"";
  const std::string smooth = ", antialias = 1, exclude_outside = 1";
  const std::vector<Case> cases = {
      {linear, [&](at::IntArrayRef to) { return at::upsample_bilinear2d(image, to, false); }},
      {linear + corners, [&](at::IntArrayRef to) { return at::upsample_bilinear2d(image, to, true); }},
      {cubic, [&](at::IntArrayRef to) { return at::upsample_bicubic2d(image, to, false); }},
      {cubic + corners, [&](at::IntArrayRef to) { return at::upsample_bicubic2d(image, to, true); }},
      {linear + smooth, [&](at::IntArrayRef to) { return at::_upsample_bilinear2d_aa(image, to, false); }},
      {cubic + smooth + ", cubic_coeff_a = -0.5",
       [&](at::IntArrayRef to) { return at::_upsample_bicubic2d_aa(image, to, false); }},
      {"nearest_mode = \"floor\", coordinate_transformation_mode = \"asymmetric\"",
       [&](at::IntArrayRef to) { return at::upsample_nearest2d(image, to); }},
      {"nearest_mode = \"round_prefer_ceil\"",
       [&](at::IntArrayRef to) { return at::_upsample_nearest_exact2d(image, to); }},
  };
  for (const Case& each : cases) {
    for (const std::vector<int64_t>& to : {std::vector<int64_t>{9, 3}, {5, 13}, {2, 2}, {10, 12}}) {
      SCOPED_TRACE(each.attributes + " to " + std::to_string(to[0]) + ", " + std::to_string(to[1]));
      const std::string sizes = "int64[2] s = {" + std::to_string(to[0]) + ", " + std::to_string(to[1]) + "}";
      const at::Tensor found =
          y_of({{"x", x}}, "y = Resize <axes = [1, 2], " + each.attributes + "> (x, , , s)", 19, sizes);
      expect_close(found, each.expected(to).squeeze(0));
    }
  }
}

// A scale in single precision stands for the fraction that its author wrote: 17 elements are 10 by 1.7, not fewer.
TEST(ResizeNumbers, OfScalesAreThoseOfTheirAuthor) {
  at::manual_seed(4);
  const at::Tensor x = random({1, 2, 20, 10});
  for (const double scale : {1.7, 0.6, 2.3, 1.0 / 3}) {
    const auto scaled = [&](int64_t n) {
      return static_cast<int64_t>(std::floor(static_cast<double>(n) * scale + 1e-9));
    };
    const std::string stored = "float[2] s = {" + std::to_string(scale) + (scale < 0.5 ? "333" : "") + ", 1.0}";
    const at::Tensor nearest = y_of({{"x", x}},
                                    "y = Resize <axes = [2, 3], coordinate_transformation_mode = \"asymmetric\", "
                                    "nearest_mode = \"floor\"> (x, , s)",
                                    18, stored);
    expect_close(nearest, at::upsample_nearest2d(x, {scaled(20), 10}, scale, 1.0));
    const at::Tensor linear = y_of({{"x", x}}, "y = Resize <axes = [2, 3], mode = \"linear\"> (x, , s)", 18, stored);
    expect_close(linear, at::upsample_bilinear2d(x, {scaled(20), 10}, false, scale, 1.0));
  }
}

// Before opset 11, as ONNX Runtime computes it: upwards where the result is smaller, downwards where it is larger.
TEST(ResizeNumbers, OfOldOpsetsRoundUpwardsToSmaller) {
  const at::Tensor x = at::arange(1, 13, at::kDouble).reshape({1, 1, 12});
  const auto resized = [&](const std::string& scale) {
    return y_of({{"x", x}}, "y = Resize (x, s)", 10, "float[3] s = {1, 1, " + scale + "}");
  };
  expect_close(resized("0.6"), at::tensor({1.0, 3.0, 5.0, 6.0, 8.0, 10.0, 11.0}, at::kDouble).reshape({1, 1, 7}));
  expect_close(resized("0.35"), at::tensor({1.0, 4.0, 7.0, 10.0}, at::kDouble).reshape({1, 1, 4}));
  expect_close(resized("1.5").slice(2, 0, 6),
               at::tensor({1.0, 1.0, 2.0, 3.0, 3.0, 4.0}, at::kDouble).reshape({1, 1, 6}));
}

TEST(ResizeNumbers, OutsideOfACropAreTheValueAskedFor) {
  const at::Tensor x = at::arange(3, at::kDouble).reshape({1, 1, 3});
  for (const std::string mode : {"nearest", "linear"}) {
    const at::Tensor found = y_of({{"x", x}},
                                  "y = Resize <axes = [2], coordinate_transformation_mode = \"tf_crop_and_resize\", "
                                  "extrapolation_value = 9.0, mode = \"" +
                                      mode + "\"> (x, r, , s)",
                                  18, "float[2] r = {-0.5, 1.5}, int64[1] s = {5}");
    expect_close(found, at::tensor({9.0, 0.0, 1.0, 2.0, 9.0}, at::kDouble).reshape({1, 1, 5}));
  }
}

// ONNX Runtime's numbers, with every way of splitting pads.
/// The only element of a result is the first of its operand, at 0, without its neighbours.
TEST(ResizeNumbers, OfOneElementAreTheFirst) {
  const at::Tensor x = random({1, 1, 4, 5});
  for (const char* mode : {"linear", "cubic"}) {
    const at::Tensor y = y_of({{"x", x}},
                              "y = Resize <mode = \"" + std::string(mode) +
                                  "\", coordinate_transformation_mode = \"pytorch_half_pixel\"> (x, , , s)",
                              13, "int64[4] s = {1, 1, 1, 1}");
    expect_close(y, x.slice(2, 0, 1).slice(3, 0, 1));
  }
}

/// 3 * (0.8 - 0.1) + 4 * 0.1 lies midway in float32, above in double precision.
TEST(ResizeNumbers, OfACropHaveTheirPlacesInFloat32) {
  const at::Tensor x = at::arange(5, at::kDouble).reshape({1, 1, 1, 5});
  const at::Tensor y =
      y_of({{"x", x}},
           "y = Resize <mode = \"nearest\", coordinate_transformation_mode = \"tf_crop_and_resize\"> (x, r, , s)", 13,
           "int64[4] s = {1, 1, 1, 5}, float[8] r = {0, 0, 0, 0.1, 1, 1, 1, 0.8}");
  expect_close(y.reshape({-1}), at::tensor({0, 1, 2, 2, 3}, at::kDouble));
}

TEST(ConvTransposeNumbers, OfLengthsThatAreAskedFor) {
  const at::Tensor x = at::tensor({1.0, 10.0, 100.0}, at::kDouble).reshape({1, 1, 3});
  const auto made = [&](const std::string& attributes) {
    return y_of({{"x", x}}, "y = ConvTranspose <strides = [2]" + attributes + "> (x, w)", 11,
                "double[1, 1, 3] w = {1, 2, 3}");
  };
  const auto row = [](std::vector<double> numbers) {
    return at::tensor(numbers, at::kDouble).reshape({1, 1, static_cast<int64_t>(numbers.size())});
  };
  expect_close(made(""), row({1, 2, 13, 20, 130, 200, 300}));
  expect_close(made(", output_shape = [6]"), row({2, 13, 20, 130, 200, 300}));
  expect_close(made(", output_shape = [4]"), row({13, 20, 130, 200}));
  expect_close(made(", output_shape = [8]"), row({1, 2, 13, 20, 130, 200, 300, 0}));
  expect_close(made(", output_shape = [6], auto_pad = \"SAME_UPPER\""), row({1, 2, 13, 20, 130, 200}));
  expect_close(made(", output_shape = [4], auto_pad = \"SAME_UPPER\""), row({2, 13, 20, 130}));
  expect_close(made(", auto_pad = \"SAME_UPPER\""), row({1, 2, 13, 20, 130, 200}));
  expect_close(made(", auto_pad = \"SAME_LOWER\""), row({2, 13, 20, 130, 200, 300}));
}

TEST(PoolingNumbers, PlacesAreNumbersInTheWholeOperand) {
  at::manual_seed(5);
  const at::Tensor x = random({2, 3, 5, 6});
  const auto pooled = [&](const std::string& attributes) {
    return run({{"x", x}}, "y, i = MaxPool <" + attributes + "> (x)", 12, "", "double[o] y, int64[p] i");
  };
  for (const char* attributes :
       {"kernel_shape = [2, 2], strides = [2, 2]", "kernel_shape = [2, 3], pads = [1, 1, 0, 1]",
        "kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2], ceil_mode = 1",
        "kernel_shape = [2, 2], pads = [0, 0, 1, 1], strides = [2, 3], ceil_mode = 1, dilations = [2, 1]"}) {
    SCOPED_TRACE(attributes);
    const auto found = pooled(attributes);
    ASSERT_EQ(found.size(), 2U);
    expect_close(x.reshape({-1}).index_select(0, found[1].reshape({-1})).reshape(found[0].sizes()), found[0]);
    const auto turned = pooled(std::string(attributes) + ", storage_order = 1");
    ASSERT_EQ(turned.size(), 2U);
    expect_close(x.transpose(2, 3).reshape({-1}).index_select(0, turned[1].reshape({-1})).reshape(found[0].sizes()),
                 found[0]);
  }
}

TEST(PoolingNumbers, AreUndoneAtTheirPlaces) {
  at::manual_seed(6);
  const at::Tensor x = random({2, 3, 4, 6});
  const at::Tensor found = y_of({{"x", x}},
                                "p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)\n"
                                "y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (p, i)",
                                12);
  const auto [pooled, places] = at::max_pool2d_with_indices(x, {2, 2});
  expect_close(found, at::max_unpool2d(pooled, places, {4, 6}));
}

/// Means by the text of ONNX's operator, element by element.
at::Tensor plain_means(const at::Tensor& x, int64_t kernel, int64_t stride, int64_t dilation, int64_t begin,
                       int64_t end, int64_t count, bool with_pads) {
  const int64_t n = x.size(2);
  at::Tensor made = at::zeros({x.size(0), x.size(1), count}, at::kDouble);
  for (int64_t i = 0; i < count; ++i) {
    int64_t counted = 0;
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t at = i * stride - begin + k * dilation;
      if (at >= 0 && at < n) made.select(2, i) += x.select(2, at);
      counted += with_pads ? at < n + end : at >= 0 && at < n;
    }
    made.select(2, i) /= static_cast<double>(counted);
  }
  return made;
}

TEST(PoolingNumbers, OfMeansInFormsThatLibTorchHasNot) {
  at::manual_seed(7);
  const at::Tensor x = random({2, 3, 8});
  for (const bool with_pads : {false, true}) {
    const std::string rest = with_pads ? ", count_include_pad = 1> (x)" : "> (x)";
    expect_close(y_of({{"x", x}}, "y = AveragePool <kernel_shape = [3], pads = [2, 0]" + rest, 19),
                 plain_means(x, 3, 1, 1, 2, 0, 8, with_pads));
    expect_close(y_of({{"x", x}}, "y = AveragePool <kernel_shape = [3], pads = [1, 2], dilations = [2]" + rest, 19),
                 plain_means(x, 3, 1, 2, 1, 2, 7, with_pads));
    expect_close(
        y_of({{"x", x}}, "y = AveragePool <kernel_shape = [3], pads = [0, 1], strides = [3], ceil_mode = 1" + rest, 19),
        plain_means(x, 3, 3, 1, 0, 1, 3, with_pads));
    expect_close(y_of({{"x", x}},
                      "y = AveragePool <kernel_shape = [2], strides = [3], dilations = [3], ceil_mode = 1" + rest, 19),
                 plain_means(x, 2, 3, 3, 0, 0, 3, with_pads));
  }
}

TEST(PoolingNumbers, OfNorms) {
  at::manual_seed(8);
  const at::Tensor x = random({2, 3, 7, 6});
  for (const int64_t p : {1, 2, 3}) {
    const std::string norm = "p = " + std::to_string(p);
    const at::Tensor powers = x.abs().pow(p);
    const at::Tensor sums = at::avg_pool2d(powers, {3, 2}, {2, 2}) * 6;
    expect_close(y_of({{"x", x}}, "y = LpPool <kernel_shape = [3, 2], strides = [2, 2], " + norm + "> (x)", 18),
                 sums.pow(1.0 / static_cast<double>(p)));
    expect_close(y_of({{"x", x}}, "y = GlobalLpPool <" + norm + "> (x)", 18),
                 powers.sum({2, 3}, true).pow(1.0 / static_cast<double>(p)));
  }
}

TEST(ColumnNumbers, AreLibTorchsAtUnevenEnds) {
  at::manual_seed(9);
  // Windows of 2 x 3 by strides of 2 over 6 x 7 with a pad: the last row and column are reached by none.
  const at::Tensor columns = random({2, 2 * 6, 9});
  const at::Tensor found = y_of({{"x", columns}}, "y = Col2Im <strides = [2, 2], pads = [0, 0, 0, 0]> (x, s, b)", 18,
                                "int64[2] s = {7, 8}, int64[2] b = {2, 3}");
  expect_close(found, at::col2im(columns, {7, 8}, {2, 3}, {1, 1}, {0, 0}, {2, 2}));
  const at::Tensor dilated = random({1, 2 * 4, 16});
  expect_close(y_of({{"x", dilated}}, "y = Col2Im <dilations = [2, 2], pads = [1, 1, 1, 1]> (x, s, b)", 18,
                    "int64[2] s = {4, 4}, int64[2] b = {2, 2}"),
               at::col2im(dilated, {4, 4}, {2, 2}, {2, 2}, {1, 1}, {1, 1}));
}

TEST(SamplingNumbers, OfLinesAreThoseOfPlanes) {
  at::manual_seed(10);
  const at::Tensor x = random({2, 3, 5}), grid = at::rand({2, 7, 1}, at::kDouble) * 3 - 1.5;
  const at::Tensor rows = at::cat({grid, at::zeros_like(grid)}, 2).unsqueeze(1);
  for (const auto& [name, mode] : {std::pair("linear", 0), std::pair("nearest", 1), std::pair("cubic", 2)}) {
    const at::Tensor found =
        y_of({{"x", x}, {"g", grid}},
             "y = GridSample <mode = \"" + std::string(name) + "\", padding_mode = \"reflection\"> (x, g)", 20);
    expect_close(found, at::grid_sampler_2d(x.unsqueeze(2), rows, mode, 2, false).squeeze(2));
  }
}

TEST(SamplingNumbers, OfAffineGridsAreLibTorchs) {
  at::manual_seed(11);
  for (const bool corners : {false, true}) {
    const std::string flag = corners ? "<align_corners = 1>" : "";
    const at::Tensor flat = random({2, 2, 3}), deep = random({2, 3, 4});
    expect_close(y_of({{"t", flat}}, "y = AffineGrid " + flag + " (t, s)", 20, "int64[4] s = {2, 1, 3, 4}"),
                 at::affine_grid_generator(flat, {2, 1, 3, 4}, corners));
    const int64_t rows = corners ? 4 : 1;
    expect_close(y_of({{"t", deep}}, "y = AffineGrid " + flag + " (t, s)", 20,
                      "int64[5] s = {2, 1, 3, " + std::to_string(rows) + ", 2}"),
                 at::affine_grid_generator(deep, {2, 1, 3, rows, 2}, corners));
  }
}

/// LibTorch has 0.
TEST(SamplingNumbers, OfAffineGridsPlaceASingleElementAtTheFirstCorner) {
  const at::Tensor theta = at::tensor({1., 0., 0., 0., 1., 0.}, at::kDouble).reshape({1, 2, 3});
  const at::Tensor y =
      y_of({{"t", theta}}, "y = AffineGrid <align_corners = 1> (t, s)", 20, "int64[4] s = {1, 1, 2, 1}");
  expect_close(y.reshape({-1}), at::tensor({-1., -1., -1., 1.}, at::kDouble));
}

/// One element of a plane between its neighbours, as RoiAlign's text says.
double between(const at::Tensor& plane, double y, double x) {
  const auto rows = static_cast<double>(plane.size(0)), columns = static_cast<double>(plane.size(1));
  if (y < -1 || y > rows || x < -1 || x > columns) return 0;
  y = std::clamp(y, 0.0, rows - 1);
  x = std::clamp(x, 0.0, columns - 1);
  const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  double sum = 0;
  for (int64_t i = top; i < std::min(top + 2, plane.size(0)); ++i) {
    for (int64_t j = left; j < std::min(left + 2, plane.size(1)); ++j) {
      const double share = (1 - std::abs(y - static_cast<double>(i))) * (1 - std::abs(x - static_cast<double>(j)));
      sum += share * plane[i][j].item<double>();
    }
  }
  return sum;
}

/// Bins of a region without a sampling ratio: as many samples as elements of its length are begun.
at::Tensor plain_regions(const at::Tensor& x, const at::Tensor& regions, int64_t bins, bool half_pixel) {
  at::Tensor made = at::zeros({regions.size(0), x.size(1), bins, bins}, at::kDouble);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const auto side = [&](int64_t column) {
      const double shift = half_pixel ? 0.5 : 0;
      const double start = regions[r][column].item<double>() - shift;
      double length = regions[r][column + 2].item<double>() - shift - start;
      if (!half_pixel) length = std::max(length, 1.0);
      return std::pair(start, length / static_cast<double>(bins));
    };
    const auto [left, width] = side(0);
    const auto [top, height] = side(1);
    const auto rows = static_cast<int64_t>(std::ceil(height)), columns = static_cast<int64_t>(std::ceil(width));
    if (rows <= 0 || columns <= 0) continue;
    for (int64_t k = 0; k < x.size(1) * bins * bins * rows * columns; ++k) {
      const int64_t j = k % columns, i = k / columns % rows, bin = k / columns / rows;
      const int64_t across = bin % bins, down = bin / bins % bins, channel = bin / bins / bins;
      const double at_y =
          top + height * (static_cast<double>(down) + (static_cast<double>(i) + 0.5) / static_cast<double>(rows));
      const double at_x =
          left + width * (static_cast<double>(across) + (static_cast<double>(j) + 0.5) / static_cast<double>(columns));
      made[r][channel][down][across] += between(x[0][channel], at_y, at_x) / static_cast<double>(rows * columns);
    }
  }
  return made;
}

TEST(SamplingNumbers, OfRegionsOfAnyLength) {
  at::manual_seed(12);
  const at::Tensor x = random({1, 2, 6, 9}), images = at::zeros({9}, at::kLong);
  // Inside, beyond each edge, far outside, of one element, of none, of negative length, much larger than x.
  const at::Tensor regions =
      at::tensor({1.2, 0.7, 7.9, 5.1, -3.3, -2.0, 4.0, 3.0, 5.0, 3.0, 13.0, 9.5,  20.0, 20.0, 25.0, 22.0, 2.0, 2.0,
                  3.0, 3.0, 2.5, 3.5, 2.5,  3.5,  4.0, 4.0, 2.0, 1.0, -9.3, -7.2, 21.1, 19.4, 0.0,  0.0,  9.0, 6.0},
                 at::kDouble)
          .reshape({9, 4});
  for (const int64_t bins : {1, 2, 3}) {
    const std::string size = "output_height = " + std::to_string(bins) + ", output_width = " + std::to_string(bins);
    for (const bool half_pixel : {true, false}) {
      const std::string place = half_pixel ? "half_pixel" : "output_half_pixel";
      const at::Tensor found =
          y_of({{"x", x}, {"r", regions}, {"n", images}},
               "y = RoiAlign <" + size + ", coordinate_transformation_mode = \"" + place + "\"> (x, r, n)", 16);
      expect_close(found, plain_regions(x, regions, bins, half_pixel), 1e-10);
    }
  }
}

}  // namespace
}  // namespace rannc::codegen
