// Axes became operands, negative axes and places were allowed, and lists of sizes learnt new forms.
#include "tests/frontend/onnx/opset_cases.h"

namespace rannc::test {

namespace {

const Numbers kSix = {{"x", {1, 2, 3, 4, 5, 6}}};
const std::vector<double> kSame = {1, 2, 3, 4, 5, 6};

std::vector<OpsetCase> axes_cases() {
  return {
      {"Squeeze", 7, "agraph (float[1, 6] x) => (float[6] y) { y = Squeeze <axes = [0]> (x) }", kSix, kSame},
      {"Squeeze", 11, "agraph (float[6, 1] x) => (float[6] y) { y = Squeeze <axes = [-1]> (x) }", kSix, kSame},
      {"Squeeze", 13, "agraph (float[6, 1] x) => (float[6] y) <int64[1] a = {-1}> { y = Squeeze (x, a) }", kSix, kSame},
      {"Squeeze", 13, "agraph (float[1, 6, 1] x) => (float[6] y) { y = Squeeze (x) }", kSix, kSame},
      {"Unsqueeze", 7, "agraph (float[6] x) => (float[6, 1] y) { y = Unsqueeze <axes = [1]> (x) }", kSix, kSame},
      {"Unsqueeze", 11, "agraph (float[6] x) => (float[6, 1] y) { y = Unsqueeze <axes = [-1]> (x) }", kSix, kSame},
      {"Unsqueeze", 13, "agraph (float[6] x) => (float[6, 1] y) <int64[1] a = {-1}> { y = Unsqueeze (x, a) }", kSix,
       kSame},
      // The whole of what lies from the axis on, which may be counted from the end.
      {"Flatten", 9, "agraph (float[1, 2, 3] x) => (float[2, 3] y) { y = Flatten <axis = 2> (x) }", kSix, kSame},
      {"Flatten", 11, "agraph (float[1, 2, 3] x) => (float[2, 3] y) { y = Flatten <axis = -1> (x) }", kSix, kSame},
      {"Concat",
       7,
       "agraph (float[2, 3] x) => (float[2, 6] y) { y = Concat <axis = 1> (x, x) }",
       kSix,
       {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
      {"Concat",
       11,
       "agraph (float[2, 3] x) => (float[2, 6] y) { y = Concat <axis = -1> (x, x) }",
       kSix,
       {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
      {"ArgMax",
       7,
       "agraph (float[2, 3] x) => (int64[2, 1] y) { y = ArgMax <axis = 1> (x) }",
       {{"x", {3, 1, 3, 0, 5, 5}}},
       {0, 1}},
      {"ArgMax",
       11,
       "agraph (float[2, 3] x) => (int64[2, 1] y) { y = ArgMax <axis = -1> (x) }",
       {{"x", {3, 1, 3, 0, 5, 5}}},
       {0, 1}},
      // Sizes of a part of the axes.
      {"Shape", 13, "agraph (float[1, 2, 3] x) => (int64[3] y) { y = Shape (x) }", kSix, {1, 2, 3}},
      {"Shape", 15, "agraph (float[1, 2, 3] x) => (int64[2] y) { y = Shape <start = -2> (x) }", kSix, {2, 3}},
      {"Shape", 15, "agraph (float[1, 2, 3] x) => (int64[2] y) { y = Shape <end = 2> (x) }", kSix, {1, 2}},
      // A zero keeps a size, unless it is to be one.
      {"Reshape", 7, "agraph (float[2, 3] x) => (float[2, 3, 1] y) <int64[3] s = {0, -1, 1}> { y = Reshape (x, s) }",
       kSix, kSame},
      {"Reshape", 14,
       "agraph (float[2, 3] x) => (float[2, 3, 1] y) <int64[3] s = {0, -1, 1}> { y = Reshape <allowzero = 0> (x, s) }",
       kSix, kSame},
      {"Reshape",
       14,
       "agraph (float[0, 3] x) => (float[3, 0] y) <int64[2] s = {3, 0}> { y = Reshape <allowzero = 1> (x, s) }",
       {{"x", {}}},
       {}},
  };
}

std::vector<OpsetCase> cut_cases() {
  const Numbers seven = {{"x", {1, 2, 3, 4, 5, 6, 7}}};
  return {
      {"Slice",
       7,
       "agraph (float[6] x) => (float[2] y) { y = Slice <axes = [0], starts = [1], ends = [3]> (x) }",
       kSix,
       {2, 3}},
      {"Slice", 7, "agraph (float[6] x) => (float[2] y) { y = Slice <starts = [-3], ends = [-1]> (x) }", kSix, {4, 5}},
      {"Slice",
       10,
       "agraph (float[6] x) => (float[3] y) <int64[1] s = {-1}, int64[1] e = {-7}, int64[1] a = {0}, int64[1] d = {-2}>"
       " { y = Slice (x, s, e, a, d) }",
       kSix,
       {6, 4, 2}},
      {"Slice",
       11,
       "agraph (float[2, 3] x) => (float[2, 1] y) <int64[1] s = {2}, int64[1] e = {9}, int64[1] a = {-1}>"
       " { y = Slice (x, s, e, a) }",
       kSix,
       {3, 6}},
      {"Split", 7, "agraph (float[6] x) => (float[3] y, float[3] z) { y, z = Split (x) }", kSix, {1, 2, 3}},
      {"Split",
       7,
       "agraph (float[6] x) => (float[2] y, float[4] z) { y, z = Split <split = [2, 4]> (x) }",
       kSix,
       {1, 2}},
      {"Split",
       11,
       "agraph (float[2, 3] x) => (float[2, 1] y, float[2, 2] z) "
       "{ y, z = Split <axis = -1, split = [1, 2]> (x) }",
       kSix,
       {1, 4}},
      {"Split",
       13,
       "agraph (float[6] x) => (float[2] y, float[4] z) <int64[2] s = {2, 4}> { y, z = Split (x, s) }",
       kSix,
       {1, 2}},
      {"Split", 13, "agraph (float[6] x) => (float[3] y, float[3] z) { y, z = Split (x) }", kSix, {1, 2, 3}},
      // The last part may be smaller.
      {"Split",
       18,
       "agraph (float[7] x) => (float[4] y, float[3] z) { y, z = Split <num_outputs = 2> (x) }",
       seven,
       {1, 2, 3, 4}},
      {"Split",
       18,
       "agraph (float[7] x) => (float[1] c) "
       "{ a, b, c = Split <num_outputs = 3> (x) }",
       seven,
       {7}},
      {"Pad",
       7,
       "agraph (float[2, 3] x) => (float[2, 5] y) { y = Pad <pads = [0, 1, 0, 1], value = 9.0> (x) }",
       kSix,
       {9, 1, 2, 3, 9, 9, 4, 5, 6, 9}},
      {"Pad",
       11,
       "agraph (float[2, 3] x) => (float[2, 5] y) <int64[4] p = {0, 1, 0, 1}, float v = {9}> { y = Pad (x, p, v) }",
       kSix,
       {9, 1, 2, 3, 9, 9, 4, 5, 6, 9}},
      {"Pad",
       18,
       "agraph (float[2, 3] x) => (float[2, 5] y) <int64[2] p = {1, 1}, float v = {9}, int64[1] a = {-1}>"
       " { y = Pad (x, p, v, a) }",
       kSix,
       {9, 1, 2, 3, 9, 9, 4, 5, 6, 9}},
      {"Pad",
       18,
       "agraph (float[1, 6] x) => (float[1, 8] y) <int64[4] p = {0, 2, 0, 0}> { y = Pad <mode = \"reflect\"> (x, p) }",
       kSix,
       {3, 2, 1, 2, 3, 4, 5, 6}},
      {"Pad",
       19,
       "agraph (float[1, 6] x) => (float[1, 9] y) <int64[4] p = {0, 2, 0, 1}> { y = Pad <mode = \"wrap\"> (x, p) }",
       kSix,
       {5, 6, 1, 2, 3, 4, 5, 6, 1}},
  };
}

std::vector<OpsetCase> place_cases() {
  const Numbers four = {{"x", {10, 20, 30, 40}}};
  const std::string hot =
      "agraph (int64[3] x) => (float[3, 3] y) <int64 d = {3}, float[2] v = {0, 5}> "
      "{ y = OneHot (x, d, v) }";
  const std::string squared = "agraph (float[1, 4, 1, 1] x) => (float[1, 1, 2, 2] y) ";
  return {
      {"Gather", 7, "agraph (float[4] x) => (float[2] y) <int64[2] i = {3, 0}> { y = Gather (x, i) }", four, {40, 10}},
      {"Gather",
       11,
       "agraph (float[4] x) => (float[2] y) <int64[2] i = {-1, 0}> { y = Gather (x, i) }",
       four,
       {40, 10}},
      {"GatherND",
       11,
       "agraph (float[2, 2] x) => (float[2] y) <int64[2, 2] i = {0, 1, 1, 0}> { y = GatherND (x, i) }",
       four,
       {20, 30}},
      {"GatherND",
       12,
       "agraph (float[2, 2] x) => (float[2] y) <int64[2, 1] i = {1, 0}> { y = GatherND <batch_dims = 1> (x, i) }",
       four,
       {20, 30}},
      // Depth comes first, unless it is told to come last.
      {"DepthToSpace", 7, squared + "{ y = DepthToSpace <blocksize = 2> (x) }", four, {10, 20, 30, 40}},
      {"DepthToSpace",
       11,
       "agraph (float[1, 8, 1, 1] x) => (float[1, 2, 2, 2] y) { y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (x) }",
       {{"x", {1, 2, 3, 4, 5, 6, 7, 8}}},
       {1, 2, 3, 4, 5, 6, 7, 8}},
      {"DepthToSpace",
       11,
       "agraph (float[1, 8, 1, 1] x) => (float[1, 2, 2, 2] y) { y = DepthToSpace <blocksize = 2> (x) }",
       {{"x", {1, 2, 3, 4, 5, 6, 7, 8}}},
       {1, 3, 5, 7, 2, 4, 6, 8}},
      // A negative place is none; since 11 it counts from the end.
      {"OneHot", 9, hot, {{"x", {0, 2, 5}}}, {5, 0, 0, 0, 0, 5, 0, 0, 0}},
      {"OneHot", 11, hot, {{"x", {0, -1, 5}}}, {5, 0, 0, 0, 0, 5, 0, 0, 0}},
      {"Upsample",
       7,
       "agraph (float[1, 1, 1, 2] x) => (float[1, 1, 2, 4] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) }",
       {{"x", {1, 2}}},
       {1, 1, 2, 2, 1, 1, 2, 2}},
      {"Upsample",
       9,
       "agraph (float[1, 1, 1, 2] x) => (float[1, 1, 2, 4] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample (x, s) }",
       {{"x", {1, 2}}},
       {1, 1, 2, 2, 1, 1, 2, 2}},
      {"Constant", 7, "agraph () => (float[2] y) { y = Constant <value = float[2] {1, 2}> () }", {}, {1, 2}},
      {"Constant", 12, "agraph () => (float[2] y) { y = Constant <value_floats = [1.0, 2.0]> () }", {}, {1, 2}},
      {"Constant", 12, "agraph () => (int64 y) { y = Constant <value_int = 7> () }", {}, {7}},
      {"Trilu", 14, "agraph (float[2, 2] x) => (float[2, 2] y) { y = Trilu <upper = 0> (x) }", four, {10, 0, 30, 40}},
      {"Range",
       11,
       "agraph () => (int64[3] y) <int64 a = {3}, int64 b = {9}, int64 d = {2}> { y = Range (a, b, d) }",
       {},
       {3, 5, 7}},
      // The numbers are counted in f32, of which f16 has every second: from 2048 (as bits) to below 2052 by 1.
      {"Range",
       27,
       "agraph () => (float16[4] y) <float16 a = {26624}, float16 b = {26626}, float16 d = {15360}> "
       "{ y = Range <stash_type = 1> (a, b, d) }",
       {},
       {2048, 2048, 2050, 2052}},
  };
}

}  // namespace

std::vector<OpsetCase> shape_cases() {
  std::vector<OpsetCase> cases = axes_cases();
  for (auto* more : {cut_cases, place_cases}) {
    for (OpsetCase& c : more()) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace rannc::test
