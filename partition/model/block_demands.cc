#include "partition/model/block_demands.h"

#include <fmt/format.h>

#include <algorithm>

namespace rannc::partition {

namespace {

using Name = std::function<std::string(uint32_t atom)>;
using Pin = AtomDemands::Pin;

Diagnostic contradiction(const Pin& a, const Pin& b, const Name& name, const std::string& why) {
  return error({},
               fmt::format("'{}' is pinned to stage {} and '{}' to stage {}, {}", name(a.atom), a.stage, name(b.atom),
                           b.stage, why),
               "C5");
}

// Returns one pin per block, blocks ascending.
Result<void> add_pins(const AtomDemands& demands, const std::vector<uint32_t>& block_of_atom, const Name& name,
                      StageConstraints& constraints) {
  std::vector<Pin> pins = demands.pins;
  std::stable_sort(pins.begin(), pins.end(),
                   [&](const Pin& a, const Pin& b) { return block_of_atom[a.atom] < block_of_atom[b.atom]; });
  for (size_t i = 0; i < pins.size(); ++i) {
    const uint32_t block = block_of_atom[pins[i].atom];
    if (i > 0) {
      const uint32_t before = block_of_atom[pins[i - 1].atom];
      if (before == block && pins[i - 1].stage == pins[i].stage) continue;
      if (before == block) {
        return contradiction(
            pins[i - 1], pins[i], name,
            pins[i - 1].atom == pins[i].atom ? "which is one task" : fmt::format("but both lie in block {}", block));
      }
      if (pins[i - 1].stage > pins[i].stage) {
        return contradiction(pins[i - 1], pins[i], name,
                             fmt::format("but block {} comes before block {}", before, block));
      }
    }
    constraints.pins.push_back({block, pins[i].stage});
  }
  return {};
}

}  // namespace

Result<void> add_demands(const AtomDemands& demands, const std::vector<uint32_t>& block_of_atom, const Name& name,
                         StageConstraints& constraints) {
  for (const auto& [first, second] : demands.together) {
    const auto [low, high] = std::minmax(block_of_atom[first], block_of_atom[second]);
    for (uint32_t cut = low + 1; cut <= high; ++cut) constraints.forbidden_cuts.push_back(cut);
  }
  std::vector<uint32_t>& cuts = constraints.forbidden_cuts;
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return add_pins(demands, block_of_atom, name, constraints);
}

std::string task_name(const ir::Graph& graph, TaskId task) {
  const ir::Graph::Task found = graph.task(task);
  if (!found.location.node.empty()) return found.location.node;
  return found.outputs.empty() ? "#" + std::to_string(task.index()) : std::string(graph.value(found.outputs[0]).name);
}

}  // namespace rannc::partition
