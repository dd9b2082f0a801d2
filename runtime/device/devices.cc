#include "runtime/device/devices.h"

#include <dlfcn.h>

#include <array>

#include "runtime/device/torch_device.h"

namespace rannc::runtime {

Result<DevicePlugin*> open_plugin(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    return error("the plug-in cannot be loaded: " + std::string(reason != nullptr ? reason : path));
  }
  const auto open = reinterpret_cast<OpenDevicePlugin>(dlsym(library, kDevicePluginEntry));
  if (open == nullptr) return error(path + " is no plug-in: it has no function " + kDevicePluginEntry);
  std::array<char, 512> reason{};
  if (DevicePlugin* const plugin = open(kDevicePluginVersion, reason.data(), reason.size())) return plugin;
  return error(std::string(reason.data()));
}

std::vector<std::shared_ptr<Device>> devices_of(DevicePlugin& plugin) {
  std::vector<std::shared_ptr<Device>> devices;
  for (uint32_t i = 0; i < plugin.count(); ++i) devices.push_back(make_torch_device(plugin, i));
  return devices;
}

}  // namespace rannc::runtime
