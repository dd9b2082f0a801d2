/// Chooses the kernels of a model by their measured times.
#pragma once

#include "partition/cost/profile_database.h"
#include "partition/model/plan_model.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Number of samples that most stages of the plan for `options` compute at once. Searches for that plan; if there is
/// none, returns the number of samples in a mini-batch.
uint64_t samples_at_once(const PreparedModel& model, const partition::PlanOptions& options);

/// Switches the model to the kernels that are fastest for `samples` according to the database (`passes::ChooseKernels`)
/// and recomputes its atoms. Returns whether anything changed; if so, adds a remark to the model.
Result<bool> choose_kernels(PreparedModel& model, const partition::ProfileDatabase& database,
                            const std::string& environment, uint64_t samples);

}  // namespace rannc::tools
