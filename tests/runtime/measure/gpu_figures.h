/// Kernel times and bytes of GPUs, as LibTorch counts them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace rannc::test {

/// The most bytes of LibTorch's allocator on a device since the process began.
struct PeakBytes {
  int64_t allocated = 0;  ///< of tensors
  int64_t reserved = 0;   ///< taken from the device
};
/// `address`: LibTorch's name of the device, `cuda:0`. Not of a processor.
PeakBytes peak_bytes(const std::string& address);

struct KernelTime {
  uint64_t ns = 0;
  uint64_t calls = 0;
};

/// Profiles all GPUs that this process uses, from its construction on. One at a time.
class GpuKernelTimes {
 public:
  GpuKernelTimes();
  GpuKernelTimes(const GpuKernelTimes&) = delete;
  GpuKernelTimes& operator=(const GpuKernelTimes&) = delete;
  ~GpuKernelTimes();
  /// Ends the profile, after the GPUs' work is done. Returns kernels, copies and fills of memory by name, those of
  /// replayed graphs included. Empty on a machine without a GPU.
  std::map<std::string, KernelTime> stop();

 private:
  bool runs_ = true;
};

}  // namespace rannc::test
