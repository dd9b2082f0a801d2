/// Restores the gradient stops where the exported program detached a value.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/model/traced_call.h"
#include "frontend/onnx/internal/state/traced_values.h"
#include "frontend/onnx/internal/translate/scope.h"
#include "ir/graph/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// An unoptimized export has an Identity for a `detach`, whose metadata say so. An optimized one has no node: readers
/// of its result read the detached value, and only their metadata name it (`args = (%detach, %b)`). An optimized export
/// also merges values that are equal without the `detach`. Their readers then name a value that the file lacks. One
/// object serves one model, whose nodes must be passed in order.
class Detached {
 public:
  Detached(const ProgramState& state, ImportNotes& notes) : notes_(notes), values_(state) {}

  /// Inserts `core.stop_gradient` before the detached operands of a node.
  Result<void> stop(ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call, const Place& where,
                    std::vector<ValueId>& operands);
  /// Warns about detached operands that were not found, and about merged values that carry gradients. Call it after the
  /// last node of `file`.
  void note(const ir::Graph& graph, const ONNX_NAMESPACE::GraphProto& file);

  const TracedValues& values() const { return values_; }

 private:
  Result<void> stop_operand(ir::Graph& graph, ValueId& operand, const Place& where);
  bool depends_on_trained(const ir::Graph& graph, ValueId value) const;

  ImportNotes& notes_;
  TracedValues values_;
  std::map<std::pair<size_t, std::string>, Location> missing_;  ///< detached values, by hash of their reader's text
  std::set<std::pair<size_t, std::string>> found_;
};

}  // namespace rannc::frontend
