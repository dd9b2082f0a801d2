/// The graph of one pipeline stage, with values of other stages as inputs.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rannc::ir {

/// A value that a stage sends to other stages or to the user, and whether its gradient comes back.
struct StageOutput {
  ValueId value;
  bool gradient = false;
  bool operator==(const StageOutput&) const = default;
};

/// Routed values, graph outputs and loss numerators of a stage, ascending. A graph output or loss numerator made only
/// by constant tasks belongs to the first stage that contains its task.
std::vector<StageOutput> stage_outputs(const Plan& plan, StageId stage);

/// A stage cut out of the plan's graph. Values keep their names and types; leaves have no data. Task i is a copy of
/// `Stage::tasks[i]`. Inputs are graph inputs and activations of other stages. The graph has no losses.
struct StageGraph {
  Graph graph;
  std::vector<ValueId> returned;         ///< values of the new graph whose gradient comes back, ascending
  std::vector<ValueId> sources;          ///< inputs of the new graph whose gradient is sent back, ascending
  DeviceType device = DeviceType::kCpu;  ///< that the stage runs on
};

/// Linear in the stage, beside the leaves of the whole graph.
StageGraph stage_graph(const Plan& plan, StageId stage);
/// The same of any tasks (ascending) of a graph. `outputs`, `sources` and `weights` are values of `graph`. Activations
/// of other tasks among `weights` (ascending) become parameters instead of inputs. Leaves keep their data.
StageGraph stage_graph(const Graph& graph, const std::vector<TaskId>& tasks, const std::vector<StageOutput>& outputs,
                       const std::vector<ValueId>& sources, const std::vector<ValueId>& weights = {});

}  // namespace rannc::ir
