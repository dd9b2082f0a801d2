/// What a pass is: a named, stateless change of a graph.
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

/// What a pass says of its run. `changed` is a promise: false means the graph is equal to what it was.
struct Outcome {
  bool changed = false;
};

/// What passes share beside the graph. One context serves one pipeline over one graph.
struct PassContext {
  /// Computes float operators on stored bytes; null: such constants are left to run time. Not owned.
  const Evaluator* evaluator = nullptr;
  /// What the user should know although nothing is wrong: a parameter that was recovered, a task that was dropped.
  /// In the order in which it was found; the tool prints it.
  std::vector<Note> remarks;
  /// What a pass left as it is though the user may mean otherwise, with what would say so.
  std::vector<Note> open;
  /// What is probably not what the user means, though it can be trained. Printed and kept beside the plan.
  std::vector<Note> warnings;
  /// Stored tensors that were part of one that the exporter merged: by name, that one's.
  std::map<std::string, std::string> parted;
  /// Per task whether it is constant: written by mark-constants; of no use once the graph has changed.
  std::optional<std::vector<bool>> constant;
  /// Written by form-atoms; of no use once the graph has changed.
  std::optional<ir::Atoms> atoms;
  /// Written by differentiate; of no use once the graph has changed.
  std::shared_ptr<const ir::Joint> joint;
};

/// A pass is an object without state: options are members set at construction and never changed. What it does,
/// before => after, why it stands where it stands in the pipeline, its cost and what it never does head its own header.
class Pass {
 public:
  virtual ~Pass() = default;
  /// The command-line spelling: `form-atoms`.
  virtual std::string_view name() const = 0;
  /// The name with the options in braces, as the command line takes it: `set-precision{f64}`.
  virtual std::string spelling() const { return std::string(name()); }
  /// Changes the graph in place, by facts (types, kinds, data) or by moving a new graph into it. A graph that is handed
  /// in verifies (rules G), and so must the one that is left. A diagnostic is about the user's model; on one the graph
  /// may be half changed and is of no further use.
  virtual Result<Outcome> run(ir::Graph& graph, PassContext& context) const = 0;
};

}  // namespace rannc::passes
