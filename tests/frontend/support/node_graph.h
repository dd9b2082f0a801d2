/// Models of a few nodes between inputs and one output, imported: for tests of what becomes of single operators.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/op/op.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend::testing {

/// Nodes between inputs and the output y.
inline std::string model(const std::string& inputs, const std::string& stored, const std::string& node) {
  return "agraph (" + inputs + ") => (float[o] y) " + (stored.empty() ? "" : "<" + stored + "> ") + "{ " + node + " }";
}

/// An imported graph that verifies.
class NodeGraph {
 public:
  NodeGraph(const std::string& text, int opset) : read_(test::read_graph(text, opset)) {
    if (!read_.ok()) ADD_FAILURE() << read_.diagnostic().str() << "\n" << text;
    if (!read_.ok()) return;
    for (const Diagnostic& wrong : ir::verify(read_->graph)) ADD_FAILURE() << wrong.str();
  }
  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    if (!read_.ok()) return names;
    for (const TaskId task : read_->graph.tasks()) names.push_back(read_->graph.op(task).name.substr(5));
    return names;
  }
  /// `f32[batch,4]`, and where the samples are.
  std::string output(size_t index = 0) const {
    if (!read_.ok()) return "";
    const ir::ValueType& type = read_->graph.type(read_->graph.outputs()[index]);
    return std::string(ir::str(type.dtype)) + ir::str(*type.shape) + " samples " + std::to_string(type.batch.axis);
  }
  /// Of the only task of that operator.
  ir::Attributes attributes(std::string_view op) const {
    for (const TaskId task : read_->graph.tasks()) {
      if (read_->graph.op(task).name == "core." + std::string(op)) return read_->graph.attributes(task);
    }
    ADD_FAILURE() << "no " << op;
    return {};
  }
  const Imported& operator*() const { return *read_; }
  bool ok() const { return read_.ok(); }

 private:
  Result<Imported> read_;
};

/// What an import says that does not succeed; empty where it does.
inline std::string refusal(const std::string& text, int opset) {
  const auto read = test::read_graph(text, opset);
  return read.ok() ? "" : read.diagnostic().message;
}

}  // namespace rannc::frontend::testing
