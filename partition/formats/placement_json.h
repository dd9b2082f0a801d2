/// Reads the JSON graphs of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "partition/reference/split_problem.h"

namespace rannc::partition {

struct PlacementInput {
  SplitSource source;
  uint32_t devices = 1;            ///< maxFPGAs
  std::vector<std::string> names;  ///< per node: its id as written in the file
};

/// Reads `nodes` (`fpgaLatency`, `size`, `colorClass`, `isBackwardNode`), `edges` (`cost`, equal for all edges of one
/// source), `maxFPGAs` and `maxSizePerFPGA`. The order between classes comes from edges between forward nodes, and from
/// reversed edges between backward nodes if one end's class has no forward node. Errors name the node or edge.
Result<PlacementInput> read_placement(std::string_view text, const std::string& file);

}  // namespace rannc::partition
