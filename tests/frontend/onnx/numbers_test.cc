// Small models written by hand, computed: numbers that ONNX's own cases do not ask for.
#include <gtest/gtest.h>

#include "tests/codegen/stored_run.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

/// The output of a model without inputs.
std::vector<int64_t> output_of(std::string_view graph) {
  const auto imported = test::import_graph(graph, 21);
  EXPECT_TRUE(imported.ok()) << imported.diagnostic().str();
  if (!imported.ok()) return {};
  const auto outputs = test::run_stored(*imported, {});
  EXPECT_TRUE(outputs.ok()) << outputs.diagnostic().str();
  if (!outputs.ok()) return {};
  const ir::StoredTensor& output = (*outputs)[0];
  return ir::decode_integers(output.type, output.data, 100).value();
}

TEST(Numbers, LeastOfIntegersCountsTheLowestAndZero) {
  EXPECT_EQ(output_of("agraph () => (int64[1] y) <uint8[4] x = {3, 0, 255, 0}> { y = ArgMin (x) }"),
            std::vector<int64_t>{1});
  EXPECT_EQ(output_of("agraph () => (int64[1] y) <int8[3] x = {5, -128, 127}> { y = ArgMin (x) }"),
            std::vector<int64_t>{1});
  EXPECT_EQ(output_of("agraph () => (int64[1] y) <int64[3] x = {-9223372036854775807, 0, -9223372036854775808}>"
                      " { y = ArgMin (x) }"),
            std::vector<int64_t>{2});
}

TEST(Numbers, BoundsOfIntegersAreExact) {
  const std::string head =
      "agraph () => (int64[3] y) <int64[3] x = {9007199254740993, -5, 9223372036854775807},"
      " int64 top = {9223372036854775807}, int64 bottom = {-9223372036854775808}, int64 odd = {9007199254740993}> ";
  const std::vector<int64_t> all = {9007199254740993, -5, INT64_MAX};
  EXPECT_EQ(output_of(head + "{ y = Clip (x, bottom, top) }"), all);
  EXPECT_EQ(output_of(head + "{ y = Clip (x, odd, top) }"),
            (std::vector<int64_t>{9007199254740993, 9007199254740993, INT64_MAX}));
  EXPECT_EQ(output_of(head + "{ y = Clip (x, bottom, odd) }"),
            (std::vector<int64_t>{9007199254740993, -5, 9007199254740993}));
}

}  // namespace
}  // namespace rannc::frontend
