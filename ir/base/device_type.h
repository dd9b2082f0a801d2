/// The types of devices, which differ in the kernels that LibTorch has for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rannc::ir {

enum class DeviceType : uint8_t { kCpu, kCuda };

/// Decides which of LibTorch's kernels run on a device.
struct DeviceKernels {
  DeviceType type = DeviceType::kCpu;
  bool flash_attention = false;  ///< GPUs of compute capability 8.0 and later have it
};

/// LibTorch's name: `cpu`, `cuda`.
inline std::string_view str(DeviceType type) { return type == DeviceType::kCuda ? "cuda" : "cpu"; }

/// The type with that name, if there is one.
inline std::optional<DeviceType> device_type(std::string_view name) {
  for (const DeviceType type : {DeviceType::kCpu, DeviceType::kCuda}) {
    if (name == str(type)) return type;
  }
  return std::nullopt;
}

}  // namespace rannc::ir
