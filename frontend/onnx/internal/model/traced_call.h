/// Reads which call of the exported program a node was made from.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// What torch.onnx.export with dynamo=True writes of a node in its metadata (`pkg.torch.onnx.fx_node`):
/// `%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%w, %x, 2), kwargs =
/// {})` Views point into the node.
struct TracedCall {
  std::string_view text;                    ///< all of it: nodes of one call have the same
  std::string_view target;                  ///< `aten.embedding.default`
  std::vector<std::string_view> arguments;  ///< positional, as written: `%w`, `2`, `[%a, %b]`

  bool is(std::string_view op) const;  ///< `aten.embedding`, of any overload
  /// Names of values among the arguments, those in lists too, in order: `w`, `x`.
  std::vector<std::string_view> values() const;
  std::optional<double> number(size_t argument) const;  ///< nothing where it is absent or no number
};

/// Nothing where the node does not say it.
std::optional<TracedCall> traced_call(const ONNX_NAMESPACE::NodeProto& node);

/// Whether a traced value is the result of `detach`, which has no node in ONNX: its readers read what was detached.
bool is_detached(std::string_view value);

}  // namespace rannc::frontend
