/// Kernels of a model by what they take on this machine.
#pragma once

#include "partition/cost/profile_database.h"
#include "partition/model/plan_model.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Samples that most stages of the plan which `options` ask for compute at once; those of the mini-batch where there is
/// no such plan. Searches for it.
uint64_t samples_at_once(const PreparedModel& model, const partition::PlanOptions& options);

/// Gives the model the kernels that are fastest at so many samples by the database (`passes::ChooseKernels`), and atoms
/// anew. Returns whether anything was changed, with a remark in the model.
Result<bool> choose_kernels(PreparedModel& model, const partition::ProfileDatabase& database,
                            const std::string& environment, uint64_t samples);

}  // namespace rannc::tools
