/// The contiguous split of a placement graph, as `rannc-compile` answers it.
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

/// A placement graph, and what is demanded of its split.
struct SplitRequest {
  std::string file;                      ///< for messages
  std::optional<uint32_t> devices;       ///< empty: as many as the file says
  std::optional<uint64_t> memory_bytes;  ///< lowers the file's limit
  bool exact = false;
};

/// A graph with its split. A split that does not exist has its reason in `result`.
struct SplitAnswer {
  partition::PlacementInput input;
  partition::SplitProblem problem;
  partition::SplitResult result;
  uint32_t devices = 1;
  double seconds = 0;
  std::vector<std::string> warnings;
};

/// Reads and splits; `stop` ends the search between two of its steps. Errors name the file, node or edge.
Result<SplitAnswer> split_placement(std::string_view text, const SplitRequest& request, std::stop_token stop = {});

/// Objective, bound, gap, per device its nodes, load and bytes, warnings. The gap is relative to the bound.
nlohmann::ordered_json split_summary(const SplitAnswer& answer);
/// The device of every node; the same bytes for the same split.
std::string split_file(const SplitAnswer& answer);
/// A line per device, then the largest load beside its bound.
std::string split_text(const SplitAnswer& answer);
/// What the fullest device spends its load on, what bounds it, and what would help, by splitting anew.
std::string explain_split(const SplitAnswer& answer, const SplitRequest& request);

}  // namespace rannc::tools
