/// Reads and writes the text graphs in which PipeDream and DAPPLE publish profiles.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partition/dag.h"

namespace rannc::partition {

/// One line `nodeN -- description -- forward_compute_time=…, backward_compute_time=…, activation_size=…,
/// parameter_size=…[ -- stage_id=k]`. Times in ms, sizes in bytes.
struct ProfileNode {
  std::string name;
  std::string description;
  double forward_ms = 0;
  double backward_ms = 0;
  std::vector<double> activation_bytes;  ///< one entry, or one per output of a list `[a; b; c]`
  double parameter_bytes = 0;
  std::optional<uint32_t> stage;
  bool operator==(const ProfileNode&) const = default;
  double activation_sum() const;
};

/// Nodes are in the file's order. An edge goes from producer to reader by position in `nodes`.
struct PipedreamProfile {
  std::vector<ProfileNode> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  bool operator==(const PipedreamProfile&) const = default;
};

/// Reads the format; lines may be in any order. Errors name the line: a missing field, an invalid number, a duplicate
/// node, an edge to a missing node. `validate` checks that costs can be priced and that the graph is acyclic.
Result<PipedreamProfile> read_pipedream(std::string_view text, const std::string& file);

/// Writes the format. `read_pipedream` of the result returns an equal profile.
std::string write_pipedream(const PipedreamProfile& profile);

/// Creates a task per node and a value per node that has readers. A value costs transfers * bytes / bytes_per_second,
/// in ms; 2 transfers include its gradient. Parameters become resident bytes, activations stashed bytes.
Dag dag_of_profile(const PipedreamProfile& profile, double bytes_per_second, double transfers);

}  // namespace rannc::partition
