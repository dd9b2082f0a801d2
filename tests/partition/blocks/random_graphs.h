/// Random and regular task graphs for tests and benchmarks of partitioners.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "partition/dag.h"

namespace rannc::partition::testing {

/// Collects tasks and values; a value's readers may be given in any order and more than once.
class DagBuilder {
 public:
  uint32_t task(double work, uint64_t resident_bytes = 0);
  void read(uint32_t producer, uint32_t reader) { readers_[producer].push_back(reader); }
  /// One value per task that has readers; `cost` per producer, 1 where shorter.
  Dag build(const std::vector<double>& cost = {}) &&;

 private:
  Dag dag_;
  std::vector<std::vector<uint32_t>> readers_;
};

/// How tasks and values are weighed: all 1, or random with distinct works.
enum class Weights { kUnit, kRandom };

struct GraphSpec {
  std::string family;    ///< layered | series-parallel | crossing | butterfly | bert | moe | multi | grid | local
  uint32_t tasks = 100;  ///< about
  uint64_t seed = 1;
  Weights weights = Weights::kUnit;
};

/// The families above; the same spec gives the same graph on every machine.
std::vector<std::string> graph_families();
Dag make_graph(const GraphSpec& spec);

/// The same graph with task t called `new_id[t]`; values keep their order by new producer.
Dag permute_tasks(const Dag& dag, const std::vector<uint32_t>& new_id);

}  // namespace rannc::partition::testing
