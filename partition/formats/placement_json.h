/// The JSON graphs of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "partition/reference/split_problem.h"

namespace rannc::partition {

struct PlacementInput {
  SplitSource source;
  uint32_t devices = 1;            ///< maxFPGAs
  std::vector<std::string> names;  ///< per node: its id, as the file writes it
};

/// Reads `nodes` (`fpgaLatency`, `size`, `colorClass`, `isBackwardNode`), `edges` (`cost`, equal for the edges of one
/// source), `maxFPGAs`, `maxSizePerFPGA`. Order between classes: edges between forward nodes, plus reversed edges
/// between backward nodes where one end's class has no forward node. Errors name the node or edge.
Result<PlacementInput> read_placement(std::string_view text, const std::string& file);

}  // namespace rannc::partition
