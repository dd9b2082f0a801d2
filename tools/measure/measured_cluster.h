/// This machine as a cluster, from what was measured of it.
#pragma once

#include "ir/graph/graph.h"
#include "partition/cluster.h"
#include "partition/cost/profile_database.h"
#include "tools/measure/measure.h"

namespace rannc::tools {

/// Rates that a model's tasks reach here: work per time over those that compute much per byte, traffic per time over
/// the others, and the shortest time of any as the cost of starting one. For tasks that were never measured. Where a
/// model has no task of a sort, `kind` keeps its number.
Result<partition::DeviceKind> measured_kind(const ir::Graph& graph, const MeasureOptions& options,
                                            const partition::ProfileDatabase& database, partition::DeviceKind kind);

/// `workers` devices of that kind, joined by the links of the database where it has some, by those of `local:N`
/// otherwise.
partition::Cluster measured_cluster(const partition::ProfileDatabase& database, partition::DeviceKind kind,
                                    uint32_t workers);

}  // namespace rannc::tools
