// ONNX's own cases of single operators: refused, or imported with the types ONNX says its outputs have.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <set>

#include "frontend/onnx/import.h"
#include "ir/verify.h"
#include "tests/frontend/support/node_cases.h"

namespace rannc::frontend {
namespace {

TEST(Conformance, SingleOperators) {
  const auto folders = test::node_case_folders(RANNC_ONNX_NODE_TESTS);
  if (folders.empty()) GTEST_SKIP() << "no conformance cases beside this ONNX";
  std::set<std::string> covered;
  size_t imported = 0;
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const test::NodeCase found = test::read_node_case(folder);
    const auto graph = import_onnx_bytes(found.model, folder / "model.onnx");
    if (!graph.ok()) {
      EXPECT_FALSE(graph.diagnostic().message.empty());
      if (std::getenv("RANNC_SHOW_REFUSED")) {
        std::cout << folder.filename().string() << ": " << graph.diagnostic().message << "\n";
      }
      continue;
    }
    ++imported;
    EXPECT_TRUE(ir::verify(*graph).empty());
    covered.insert(found.operators.begin(), found.operators.end());
    ASSERT_EQ(found.declared.size(), graph->outputs().size());
    for (size_t i = 0; i < found.declared.size(); ++i) {
      ir::ValueType type = graph->type(graph->outputs()[i]);
      if (found.declared[i].type.find('[') == std::string::npos) type.shape.reset();
      EXPECT_EQ(test::declared_form(type), found.declared[i].type) << found.declared[i].name;
    }
  }
  std::cout << "imported " << imported << " of " << folders.size() << " cases, " << covered.size() << " operators\n";
  EXPECT_GE(covered.size(), 110u);
}

}  // namespace
}  // namespace rannc::frontend
