// A file of a few bytes that asks for any number of tasks, or of numbers, is refused before it takes their memory.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/support/onnx_text.h"
#include "tests/fuzz/allocations.h"

namespace rannc::frontend {
namespace {

constexpr uint64_t kMostBeyondTwiceTheFile = uint64_t{64} << 20;

struct Case {
  std::string name, text;
  std::string message;  ///< empty: it is imported
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Functions that call the next one twice each.
std::string functions(int levels) {
  std::string text =
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
      "agraph (float[N] x) => (float[N] y) { y = local.f0 (x) }\n";
  for (int level = 0; level < levels; ++level) {
    const std::string next = " = local.f" + std::to_string(level + 1);
    text += "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]> f" + std::to_string(level) +
            " (a) => (c) { b" + next + " (a)\n c" + next + " (b) }\n";
  }
  return text + "<domain: \"local\", opset_import: [\"\" : 17]> f" + std::to_string(levels) +
         " (a) => (b) { b = Relu (a) }";
}

/// A loop in a loop, each of that many trips.
std::string loops(int trips) {
  return test::onnx_model("agraph (float[4] x) => (float[4] y) <int64 trips = {" + std::to_string(trips) +
                              "}, bool on = {1}> { y = Loop (trips, on, x) <body = outer (int64 i, bool c, float[4] a) "
                              "=> (bool d, float[4] e) {"
                              " d = Identity (c)\n e = Loop (trips, on, a) <body = inner (int64 j, bool f, float[4] g) "
                              "=> (bool h, float[4] k) {"
                              " h = Identity (f)\n k = Relu (g) }> }> }",
                          17);
}

/// Layers that are resampled along an axis of that length with a table of 16 bytes for each two of its elements.
std::string tables(int layers, int length) {
  std::string text = fmt::format(
      "agraph (float[1, 1, 4, {0}] v0) => (float[a, b, c, d] y) <float[4] up = {{1, 1, 1, 2}}, int64[1] "
      "first = {{0}}, int64[1] end = {{{0}}}, int64[1] axis = {{3}}> {{\n",
      length);
  for (int i = 0; i < layers; ++i) {
    const std::string k = std::to_string(i);
    text += " r" + k + " = Resize <mode = \"cubic\", exclude_outside = 1> (v" + k + ", , up)\n v" +
            std::to_string(i + 1) + " = Slice (r" + k + ", first, end, axis)\n";
  }
  return test::onnx_model(text + " y = Relu (v" + std::to_string(layers) + ") }", 18);
}

/// Loops in loops whose ends depend on data, behind `nodes` nodes: an attempt to unroll each has the graph twice.
std::string attempts(int nodes, int loops) {
  std::string text = "agraph (float[4] x, float limit) => (float[4] y) <bool on = {1}> {\n v0 = Relu (x)\n";
  for (int i = 0; i < nodes; ++i) {
    text += " v" + std::to_string(i + 1) + " = Relu (v" + std::to_string(i) + ")\n";
  }
  std::string inner = "v" + std::to_string(nodes), body = " k = Relu (" + inner + ")\n", made = "k";
  for (int i = 0; i < loops; ++i) {
    const std::string k = std::to_string(i), state = "s" + k;
    body = " z" + k + " = Loop (, on, " + inner + ") <body = b" + k + " (int64 i" + k + ", bool c" + k + ", float[4] " +
           state + ") => (bool d" + k + ", float[4] e" + k + ") {\n" + body + " t" + k +
           " = ReduceMax <keepdims = 0> (" + made + ")\n d" + k + " = Less (t" + k + ", limit)\n e" + k + " = Add (" +
           made + ", " + state + ")\n }>\n";
    made = "z" + k;
  }
  return test::onnx_model(text + body + " y = Relu (" + made + ") }", 17);
}

/// As many nodes, without names, whose tensors' names are as short as can be.
std::string bare_nodes(int count) {
  std::string text = "agraph (float[4] x) => (float[4] y) {\n v0 = Relu (x)\n";
  for (int i = 0; i < count; ++i) text += fmt::format(" v{:x} = Relu (v{:x})\n", i + 1, i);
  return test::onnx_model(text + fmt::format(" y = Relu (v{:x}) }}", count), 17);
}

class Growth : public testing::TestWithParam<Case> {};

TEST_P(Growth, StaysWithinWhatTheFileAllows) {
  const Case& c = GetParam();
  const std::string bytes = test::onnx_bytes(c.text);
  const fuzz::PeakAllocation peak;
  const auto graph = import_onnx_bytes(bytes, "small.onnx", {.max_trips = 5});
  EXPECT_LE(peak.bytes(), 2 * bytes.size() + kMostBeyondTwiceTheFile) << "of a file of " << bytes.size() << " bytes";
  if (c.message.empty()) {
    EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  } else {
    ASSERT_FALSE(graph.ok());
    EXPECT_THAT(graph.diagnostic().message, testing::HasSubstr(c.message));
  }
}

INSTANTIATE_TEST_SUITE_P(, Growth,
                         testing::ValuesIn(std::vector<Case>{
                             {"functions", functions(19), "brings the graph to"},
                             {"functions_that_fit", functions(14), ""},
                             {"loops", loops(1500), "brings the graph to"},
                             {"loops_that_fit", loops(60), ""},
                             {"tables", tables(20, 512), "exceeds the graph size"},
                             {"tables_that_fit", tables(4, 512), ""},
                             {"large_tables", tables(2, 1024), "exceeds the graph size"},
                             {"a_large_table", tables(1, 1024), ""},
                             {"attempts_to_unroll", attempts(20000, 20), ""},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(GrowthOfBareNodes, IsWithinWhatTheyMayBecome) {
  const auto graph = import_onnx_bytes(test::onnx_bytes(bare_nodes(200000)), "bare.onnx", {});
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(graph->task_count(), 200002U);
}

}  // namespace
}  // namespace rannc::frontend
