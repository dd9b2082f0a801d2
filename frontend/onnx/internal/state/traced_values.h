/// Relates the operands of nodes to the values of the exported program.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/internal/model/traced_call.h"
#include "frontend/onnx/internal/state/program_state.h"
#include "ir/graph/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Optimized exports omit values: those that change nothing, and those that equal another one. A call that reads one
/// names it although the file lacks it. One object serves one model, whose nodes must be passed in order.
class TracedValues {
 public:
  explicit TracedValues(const ProgramState& state) : state_(state) {}

  /// Operands of a node that its call does not name.
  struct Unnamed {
    std::vector<size_t> varying, constant;  ///< floats
    bool own = false;                       ///< another operand is a result of an earlier node of the same call
  };
  Unnamed read(const ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call,
               const std::vector<ValueId>& operands, const std::string& module);
  /// Relates the graph's outputs to those of the program. Call it after the last node.
  void read_outputs(const ONNX_NAMESPACE::GraphProto& graph);
  /// Results of products with 1 or sums with 0, which the file may lack: calls name them where it has the operand.
  const std::set<std::string>& omitted() const { return omitted_; }
  /// Whether a call that was read before made a value.
  bool makes(std::string_view traced) const { return results_.contains(traced); }
  /// Values of the file that were read as two values of the program, of the same operator, and intermediate values of
  /// one call that another call reads.
  const std::vector<MergedValue>& merged() const { return merged_; }

 private:
  struct Maker {
    size_t call = 0;  ///< hash of the text
    std::string result;
  };
  std::vector<bool> named_operands(const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call) const;
  void find_merged(const ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call,
                   const std::vector<ValueId>& operands, const Unnamed& unnamed, const std::string& module);

  const ProgramState& state_;
  std::unordered_map<std::string, Maker> makers_;  ///< by value of the file
  std::unordered_map<size_t, std::string> last_;   ///< value of the file that a call made last, its result
  std::set<std::string, std::less<>> results_;     ///< of calls
  std::map<std::string, std::map<std::string, std::string>> names_;  ///< of values of the file, by operator
  std::vector<MergedValue> merged_;
  std::set<std::string> omitted_;
};

}  // namespace rannc::frontend
