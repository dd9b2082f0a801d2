/// Reads from a node's metadata which call of the exported program it was created from.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// A node's metadata entry `pkg.torch.onnx.fx_node`, written by torch.onnx.export with dynamo=True:
/// `%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%w, %x, 2), kwargs =
/// {})`. The string views point into the node.
struct TracedCall {
  std::string_view text;                    ///< the whole entry, equal for all nodes of one call
  std::string_view result;                  ///< the value that it makes: `embedding`; empty if the entry names none
  std::string_view target;                  ///< `aten.embedding.default`
  std::vector<std::string_view> arguments;  ///< positional, as written: `%w`, `2`, `[%a, %b]`

  bool is(std::string_view op) const;  ///< whether it calls any overload of `op` (`aten.embedding`)
  /// Names of values among the arguments and in their lists, in order: `w`, `x`.
  std::vector<std::string_view> values() const;
  std::optional<double> number(size_t argument) const;  ///< nothing if it is absent or no number
};

/// Returns nothing if the node has no such entry.
std::optional<TracedCall> traced_call(const ONNX_NAMESPACE::NodeProto& node);

}  // namespace rannc::frontend
