#include "tests/runtime/measure/gpu_figures.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>

namespace rannc::test {
namespace {

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

// Without the host's calls, which take time.
const std::set<impl::ActivityType> kActivities{impl::ActivityType::CUDA};

}  // namespace

PeakBytes peak_bytes(const std::string& address) {
  const c10::Device device(address);
  const auto found = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return {found.allocated_bytes[0].peak, found.reserved_bytes[0].peak};
}

GpuKernelTimes::GpuKernelTimes() {
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, kActivities);
  profiler::enableProfiler(config, kActivities);
}

GpuKernelTimes::~GpuKernelTimes() {
  if (runs_) (void)profiler::disableProfiler();
}

std::map<std::string, KernelTime> GpuKernelTimes::stop() {
  runs_ = false;
  std::map<std::string, KernelTime> found;
  const auto profile = profiler::disableProfiler();
  for (const profiler::KinetoEvent& event : profile->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) continue;
    KernelTime& kernel = found[event.name()];
    kernel.ns += event.durationNs();
    ++kernel.calls;
  }
  return found;
}

}  // namespace rannc::test
