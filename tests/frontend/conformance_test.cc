// ONNX's own cases of single operators: refused, or imported with the types ONNX says its outputs have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/tensor.h"
#include "ir/verify.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::frontend {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> cases() {
  std::vector<fs::path> found;
  const fs::path folder = RANNC_ONNX_NODE_TESTS;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.onnx")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// What differs between the declared type and ours; empty where nothing does or nothing is declared.
std::string difference(const ONNX_NAMESPACE::ValueInfoProto& declared, const ir::ValueType& type) {
  const auto& tensor = declared.type().tensor_type();
  if (tensor.elem_type() != onnx_element_type(type.dtype)) {
    return declared.name() + " is " + std::string(ir::str(type.dtype)) + " instead of " + element_type_name(tensor.elem_type());
  }
  if (!tensor.has_shape() || !type.shape) return "";
  ir::Shape expected;
  for (const auto& dim : tensor.shape().dim()) {
    if (!dim.has_dim_value()) return "";
    expected.emplace_back(dim.dim_value());
  }
  return *type.shape == expected ? "" : declared.name() + " is " + ir::str(*type.shape) + " instead of " + ir::str(expected);
}

/// The case's model with integer and boolean inputs of rank 0 and 1 (axes, sizes, flags) as initializers, which is how
/// exporters write them.
ONNX_NAMESPACE::ModelProto with_constants(const fs::path& folder) {
  ONNX_NAMESPACE::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(test::read_file(folder / "model.onnx")));
  for (int i = 0; i < model.graph().input_size(); ++i) {
    ONNX_NAMESPACE::TensorProto tensor;
    const auto& type = model.graph().input(i).type().tensor_type();
    const auto dtype = element_type(type.elem_type());
    if (!dtype || ir::is_float(*dtype) || type.shape().dim_size() > 1) continue;
    const fs::path data = folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
    if (!fs::exists(data) || !tensor.ParseFromString(test::read_file(data))) continue;
    tensor.set_name(model.graph().input(i).name());
    *model.mutable_graph()->add_initializer() = tensor;
  }
  return model;
}

TEST(Conformance, SingleOperators) {
  const auto found = cases();
  if (found.empty()) GTEST_SKIP() << "no conformance cases beside this ONNX";
  std::set<std::string> covered;
  size_t imported = 0;
  for (const fs::path& folder : found) {
    SCOPED_TRACE(folder.filename().string());
    const ONNX_NAMESPACE::ModelProto model = with_constants(folder);
    const auto graph = import_onnx_bytes(model.SerializeAsString(), folder / "model.onnx");
    if (!graph.ok()) {
      EXPECT_FALSE(graph.diagnostic().message.empty());
      if (std::getenv("RANNC_SHOW_REFUSED")) std::cout << folder.filename().string() << ": " << graph.diagnostic().message << "\n";
      continue;
    }
    ++imported;
    EXPECT_TRUE(ir::verify(*graph).empty());
    for (const auto& node : model.graph().node()) covered.insert(node.op_type());
    for (int i = 0; i < model.graph().output_size(); ++i) {
      EXPECT_EQ(difference(model.graph().output(i), graph->type(graph->outputs()[static_cast<size_t>(i)])), "");
    }
  }
  std::cout << "imported " << imported << " of " << found.size() << " cases, " << covered.size() << " operators\n";
  EXPECT_GE(covered.size(), 110u);
}

}  // namespace
}  // namespace rannc::frontend
