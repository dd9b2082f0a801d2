/// An imported model as tests ask about it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/op/op.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::test {

/// Imports a graph in ONNX's text syntax and verifies it; a test failure where either fails.
class ImportedGraph {
 public:
  ImportedGraph(std::string_view text, int opset) : graph_(import_graph(text, opset)) {
    if (!graph_.ok()) {
      ADD_FAILURE() << graph_.diagnostic().str();
      return;
    }
    for (const Diagnostic& wrong : ir::verify(*graph_)) ADD_FAILURE() << wrong.str();
  }
  /// Short names of the operators, in order.
  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    for (size_t i = 0; graph_.ok() && i < graph_->task_count(); ++i) {
      names.push_back(graph_->op(TaskId(static_cast<uint32_t>(i))).name.substr(5));
    }
    return names;
  }
  /// Element type, shape and axis of the samples of an output: `f32[batch,4] @0`, `f32[4]` without samples.
  std::string output(size_t index = 0) const {
    if (!graph_.ok()) return "";
    const ir::ValueType& type = graph_->type(graph_->outputs()[index]);
    const std::string place = type.batch.has_batch() ? " @" + std::to_string(type.batch.axis) : "";
    return std::string(ir::str(type.dtype)) + ir::str(*type.shape) + place;
  }
  /// Attributes of the last task.
  const ir::Attributes& last() const { return graph_->attributes(TaskId(graph_->task_count() - 1)); }

 private:
  Result<ir::Graph> graph_;
};

/// What the import of a model is refused with; a test failure where it is not.
inline std::string refusal(std::string_view text, int opset) {
  const auto graph = import_graph(text, opset);
  EXPECT_FALSE(graph.ok());
  return graph.ok() ? "" : graph.diagnostic().message;
}

}  // namespace rannc::test
