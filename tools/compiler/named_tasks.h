/// Names of tasks, by which users demand properties of a plan.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"
#include "partition/model/block_demands.h"
#include "rannc/compiler/plan_options.h"

namespace rannc::tools {

/// By name of the file's node, the innermost module that contains it, such as `encoder.layers.1`.
using NodeModules = std::map<std::string, std::string>;

/// Returns the innermost modules of a task, one for each node that was fused into it, as far as the file names them.
/// Distinct, in the order of the nodes.
std::vector<std::string> modules_of(const ir::Graph& graph, TaskId task, const NodeModules& modules);

/// Returns a module and all that enclose it: `a.b.0`, `a.b`, `a`.
std::vector<std::string> with_enclosing(const std::string& module);

/// A name of an atom. Several atoms may share a name, and an atom may have several.
struct AtomName {
  std::string name;
  uint32_t atom = 0;
};

/// Resolves the pins, which need `options.stages`, and `together`: exact names first, then patterns. Fails on a name
/// without atoms, on a stage that does not exist and on an atom that is pinned to two stages.
Result<partition::AtomDemands> named_demands(const compiler::PlanOptions& options, const std::vector<AtomName>& names);

}  // namespace rannc::tools
