/// Measures the tasks, blocks and exchanges of a model on a device of this machine.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/plan/atoms.h"
#include "partition/cost/analytic.h"
#include "partition/cost/cost_model.h"
#include "partition/cost/profile_database.h"
#include "partition/model/plan_model.h"

namespace rannc::runtime {
class Device;
}

namespace rannc::tools {

/// Parameters of a measurement.
struct MeasureOptions {
  std::vector<uint64_t> sizes;                   ///< batch sizes in samples, ascending
  ir::Bindings assume;                           ///< values of symbols other than the batch symbol
  uint32_t repeat = 5;                           ///< minimum number of timed runs
  uint32_t threads = 1;                          ///< LibTorch's thread count, of the processor
  uint64_t memory_bytes = 0;                     ///< larger runs are skipped; 0: half of the free memory
  runtime::Device* device = nullptr;             ///< null: the processor
  std::function<void(const std::string&)> step;  ///< receives `measuring 3 of 41 tasks` before each; optional
};

/// Counts of the requested entries.
struct MeasureCount {
  size_t measured = 0;   ///< at one size or more in this call
  size_t reused = 0;     ///< already in the database at all sizes
  size_t too_large = 0;  ///< entries that do not fit into memory at the largest size
  size_t entries() const { return measured + reused; }
};

/// Returns the key of this processor's measurements in a profile database: processor, library and version, threads.
std::string environment_name(uint32_t threads = 1);
/// Returns the key of the measurements of a kind of device (`runtime::Device::model`): model, library and version.
std::string environment_name(const std::string& model);
/// Returns the key of what is measured with these options.
std::string environment_name(const MeasureOptions& options);

/// Returns the environments of a database that hold for `kinds`, the names of kinds of devices. A kind has that of the
/// measured device that it names: by its whole model, or by parts that are words of the model (`a100-80` names
/// `NVIDIA A100-SXM4-80GB`). A kind that names several models is an error. `processor_kinds` name no such device and
/// have the environment of this machine's processor.
Result<partition::KindEnvironments> kind_environments(const partition::ProfileDatabase& database,
                                                      const std::vector<std::string>& kinds,
                                                      const std::set<std::string>& processor_kinds);

/// Returns 1 and every other power of two up to `mini_batch`. Times are smooth enough to interpolate between these.
std::vector<uint64_t> measured_sizes(uint64_t mini_batch);

/// Measures every structurally distinct task of the graph that the database lacks, at all sizes. Adds the results to
/// this machine's environment. On an error the database keeps what was measured before it.
Result<MeasureCount> measure_tasks(const ir::Graph& graph, const MeasureOptions& options,
                                   partition::ProfileDatabase& database);

/// Does the same for the alternatives to tasks of the graph (`passes::with_alternatives`), which are kernels of the
/// processor: measures nothing on other devices. Alternatives that cannot run are skipped.
Result<MeasureCount> measure_alternatives(const ir::Graph& graph, const MeasureOptions& options,
                                          partition::ProfileDatabase& database);

/// Measures up to `most` structurally distinct blocks (`block_runs`), those with the largest share of the model first,
/// and records each with the sum of its tasks. Their tasks must have been measured. A block that cannot run alone is
/// skipped.
Result<MeasureCount> measure_blocks(const ir::Graph& graph, const ir::Atoms& atoms, size_t most,
                                    const MeasureOptions& options, partition::ProfileDatabase& database);

/// Kinds of exchanges to time.
struct ExchangeChoice {
  bool messages = false, collectives = false;
};
/// Times exchanges between threads of this process, over the transports that need no GPU, for two and four devices.
/// Measures only what the database lacks.
Result<MeasureCount> measure_exchanges(const ExchangeChoice& choice, const MeasureOptions& options,
                                       partition::ProfileDatabase& database);

/// Replaces the links of a `local:N` cluster by this machine's measured thread exchanges, if the database has any.
void use_measured_links(const partition::ProfileDatabase& database, partition::Cluster& cluster);

/// Costs from a profile database.
struct DatabaseCosts {
  partition::ProfileDatabase database;
  std::string file;                          ///< for remarks
  partition::KindEnvironments environments;  ///< of the cluster's kinds of devices that may have been measured
  std::vector<std::string> kinds;            ///< all of the cluster's kinds that devices have
  partition::AnalyticOptions estimates;      ///< of what the database lacks
};
/// Returns a cost model from the database. Tasks of `graph` that it lacks and devices of other kinds are priced by
/// `analytic_costs`; `remark` receives the number of these tasks and the names of these kinds, if any.
std::shared_ptr<const partition::CostModel> database_costs(const ir::Graph& graph, const DatabaseCosts& costs,
                                                           const std::function<void(const std::string&)>& remark);

}  // namespace rannc::tools
