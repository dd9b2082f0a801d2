#include "tools/common/gpu_environment.h"

#include <array>
#include <cstdlib>

namespace rannc::tools {

namespace {

constexpr std::array kVariables = {
    GpuVariable{"NCCL_LAUNCH_ORDER_IMPLICIT", "1", &GpuUse::over_nccl},
    GpuVariable{"NCCL_MAX_P2P_NCHANNELS", "4", &GpuUse::over_nccl},
    GpuVariable{"CUDA_DEVICE_MAX_CONNECTIONS", "32", &GpuUse::on_streams},
    GpuVariable{"CUDA_MODULE_LOADING", "EAGER", &GpuUse::over_nccl},
    GpuVariable{"CUBLAS_WORKSPACE_CONFIG", ":4096:8", &GpuUse::deterministic},
};

}  // namespace

std::span<const GpuVariable> gpu_variables() { return kVariables; }

void set_gpu_environment(const GpuUse& use) {
  for (const GpuVariable& variable : kVariables) {
    if (use.*variable.needed_by) setenv(variable.name, variable.value, /*overwrite=*/0);
  }
}

}  // namespace rannc::tools
