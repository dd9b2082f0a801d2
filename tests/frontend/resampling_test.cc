// What ONNX's operators that resample, spread over windows, pool or sample become: layouts, forms, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A node between inputs and its output y.
std::string model(const std::string& inputs, const std::string& stored, const std::string& node) {
  return "agraph (" + inputs + ") => (float[o] y) " + (stored.empty() ? "" : "<" + stored + "> ") + "{ " + node + " }";
}

/// An imported graph that verifies.
class Graph {
 public:
  Graph(const std::string& text, int opset) : read_(test::read_graph(text, opset)) {
    if (!read_.ok()) ADD_FAILURE() << read_.diagnostic().str() << "\n" << text;
    if (!read_.ok()) return;
    for (const Diagnostic& wrong : ir::verify(read_->graph)) ADD_FAILURE() << wrong.str();
  }
  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    if (!read_.ok()) return names;
    for (const TaskId task : read_->graph.tasks()) names.push_back(read_->graph.op(task).name.substr(5));
    return names;
  }
  /// `f32[batch,4]`, and where the samples are.
  std::string output(size_t index = 0) const {
    if (!read_.ok()) return "";
    const ir::ValueType& type = read_->graph.type(read_->graph.outputs()[index]);
    return std::string(ir::str(type.dtype)) + ir::str(*type.shape) + " samples " + std::to_string(type.batch.axis);
  }
  /// Of the only task of that operator.
  ir::Attributes attributes(std::string_view op) const {
    for (const TaskId task : read_->graph.tasks()) {
      if (read_->graph.op(task).name == "core." + std::string(op)) return read_->graph.attributes(task);
    }
    ADD_FAILURE() << "no " << op;
    return {};
  }
  const Imported& operator*() const { return *read_; }
  bool ok() const { return read_.ok(); }

 private:
  Result<Imported> read_;
};

std::string refusal(const std::string& text, int opset) {
  const auto read = test::read_graph(text, opset);
  return read.ok() ? "" : read.diagnostic().message;
}

// --- Resize

const std::string kImage = "float[batch, 2, 4, 5] x";

// Opsets 11 and 12 ask for a region, which may be empty.
std::string resize(const std::string& attributes, const std::string& inputs = kImage, int opset = 19) {
  const bool old = opset < 13;
  return model(inputs, std::string("float[4] s = {1, 1, 2, 1.5}") + (old ? ", float[0] e = {}" : ""),
               "y = Resize <" + attributes + (old ? "> (x, e, s)" : "> (x, , s)"));
}

struct KernelCase {
  std::string attributes, mode;
  bool corners = false;
};

TEST(Resize, TakesTheKernelWhereItHasTheSameNumbers) {
  const std::string half = "coordinate_transformation_mode = \"half_pixel\"", linear = ", mode = \"linear\"";
  const std::vector<KernelCase> cases = {
      {"coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"", "nearest"},
      {half + ", nearest_mode = \"round_prefer_ceil\"", "nearest_exact"},
      {"coordinate_transformation_mode = \"tf_half_pixel_for_nn\", nearest_mode = \"floor\"", "nearest_exact"},
      {half + linear, "linear"},
      {half + linear + ", exclude_outside = 1", "linear"},
      {"coordinate_transformation_mode = \"pytorch_half_pixel\"" + linear, "linear"},
      {half + ", mode = \"cubic\"", "cubic"},
      {half + ", mode = \"linear\", antialias = 1, exclude_outside = 1", "linear_antialias"},
      {half + ", mode = \"cubic\", antialias = 1, exclude_outside = 1, cubic_coeff_a = -0.5", "cubic_antialias"},
  };
  for (const KernelCase& each : cases) {
    const int opset = each.mode == "nearest_exact" && each.attributes.find("tf_") != std::string::npos ? 12 : 19;
    const Graph graph(resize(each.attributes, kImage, opset), opset);
    EXPECT_THAT(graph.ops(), ElementsAre("upsample")) << each.attributes;
    EXPECT_EQ(graph.output(), "f32[batch,2,8,7] samples 0");
    if (graph.ops() != std::vector<std::string>{"upsample"}) continue;
    const ir::Attributes found = graph.attributes("upsample");
    EXPECT_EQ(found.text("mode"), each.mode) << each.attributes;
    EXPECT_EQ(found.number("scale_h"), 2);
    EXPECT_EQ(found.number("scale_w"), 1.5);
    EXPECT_FALSE(found.has("scale_d"));
    EXPECT_FALSE(found.flag("align_corners"));
  }
}

TEST(Resize, OfCornersTakesTheKernelForSizesAndWholeLengths) {
  const std::string corners = "coordinate_transformation_mode = \"align_corners\", mode = \"linear\"";
  const Graph sized(model(kImage, "int64[2] s = {7, 3}", "y = Resize <axes = [2, 3], " + corners + "> (x, , , s)"), 18);
  EXPECT_THAT(sized.ops(), ElementsAre("upsample"));
  EXPECT_TRUE(sized.attributes("upsample").flag("align_corners"));
  EXPECT_FALSE(sized.attributes("upsample").has("scale_w"));
  EXPECT_EQ(sized.output(), "f32[batch,2,7,3] samples 0");
  // 1.5 * 5 is cut off: ONNX aligns the corner of 7.5, LibTorch that of 7.
  EXPECT_THAT(Graph(resize(corners), 19).ops(), ElementsAre("cast", "matmul", "cast", "matmul", "identity"));
}

TEST(Resize, OfSymbolicSizesIsTheKernelOrRefused) {
  const std::string inputs = "float[batch, 2, h, w] x", half = "coordinate_transformation_mode = \"half_pixel\"";
  const Graph linear(resize(half + ", mode = \"linear\"", inputs), 19);
  EXPECT_THAT(linear.ops(), ElementsAre("upsample"));
  EXPECT_EQ(linear.output(), "f32[batch,2,2*h,floor((3*w)/(2))] samples 0");
  EXPECT_THAT(
      Graph(resize("coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"", inputs, 11), 11).ops(),
      ElementsAre("upsample"));
  EXPECT_THAT(refusal(resize(half + ", nearest_mode = \"ceil\"", inputs), 19),
              HasSubstr("Resize over axis 2, from h to 2*h: extents that are no plain integers"));
  EXPECT_THAT(refusal(resize("coordinate_transformation_mode = \"align_corners\", mode = \"linear\"", inputs), 19),
              HasSubstr("which it does not in mode 'linear' with coordinates 'align_corners' over 4 axes"));
  // Sizes of another value: those of x, as skip connections have them.
  const Graph like(model("float[batch, 2, h, w] x, float[batch, 2, hh, ww] z", "",
                         "s = Shape (z)\n y = Resize <mode = \"linear\"> (x, , , s)"),
                   19);
  EXPECT_THAT(like.ops(), ElementsAre("shape", "upsample"));
  EXPECT_EQ(like.output(), "f32[batch,2,hh,ww] samples 0");
}

// As exporters write `recompute_scale_factor`, and `int(height * 1.5)`.
TEST(Resize, ReadsSizesThatAreComputedInFloats) {
  const std::string stored = "float f = {1.7}, int64[1] minus = {-1}, int64[1] zero = {0}";
  const std::string size = "s = Shape <start = 2, end = 3> (x)\n";
  const std::string rest =
      " n = Shape <start = 0, end = 2> (x)\n all = Concat <axis = 0> (n, h)\n"
      " y = Resize <mode = \"linear\"> (x, , , all)";
  for (const char* way : {" r = Cast <to = 1> (s)\n m = Mul (r, f)\n h = Cast <to = 7> (m)\n",
                          " q = Squeeze (s)\n r = Cast <to = 1> (q)\n m = Mul (f, r)\n c = Cast <to = 1> (m)\n"
                          " l = Floor (c)\n u = Unsqueeze (l, zero)\n h = Cast <to = 7> (u)\n"}) {
    const Graph graph(model("float[batch, 2, w] x", stored, size + way + rest), 18);
    EXPECT_EQ(graph.output(), "f32[batch,2,floor((17*w)/(10))] samples 0");
    EXPECT_FALSE(graph.attributes("upsample").has("scale_w"));
  }
  // Twice by a fraction without rounding in between, and a size that depends on data.
  for (const char* way : {" r = Cast <to = 1> (s)\n m = Mul (r, f)\n k = Mul (m, f)\n h = Cast <to = 7> (k)\n",
                          " u = Reshape (z, minus)\n h = Cast <to = 7> (u)\n"}) {
    EXPECT_THAT(refusal(model("float[batch, 2, w] x, float z", stored, size + way + rest), 18),
                HasSubstr("scales or sizes must follow from constants and sizes"));
  }
}

TEST(Resize, BeyondTheKernelGoesAxisByAxis) {
  const std::string half = "coordinate_transformation_mode = \"half_pixel\"";
  const Graph nearest(resize(half + ", nearest_mode = \"ceil\""), 19);
  EXPECT_THAT(nearest.ops(), ElementsAre("gather", "gather", "identity"));
  EXPECT_EQ(nearest.output(), "f32[batch,2,8,7] samples 0");
  const Graph cubic(resize(half + ", mode = \"cubic\", cubic_coeff_a = -0.5"), 19);
  EXPECT_THAT(cubic.ops(), ElementsAre("cast", "matmul", "cast", "matmul", "identity"));
  EXPECT_EQ(cubic.output(), "f32[batch,2,8,7] samples 0");
  ASSERT_TRUE(cubic.ok());
  EXPECT_THAT((*cubic).notes.literals, ElementsAre("y.weights", "y.weights.1")) << "no parameters";
  const Graph channels(
      model("float[batch, 3, 4, 5] x", "float[1] s = {2}", "y = Resize <axes = [-3], mode = \"linear\"> (x, , s)"), 18);
  EXPECT_THAT(channels.ops(), ElementsAre("cast", "permute", "matmul", "permute", "identity"));
  EXPECT_EQ(channels.output(), "f32[batch,6,4,5] samples 0");
  const Graph integers(model("int32[batch, 3, h] x", "float[3] s = {1, 1, 3}", "y = Upsample (x, s)"), 9);
  EXPECT_THAT(integers.ops(), ElementsAre("unsqueeze", "expand", "reshape", "identity"));
  EXPECT_EQ(integers.output(), "i32[batch,3,3*h] samples 0");
}

TEST(Resize, OfSamplesIsRefused) {
  const std::string text = model("float[batch, 3] x", "float[2] s = {2, 1}", "y = Resize <mode = \"linear\"> (x, , s)");
  EXPECT_THAT(refusal(text, 19), HasSubstr("over axis 0, from batch to 2*batch"));
}

TEST(Resize, KeepsAspectRatios) {
  const std::string head = "y = Resize <axes = [2, 3], mode = \"linear\", keep_aspect_ratio_policy = ";
  const Graph smaller(model(kImage, "int64[2] s = {6, 6}", head + "\"not_larger\"> (x, , , s)"), 19);
  EXPECT_EQ(smaller.output(), "f32[batch,2,5,6] samples 0");
  EXPECT_EQ(smaller.attributes("upsample").number("scale_h"), 6.0 / 5);
  const Graph larger(model(kImage, "int64[2] s = {6, 6}", head + "\"not_smaller\"> (x, , , s)"), 19);
  EXPECT_EQ(larger.output(), "f32[batch,2,6,8] samples 0");
}

TEST(Resize, OfOlderOpsets) {
  const std::string stored = "float[4] s = {1, 1, 2, 2}";
  for (const auto& [opset, node] :
       std::vector<std::pair<int, std::string>>{{8, "y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x)"},
                                                {9, "y = Upsample (x, s)"},
                                                {10, "y = Resize (x, s)"}}) {
    const Graph graph(model(kImage, opset == 8 ? "" : stored, node), opset);
    EXPECT_THAT(graph.ops(), ElementsAre("upsample")) << opset;
    EXPECT_EQ(graph.attributes("upsample").text("mode"), "nearest");
    EXPECT_EQ(graph.output(), "f32[batch,2,8,10] samples 0");
  }
  // Linear is asymmetric there, which LibTorch has not.
  EXPECT_THAT(Graph(model(kImage, stored, "y = Resize <mode = \"linear\"> (x, s)"), 10).ops(),
              ElementsAre("cast", "matmul", "cast", "matmul", "identity"));
  // Opset 11 has an empty tensor for scales that are not given.
  const Graph sized(model("float[batch, 2, 5] x", "float[0] e = {}, int64[3] s = {0, 2, 10}, int64[3] one = {1, 0, 0}",
                          "b = Shape (x)\n first = Mul (b, one)\n"
                          " all = Add (first, s)\n y = Resize (x, e, e, all)"),
                    11);
  EXPECT_EQ(sized.output(), "f32[batch,2,10] samples 0");
}

TEST(Resize, NamesWhatItCannotRead) {
  EXPECT_THAT(refusal(model(kImage + ", float[4] s", "", "y = Resize (x, , s)"), 19),
              HasSubstr("scales must be constants"));
  EXPECT_THAT(refusal(model(kImage, "", "y = Resize (x)"), 19), HasSubstr("scales or sizes must follow"));
  EXPECT_THAT(refusal(model(kImage, "float[3] s = {1, 2, 2}", "y = Resize (x, , s)"), 19),
              HasSubstr("3 scales for 4 axes"));
  EXPECT_THAT(refusal(model(kImage, "float[4] s = {1, 1, 0, 2}", "y = Resize (x, , s)"), 19),
              HasSubstr("scales must lie within 2^-20 and 2^20"));
  EXPECT_THAT(refusal(model(kImage, "float[4] s = {1, 1, 0.125, 2}", "y = Resize (x, , s)"), 19),
              HasSubstr("an axis of 4 elements becomes one of 0; both must be 1 to 16777216"));
  EXPECT_THAT(
      refusal(model("float[4, 9000] x", "int64[2] s = {4, 9001}", "y = Resize <mode = \"linear\"> (x, , , s)"), 19),
      HasSubstr("from 9000 to 9001 elements of axis 1: the matrix that does it would have more than 16777216"));
  EXPECT_THAT(refusal(resize("mode = \"best\""), 19), HasSubstr("'best' is not known"));
  EXPECT_THAT(refusal(resize("coordinate_transformation_mode = \"tf_crop_and_resize\""), 19),
              HasSubstr("tf_crop_and_resize needs a constant roi"));
  EXPECT_THAT(
      refusal(model("int32[1, 2, 4, 5] x", "float[4] s = {1, 1, 2, 2}", "y = Resize <mode = \"linear\"> (x, , s)"), 19),
      HasSubstr("Resize of i32 is supported by nearest neighbours"));
}

// --- windows

TEST(ConvTranspose, InEveryForm) {
  const std::string input = "float[batch, 2, 3, h] x", weight = "float[2, 1, 2, 2] w = {1,2,3,4,5,6,7,8}";
  const auto form = [&](const std::string& attributes) {
    return Graph(model(input, weight + ", float[1] b = {1}", "y = ConvTranspose <" + attributes + "> (x, w, b)"), 22);
  };
  const Graph patches = form("strides = [2, 2]");
  EXPECT_THAT(patches.ops(), ElementsAre("conv_transpose"));
  EXPECT_EQ(patches.output(), "f32[batch,1,6,2*h] samples 0");
  EXPECT_EQ(form("strides = [3, 1], pads = [1, 0, 0, 1], output_padding = [2, 0], dilations = [2, 1]").output(),
            "f32[batch,1,10,h] samples 0");
  for (const auto& [mode, begin, end] : {std::tuple("SAME_UPPER", 0, 1), std::tuple("SAME_LOWER", 1, 0)}) {
    const Graph same = form("auto_pad = \"" + std::string(mode) + "\"");
    EXPECT_EQ(same.output(), "f32[batch,1,3,h] samples 0");
    EXPECT_THAT(same.attributes("conv_transpose").integers("pads"), ElementsAre(begin, begin, end, end)) << mode;
  }
  const Graph fixed(model("float[batch, 2, 3] x", "float[2, 3, 3] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}",
                          "y = ConvTranspose <strides = [2], output_shape = [8], pads = [5, 5]> (x, w)"),
                    11);
  EXPECT_EQ(fixed.output(), "f32[batch,3,8] samples 0");
  EXPECT_THAT(fixed.attributes("conv_transpose").integers("output_padding"), ElementsAre(1));
  EXPECT_THAT(fixed.attributes("conv_transpose").integers("pads"), ElementsAre(0, 0));
}

TEST(ConvTranspose, NamesWhatDoesNotFit) {
  const std::string weight = "float[2, 1, 2, 2] w = {1,2,3,4,5,6,7,8}";
  const auto form = [&](const std::string& input, const std::string& attributes) {
    return refusal(model(input, weight, "y = ConvTranspose <" + attributes + "> (x, w)"), 11);
  };
  EXPECT_THAT(form("float[batch, 2, 3, h] x", "output_shape = [6, 6]"),
              HasSubstr("the pads of axis 3 would be h - 5; they must be plain integers"));
  EXPECT_THAT(form("float[batch, 2, 3, 3] x", "output_padding = [1, 0]"),
              HasSubstr("output_padding 1 of axis 2 must lie below its stride or dilation, of 1"));
  EXPECT_THAT(form("float[batch, 3, 3, 3] x", "group = 1"), HasSubstr("does not fit weight [2,1,2,2]"));
  EXPECT_THAT(form("float[batch, 2, 1, 3] x", "pads = [1, 1, 1, 1]"), HasSubstr("nothing is left of axis 2"));
}

TEST(Pooling, OfEveryForm) {
  const std::string image = "float[batch, 2, 5, w] x";
  const auto pooled = [&](const std::string& node, int opset = 22) { return Graph(model(image, "", node), opset); };
  EXPECT_EQ(pooled("y = AveragePool <kernel_shape = [2, 2], dilations = [2, 1], ceil_mode = 1, strides = [2, 2]> (x)")
                .output(),
            "f32[batch,2,2,min(floor((w + 1)/(2)), floor((w - 1)/(2)) + 1)] samples 0");
  EXPECT_EQ(pooled("y = AveragePool <kernel_shape = [2, 2], pads = [1, 0, 0, 1]> (x)").output(),
            "f32[batch,2,5,w] samples 0");
  EXPECT_EQ(pooled("y = LpPool <kernel_shape = [2, 2], p = 3, pads = [1, 0, 0, 1]> (x)").output(),
            "f32[batch,2,5,w] samples 0");
  EXPECT_EQ(pooled("y = GlobalLpPool <p = 1> (x)").output(), "f32[batch,2,1,1] samples 0");
  EXPECT_EQ(pooled("y = LRN <size = 3> (x)").output(), "f32[batch,2,5,w] samples 0");
  EXPECT_THAT(refusal(model(image, "", "y = LpPool <kernel_shape = [2, 2], p = 0> (x)"), 18),
              HasSubstr("p is 0; it must be positive"));
  const std::string head = "agraph (float[batch, 2, 5, 6] x) => (float[o] y, int64[p] i) { y, i = MaxPool ";
  for (const char* attributes :
       {"<kernel_shape = [2, 2], strides = [2, 2]>", "<kernel_shape = [2, 3], pads = [1, 1, 0, 1]>",
        "<kernel_shape = [2, 2], ceil_mode = 1, storage_order = 1>"}) {
    const Graph graph(head + attributes + " (x) }", 12);
    EXPECT_THAT(graph.output(1), ::testing::AllOf(HasSubstr("i64[batch,2,"), HasSubstr("samples 0"))) << attributes;
    EXPECT_EQ(graph.output(1).substr(4), graph.output(0).substr(4));
  }
}

TEST(Pooling, IsUndone) {
  const std::string head =
      "agraph (float[batch, 2, 4, 6] x) => (float[o] y) { p, i = MaxPool <kernel_shape = [2, 2], "
      "strides = [2, 2]> (x)\n ";
  const Graph graph(head + "y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (p, i) }", 11);
  EXPECT_EQ(graph.output(), "f32[batch,2,4,6] samples 0");
  const Graph shaped(head + "s = Shape (x)\n y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (p, i, s) }", 11);
  EXPECT_EQ(shaped.output(), "f32[batch,2,4,6] samples 0");
}

TEST(Columns, BecomeImages) {
  const std::string stored = "int64[2] image = {5, 6}, int64[2] block = {2, 3}";
  const Graph graph(model("float[batch, 12, 16] x", stored, "y = Col2Im (x, image, block)"), 18);
  EXPECT_EQ(graph.output(), "f32[batch,2,5,6] samples 0");
  EXPECT_THAT((*graph).notes.literals, ElementsAre("y.pick"));
  EXPECT_THAT(refusal(model("float[batch, 13, 20] x", stored, "y = Col2Im (x, image, block)"), 18),
              HasSubstr("13 rows are not so many for each channel as a block has elements"));
}

TEST(Cropping, ByOnnxsDefinitionKeepsSamplesApart) {
  const std::string image = "float[batch, 3, 8, 7] x";
  for (const int opset : {18, 21}) {
    const Graph graph(model(image, "int64[2] s = {6, 9}", "y = CenterCropPad <axes = [2, 3]> (x, s)"), opset);
    EXPECT_EQ(graph.output(), "f32[batch,3,6,9] samples 0");
  }
}

TEST(Blocks, MoveBetweenChannelsAndSpace) {
  const std::string image = "float[batch, 8, h, w] x";
  for (const char* mode : {"DCR", "CRD"}) {
    EXPECT_EQ(Graph(model(image, "", "y = DepthToSpace <blocksize = 2, mode = \"" + std::string(mode) + "\"> (x)"), 13)
                  .output(),
              "f32[batch,2,2*h,2*w] samples 0");
  }
  EXPECT_EQ(Graph(model("float[batch, 2, 4, 6] x", "", "y = SpaceToDepth <blocksize = 2> (x)"), 13).output(),
            "f32[batch,8,2,3] samples 0");
}

// --- sampling

TEST(Sampling, KeepsSamplesApart) {
  const std::string image = "float[batch, 2, 4, 5] x, float[batch, 3, 6, 2] g";
  for (const auto& [opset, mode] : {std::pair(16, "bicubic"), std::pair(20, "cubic")}) {
    const Graph graph(model(image, "",
                            "y = GridSample <mode = \"" + std::string(mode) +
                                "\", padding_mode = \"reflection\", align_corners = 1> (x, g)"),
                      opset);
    EXPECT_THAT(graph.ops(), ElementsAre("grid_sample"));
    EXPECT_EQ(graph.output(), "f32[batch,2,3,6] samples 0");
    EXPECT_EQ(graph.attributes("grid_sample").text("mode"), "cubic");
    EXPECT_EQ(graph.attributes("grid_sample").text("padding"), "reflection");
  }
  EXPECT_EQ(Graph(model("float[batch, 2, 4] x, float[batch, 3, 1] g", "", "y = GridSample (x, g)"), 20).output(),
            "f32[batch,2,3] samples 0");
  EXPECT_THAT(refusal(model("float[batch, 2, 3, 4, 5] x, float[batch, 1, 2, 3, 3] g", "",
                            "y = GridSample <mode = \"cubic\"> (x, g)"),
                      20),
              HasSubstr("mode \"cubic\" over 3 axes"));
  EXPECT_THAT(refusal(model("float[batch, 2, 4, 5] x, float[1, 3, 6, 2] g", "", "y = GridSample (x, g)"), 20),
              HasSubstr("x [batch,2,4,5] and grid [1,3,6,2] differ in their samples"));
}

TEST(Sampling, OfAffineGrids) {
  const Graph graph(model("float[batch, 2, 3] theta, float[batch, 2, 4, 5] x", "",
                          "s = Shape (x)\n g = AffineGrid (theta, s)\n y = GridSample (x, g)"),
                    20);
  EXPECT_THAT(graph.ops(), ElementsAre("shape", "permute", "cast", "matmul", "reshape", "grid_sample"));
  EXPECT_EQ(graph.output(), "f32[batch,2,4,5] samples 0");
  EXPECT_THAT(refusal(model("float[batch, 2, 3] theta, float[batch, 2, 4, w] x", "",
                            "s = Shape (x)\n y = AffineGrid (theta, s)"),
                      20),
              HasSubstr("AffineGrid needs a size of 4 or 5 numbers"));
}

TEST(Sampling, OfDeformedWindows) {
  const Graph graph(model("float[batch, 2, 4, 5] x, float[batch, 16, 3, 4] o, float[batch, 8, 3, 4] m",
                          "float[1, 2, 2, 2] w = {1,2,3,4,5,6,7,8}, float[1] b = {1}",
                          "y = DeformConv <offset_group = 2> (x, w, o, b, m)"),
                    19);
  EXPECT_EQ(graph.output(), "f32[batch,1,3,4] samples 0");
}

TEST(Sampling, OfRegionsNeedsSamplesThatAreNumbered) {
  const std::string rest = "float[r, 4] rois, int64[r] n", node = "y = RoiAlign <output_height = 2, output_width = 3";
  for (const char* more :
       {"> (x, rois, n)", ", sampling_ratio = 2> (x, rois, n)", ", sampling_ratio = 2, mode = \"max\"> (x, rois, n)"}) {
    const Graph graph(model("float[2, 5, 6, 7] x, " + rest, "", node + more), 16);
    EXPECT_EQ(graph.output().substr(0, 12), "f32[r,5,2,3]") << more;
  }
  EXPECT_THAT(refusal(model("float[batch, 5, 6, 7] x, " + rest, "", node + "> (x, rois, n)"), 16),
              HasSubstr("RoiAlign picks samples of x [batch,5,6,7] by their numbers in the mini-batch"));
  EXPECT_THAT(refusal(model("float[2, 5, 6, 7] x, " + rest, "", node + ", mode = \"max\"> (x, rois, n)"), 16),
              HasSubstr("RoiAlign of mode 'max' needs a sampling_ratio"));
}

}  // namespace
}  // namespace rannc::frontend
