/// Measures a model's tasks and blocks, and what devices exchange, on this machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan/atoms.h"
#include "partition/cost/cost_model.h"
#include "partition/cost/profile_database.h"
#include "partition/model/plan_model.h"

namespace rannc::tools {

/// What measuring is told.
struct MeasureOptions {
  std::vector<uint64_t> sizes;                   ///< samples, ascending
  ir::Bindings assume;                           ///< values of symbols other than the batch
  uint32_t repeat = 5;                           ///< runs that count, at least
  uint32_t threads = 1;                          ///< what LibTorch was set to; names the environment
  uint64_t memory_bytes = 0;                     ///< runs that would need more are left out; 0: half of what is free
  std::function<void(const std::string&)> step;  ///< hears `measuring 3 of 41 tasks` before each; may be empty
};

/// What became of the entries that were asked for.
struct MeasureCount {
  size_t measured = 0;   ///< at one size or more
  size_t reused = 0;     ///< were there with all sizes
  size_t too_large = 0;  ///< of those, do not fit into memory at the largest size
  size_t entries() const { return measured + reused; }
};

/// What names this machine's measurements in a profile database: processor, library and its version, threads.
std::string environment_name(uint32_t threads = 1);

/// Every other power of two up to `mini_batch`, and 1: curves are smooth enough to be read between.
std::vector<uint64_t> measured_sizes(uint64_t mini_batch);

/// Runs every structurally different task of the graph that the database lacks, at all sizes, and adds it to this
/// machine's environment. On an error the database holds what was measured before.
Result<MeasureCount> measure_tasks(const ir::Graph& graph, const MeasureOptions& options,
                                   partition::ProfileDatabase& database);

/// The same of what could stand for tasks of the graph (`passes::with_alternatives`), but what cannot be run is left
/// out.
Result<MeasureCount> measure_alternatives(const ir::Graph& graph, const MeasureOptions& options,
                                          partition::ProfileDatabase& database);

/// Runs the `most` structurally different blocks (`block_runs`) that make up most of the model, each beside the sum of
/// its tasks. Their tasks must have been measured. A block that cannot be run alone is left out.
Result<MeasureCount> measure_blocks(const ir::Graph& graph, const ir::Atoms& atoms, size_t most,
                                    const MeasureOptions& options, partition::ProfileDatabase& database);

/// Which exchanges to time.
struct ExchangeChoice {
  bool messages = false, collectives = false;
};
/// Between threads of this process, over both transports, for two and four devices; only what the database lacks.
Result<MeasureCount> measure_exchanges(const ExchangeChoice& choice, const MeasureOptions& options,
                                       partition::ProfileDatabase& database);

/// Where the database has exchanges of this machine between threads, they become the links of a `local:N` cluster.
void use_measured_links(const partition::ProfileDatabase& database, partition::Cluster& cluster);

/// Prices of the database, by `analytic_costs` where it lacks a task of `graph`; `remark` hears how many, if any.
std::shared_ptr<const partition::CostModel> database_costs(const ir::Graph& graph, partition::ProfileDatabase database,
                                                           const std::string& file,
                                                           const std::function<void(const std::string&)>& remark);

}  // namespace rannc::tools
