/// Opens the devices of this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "runtime/device/device.h"

namespace rannc::runtime {

/// File name of the plug-in for CUDA.
inline constexpr const char* kCudaPlugin = "librannc_cuda.so";

/// Loads a plug-in. `path` is a file, or a name that the dynamic linker finds. Call it before any other call of
/// LibTorch, which looks for devices once. The error is one sentence that says what is missing: the plug-in or a
/// library that it needs, the driver, a device. The result lives as long as the process.
Result<DevicePlugin*> open_plugin(const std::string& path);

/// Returns all devices of a plug-in. Switches TF32 off for the whole process (`set_product_precision`) until the last
/// device is destroyed. Then the settings before are restored.
std::vector<std::shared_ptr<Device>> devices_of(DevicePlugin& plugin);

}  // namespace rannc::runtime
