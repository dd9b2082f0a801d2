// Benchmark d: the exact stage DP at scale, or any other planner.
//
// One line per case: blocks x devices, objective, lower bound, gap, seconds. `--json` prints an object a line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <random>

#include "partition/stages/planner.h"
#include "partition/stages/registry.h"

namespace {

using namespace rannc::partition;

/// Blocks like those of a transformer with a heavy tail and uneven cuts; times grow sub-linearly with small samples.
StageProblem model(uint32_t blocks, Cluster cluster, uint32_t micro_batch_counts, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> around(0.7, 1.3);
  StageProblem problem;
  problem.blocks = blocks;
  problem.cluster = std::move(cluster);
  TimeTable table;
  for (const uint64_t size : {1, 4, 16, 64}) {
    table.sizes.push_back(size);
    table.forward.emplace_back(blocks);
    table.backward.emplace_back(blocks);
  }
  for (uint32_t b = 0; b < blocks; ++b) {
    const double work = 1e6 * around(random) * (b + 1 == blocks ? 6 : 1), ratio = 2 * around(random);
    for (size_t row = 0; row < table.sizes.size(); ++row) {
      const double n = static_cast<double>(table.sizes[row]);
      table.forward[row][b] = work * (0.3 + 0.7 * n);
      table.backward[row][b] = work * ratio * (0.25 + 0.75 * n);
    }
    problem.parameter_bytes.push_back(5e7 * around(random));
    problem.stashed_bytes_per_sample.push_back(3e7 * around(random));
    if (b + 1 < blocks) problem.values.push_back({b, {b + 1}, 4e6 * around(random), 0, true});
    if (b % 7 == 0 && b + 9 < blocks) problem.values.push_back({b, {b + 3, b + 9}, 1e6 * around(random), 0, true});
  }
  problem.times.push_back(std::move(table));
  problem.mini_batch = 4ull * problem.cluster.size();
  for (uint32_t i = 0; i < micro_batch_counts; ++i) problem.micro_batches.push_back(1ull << i);
  problem.in_flight = InFlight::kOneFOneB;
  problem.recompute = RecomputeRule::kChoose;
  return problem;
}

/// One flat cluster, or nodes of eight V100 with links of a quarter of the speed between them.
Cluster cluster_of(uint32_t devices, bool nodes) {
  Cluster flat = *preset_cluster("flat:" + std::to_string(devices));
  if (!nodes || devices < 16 || devices % 8 != 0) return flat;
  return make_cluster("nodes", flat.kinds.front(), devices / 8, 8, {25e9, 5000}, {12.5e9, 10000});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Stage planners at scale: by default the exact DP of planner rannc"};
  uint32_t blocks = 1024, counts = 12, most_stages = 256;
  std::vector<uint32_t> devices{8, 32, 256, 4096, 16384};
  double seconds_limit = 600;
  bool json = false, nodes = false;
  std::string planner = "rannc";
  app.add_option("--blocks", blocks, "blocks of the chain");
  app.add_option("--devices", devices, "devices of a flat cluster")->delimiter(',');
  app.add_option("--planner", planner, "which")->check(CLI::IsMember(stage_planner_names()))->capture_default_str();
  app.add_flag("--nodes", nodes, "nodes of eight with slower links between them");
  app.add_option("--micro-batch-counts", counts, "candidates 1, 2, 4 …");
  app.add_option("--max-stages", most_stages, "most stages of a plan");
  app.add_option("--seconds", seconds_limit, "start no further case after so many");
  app.add_flag("--json", json, "one object a line");
  CLI11_PARSE(app, argc, argv);
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [](auto start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (const uint32_t count : devices) {
    if (since(begin) > seconds_limit) break;
    StageProblem problem = model(blocks, cluster_of(count, nodes), counts, 1);
    problem.constraints.max_stages = most_stages;
    const auto start = std::chrono::steady_clock::now();
    const auto outcome = make_planner(planner)->plan(problem);
    const double seconds = since(start);
    const std::string file = fmt::format("chain-{}", blocks);
    if (!outcome.ok()) {
      fmt::print(stderr, "{}\n", outcome.diagnostic().str());
      return 1;
    }
    if (const auto* none = std::get_if<Infeasible>(&*outcome)) {
      fmt::print("{} {} infeasible: {}\n", file, count, none->reason);
      continue;
    }
    const auto& plan = std::get<StagePlan>(*outcome);
    if (json) {
      fmt::print("{{\"file\": \"{}\", \"devices\": {}, \"objective\": {}, \"lower_bound\": {}, \"seconds\": {:.3f}}}\n",
                 file, count, plan.objective, plan.lower_bound, seconds);
    } else {
      fmt::print(
          "{:<12} devices {:>6}  objective {:.6f} ms  bound {:.6f} ms  gap {:.2f} %  {:.3f} s  ({} stages, {} "
          "micro-batches)\n",
          file, count, plan.objective / 1e6, plan.lower_bound / 1e6, 100 * plan.gap(), seconds, plan.stages.size(),
          plan.micro_batches);
    }
    std::fflush(stdout);
  }
  return 0;
}
