/// Computes and formats the contiguous split of a placement graph for `rannc-compile`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "partition/formats/placement_json.h"
#include "partition/reference/contiguous_split.h"

namespace rannc::tools {

/// A placement graph and the constraints on its split.
struct SplitRequest {
  std::string file;                      ///< for messages
  std::optional<uint32_t> devices;       ///< empty: the file's number
  std::optional<uint64_t> memory_bytes;  ///< lowers the file's limit
  bool exact = false;
};

/// A graph with its split. If no split exists, `result` has the reason.
struct SplitAnswer {
  partition::PlacementInput input;
  partition::SplitProblem problem;
  partition::SplitResult result;
  uint32_t devices = 1;
  double seconds = 0;
  std::vector<std::string> warnings;
};

/// Reads and splits a graph. `stop` is checked between steps of the search. Errors name the file, node or edge.
Result<SplitAnswer> split_placement(std::string_view text, const SplitRequest& request, std::stop_token stop = {});

/// Returns objective, bound, gap, warnings, and the nodes, load and bytes of each device. The gap is relative to the
/// bound.
nlohmann::ordered_json split_summary(const SplitAnswer& answer);
/// Returns the device of every node. Equal splits give equal bytes.
std::string split_file(const SplitAnswer& answer);
/// Returns a line per device, then the largest load and its bound.
std::string split_text(const SplitAnswer& answer);
/// Describes the load of the busiest device, its bound, and remedies, which are found by splitting again.
std::string explain_split(const SplitAnswer& answer, const SplitRequest& request);

}  // namespace rannc::tools
