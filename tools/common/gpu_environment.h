/// The environment variables with which programs configure CUDA and NCCL.
#pragma once

#include <span>

namespace rannc::tools {

/// What a run needs of CUDA and NCCL.
struct GpuUse {
  bool over_nccl = false;      ///< processes exchange messages over NCCL
  bool on_streams = false;     ///< messages have streams of their own: over NCCL, and between threads
  bool deterministic = false;  ///< results have the same bits in every run
};

struct GpuVariable {
  const char* name;
  const char* value;
  bool GpuUse::*needed_by;
};

/// All variables. `tools/manual/rannc-run.md` has their reasons.
std::span<const GpuVariable> gpu_variables();

/// Sets the variables that the run needs, except those that the user has set. CUDA and NCCL read them when they start,
/// so call it before `open_hardware`, and while no other thread uses the environment.
void set_gpu_environment(const GpuUse& use);

}  // namespace rannc::tools
