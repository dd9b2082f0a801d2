// Makes the test device a plug-in, for programs that open one by its file.
#include <cstdio>

#include "tests/support/test_device/test_device.h"

extern "C" __attribute__((visibility("default"))) rannc::runtime::DevicePlugin* rannc_device_plugin(uint32_t version,
                                                                                                    char* reason,
                                                                                                    size_t size) {
  if (version == rannc::runtime::kDevicePluginVersion) return &rannc::testing::test_device_plugin();
  std::snprintf(reason, size, "the plug-in was built for another version of rannc");
  return nullptr;
}
