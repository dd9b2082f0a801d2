/// Subgraphs that become bodies of tasks.
#pragma once

#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/scope.h"
#include "ir/attributes.h"

namespace rannc::frontend {

/// A body that a subgraph is translated into.
class OpenBody {
 public:
  explicit OpenBody(Region& around) : region_{graph_, &around} { graph_.set_batch_symbol(around.graph.batch_symbol()); }
  Region& region() { return region_; }
  /// An input that the task hands to it, in this order, before all that it takes of the graph around.
  ValueId add_input(const std::string& name, ir::ValueType type);
  /// What it makes, in this order. What is no longer needed goes; stored tensors of its own move to the graph around.
  /// An error where numbers are drawn in it and `repeated`: each run would need others.
  Result<void> close(const std::vector<ValueId>& outputs, bool repeated, const Location& where, ImportNotes& notes);
  /// Of a closed body: values around that it takes.
  const std::vector<ValueId>& taken() const { return taken_; }
  /// The body of a task that hands it, after its own inputs, these values around, among which are all that it takes.
  ir::Body body(const std::vector<ValueId>& handed) &&;

 private:
  /// The value around that a leaf stands for; a stored tensor or draw of its own is moved there.
  Result<ValueId> outside(ValueId leaf, bool repeated, const Location& where, ImportNotes& notes);

  ir::Graph graph_;
  Region region_;
  std::vector<ValueId> taken_, leaves_;
};

}  // namespace rannc::frontend
