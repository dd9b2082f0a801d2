#include "partition/stages/problem/profile_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace rannc::partition {
namespace {

/// Returns the number at the end of a node's name, for ties.
uint64_t number_of(const ProfileNode& node) {
  uint64_t number = 0;
  const size_t digits = node.name.find_first_of("0123456789");
  if (digits == std::string::npos) return 0;
  std::from_chars(node.name.data() + digits, node.name.data() + node.name.size(), number);
  return number;
}

/// Returns a cycle among the nodes that are never ready, as `a -> b -> a`.
std::string cycle_among(const PipedreamProfile& profile, const std::vector<uint32_t>& missing) {
  std::vector<uint32_t> before(missing.size(), UINT32_MAX);  // for each waiting node, one that it waits for
  for (const auto& [from, to] : profile.edges) {
    if (missing[from] > 0) before[to] = from;
  }
  const auto stuck = std::find_if(missing.begin(), missing.end(), [](uint32_t count) { return count > 0; });
  auto node = static_cast<uint32_t>(stuck - missing.begin());
  for (size_t steps = 0; steps < missing.size(); ++steps) node = before[node];
  std::string text = profile.nodes[node].name;
  for (uint32_t at = before[node];; at = before[at]) {
    text.insert(0, profile.nodes[at].name + " -> ");
    if (at == node) return text;
  }
}

Result<std::vector<uint32_t>> order_of_all(const PipedreamProfile& profile) {
  std::vector<uint32_t> missing(profile.nodes.size(), 0), order;
  std::vector<std::vector<uint32_t>> readers(profile.nodes.size());
  for (const auto& [from, to] : profile.edges) {
    ++missing[to];
    readers[from].push_back(to);
  }
  std::set<std::pair<uint64_t, uint32_t>> ready;
  for (uint32_t n = 0; n < missing.size(); ++n) {
    if (missing[n] == 0) ready.insert({number_of(profile.nodes[n]), n});
  }
  while (!ready.empty()) {
    const uint32_t node = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(node);
    for (const uint32_t reader : readers[node]) {
      if (--missing[reader] == 0) ready.insert({number_of(profile.nodes[reader]), reader});
    }
  }
  if (order.size() == profile.nodes.size()) return order;
  return error({}, "the profile has a cycle: " + cycle_among(profile, missing), "E1");
}

Result<void> node_is_priced(const ProfileNode& node) {
  const std::pair<const char*, double> costs[] = {{"forward_compute_time", node.forward_ms},
                                                  {"backward_compute_time", node.backward_ms},
                                                  {"activation_size", node.activation_sum()},
                                                  {"parameter_size", node.parameter_bytes}};
  for (const auto& [field, cost] : costs) {
    if (cost >= 0 && cost <= kMostCost) continue;
    return error({},
                 fmt::format("node '{}' ({}): {} is {:g}, it must be from 0 to {:g}", node.name, node.description,
                             field, cost, kMostCost),
                 "E2");
  }
  return {};
}

}  // namespace

Result<std::vector<uint32_t>> profile_order(const PipedreamProfile& profile, bool keep_input) {
  RANNC_ASSIGN(std::vector<uint32_t> order, order_of_all(profile));
  if (!keep_input) {
    std::erase_if(order, [&](uint32_t node) { return profile.nodes[node].description.starts_with("Input"); });
  }
  return order;
}

Result<StageProblem> profile_problem(const PipedreamProfile& profile, const Cluster& cluster,
                                     const ProfileProblemOptions& options) {
  RANNC_ASSIGN(const std::vector<uint32_t> order, profile_order(profile, options.keep_input));
  StageProblem problem;
  problem.blocks = static_cast<uint32_t>(order.size());
  problem.cluster = cluster;
  problem.mini_batch = options.mini_batch;
  problem.optimizer_factor = options.optimizer_factor;
  std::vector<uint32_t> block_of(profile.nodes.size(), UINT32_MAX);
  TimeTable table;
  table.sizes = {options.profile_batch};
  table.forward.emplace_back();
  table.backward.emplace_back();
  std::vector<std::set<uint32_t>> readers(problem.blocks);
  const double samples = static_cast<double>(options.profile_batch);
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    const ProfileNode& node = profile.nodes[order[b]];
    RANNC_TRY(node_is_priced(node));
    block_of[order[b]] = b;
    table.forward[0].push_back(node.forward_ms * 1e6);
    table.backward[0].push_back(node.backward_ms * 1e6);
    problem.parameter_bytes.push_back(node.parameter_bytes);
    problem.stashed_bytes_per_sample.push_back(node.activation_sum() / samples);
    problem.names.push_back(node.description);
  }
  for (const auto& [from, to] : profile.edges) {
    if (block_of[from] != UINT32_MAX && block_of[to] != UINT32_MAX) readers[block_of[from]].insert(block_of[to]);
  }
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    if (readers[b].empty()) continue;
    problem.values.push_back({b, {readers[b].begin(), readers[b].end()}, problem.stashed_bytes_per_sample[b], 0, true});
  }
  problem.times.assign(cluster.kinds.size(), table);
  RANNC_TRY(validate(problem));
  return problem;
}

std::optional<uint64_t> profile_batch_of(std::string_view file) {
  const size_t at = file.rfind("pbs-");
  uint64_t batch = 0;
  if (at != std::string_view::npos) std::from_chars(file.data() + at + 4, file.data() + file.size(), batch);
  return batch == 0 ? std::nullopt : std::optional(batch);
}

}  // namespace rannc::partition
