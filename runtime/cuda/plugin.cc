// The plug-in for GPUs.
#include "runtime/device/plugin.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>

#include "runtime/cuda/nccl_functions.h"
#include "runtime/cuda/random.h"
#include "runtime/cuda/recorded_graph.h"
#include "runtime/cuda/update.h"

namespace rannc::cuda {
namespace {

using runtime::DeviceFacts;
using runtime::DeviceRandom;
using runtime::DeviceUpdate;
using runtime::RecordedWork;

class CudaPlugin final : public runtime::DevicePlugin {
 public:
  explicit CudaPlugin(int count) : count_(static_cast<uint32_t>(count)) {}

  std::string_view type() const override { return "cuda"; }
  uint32_t count() const override { return count_; }
  DeviceFacts facts(uint32_t index) const override {
    cudaDeviceProp properties{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, static_cast<int>(index)));
    int khz = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, static_cast<int>(index)));
    constexpr int kFlashAttention = 8;  // major number of the least compute capability, by LibTorch's check
    return {properties.name, properties.totalGlobalMem, static_cast<uint64_t>(khz),
            properties.major >= kFlashAttention};
  }

  void fill(const DeviceRandom& random_input) override {
    C10_CUDA_CHECK(fill_random(random_input, c10::cuda::getCurrentCUDAStream()));
  }

  bool update(const DeviceUpdate& update) override {
    C10_CUDA_CHECK(update_tensors(update, c10::cuda::getCurrentCUDAStream()));
    return true;
  }

  std::unique_ptr<RecordedWork> record(const std::function<void()>& work, uint64_t pool) override {
    return record_graph(work, pools_, pool);
  }

  const runtime::NcclTable* nccl() override { return nccl_functions(); }

 private:
  const uint32_t count_;
  MemoryPools pools_;
};

/// Why there is no device that LibTorch can use; empty if there is one.
std::string fault(int& count) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return "no NVIDIA driver was found";
  dlclose(driver);
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int version = 0;
    (void)cudaDriverGetVersion(&version);
    return "the NVIDIA driver is too old: it supports CUDA " + std::to_string(version / 1000) + "." +
           std::to_string(version % 1000 / 10) + ", and this program needs " + std::to_string(CUDART_VERSION / 1000) +
           "." + std::to_string(CUDART_VERSION % 1000 / 10);
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) return "no NVIDIA GPU was found";
  if (status != cudaSuccess) return std::string("the GPUs cannot be counted: ") + cudaGetErrorString(status);
  constexpr int kLeastCapability = 75;  // of the kernels in LibTorch for CUDA 13
  for (int i = 0; i < count; ++i) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i);
    if (10 * major + minor >= kLeastCapability) continue;
    return "GPU " + std::to_string(i) + " has compute capability " + std::to_string(major) + "." +
           std::to_string(minor) + ", and LibTorch for CUDA 13 needs 7.5";
  }
  return {};
}

}  // namespace
}  // namespace rannc::cuda

extern "C" __attribute__((visibility("default"))) rannc::runtime::DevicePlugin* rannc_device_plugin(uint32_t version,
                                                                                                    char* reason,
                                                                                                    size_t size) {
  using rannc::runtime::kDevicePluginVersion;
  int count = 0;
  const std::string why = version != kDevicePluginVersion ? "the plug-in was built for another version of rannc"
                                                          : rannc::cuda::fault(count);
  if (!why.empty()) {
    std::snprintf(reason, size, "%s", why.c_str());
    return nullptr;
  }
  static rannc::cuda::CudaPlugin plugin(count);
  return &plugin;
}
