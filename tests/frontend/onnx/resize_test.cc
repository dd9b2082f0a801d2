// What ONNX's Resize and Upsample become: kernels, steps along axes, refusals.
#include <gmock/gmock.h>

#include "tests/frontend/support/node_graph.h"

namespace rannc::frontend {
namespace {

using Graph = testing::NodeGraph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::model;
using testing::refusal;

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

// 6 / 123 in single precision times 41 lies short of 2: LibTorch's kernel picks another neighbour there than ONNX.
TEST(Resize, TurnsSamplesOnTheSecondAxisToTheFront) {
  const Graph graph(
      resize("coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"", "float[2, batch, 4, 5] x"),
      19);
  EXPECT_THAT(graph.ops(), ElementsAre("permute", "upsample", "permute"));
  EXPECT_EQ(graph.output(), "f32[2,batch,8,7] samples 1");
}

TEST(Resize, LooksNeighboursUpWhereTheKernelPicksOthers) {
  const auto to = [](const std::string& size) {
    return Graph(model("float[batch, 3, 6] x", "int64[1] s = {" + size + "}",
                       "y = Resize <axes = [2], coordinate_transformation_mode = \"asymmetric\", nearest_mode = "
                       "\"floor\"> (x, , , s)"),
                 18);
  };
  EXPECT_THAT(to("123").ops(), ElementsAre("gather", "identity"));
  EXPECT_EQ(to("121").attributes("upsample").text("mode"), "nearest");
  EXPECT_EQ(to("246").attributes("upsample").text("mode"), "nearest_exact") << "41 for 1: the other kernel does";
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
  EXPECT_THAT(refusal(resize("coordinate_transformation_mode = \"align_corners\", mode = \"linear\"", inputs), 19),
              HasSubstr("which excludes mode 'linear' with coordinates 'align_corners' over 4 axes"));
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
  EXPECT_THAT((*cubic).notes.stored.literals, ElementsAre("y.weights", "y.weights.1")) << "no parameters";
  const Graph channels(
      model("float[batch, 3, 4, 5] x", "float[1] s = {2}", "y = Resize <axes = [-3], mode = \"linear\"> (x, , s)"), 18);
  EXPECT_THAT(channels.ops(), ElementsAre("cast", "permute", "matmul", "permute", "identity"));
  EXPECT_EQ(channels.output(), "f32[batch,6,4,5] samples 0");
  const Graph integers(
      "agraph (int32[batch, 3, h] x) => (int32[batch, 3, o] y) <float[3] s = {1, 1, 3}> { y = Upsample (x, s) }", 9);
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
              HasSubstr("scales must be between 2^-20 and 2^20"));
  EXPECT_THAT(refusal(model(kImage, "float[4] s = {1, 1, 0.125, 2}", "y = Resize (x, , s)"), 19),
              HasSubstr("an axis of 4 elements is resized to 0; both must be 1 to 1048576"));
  EXPECT_THAT(
      refusal(model("float[4, 9000] x", "int64[2] s = {4, 9001}", "y = Resize <mode = \"linear\"> (x, , , s)"), 19),
      HasSubstr("from 9000 to 9001 elements of axis 1: the resampling matrix would have more than 2097152"));
  EXPECT_THAT(refusal(resize("mode = \"best\""), 19), HasSubstr("'best' is not supported"));
  EXPECT_THAT(refusal(resize("coordinate_transformation_mode = \"tf_crop_and_resize\""), 19),
              HasSubstr("tf_crop_and_resize needs a constant roi"));
  for (const char* far : {"1e30", "nan", "inf"}) {
    const std::string text = std::string("agraph (float[1, 2, 4] x) => (float[1, 2, 3] y) <float[2] r = {0.0, ") + far +
                             R"(}, int64[1] to = {3}> {
      y = Resize <axes = [2], coordinate_transformation_mode = "tf_crop_and_resize"> (x, r, "", to)
    })";
    EXPECT_THAT(refusal(text, 19), HasSubstr("roi must be between -2^20 and 2^20")) << far;
  }
  EXPECT_THAT(
      refusal(model("int32[1, 2, 4, 5] x", "float[4] s = {1, 1, 2, 2}", "y = Resize <mode = \"linear\"> (x, , s)"), 19),
      HasSubstr("Resize of i32 is supported only in mode 'nearest'"));
}

}  // namespace
}  // namespace rannc::frontend
