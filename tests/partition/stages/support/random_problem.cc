#include "tests/partition/stages/support/random_problem.h"

#include <algorithm>

namespace rannc::partition::testing {
namespace {

uint64_t pick(std::mt19937_64& random, uint64_t low, uint64_t high) { return low + random() % (high - low + 1); }

TimeTable random_times(std::mt19937_64& random, uint32_t blocks) {
  TimeTable table;
  uint64_t size = 1;
  for (uint64_t rows = pick(random, 1, 3); rows > 0; --rows, size += pick(random, 1, 4)) table.sizes.push_back(size);
  for (size_t row = 0; row < table.sizes.size(); ++row) {
    std::vector<double> forward(blocks), backward(blocks);
    for (uint32_t b = 0; b < blocks; ++b) {
      // Not in proportion to the samples, sometimes not even monotone.
      forward[b] = static_cast<double>(pick(random, 0, 20) * (table.sizes[row] + pick(random, 0, 3)));
      backward[b] = static_cast<double>(pick(random, 0, 40) * (table.sizes[row] + pick(random, 0, 3)));
    }
    table.forward.push_back(forward);
    table.backward.push_back(backward);
  }
  table.make_monotone();
  return table;
}

void add_values(std::mt19937_64& random, bool skips, StageProblem& problem) {
  for (uint32_t b = 0; b + 1 < problem.blocks; ++b) {
    BlockValue value{b, {b + 1}, static_cast<double>(pick(random, 0, 30)), 0, true};
    if (skips) {
      value.readers.clear();
      for (uint32_t r = b + 1; r < problem.blocks; ++r) {
        if (pick(random, 0, 2) == 0) value.readers.push_back(r);
      }
      value.bytes = static_cast<double>(pick(random, 0, 1) * pick(random, 0, 50));
      value.gradient = pick(random, 0, 3) != 0;
      value.kept = static_cast<ValueKept>(pick(random, 0, 2));
    }
    problem.values.push_back(value);
  }
}

// Of every kind, some of one block.
void add_shared(std::mt19937_64& random, StageProblem& problem) {
  for (uint64_t count = pick(random, 0, 3); count > 0; --count) {
    SharedHolding holding;
    holding.kind = static_cast<SharedHolding::Kind>(pick(random, 0, 2));
    for (uint32_t b = 0; b < problem.blocks; ++b) {
      if (pick(random, 0, 1) == 0) holding.blocks.push_back(b);
    }
    if (holding.blocks.empty()) continue;
    holding.bytes = static_cast<double>(pick(random, 0, 100));
    if (holding.kind == SharedHolding::Kind::kInput)
      holding.bytes_per_sample = static_cast<double>(pick(random, 0, 20));
    problem.shared.push_back(std::move(holding));
  }
}

// As a model of 16 bits has them.
void widen_sums(StageProblem& problem) {
  for (const double bytes : problem.parameter_bytes) problem.gradient_bytes.push_back(2 * bytes);
  for (SharedHolding& holding : problem.shared) {
    if (holding.kind == SharedHolding::Kind::kParameter) holding.sum_bytes = 2 * holding.bytes;
  }
}

Link random_link(std::mt19937_64& random) {
  return {1e9 * static_cast<double>(pick(random, 1, 10)) / 4, static_cast<double>(pick(random, 0, 20))};
}

Cluster random_cluster(std::mt19937_64& random, const RandomOptions& options) {
  const uint32_t devices = static_cast<uint32_t>(pick(random, 1, options.most_devices));
  const DeviceKind kind{"k0", 1ull << 40, 1e12, 1e12, 0};
  if (!options.unequal) return make_cluster("random", kind, 1, devices, random_link(random), random_link(random));
  const uint32_t nodes = static_cast<uint32_t>(pick(random, 1, 3));
  Cluster cluster =
      make_cluster("random", kind, nodes, std::max(1u, devices / nodes), random_link(random), random_link(random));
  if (pick(random, 0, 1) == 0) {
    cluster.kinds.push_back(kind);
    cluster.kinds.back().name = "k1";
    for (ClusterDevice& device : cluster.devices) device.kind = static_cast<uint32_t>(pick(random, 0, 1));
  }
  if (cluster.size() > 1 && pick(random, 0, 1) == 0) cluster.device_links[{0, 1}] = random_link(random);
  return cluster;
}

}  // namespace

StageProblem random_problem(std::mt19937_64& random, const RandomOptions& options) {
  StageProblem problem;
  problem.blocks = static_cast<uint32_t>(pick(random, 1, options.most_blocks));
  problem.cluster = random_cluster(random, options);
  for (size_t kind = 0; kind < problem.cluster.kinds.size(); ++kind) {
    problem.times.push_back(random_times(random, problem.blocks));
  }
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    problem.parameter_bytes.push_back(static_cast<double>(pick(random, 0, 100)));
    problem.stashed_bytes_per_sample.push_back(static_cast<double>(pick(random, 0, 40)));
    problem.temporary_bytes_per_sample.push_back(static_cast<double>(pick(random, 0, 10)));
    problem.temporary_bytes.push_back(static_cast<double>(pick(random, 0, 30)));
  }
  add_values(random, options.skips, problem);
  if (options.skips) add_shared(random, problem);
  problem.mini_batch = pick(random, 1, 12);
  for (uint64_t count = 1; count <= problem.mini_batch; count += pick(random, 1, 4)) {
    problem.micro_batches.push_back(count);
  }
  problem.in_flight = static_cast<InFlight>(pick(random, 0, 2));
  problem.recompute = static_cast<RecomputeRule>(pick(random, 0, 2));
  if (options.tight) {
    for (DeviceKind& kind : problem.cluster.kinds) kind.memory_bytes = pick(random, 200, 2500);
  }
  if (problem.blocks > 2 && pick(random, 0, 5) == 0) {
    problem.constraints.forbidden_cuts.push_back(static_cast<uint32_t>(pick(random, 1, problem.blocks - 1)));
  }
  if (pick(random, 0, 5) == 0) problem.constraints.max_stages = static_cast<uint32_t>(pick(random, 1, 4));
  if (pick(random, 0, 7) == 0) {
    const uint32_t stages =
        static_cast<uint32_t>(pick(random, 1, std::min({problem.blocks, problem.cluster.size(), 3u})));
    const uint32_t block = static_cast<uint32_t>(pick(random, 0, problem.blocks - 1));
    problem.constraints.stages = stages;
    problem.constraints.pins = {{block, static_cast<uint32_t>(pick(random, 0, stages - 1))}};
  }
  if (pick(random, 0, 3) == 0) widen_sums(problem);
  return problem;
}

}  // namespace rannc::partition::testing
