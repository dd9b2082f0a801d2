/// Describes this machine as a cluster from its measurements.
#pragma once

#include "ir/graph/graph.h"
#include "partition/cluster.h"
#include "partition/cost/profile_database.h"
#include "tools/measure/measure.h"

namespace rannc::tools {

/// Returns the rates that a model's tasks reach on this machine, for pricing tasks that were never measured. The
/// compute rate comes from tasks with high arithmetic intensity, the memory bandwidth from the others, and the launch
/// overhead is the shortest time of any task. Where a model has no such task, `kind` keeps its value.
Result<partition::DeviceKind> measured_kind(const ir::Graph& graph, const MeasureOptions& options,
                                            const partition::ProfileDatabase& database, partition::DeviceKind kind);

/// Returns a cluster of `workers` devices of that kind, each with its share of this machine's memory
/// (`worker_memory_bytes`). Its links are those of the database, if it has any, else those of `local:N`.
partition::Cluster measured_cluster(const partition::ProfileDatabase& database, partition::DeviceKind kind,
                                    uint32_t workers);

}  // namespace rannc::tools
