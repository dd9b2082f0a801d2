#include "tests/frontend/support/numbers_of.h"

#include <gtest/gtest.h>

#include "tests/codegen/stored_run.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::test {

std::vector<double> numbers_of(std::string_view graph, int opset, size_t output) {
  const auto imported = import_graph(graph, opset);
  EXPECT_TRUE(imported.ok()) << imported.diagnostic().str();
  if (!imported.ok()) return {};
  const auto outputs = run_stored(*imported, {});
  EXPECT_TRUE(outputs.ok()) << outputs.diagnostic().str();
  if (!outputs.ok()) return {};
  const ir::StoredTensor& found = outputs->at(output);
  return ir::decode_numbers(found.type, found.data, 1000).value();
}

}  // namespace rannc::test
