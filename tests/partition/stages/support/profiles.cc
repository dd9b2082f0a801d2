#include "tests/partition/stages/support/profiles.h"

#include <cstdlib>
#include <set>

#include "ir/base/replacement.h"

namespace rannc::partition::testing {
namespace {

std::optional<PipedreamProfile> profile_in(const std::string& path) {
  const auto text = read_file(path);
  if (!text.ok()) return std::nullopt;
  return read_pipedream(*text, path).value();
}

}  // namespace

std::optional<PipedreamProfile> shared_profile(const std::string& name) {
  const char* folder = std::getenv("RANNC_SHARED_DIR");
  const std::string root = folder != nullptr ? folder : std::string(RANNC_SOURCE_DIR) + "/../shared";
  return profile_in(root + "/data/" + name);
}

PipedreamProfile checked_in_profile(const std::string& name) {
  return profile_in(std::string(RANNC_SOURCE_DIR) + "/tests/data/profiles/" + name).value();
}

namespace {

/// The nodes in topological order.
std::vector<uint32_t> layers_of(const PipedreamProfile& profile) {
  // Among the nodes whose producers are done, the one with the smallest number comes first.
  const auto number = [&](uint32_t node) { return std::stoul(profile.nodes[node].name.substr(4)); };
  std::vector<uint32_t> missing(profile.nodes.size(), 0);
  for (const auto& [from, to] : profile.edges) ++missing[to];
  std::set<std::pair<unsigned long, uint32_t>> ready;
  for (uint32_t node = 0; node < missing.size(); ++node) {
    if (missing[node] == 0) ready.insert({number(node), node});
  }
  std::vector<uint32_t> layers;
  while (!ready.empty()) {
    const uint32_t node = ready.begin()->second;
    ready.erase(ready.begin());
    layers.push_back(node);
    for (const auto& [from, to] : profile.edges) {
      if (from == node && --missing[to] == 0) ready.insert({number(to), to});
    }
  }
  return layers;
}

}  // namespace

std::vector<double> layer_costs(const PipedreamProfile& profile) {
  std::vector<double> costs;
  for (const uint32_t node : layers_of(profile))
    costs.push_back(profile.nodes[node].forward_ms + profile.nodes[node].backward_ms);
  return costs;
}

std::vector<double> layer_sizes(const PipedreamProfile& profile) {
  std::vector<double> sizes;
  for (const uint32_t node : layers_of(profile))
    sizes.push_back(profile.nodes[node].parameter_bytes + profile.nodes[node].activation_sum());
  return sizes;
}

}  // namespace rannc::partition::testing
