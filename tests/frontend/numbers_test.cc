// ONNX's own cases of single operators, computed: import and lowering give ONNX's numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <set>

#include "frontend/onnx/import.h"
#include "ir/constant.h"
#include "tests/frontend/support/evaluate_graph.h"
#include "tests/frontend/support/node_cases.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ir::StoredTensor;
using test::evaluate;

/// ONNX's own tolerance is 1e-3 relative; half precision has 11 bits, bfloat16 8.
double relative_tolerance(ir::DType dtype) {
  if (dtype == ir::DType::kBF16) return 2e-2;
  return dtype == ir::DType::kF16 ? 4e-3 : 1e-3;
}

/// The first element that differs, in words; empty where none does.
std::string difference(const StoredTensor& ours, const test::NamedTensor& expected) {
  constexpr int64_t kMost = 1 << 20;
  const auto a = ir::decode_numbers(ours.type, ours.data, kMost);
  const auto b = ir::decode_numbers(expected.type, expected.data, kMost);
  if (!a.ok() || !b.ok() || a->size() != b->size()) return "another number of elements";
  const double relative = relative_tolerance(expected.type.dtype);
  double largest = 0;
  for (const double y : *b) largest = std::max(largest, std::isfinite(y) ? std::abs(y) : 0);
  const double cancelled = 1e-7 * largest;  // a rounding in single precision of terms as large as that
  for (size_t i = 0; i < a->size(); ++i) {
    const double x = (*a)[i], y = (*b)[i];
    if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
    if (!(std::abs(x - y) <= 1e-5 + cancelled + relative * std::abs(y))) {
      return "element " + std::to_string(i) + " is " + std::to_string(x) + " instead of " + std::to_string(y);
    }
  }
  return "";
}

TEST(Numbers, SingleOperators) {
  const auto folders = test::node_case_folders(RANNC_ONNX_NODE_TESTS);
  if (folders.empty()) GTEST_SKIP() << "no conformance cases beside this ONNX";
  size_t computed = 0, imported = 0;
  std::set<std::string> covered;
  std::map<std::string, size_t> reasons;
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const test::NodeCase found = test::read_node_case(folder);
    const auto graph = import_onnx_bytes(found.model, folder / "model.onnx");
    if (!graph.ok()) continue;
    ++imported;
    const auto values = evaluate(*graph, test::read_case_data(found, "input"));
    if (!values.ok()) {
      ++reasons[values.diagnostic().message.substr(0, 100)];
      continue;
    }
    ++computed;
    covered.insert(found.operators.begin(), found.operators.end());
    for (const test::NamedTensor& expected : test::read_case_data(found, "output")) {
      for (size_t i = 0; i < found.declared.size(); ++i) {
        if (found.declared[i].name != expected.name) continue;
        EXPECT_EQ(difference(values->at(graph->outputs()[i].index()), expected), "") << expected.name;
      }
    }
  }
  std::cout << "computed " << computed << " of " << imported << " imported cases, " << covered.size() << " operators\n";
  for (const auto& [reason, count] : reasons) std::cout << count << " not computed: " << reason << "\n";
  EXPECT_GE(covered.size(), 95u);
}

/// The output of a model without inputs.
std::vector<int64_t> output_of(std::string_view graph) {
  const auto imported = test::import_graph(graph, 21);
  EXPECT_TRUE(imported.ok()) << imported.diagnostic().str();
  if (!imported.ok()) return {};
  const auto values = evaluate(*imported, {});
  EXPECT_TRUE(values.ok()) << values.diagnostic().str();
  if (!values.ok()) return {};
  const StoredTensor& output = values->at(imported->outputs()[0].index());
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
