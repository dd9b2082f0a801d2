// Which regions of a graph run channels last on CUDA devices, by structure alone.
#include "passes/planning/cuda_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/memory_format.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "tests/support/short_graph.h"

namespace rannc::passes {
namespace {

using test::operators;
using test::short_graph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TensorCores kSixteen = TensorCores::kSixteenBits, kTf32 = TensorCores::kSixteenBitsAndTf32;

/// The remark, empty if nothing changed.
std::string choose(ir::Graph& graph, TensorCores tensor_cores = kSixteen, ir::Bindings sizes = {},
                   WeightFormat weights = WeightFormat::kChannelsLast) {
  PassContext context;
  const auto layouts = std::make_shared<CudaLayouts>(std::move(sizes), tensor_cores);
  const bool changed = ChooseKernels(layouts, weights).run(graph, context).value().changed;
  EXPECT_THAT(ir::verify(graph), IsEmpty());
  EXPECT_EQ(context.remarks.size(), changed ? 1U : 0U);
  return changed ? context.remarks[0].message : "";
}

bool last(const ir::Graph& graph, std::string_view value) {
  return ir::channels_last(graph)[graph.find(value).index()];
}

/// Lines of a graph whose image x has four channels.
ir::Graph image_graph(const std::string& lines, std::string_view dtype) {
  return short_graph(
      "input x [batch,4,6,6] samples 0\nparameter w [4,4,3,3]\nparameter v [4,4,1,1]\nparameter s [4]\nparameter o "
      "[4]\n"
      "constant m [4] 0 0 0 0\nconstant q [4] 1 1 1 1\n" +
          lines,
      dtype);
}

const std::string kConv = "a = conv(x, w) {pads=[1,1,1,1]}\n",
                  kNorm = "n = batch_norm(a, s, o, m, q) {training=true}\n",
                  kFlat = "flat = reshape(r) {shape=[batch,144]}\noutputs flat\n";

TEST(CudaLayouts, NeighborsRunChannelsLastTogether) {
  ir::Graph graph = image_graph(kConv + kNorm + "b = relu(n)\nc = conv(b, v)\nr = add(c, b)\n" + kFlat, "bf16");
  EXPECT_THAT(choose(graph),
              HasSubstr("by bytes moved: 3 of 3 tasks compute channels last, 2 copies between layouts, 1 "
                        "copied weights"));
  EXPECT_THAT(operators(graph), ElementsAre("contiguous", "contiguous", "conv", "batch_norm", "relu", "conv", "add",
                                            "contiguous", "reshape"));
  for (const char* value : {"a", "n", "b", "c", "r"}) EXPECT_TRUE(last(graph, value)) << value;
  EXPECT_EQ(choose(graph), "") << "done twice";
}

TEST(CudaLayouts, ASingleTaskGainsNothing) {
  for (const std::string& task :
       {"r = conv(x, w) {pads=[1,1,1,1]}\n", "r = batch_norm(x, s, o, m, q) {training=true}\n",
        "r = max_pool(x) {kernel=[3,3], strides=[1,1], pads=[1,1,1,1]}\n"}) {
    ir::Graph graph = image_graph(task + kFlat, "bf16");
    EXPECT_EQ(choose(graph), "") << task;
  }
}

TEST(CudaLayouts, DependsOnWhatHasKernels) {
  const std::string convolutions = kConv + "r = conv(a, w) {pads=[1,1,1,1]}\n" + kFlat;
  const std::string normalized = kConv + "r = batch_norm(a, s, o, m, q) {training=true}\n" + kFlat;
  const std::string running = kConv + "r = batch_norm(a, s, o, m, q)\n" + kFlat;
  const std::string synchronised = kConv + "r = batch_norm(a, s, o, m, q) {training=true, synchronised=true}\n" + kFlat;
  const auto changes = [](const std::string& lines, std::string_view dtype, TensorCores cores) {
    ir::Graph graph = image_graph(lines, dtype);
    return !choose(graph, cores).empty();
  };
  for (const char* dtype : {"bf16", "f16"}) {
    EXPECT_TRUE(changes(convolutions, dtype, kSixteen));
    EXPECT_TRUE(changes(normalized, dtype, kSixteen));
    EXPECT_FALSE(changes(running, dtype, kSixteen)) << "one task with a cost";
    EXPECT_FALSE(changes(synchronised, dtype, kSixteen));
  }
  EXPECT_FALSE(changes(convolutions, "f32", kSixteen));
  EXPECT_TRUE(changes(convolutions, "f32", kTf32));
  EXPECT_TRUE(changes(normalized, "f32", kTf32));
  const std::string norms = kConv + kNorm + "r = batch_norm(n, s, o, m, q) {training=true}\n" + kFlat;
  EXPECT_TRUE(changes(norms, "f32", kSixteen)) << "normalization alone pays";
  for (const std::string& lines : {convolutions, normalized, norms}) EXPECT_FALSE(changes(lines, "f64", kTf32));
}

TEST(CudaLayouts, GroupsOfChannelsStayFirst) {
  const auto middle = [](const std::string& weight, int groups, std::string_view dtype) {
    ir::Graph graph =
        short_graph("input x [batch,4,6,6] samples 0\nparameter w [4,4,3,3]\nparameter g " + weight +
                        "\nparameter s [4]\nparameter o [4]\nconstant m [4] 0 0 0 0\nconstant q [4] 1 1 1 1\n" + kConv +
                        kNorm + "d = conv(n, g) {pads=[1,1,1,1], groups=" + std::to_string(groups) +
                        "}\ne = batch_norm(d, s, o, m, q) {training=true}\nr = conv(e, w) {pads=[1,1,1,1]}\n" + kFlat,
                    dtype);
    EXPECT_NE(choose(graph, kTf32), "");
    EXPECT_TRUE(last(graph, "a") && last(graph, "r")) << dtype;
    return last(graph, "d");
  };
  EXPECT_FALSE(middle("[4,2,3,3]", 2, "bf16"));
  EXPECT_TRUE(middle("[4,1,3,3]", 4, "bf16")) << "depthwise";
  EXPECT_FALSE(middle("[4,1,3,3]", 4, "f32"));
}

TEST(CudaLayouts, WeightsAreCopiedOnceWhereFormatsDiffer) {
  const std::string lines = kConv + "b = conv(a, v)\nr = conv(b, w) {pads=[1,1,1,1]}\n" + kFlat;
  ir::Graph graph = image_graph(lines, "bf16");
  EXPECT_THAT(choose(graph), HasSubstr("1 copied weights"));
  const ValueId copy = graph.find("w.last");
  ASSERT_TRUE(copy.valid());
  EXPECT_EQ(graph.inputs(graph.producer(graph.find("a")))[1], copy);
  EXPECT_EQ(graph.inputs(graph.producer(graph.find("r")))[1], copy);
  EXPECT_EQ(graph.inputs(graph.producer(graph.find("b")))[1], graph.find("v"))
      << "one place: both formats are the same";
  ir::Graph stored = image_graph(lines, "bf16");
  EXPECT_THAT(choose(stored, kSixteen, {}, WeightFormat::kStored), ::testing::Not(HasSubstr("weights")));
  EXPECT_FALSE(stored.find("w.last").valid());
}

// A weight that is computed from an input would be copied in every micro-batch.
TEST(CudaLayouts, WeightsOfInputsAreNotCopied) {
  ir::Graph graph = short_graph("input x [batch,4,6,6] samples 0\ninput u [4,4,3,3]\nw = mul(u, u)\n" + kConv +
                                    "r = conv(a, w) {pads=[1,1,1,1]}\n" + kFlat,
                                "bf16");
  EXPECT_NE(choose(graph), "");
  EXPECT_FALSE(graph.find("w.last").valid());
}

TEST(CudaLayouts, UnknownSizesStayFirst) {
  const auto graph = [] {
    return short_graph("input x [batch,4,height,6] samples 0\nparameter w [4,4,3,3]\n" + kConv +
                           "b = conv(a, w) {pads=[1,1,1,1]}\noutputs b\n",
                       "bf16");
  };
  ir::Graph unknown = graph(), known = graph();
  EXPECT_EQ(choose(unknown), "");
  EXPECT_NE(choose(known, kSixteen, {{"height", 6}}), "");
}

TEST(CudaLayouts, VolumesAndSequencesHaveOneFormat) {
  for (const char* lines : {"input x [batch,4,6,6,6] samples 0\nparameter w [4,4,1,1,1]\n",
                            "input x [batch,4,6] samples 0\nparameter w [4,4,1]\n"}) {
    ir::Graph graph = short_graph(std::string(lines) + "a = conv(x, w)\nb = conv(a, w)\noutputs b\n", "bf16");
    EXPECT_EQ(choose(graph), "");
  }
}

}  // namespace
}  // namespace rannc::passes
