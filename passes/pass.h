/// Interface of a pass: a named, stateless transformation of a graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/gradient/joint.h"
#include "ir/graph/graph.h"
#include "ir/plan/atoms.h"

namespace rannc::passes {

class Evaluator;

/// Result of a pass. `changed == false` guarantees that the graph is equal to the input.
struct Outcome {
  bool changed = false;
};

/// Data that passes share besides the graph. One context serves one pipeline over one graph.
struct PassContext {
  /// Computes float operators on stored bytes. If null, such constants are left to run time. Not owned.
  const Evaluator* evaluator = nullptr;
  /// Information for the user that is not a problem: a parameter that was recovered, a task that was dropped. In the
  /// order found; the tool prints it.
  std::vector<Note> remarks;
  /// What a pass left unchanged although the user may intend otherwise, with the option that would change it.
  std::vector<Note> open;
  /// Probable mistakes that do not prevent training. Printed and kept beside the plan.
  std::vector<Note> warnings;
  /// Stored tensors that the exporter had merged into another: name -> name of the merged tensor.
  std::map<std::string, std::string> parted;
  /// Whether each task is constant. Written by mark-constants; invalid once the graph has changed.
  std::optional<std::vector<bool>> constant;
  /// Written by form-atoms; invalid once the graph has changed.
  std::optional<ir::Atoms> atoms;
  /// Written by differentiate; invalid once the graph has changed.
  std::shared_ptr<const ir::Joint> joint;
};

/// A stateless object. Its options are members set at construction and never changed. The header of each pass documents
/// its effect, the graph before => after, its place in the pipeline, its cost and what it never does.
class Pass {
 public:
  virtual ~Pass() = default;
  /// The command-line spelling: `form-atoms`.
  virtual std::string_view name() const = 0;
  /// The name with the options in braces, as written on the command line: `set-precision{f64}`.
  virtual std::string spelling() const { return std::string(name()); }
  /// Changes the graph in place, by editing facts (types, kinds, data) or by moving a new graph into it. The graph
  /// satisfies the G rules before the call and must satisfy them after it. A diagnostic concerns the user's model; the
  /// graph may then be half changed and must not be used.
  virtual Result<Outcome> run(ir::Graph& graph, PassContext& context) const = 0;
};

}  // namespace rannc::passes
