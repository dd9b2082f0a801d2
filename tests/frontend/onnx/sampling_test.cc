// What ONNX's operators that spread over windows, pool or sample become: layouts, forms, refusals.
#include <gmock/gmock.h>

#include "tests/frontend/support/node_graph.h"

namespace rannc::frontend {
namespace {

using Graph = testing::NodeGraph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::model;
using testing::refusal;

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
            "f32[batch,2,2,floor((w + 1)/(2))] samples 0");
  EXPECT_EQ(pooled("y = AveragePool <kernel_shape = [2, 2], pads = [1, 0, 0, 1]> (x)").output(),
            "f32[batch,2,5,w] samples 0");
  EXPECT_EQ(pooled("y = LpPool <kernel_shape = [2, 2], p = 3, pads = [1, 0, 0, 1]> (x)").output(),
            "f32[batch,2,5,w] samples 0");
  EXPECT_EQ(pooled("y = GlobalLpPool <p = 1> (x)").output(), "f32[batch,2,1,1] samples 0");
  EXPECT_EQ(pooled("y = LRN <size = 3> (x)").output(), "f32[batch,2,5,w] samples 0");
  EXPECT_THAT(refusal(model(image, "", "y = LpPool <kernel_shape = [2, 2], p = 0> (x)"), 18),
              HasSubstr("p must be positive, found 0"));
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
  EXPECT_THAT((*graph).notes.stored.literals, ElementsAre("y.pick"));
  EXPECT_THAT(refusal(model("float[batch, 13, 20] x", stored, "y = Col2Im (x, image, block)"), 18),
              HasSubstr("13 rows must be a multiple of the number of elements of a block"));
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
              HasSubstr("RoiAlign selects samples of x [batch,5,6,7] by their indices in the mini-batch"));
  EXPECT_THAT(refusal(model("float[2, 5, 6, 7] x, " + rest, "", node + ", mode = \"max\"> (x, rois, n)"), 16),
              HasSubstr("RoiAlign of mode 'max' needs a sampling_ratio"));
}

}  // namespace
}  // namespace rannc::frontend
