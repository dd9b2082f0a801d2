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

/// 2^60, 2^60 + 1, 5, 2^60: two of them are one double.
TEST(Numbers, DistinctIntegersAreExact) {
  const std::string head =
      "agraph () => (int64[n] y) <int64[4] x = {1152921504606846976, 1152921504606846977, 5, 1152921504606846976}> ";
  EXPECT_EQ(output_of(head + "{ y = Unique (x) }"),
            (std::vector<int64_t>{5, 1152921504606846976, 1152921504606846977}));
  EXPECT_EQ(output_of(head + "{ u, i, v, y = Unique <sorted = 0> (x) }"), (std::vector<int64_t>{2, 1, 1}));
}

/// -1 as u64 is the largest number.
TEST(Numbers, DistinctUnsignedIntegersKeepTheirOrder) {
  EXPECT_EQ(output_of("agraph () => (int64[3] y) <uint64[3] x = {18446744073709551615, 0, 7}>"
                      " { u, y = Unique (x) }"),
            (std::vector<int64_t>{1, 2, 0}));
}

TEST(Numbers, PadsOfIntegersAreExact) {
  EXPECT_EQ(output_of("agraph () => (int64[3] y) <int64[1] x = {1}, int64[2] p = {1, 1}, int64 v = {9007199254740993}>"
                      " { y = Pad (x, p, v) }"),
            (std::vector<int64_t>{9007199254740993, 1, 9007199254740993}));
}

}  // namespace
}  // namespace rannc::frontend
