/// Checks a model before translation: functions, unknown operators, size after inlining.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "frontend/onnx/internal/file/model_file.h"
#include "frontend/onnx/internal/model/needed.h"
#include "ir/base/diagnostic.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Versions of operator sets by domain; the default domain is "".
using Opsets = std::map<std::string, int>;

/// Reads the operator set imports of a model or function. Returns an error if the default domain's version is outside
/// 7 to 27.
template <class Proto>
Result<Opsets> read_opsets(const Proto& proto, const Location& where);

/// Returns the canonical name of a domain. `ai.onnx` is another name of the default domain.
inline std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

/// A model's local functions by domain, name and overload.
class Functions {
 public:
  /// Returns an error if two functions have the same identity.
  static Result<Functions> read(const ONNX_NAMESPACE::ModelProto& model, const std::string& file);
  bool empty() const { return functions_.empty(); }
  /// The function that a node calls, or null.
  const ONNX_NAMESPACE::FunctionProto* find(const ONNX_NAMESPACE::NodeProto& node) const;

 private:
  std::map<std::string, const ONNX_NAMESPACE::FunctionProto*> functions_;
};

/// The nodes to check, with a limit on their number after inlining.
struct ScanLimits {
  uint64_t max_nodes;
  const Needed* needed = nullptr;  ///< null: all
};

/// Returns one error that lists every operator without a translation, each with the nodes that use it. Also returns an
/// error for recursive functions and for more nodes than the limit.
Result<void> check_operators(const ModelFile& model, const Functions& functions, const Opsets& opsets,
                             const ScanLimits& limits, const std::string& file);

/// Returns the operator set version for a node: the model's, or the first that contains the operator if that is later.
/// PyTorch's exporter writes DeformConv, which is of version 19, into files of version 18.
int version_of(const ONNX_NAMESPACE::NodeProto& node, int opset);

/// Whether the operator of the default domain has subgraphs. Such operators have no translator.
bool has_subgraphs(std::string_view op);

/// Returns a node's name, or its operator and first output if it has none.
std::string node_name(const ONNX_NAMESPACE::NodeProto& node);

}  // namespace rannc::frontend
