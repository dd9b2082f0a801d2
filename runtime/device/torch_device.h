/// A device that LibTorch drives through its interfaces of streams, events and allocators.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace rannc::runtime {

/// The device with that index of the plug-in's type, whose operators are loaded. `plugin` outlives it. TF32 is
/// off in this process while there are devices: LibTorch's default would round operands of float32 convolutions to 10
/// bits.
std::shared_ptr<Device> make_torch_device(DevicePlugin& plugin, uint32_t index);

}  // namespace rannc::runtime
