// Implements RaNNC III.C, Algorithms 1 and 2, corrected. The inner DP decides feasibility under thresholds
// (uniform_cover.cc, positional_cover.cc); threshold_search.cc minimises exactly over them. rannc_paper.cc implements
// the printed text.
//
// Algorithm 2 iterates n over nodes per pipeline and replicates the pipeline N/n times. On a uniform cluster n = N
// alone is complete: a replicated pipeline is the same plan with every replica count multiplied.
#include <fmt/format.h>

#include <algorithm>

#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/covers/threshold_search.h"
#include "partition/stages/planner.h"

namespace rannc::partition {
namespace {

/// A pipeline on the first `devices` devices, replicated `copies` times.
struct Shape {
  uint32_t devices = 0, copies = 1;
};

/// Whether all nodes equal the first, so that a pipeline may be replicated from node to node.
bool nodes_alike(const Cluster& cluster) {
  if (!cluster.node_links.empty() || !cluster.device_links.empty()) return false;
  const ClusterNode& first = cluster.nodes.front();
  for (const ClusterNode& node : cluster.nodes) {
    if (node.devices.size() != first.devices.size() || !(node.inside == first.inside)) return false;
    for (size_t d = 0; d < node.devices.size(); ++d) {
      if (cluster.devices[node.devices[d].index()].kind != cluster.devices[first.devices[d].index()].kind) return false;
    }
  }
  return true;
}

std::vector<Shape> shapes_of(const Cluster& cluster) {
  const uint32_t nodes = static_cast<uint32_t>(cluster.nodes.size());
  if (cluster.uniform() || !nodes_alike(cluster)) return {{cluster.size(), 1}};
  std::vector<Shape> shapes;
  for (uint32_t n = 1; n <= nodes; ++n) {
    if (nodes % n == 0) shapes.push_back({cluster.size() / nodes * n, nodes / n});
  }
  return shapes;
}

/// Limit of the steps of one query over all positions, (blocks * devices)^2 / 4, for pricing positions.
constexpr double kPositions = 4e6;

/// Whether pricing each position would take too long and all nodes are alike. Links then count as those inside a node
/// (RaNNC, footnote 3).
bool priced_coarsely(const StageProblem& problem) {
  const Cluster& cluster = problem.cluster;
  const double side = static_cast<double>(problem.blocks) * cluster.size();
  if (cluster.uniform() || side * side / 4 <= kPositions || !nodes_alike(cluster)) return false;
  return std::all_of(cluster.devices.begin(), cluster.devices.end(),
                     [&](const ClusterDevice& device) { return device.kind == cluster.devices.front().kind; });
}

class RanncPlanner final : public StagePlanner {
 public:
  std::string name() const override { return "rannc"; }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token stop) const override {
    const RangeCosts ranges(problem);
    std::vector<std::unique_ptr<CoverFinder>> owned;
    std::vector<CoverFinder*> finders;
    std::vector<Shape> shapes;
    const bool coarse = priced_coarsely(problem);
    const bool uniform = coarse || problem.cluster.uniform();
    for (const Shape& shape : coarse ? std::vector<Shape>{{problem.cluster.size(), 1}} : shapes_of(problem.cluster)) {
      // Replica counts demanded by a user are those of the whole plan.
      if (!problem.constraints.replicas.empty() && shape.copies > 1) continue;
      for (const uint64_t micro_batches : micro_batch_candidates(problem)) {
        owned.push_back(uniform ? uniform_cover(problem, ranges, micro_batches)
                                : positional_cover(problem, ranges, micro_batches, shape.devices, shape.copies));
        finders.push_back(owned.back().get());
        shapes.push_back(shape);
      }
    }
    const StageCount count = stage_count(problem);
    const auto answer = minimise_fill_drain(finders, count, {.stop = std::move(stop)});
    if (!answer) return explain_infeasible(problem, finders, count);
    const Shape& shape = shapes[answer->finder];
    StagePlan plan = plan_of_cover(problem, ranges, answer->cover, finders[answer->finder]->micro_batches(),
                                   shape.devices, shape.copies);
    plan.objective_name = "(micro-batches + stages - 1) * (largest forward + largest backward), ns";
    plan.objective = answer->objective;
    plan.lower_bound = answer->lower_bound;
    plan.bound_name = answer->lower_bound == answer->objective ? "exact" : "search stopped by its budget";
    if (answer->lower_bound < answer->objective) plan.notes.push_back("the search was stopped; exactness is given up");
    if (coarse) {
      plan.bound_name += ", links priced as inside a node";
      plan.notes.push_back(fmt::format(
          "{} blocks on {} devices: links between nodes are priced like those inside, exactness is given up",
          problem.blocks, problem.cluster.size()));
    }
    return plan;
  }
};

}  // namespace

std::unique_ptr<StagePlanner> rannc_planner() { return std::make_unique<RanncPlanner>(); }

}  // namespace rannc::partition
