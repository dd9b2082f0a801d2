/// Chooses the kernels and memory formats of a model.
#pragma once

#include "partition/cost/profile_database.h"
#include "partition/model/plan_model.h"
#include "passes/planning/cuda_layouts.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Number of samples that most stages of the plan for `options` compute at once. Searches for that plan; if there is
/// none, returns the number of samples in a mini-batch.
uint64_t samples_at_once(const PreparedModel& model, const partition::PlanOptions& options);

/// Switches the model to the kernels that are fastest for `samples` according to the database (`passes::ChooseKernels`)
/// and recomputes its atoms. Returns whether anything changed; if so, adds a remark to the model.
Result<bool> choose_kernels(PreparedModel& model, const partition::ProfileDatabase& database,
                            const std::string& environment, uint64_t samples);

/// Whether all devices of the cluster are of type CUDA.
bool on_cuda(const partition::Cluster& cluster);

/// What convolutions of a run of the plan on CUDA devices may use: TF32 if the request allows it and all kinds have it.
passes::TensorCores tensor_cores(const RequestedPlan& request);

/// Does the same for CUDA devices, by the structure of the graph (`passes::CudaLayouts`) at those sizes: only memory
/// formats change, and weights are copied once per step.
Result<bool> choose_cuda_layouts(PreparedModel& model, const ir::Bindings& sizes, passes::TensorCores tensor_cores);

}  // namespace rannc::tools
