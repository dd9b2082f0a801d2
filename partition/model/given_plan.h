/// A cut that is given instead of searched for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/text/text.h"
#include "partition/cluster.h"

namespace rannc::partition {

/// The decisions of a plan; all else follows from them, the model, the cluster and the costs.
struct GivenPlan {
  struct Stage {
    std::vector<DeviceId> devices;  ///< of the cluster
    bool recompute = false;
    bool sharded = false;
  };
  std::vector<Stage> stages;
  std::vector<uint32_t> stage_of_atom;
  std::vector<uint32_t> block_of_atom;  ///< ascending with the stages, numbered without gaps
  uint64_t micro_batches = 1;
  std::string planner;       ///< who decided
  std::string schedule;      ///< name of the rows
  std::string computations;  ///< the rows, a table (`PlanDraft`)
  std::string file;          ///< where they are from, for messages
  /// By device of `stages`: its id in the cluster; not valid: the cluster has no such device. Empty: `stages` have
  /// devices of the cluster.
  std::vector<DeviceId> now;
};

/// Takes the decisions of a plan in the text `file`. Its blocks are kept if each lies in one stage, else each stage is
/// one block. Errors: a device of the plan is not in the cluster, or its kind has another name there.
Result<GivenPlan> given_plan(const ir::PlanDraft& draft, const Cluster& cluster, const std::string& file);

/// The same of a plan with devices that are no longer in the cluster. The devices of its stages are numbered as in the
/// plan (`GivenPlan::now`). Error: a device of the cluster is of another kind than in the plan.
Result<GivenPlan> last_plan(const ir::PlanDraft& draft, const Cluster& cluster, const std::string& file);

}  // namespace rannc::partition
